//! The interface to name resolution, which a program provides.

use std::net::SocketAddr;

use breme_node::ShardId;

/// Who requested a lookup: its node is woken with this message when the result can be [fetched](Resolver::fetch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    /// The shard to wake.
    pub shard: ShardId,
    /// The message to wake it with; unique among the shard's pending lookups.
    pub message: u64,
}

/// The state of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    Known(Vec<SocketAddr>),
    Failed(ResolveError),
    /// The requester will be woken, once.
    Pending,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name does not exist, or has no address.
    #[error("the host name has no address")]
    NoSuchName,
    #[error("the DNS lookup timed out")]
    TimedOut,
    #[error("too many DNS lookups are pending")]
    Busy,
    /// An error of the operating system.
    #[error("{0}")]
    Other(String),
}

/// Looks up the addresses of hosts. Must not block: a result that is not cached is [pending](Resolution::Pending).
pub trait Resolver: Send + Sync {
    /// The addresses of `host` (a name, or an address without brackets), each with `port`.
    fn resolve(&self, host: &str, port: u16, requester: Requester) -> Resolution;

    /// Takes the result for which the requester was woken; None if there is none.
    fn fetch(&self, requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>>;

    /// Cancels a lookup.
    fn forget(&self, requester: Requester);
}
