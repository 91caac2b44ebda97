//! The input and the result of a choice.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::UpstreamId;

/// What a choice depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// The key of consistent hashing, a hash of the target or the client's address. All its bits should be random.
    pub key_hash: u64,
    /// The values of the request's Cookie headers. Read only if [`Group::reads_cookies`](crate::Group::reads_cookies).
    pub cookies: &'a [&'a [u8]],
    /// The upstream named by the cookies, from an earlier [choice](Choice::named) for the request; replaces them.
    pub named: Option<UpstreamId>,
    /// The client's connection is encrypted, so its cookie is `Secure`.
    pub is_secured: bool,
    /// Upstreams that have failed this request; not chosen again.
    pub tried: &'a [UpstreamId],
}

/// A chosen upstream. The request counts as outstanding there until [`Group::finished`](crate::Group::finished).
#[derive(Clone, Debug)]
pub struct Choice {
    pub upstream: UpstreamId,
    pub address: SocketAddr,
    pub tls: bool,
    pub name: Arc<str>,
    /// The upstream named by the request's cookies. If it was full, the next choice for the request needs it.
    pub named: Option<UpstreamId>,
    /// Set-Cookie to add to the response. The response is then private: caches downstream must not store it.
    pub set_affinity: Option<Arc<str>>,
}

/// Why no upstream was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoChoice {
    /// All are drained, or have no address.
    NoneAdmitting,
    /// All are at their limit of outstanding requests.
    AllFull,
    /// All have failed this request, or are full.
    AllTried,
}

impl fmt::Display for NoChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoneAdmitting => "every upstream is drained or has no address",
            Self::AllFull => "every upstream is at its limit of outstanding requests",
            Self::AllTried => "every available upstream has failed the request",
        })
    }
}
