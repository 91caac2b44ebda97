//! The tables of a shard: clients, upstream connections, exchanges, and pending connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Choice, UpstreamId};
use breme_base::{Instant, UnixMillis};
use breme_cache::Forward;
use breme_http::{Framing, Method, RequestHead};
use breme_http1::{ClientConnection, LastChunk};
use breme_node::{Accepted, ConnectionId, ListenerId};
use breme_server::{Connection, ContentProgress};

use super::keys::{ClientKey, EndpointKey, ExchangeKey, UpstreamKey};
use super::log_entry::{LogEntry, LoggedRequest};
use super::reuse::Reuse;
use super::stage::{BodyMode, PreparedRequest, Stage, Wait};
use crate::access_log::Completion;
use crate::counters::RequestOutcome;
use crate::settings::Settings;

/// An accepted connection.
pub(crate) type Client = Connection<ClientState>;

#[derive(Debug)]
pub(crate) struct ClientState {
    /// None: a client of a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// For forwarding fields: without a port; IPv4-mapped addresses as IPv4.
    pub(crate) address: Box<str>,
    pub(crate) listener: ListenerId,
    pub(crate) is_secured: bool,
    /// Its forwarding fields are trusted.
    pub(crate) is_trusted: bool,
    /// Counted by [`ClientTable`](crate::client_limits::ClientTable).
    pub(crate) is_counted: bool,
    /// Its body is paused, since the upstream reads slowly.
    pub(crate) is_paused: bool,
    pub(crate) exchange: Option<ExchangeKey>,
    /// An idle upstream connection reserved for this client.
    pub(crate) own_upstream: Option<UpstreamKey>,
}

#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    pub(crate) id: ConnectionId,
    pub(crate) http: ClientConnection,
    pub(crate) endpoint: EndpointKey,
    /// None: idle.
    pub(crate) exchange: Option<ExchangeKey>,
    /// The only client whose requests it may carry ([`Reuse::SameClient`]).
    pub(crate) own_client: Option<ClientKey>,
    pub(crate) request_count: u64,
    /// The upstream reads slowly.
    pub(crate) queue_is_long: bool,
    /// Its response is paused, since the client reads slowly.
    pub(crate) is_paused: bool,
    /// Its response is close-delimited, or it has closed its side.
    pub(crate) ended: bool,
    /// The connection is closed; its exchange, which still refers to it, will remove it.
    pub(crate) is_closed: bool,
}

/// A connection being opened.
#[derive(Debug)]
pub(crate) struct Connecting {
    pub(crate) endpoint: EndpointKey,
    /// It still waits for this connection only if its stage says so.
    pub(crate) exchange: ExchangeKey,
}

/// One request until its response is complete: what lives as long, and the [stage](Stage) with what is valid in it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Distinguishes it from earlier exchanges with this index.
    pub(crate) number: u32,
    /// None: the client has left, or the fetch is for the cache alone.
    pub(crate) client: Option<ClientKey>,
    pub(crate) stage: Stage,
    /// Kept to the end, for the log and the balancer.
    pub(crate) route: Route,
    pub(crate) request_info: RequestInfo,
    /// The body may be relayed while the response arrives, so it is no stage.
    pub(crate) content: RequestContent,
    /// How the upstream connection may be reused afterwards.
    pub(crate) reuse: Reuse,
    /// How often the request was sent again to the same upstream.
    pub(crate) retries: u8,
    /// The status sent to the client; 0: none.
    pub(crate) status: u16,
    pub(crate) began: Instant,
    /// Of the last byte in either direction.
    pub(crate) progress: Instant,
    /// The last response of an upstream. The client may get another one.
    pub(crate) upstream_response: Option<UpstreamResponse>,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// The cache's part in it, from the lookup to the end of the response or a failure.
    pub(crate) fetch: Option<Box<Forward>>,
    /// A fetch for the cache alone: it never had a client.
    pub(crate) is_refresh: bool,
    /// The source of the response.
    pub(crate) source: RequestOutcome,
    pub(crate) log_entry: Option<Box<LogEntry>>,
}

/// The head of an upstream's response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamResponse {
    pub(crate) status: u16,
    /// From sending the request to the head.
    pub(crate) latency: Duration,
}

/// How the content of a request is relayed, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContent {
    pub(crate) mode: BodyMode,
    pub(crate) last_chunk: LastChunk,
    /// When it could be relayed first, without the time for which it was paused.
    pub(crate) began: Instant,
    /// The request was forwarded completely.
    pub(crate) is_complete: bool,
    /// The client waits for 100 (Continue).
    pub(crate) awaits_continue: bool,
}

/// The destination of a request.
#[derive(Debug)]
pub(crate) enum Route {
    /// Not yet chosen.
    None,
    /// An upstream of a reverse proxy; `tried` could not be reached.
    Upstream {
        choice: Choice,
        tried: Vec<UpstreamId>,
        /// The outcome has not been reported to the balancer.
        is_open: bool,
    },
    Host {
        /// As the client named it, with its port.
        name: Arc<str>,
        /// Addresses not yet tried.
        rest: Vec<SocketAddr>,
    },
}

