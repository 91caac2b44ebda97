//! What there is to tell about an exchange when it is over.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use breme_base::UnixMillis;
use breme_http1::Version;
use breme_node::ListenerId;

/// Takes notes of exchanges. Called on the shard's thread, so it must neither block nor take long.
pub trait AccessLog: Send + Sync {
    /// An exchange is over, or a request was refused before it could become one.
    fn record(&self, exchange: &Exchange<'_>);
}

/// One request and what became of it. A tunnel is one exchange from its beginning to its end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange<'a> {
    /// Who asked.
    pub client: SocketAddr,
    /// For whom it asked, if it is trusted and names somebody.
    pub asked_for: Option<IpAddr>,
    /// Where.
    pub listener: ListenerId,
    /// Over TLS.
    pub is_secured: bool,
    /// When its head had come, by the calendar.
    pub began: UnixMillis,
    /// From there to the end; 0 for a request that was refused by its head.
    pub duration: Duration,
    /// The request's method, as it was sent, which of a refused request may be any bytes; `-`: not known.
    pub method: &'a [u8],
    /// Its target, as it was sent; `-`: not known.
    pub target: &'a [u8],
    /// The version that the client spoke; none: it was refused before that was clear.
    pub version: Option<Version>,
    /// The authority that it was for.
    pub authority: Option<&'a str>,
    /// Its Referer.
    pub referer: Option<&'a [u8]>,
    /// Its User-Agent.
    pub user_agent: Option<&'a [u8]>,
    /// What the client was told; 0 if it was told nothing.
    pub status: u16,
    /// Bytes of content that were sent to the client (of a tunnel: all bytes).
    pub sent_bytes: u64,
    /// Bytes of content that came from the client (of a tunnel: all bytes).
    pub received_bytes: u64,
    /// Who was asked last; none: nobody.
    pub upstream: Option<&'a str>,
    /// From the moment at which the request had been sent to the head of the answer.
    pub upstream_duration: Option<Duration>,
    /// How often it was sent again.
    pub retries: u8,
    /// What the cache did (RFC 9211), without the proxy's name; none: there is no cache.
    pub cache_status: Option<&'a str>,
    /// How it ended.
    pub ending: Ending,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The answer was handed over completely.
    Complete,
    /// The client went away before that.
    ClientGone,
    /// The client's request was cut off, late or against the rules: those of HTTP, or the proxy's own (403, 405, 429).
    ClientFailed,
    /// There was no answer, or it broke off: the upstream could not be reached, ended the connection, was late, or
    /// broke the protocol.
    UpstreamFailed,
    /// The program came to its end.
    Stopped,
}

impl Ending {
    /// A word for a log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client-gone",
            Self::ClientFailed => "client-failed",
            Self::UpstreamFailed => "upstream-failed",
            Self::Stopped => "stopped",
        }
    }
}
