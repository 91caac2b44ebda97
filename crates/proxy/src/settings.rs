//! The settings of a proxy, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use breme_http::{FIELD_COUNT_MAX, Limits, ResponseFields};
use breme_node::ListenerId;

use crate::error_pages::ErrorPages;

/// The driver has settings of its own: connecting, queues, TLS.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// Limits of client connections.
    pub limits: Limits,
    /// Limits of upstream responses: wider, since the proxy's operator knows the upstreams.
    pub upstream_limits: Limits,
    pub times: Timeouts,
    pub pool: Pool,
    pub identity: Identity,
    /// Retries of an idempotent request without a body whose connection was closed before the first response byte.
    pub retries_max: u8,
    /// Retries to the same upstream or another, in percent of the forwarded requests (and ten per second in any case);
    /// 0: unlimited.
    pub retry_percent_max: u32,
    /// Forward Upgrade requests, as for WebSocket; otherwise the header is removed.
    pub upgrades: bool,
    /// Treat a client that closes its side while it waits for a response as gone. Otherwise it may still read: it may
    /// have closed only its half of the connection.
    pub abort_on_close: bool,
    pub clients: ClientLimits,
    /// Requests that wait while every upstream is at its limit.
    pub queue: QueueSettings,
    /// How long idle connections stay open when the proxy stops, since a request may already be on its way; it gets
    /// `Connection: close`. Zero closes at once.
    pub stopping_linger: Duration,
    /// Bytes of one exchange buffered for a slower peer, per direction; past it the faster one is paused. The driver
    /// buffers them, so its `send_queue_high_bytes` must be equal.
    pub relay_bytes_max: usize,
    /// The TLS listeners, whose requests have the scheme `https`.
    pub secured_listeners: Vec<ListenerId>,
    /// Requests with this header bypass the cache.
    pub cache_bypass_header: Option<String>,
    /// Networks (`10.0.0.0/8`) that may use PURGE; empty: the method is forwarded.
    pub purge_from: Vec<String>,
    /// Name the upstream of a reverse proxy in error responses: in the text, and as `next-hop` in Proxy-Status.
    /// Otherwise no client learns its address.
    pub shows_upstreams: bool,
    /// Fields of every response to a client, whether from an upstream, the cache or the proxy itself. What is stored
    /// lacks them.
    pub response_fields: Option<Arc<ResponseFields>>,
    /// Bodies of the proxy's own error responses; the default is one sentence.
    pub error_pages: ErrorPages,
    /// Seed of all random numbers.
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub enum Mode {
    /// A gateway to configured upstreams (RFC 9110, 3.7).
    Reverse {
        /// The Host that upstreams get.
        host: HostRule,
    },
    /// Clients name the target in each request.
    Forward(ForwardRules),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRule {
    /// That of the client.
    Keep,
    /// The authority of the upstream's URL.
    Upstream,
    /// This value.
    Fixed(String),
}

/// Targets of a forward proxy. Open proxies are used for attacks, so everything that is not public is forbidden unless
/// allowed.
#[derive(Clone, Debug)]
pub struct ForwardRules {
    /// Allowed hosts: `example.org`, `*.example.org`, an address, a network (`10.0.0.0/8`); empty: all public ones.
    pub hosts_allowed: Vec<String>,
    /// Ports of `http://` targets.
    pub ports_allowed: Vec<u16>,
    /// Ports of CONNECT tunnels; empty: no tunnels.
    pub tunnel_ports_allowed: Vec<u16>,
    /// Also loopback, private, link-local, shared and multicast addresses.
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

/// The timeout of connecting is the driver's ([`breme_node::ConnectError::TimedOut`]).
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the end of the request to the response head; then 504.
    pub head: Duration,
    /// How long an upstream may pause in a response body, or in reading a request body; then the exchange is aborted.
    pub between_bytes: Duration,
    /// From the request head to the end of the response; 0: unlimited.
    pub total: Duration,
    /// How long a tunnel may be silent in both directions.
    pub tunnel_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
            total: Duration::ZERO,
            tunnel_idle: Duration::from_secs(300),
        }
    }
}

/// Idle connections to upstreams, per shard.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Per upstream.
    pub idle_max: usize,
    /// Shorter than that of most servers, so that the proxy closes first.
    pub idle_timeout: Duration,
    /// Requests per connection.
    pub requests_max: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle_max: 256, idle_timeout: Duration::from_secs(4), requests_max: u64::MAX }
    }
}

/// What the proxy announces about itself and its clients (RFC 9110, 7.6.3; RFC 8586; RFC 7239).
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name in Via and Cache-Status.
    pub pseudonym: String,
    /// Add `Via` in both directions.
    pub via: bool,
    /// Its name in CDN-Loop (RFC 8586), a host of its owner or a token; None: no such header.
    pub cdn_loop: Option<String>,
    /// Send `Forwarded` to upstreams.
    pub forwarded: bool,
    /// Send `X-Forwarded-For`, `-Host` and `-Proto` to upstreams.
    pub x_forwarded: bool,
    /// Networks (`10.0.0.0/8`) whose Forwarded headers are kept and continued; those of others are replaced.
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

/// Limits of each client; 0: unlimited. A client is an address, of IPv6 a network of 64 bits.
/// [Trusted](Identity::trusted) proxies have no connection limit, and their requests count for the clients that they
/// name.
#[derive(Clone, Debug, Default)]
pub struct ClientLimits {
    /// Simultaneous connections; further ones are closed at once.
    pub connections_max: u32,
    /// Requests per second; more, beyond the burst, get 429.
    pub requests_per_second: u32,
    /// Requests that may arrive at once.
    pub burst: u32,
}

/// The queue of requests while every upstream is [at its limit](breme_balance::GroupSettings::outstanding_max), for all
/// shards.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Queued requests; more get 503. 0: no queue.
    pub requests_max: usize,
    /// Longest wait; then 503.
    pub timeout: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { requests_max: 1024, timeout: Duration::from_secs(5) }
    }
}

impl Settings {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            limits: Limits { content_bytes_max: u64::MAX, ..Limits::default() },
            upstream_limits: Limits {
                content_bytes_max: u64::MAX,
                head_bytes_max: 64 * 1024,
                field_count_max: FIELD_COUNT_MAX,
                ..Limits::default()
            },
            times: Timeouts::default(),
            pool: Pool::default(),
            identity: Identity::default(),
            retries_max: 1,
            retry_percent_max: 20,
            upgrades: true,
            abort_on_close: false,
            clients: ClientLimits::default(),
            queue: QueueSettings::default(),
            stopping_linger: Duration::from_millis(100),
            relay_bytes_max: 64 * 1024,
            secured_listeners: Vec::new(),
            cache_bypass_header: None,
            purge_from: Vec::new(),
            shows_upstreams: false,
            response_fields: None,
            error_pages: ErrorPages::default(),
            seed: 0,
        }
    }
}
