//! What a request brings, and what it gets.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::UpstreamId;

/// What a choice can go by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// A hash of what consistent hashing goes by: the target, the client's address. It should be good in all its bits.
    pub key_hash: u64,
    /// The values of the request's Cookie fields. Read only if [`Group::reads_cookies`](crate::Group::reads_cookies).
    pub cookies: &'a [&'a [u8]],
    /// Whom those cookies named when they were read, as an earlier [choice](Choice::named) for the request said; looked
    /// at in their place.
    pub named: Option<UpstreamId>,
    /// The client's connection is secured, so a cookie for it is `Secure`.
    pub is_secured: bool,
    /// Upstreams that have failed this request already: not again.
    pub tried: &'a [UpstreamId],
}

/// Where a request goes. It counts as outstanding there until [`Group::finished`](crate::Group::finished).
#[derive(Clone, Debug)]
pub struct Choice {
    /// Who.
    pub upstream: UpstreamId,
    /// Where.
    pub address: SocketAddr,
    /// Speak TLS to it.
    pub tls: bool,
    /// Its authority.
    pub name: Arc<str>,
    /// Whom the request's cookies name. If that one was full, the next choice for the request must know it too.
    pub named: Option<UpstreamId>,
    /// The value of a Set-Cookie field to add to the answer. Such an answer is this client's own: shared caches behind
    /// the proxy must not store it.
    pub set_affinity: Option<Arc<str>>,
}

/// Why nobody may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoChoice {
    /// All are being drained, or have no address yet.
    NobodyAdmits,
    /// All have as many requests outstanding as they may.
    AllFull,
    /// All have failed this request, or are full.
    AllTried,
}

impl fmt::Display for NoChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NobodyAdmits => "every upstream is drained or has no address",
            Self::AllFull => "every upstream is at its limit of outstanding requests",
            Self::AllTried => "every upstream that could take the request has failed it",
        })
    }
}
