//! What an access log is told about each exchange.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use breme_base::UnixMillis;
use breme_http::Version;
use breme_node::ListenerId;

/// Called on the shard's thread, so it must neither block nor take long.
pub trait AccessLog: Send + Sync {
    /// An exchange has ended, or a request was rejected before it became an exchange.
    fn record(&self, exchange: &ExchangeRecord<'_>);
}

/// One request and its result. A tunnel is one exchange.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangeRecord<'a> {
    /// None: a client of a Unix socket.
    pub client: Option<SocketAddr>,
    /// The client that a trusted proxy names as the sender.
    pub forwarded_for: Option<IpAddr>,
    pub listener: ListenerId,
    /// Over TLS.
    pub is_secured: bool,
    /// When its head was complete (wall clock).
    pub began: UnixMillis,
    /// From then to its end; 0 if the head was rejected.
    pub duration: Duration,
    /// As received, any bytes if rejected; `-`: unknown.
    pub method: &'a [u8],
    /// As received; `-`: unknown.
    pub target: &'a [u8],
    /// None: rejected before the version was parsed.
    pub version: Option<Version>,
    pub authority: Option<&'a str>,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    /// The status sent to the client; 0: none.
    pub status: u16,
    /// Body bytes sent to the client (of a tunnel: all bytes).
    pub sent_bytes: u64,
    /// Body bytes received from the client (of a tunnel: all bytes).
    pub received_bytes: u64,
    /// The last upstream; None: none was contacted.
    pub upstream: Option<&'a str>,
    /// From the end of the request to the response head.
    pub upstream_duration: Option<Duration>,
    pub retries: u8,
    /// Cache-Status (RFC 9211), without the proxy's name; None without a cache.
    pub cache_status: Option<&'a str>,
    pub completion: Completion,
    /// Why there was no response, or an incomplete one, or a stale one in its place.
    pub failure: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Completion {
    /// The response was sent completely.
    Complete,
    /// The client closed its connection before the end.
    ClientGone,
    /// The client's request was incomplete, late or invalid, or violated a rule of the proxy (403, 405, 429).
    ClientFailed,
    /// No complete response: the upstream was unreachable, closed the connection, timed out, or violated the protocol.
    UpstreamFailed,
    /// The server was stopped.
    Stopped,
}

impl Completion {
    /// The name in logs.
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