/// Properties of a request that are needed after its head was discarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) method_class: MethodClass,
    /// May be retried safely (RFC 9110, 9.2.2).
    pub(crate) is_idempotent: bool,
    /// The client accepts trailers.
    pub(crate) accepts_trailers: bool,
}

/// Methods, as far as they affect the framing of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodClass {
    Head,
    Connect,
    Other,
}

/// Names a client without an address in forwarding fields (RFC 7239, 6.2).
const UNKNOWN_ADDRESS: &str = "unknown";

impl ClientState {
    pub(crate) fn new(accepted: Accepted, is_secured: bool, is_trusted: bool, is_counted: bool) -> Self {
        let ip = accepted.peer.map(|peer| peer.ip().to_canonical());
        Self {
            peer: accepted.peer,
            address: ip.map_or_else(|| UNKNOWN_ADDRESS.into(), |ip| ip.to_string().into()),
            listener: accepted.listener,
            is_secured,
            is_trusted,
            is_counted,
            is_paused: false,
            exchange: None,
            own_upstream: None,
        }
    }

    /// None: a client of a Unix socket.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    pub(super) fn log_entry(&self, began: UnixMillis, request: Arc<LoggedRequest>) -> LogEntry {
        LogEntry::new(self.peer, self.listener, self.is_secured, began, request)
    }
}

impl UpstreamConnection {
    pub(crate) fn new(id: ConnectionId, endpoint: EndpointKey) -> Self {
        Self {
            id,
            http: ClientConnection::new(),
            endpoint,
            exchange: None,
            own_client: None,
            request_count: 0,
            queue_is_long: false,
            is_paused: false,
            ended: false,
            is_closed: false,
        }
    }
}

impl Exchange {
    pub(crate) fn new(
        number: u32,
        client: Option<ClientKey>,
        now: Instant,
        request_info: RequestInfo,
        request: PreparedRequest,
    ) -> Self {
        Self {
            number,
            client,
            stage: Stage::Pending { request, wait: Wait::Nothing },
            route: Route::None,
            request_info,
            content: RequestContent::none(now),
            reuse: Reuse::AnyClient,
            retries: 0,
            status: 0,
            began: now,
            progress: now,
            upstream_response: None,
            received_bytes: 0,
            sent_bytes: 0,
            fetch: None,
            is_refresh: false,
            source: RequestOutcome::Relayed,
            log_entry: None,
        }
    }

    /// Whether the request body can be relayed now.
    pub(crate) fn takes_content(&self) -> bool {
        self.stage.upstream().is_some() && !self.stage.is_tunnel()
    }

    /// The arrival of the request body.
    pub(crate) fn content_progress(&self) -> ContentProgress {
        ContentProgress { began: self.content.began, last: self.progress, bytes: self.received_bytes }
    }

    /// The name of the upstream or host.
    pub(crate) fn upstream_name(&self) -> Option<&str> {
        match &self.route {
            Route::None => None,
            Route::Upstream { choice, .. } => Some(&choice.name),
            Route::Host { name, .. } => Some(name),
        }
    }

    /// The name as far as clients may see it: the client of a forward proxy has named the host itself.
    pub(crate) fn visible_upstream_name(&self, settings: &Settings) -> Option<&str> {
        match &self.route {
            Route::Upstream { .. } if !settings.shows_upstreams => None,
            _ => self.upstream_name(),
        }
    }

    /// How its request counts among the request times; None without a client, and for tunnels.
    pub(crate) fn request_outcome(&self, completion: Completion) -> Option<RequestOutcome> {
        let is_counted = self.client.is_some() && !self.stage.is_tunnel();
        match completion {
            _ if !is_counted => None,
            Completion::Complete => Some(self.source),
            Completion::UpstreamFailed | Completion::ClientFailed => Some(RequestOutcome::Error),
            Completion::ClientGone | Completion::Stopped => None,
        }
    }
}

impl RequestContent {
    fn none(now: Instant) -> Self {
        Self {
            mode: BodyMode::None,
            last_chunk: LastChunk::default(),
            began: now,
            is_complete: true,
            awaits_continue: false,
        }
    }

    pub(super) fn new(now: Instant, head: &RequestHead<'_, '_>) -> Self {
        let (mode, last_chunk) = match head.framing {
            _ if !head.has_content() => (BodyMode::None, LastChunk::default()),
            Framing::Chunked => (BodyMode::Chunks, LastChunk::from_fields(head.fields)),
            _ => (BodyMode::Raw, LastChunk::default()),
        };
        let (is_complete, awaits_continue) = (!head.has_content(), head.expects_continue);
        Self { mode, last_chunk, began: now, is_complete, awaits_continue }
    }
}

impl RequestInfo {
    /// A representative of the method class, for the upstream connection.
    pub(crate) fn method(self) -> Method<'static> {
        match self.method_class {
            MethodClass::Head => Method::Head,
            MethodClass::Connect => Method::Connect,
            MethodClass::Other => Method::Get,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_client_stays_small() {
        assert!(size_of::<Client>() <= 168, "{}", size_of::<Client>());
    }
}
