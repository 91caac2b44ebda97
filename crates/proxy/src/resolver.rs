//! Names of hosts become addresses somewhere else: asking a name server takes time and is the world's business.

use std::fmt;
use std::net::SocketAddr;

use breme_node::ShardId;

/// Who asked, and how to be told: its node is woken with this message when the answer can be
/// [fetched](Resolver::fetch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    /// The shard to wake.
    pub shard: ShardId,
    /// The message to wake it with. No other question that is under way in this shard has the same.
    pub message: u64,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It was known.
    Known(Vec<SocketAddr>),
    /// It cannot be answered.
    Failed(ResolveError),
    /// The requester will be woken, once.
    Asked,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such name, or it has no address.
    NoSuchName,
    /// The name servers did not answer in time.
    TimedOut,
    /// Too many questions wait; ask again later.
    Busy,
    /// Something else, in the words of the operating system.
    Other(String),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoSuchName => "the host name has no address",
            Self::TimedOut => "the DNS lookup timed out",
            Self::Busy => "too many DNS lookups are pending",
            Self::Other(reason) => reason,
        })
    }
}

impl std::error::Error for ResolveError {}

/// Finds the addresses of hosts. It must never block: an answer that is not at hand is [asked](Resolution::Asked) for
/// elsewhere.
pub trait Resolver: Send + Sync {
    /// The addresses of `host` (a name, or an address without brackets), each with `port`.
    fn resolve(&self, host: &str, port: u16, requester: Requester) -> Resolution;

    /// The answer for which the requester was woken; none if there is none. It is forgotten with this.
    fn fetch(&self, requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>>;

    /// The requester does not want to know any more.
    fn forget(&self, requester: Requester);
}
