//! What a user may choose, each bound with its name and its default.

use std::time::Duration;

use breme_http1::Limits;
use breme_node::ListenerId;

use crate::error_pages::ErrorPages;

/// The settings of a proxy. Those of the driver (connecting, queues, TLS) are the driver's own.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it is for.
    pub mode: Mode,
    /// What a client may ask of its connection.
    pub limits: Limits,
    /// What an upstream's answers may be like.
    pub upstream_limits: Limits,
    /// How long anything may take.
    pub times: Times,
    /// Connections to upstreams that wait for their next request.
    pub pool: Pool,
    /// What the proxy says of itself and of the client.
    pub identity: Identity,
    /// So often is a request sent again that is idempotent, has no content, and whose connection ended before any byte
    /// of an answer.
    pub retries_max: u8,
    /// So many of a hundred requests that went out may be sent again, to the same upstream or to another (and ten a
    /// second in any case); 0: all.
    pub retry_percent_max: u32,
    /// Pass on requests to speak another protocol on the connection (`Upgrade`, as for WebSocket); if not, the field is
    /// removed.
    pub upgrades: bool,
    /// A client that ends its sending while it waits for an answer is taken for one that has left. If not, it may still
    /// read: it may have ended only its half of the connection.
    pub abort_on_close: bool,
    /// What each client may take of the proxy.
    pub clients: ClientLimits,
    /// Requests that wait while every upstream has as many as it may have.
    pub queue: QueueSettings,
    /// Bytes of one exchange that wait in the proxy for a peer that is slower, in each direction; past it the faster
    /// one is held back. The driver holds them and says when there are too many: its settings must say the same
    /// (`send_queue_high_bytes`).
    pub relay_bytes_max: usize,
    /// The listeners that speak TLS: the scheme of what comes there is `https`.
    pub secured_listeners: Vec<ListenerId>,
    /// Requests with a field of this name have nothing to do with the cache.
    pub cache_bypass_header: Option<String>,
    /// Networks (`10.0.0.0/8`) whose members may let stored answers go, by the method PURGE; empty: the method is
    /// passed on.
    pub purge_from: Vec<String>,
    /// Name the upstream of a reverse proxy in error responses: in their text, and as `next-hop` in Proxy-Status. If
    /// not, no client learns its address.
    pub shows_upstreams: bool,
    /// Bodies of the proxy's own error responses; where there is none, one sentence.
    pub error_pages: ErrorPages,
    /// For everything random.
    pub seed: u64,
}

/// What a proxy is for.
#[derive(Clone, Debug)]
pub enum Mode {
    /// It stands for the upstreams that it knows (a gateway: RFC 9110, 3.7).
    Reverse {
        /// What Host an upstream is told.
        host: HostRule,
    },
    /// Its clients know it and name in each request whom it is for.
    Forward(ForwardRules),
}

/// What Host an upstream is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRule {
    /// What the client said.
    Keep,
    /// The authority of the upstream's URL.
    Upstream,
    /// Always this.
    Fixed(String),
}

/// Where clients of a forward proxy may go. A proxy that goes anywhere is a tool for attacks, so everything inside is
/// refused unless allowed.
#[derive(Clone, Debug)]
pub struct ForwardRules {
    /// Hosts that may be asked: `example.org`, `*.example.org`, an address, a network (`10.0.0.0/8`); empty: all that
    /// are public.
    pub hosts_allowed: Vec<String>,
    /// Ports of `http://` targets.
    pub ports_allowed: Vec<u16>,
    /// Ports that CONNECT may open tunnels to; empty: no tunnels.
    pub tunnel_ports_allowed: Vec<u16>,
    /// Loopback, private, link-local, shared and multicast addresses too, whatever name led to them.
    pub private_allowed: bool,
}

impl Default for ForwardRules {
    fn default() -> Self {
        Self {
            hosts_allowed: Vec::new(),
            ports_allowed: vec![80],
            tunnel_ports_allowed: vec![443],
            private_allowed: false,
        }
    }
}

/// How long anything may take. Connecting is the driver's ([`breme_node::ConnectError::TimedOut`]).
#[derive(Clone, Debug)]
pub struct Times {
    /// From the end of the request to the end of the answer's head; past it 504.
    pub head: Duration,
    /// Longest silence of an upstream inside an answer's content, or in taking the request's; past it the exchange is
    /// ended.
    pub between_bytes: Duration,
    /// From the head of the request to the end of its answer; 0: any.
    pub total: Duration,
    /// Longest silence of a tunnel, in both directions together.
    pub tunnel_idle: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
            total: Duration::ZERO,
            tunnel_idle: Duration::from_secs(300),
        }
    }
}

/// Connections to upstreams that wait for their next request, in each shard.
#[derive(Clone, Debug)]
pub struct Pool {
    /// To one upstream.
    pub idle_max: usize,
    /// Longer ones are closed: before most servers do it themselves.
    pub idle_timeout: Duration,
    /// Requests that one connection carries before it is closed.
    pub requests_max: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle_max: 256, idle_timeout: Duration::from_secs(4), requests_max: u64::MAX }
    }
}

/// What the proxy says of itself and of the client (RFC 9110, 7.6.3; RFC 8586; RFC 7239).
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name in Via and Cache-Status.
    pub pseudonym: String,
    /// Say `Via` to both sides.
    pub via: bool,
    /// Its name in CDN-Loop (RFC 8586), a host of its owner's or a token; none: that is not said.
    pub cdn_loop: Option<String>,
    /// Tell upstreams of the client with `Forwarded`.
    pub forwarded: bool,
    /// … with `X-Forwarded-For`, `-Host` and `-Proto`.
    pub x_forwarded: bool,
    /// Networks (`10.0.0.0/8`) whose members' own Forwarded fields are kept and continued; those of all others are
    /// replaced.
    pub trusted: Vec<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            pseudonym: "breme".to_owned(),
            via: true,
            cdn_loop: None,
            forwarded: true,
            x_forwarded: true,
            trusted: Vec::new(),
        }
    }
}

/// What each client may take of the proxy; 0: any. A client is an address, of IPv6 a network of 64 bits. Those who are
/// [trusted](Identity::trusted) ask for others: their connections are not limited, and their requests count for those
/// whom they name.
#[derive(Clone, Debug, Default)]
pub struct ClientLimits {
    /// Connections at a time; past it new ones are closed at once.
    pub connections_max: u32,
    /// Requests a second; past it, and past the burst, 429.
    pub requests_per_second: u32,
    /// So many requests may come at once.
    pub burst: u32,
}

/// Requests that wait while every upstream has as many as [it may have](breme_balance::GroupSettings::outstanding_max),
/// in all shards together.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// So many wait; past it 503. 0: none.
    pub requests_max: usize,
    /// Longest time that one waits; past it 503.
    pub timeout: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { requests_max: 1024, timeout: Duration::from_secs(5) }
    }
}

impl Settings {
    /// A proxy with the defaults.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            limits: Limits { content_bytes_max: u64::MAX, ..Limits::default() },
            upstream_limits: Limits { content_bytes_max: u64::MAX, ..Limits::default() },
            times: Times::default(),
            pool: Pool::default(),
            identity: Identity::default(),
            retries_max: 1,
            retry_percent_max: 20,
            upgrades: true,
            abort_on_close: false,
            clients: ClientLimits::default(),
            queue: QueueSettings::default(),
            relay_bytes_max: 64 * 1024,
            secured_listeners: Vec::new(),
            cache_bypass_header: None,
            purge_from: Vec::new(),
            shows_upstreams: false,
            error_pages: ErrorPages::default(),
            seed: 0,
        }
    }
}
