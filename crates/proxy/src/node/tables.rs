//! The records of a shard: accepted connections, opened ones, exchanges, and connections that are being opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Choice, UpstreamId};
use breme_base::{Instant, UnixMillis};
use breme_http1::{ClientConnection, LastChunk, Limits, Method, RefusalReason, ServerConnection};
use breme_node::{Accepted, ConnectionId, ListenerId, Pressure, TlsClientId};

use super::checks::CheckNumber;
use super::notes::{Noted, Notes};
use super::part::Part;
use super::reuse::Reuse;
use crate::access_log::Ending;
use crate::counters::RequestOutcome;
use crate::settings::Settings;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) struct $name(u32);

            impl $name {
                pub(crate) fn of(index: usize) -> Self {
                    Self(index as u32)
                }

                pub(crate) fn index(self) -> usize {
                    self.0 as usize
                }

                #[allow(dead_code, reason = "not all of them have deadlines")]
                pub(crate) fn timer(self) -> u32 {
                    self.0
                }
            }
        )*
    };
}

keys! {
    /// The place of an accepted connection.
    ClientKey;
    /// The place of an opened connection.
    ServerKey;
    /// The place of an exchange.
    ExchangeKey;
    /// The place of a connection that is being opened.
    ConnectingKey;
}

impl ExchangeKey {
    /// How the exchange of this number is called in a wake-up.
    pub(crate) fn message(self, number: u32) -> u64 {
        (self.index() as u64) << u32::BITS | u64::from(number)
    }
}

/// Names a familiar request for as long as it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownKey {
    pub(super) place: usize,
    pub(super) number: u64,
}

/// Whose a connection of the driver is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Owner {
    #[default]
    Nobody,
    Client(ClientKey),
    Server(ServerKey),
    Check(CheckNumber),
}

/// An accepted connection. Small: a proxy holds ten thousand that do nothing.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ConnectionId,
    pub(crate) since: Instant,
    pub(crate) http: ServerConnection,
    pub(crate) peer: SocketAddr,
    /// Its address as it is written: an IPv4 address as one, without a port.
    pub(crate) address: Box<str>,
    pub(crate) listener: ListenerId,
    /// Nobody can read it on the way.
    pub(crate) is_secured: bool,
    /// What it says of those before it is believed.
    pub(crate) is_trusted: bool,
    /// It is one of the connections that its address may have.
    pub(crate) is_counted: bool,
    /// The driver's queue is long: the peer does not read as fast as we write.
    pub(crate) queue_is_long: bool,
    /// Its content is held back, since the server does not take it.
    pub(crate) is_paused: bool,
    /// There are bytes that were lent but not taken.
    pub(crate) has_pending: bool,
    /// The peer has ended its sending.
    pub(crate) ended: bool,
    pub(crate) waiting: Waiting,
    pub(crate) exchange: Option<ExchangeKey>,
    /// An idle connection to an upstream that may carry requests of this client only.
    pub(crate) own_server: Option<ServerKey>,
}

/// What a client without exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a content that nobody wants any more.
    Drained,
    /// Its exchange, whose time is measured there.
    Exchange,
}

/// A connection to an upstream.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: ConnectionId,
    pub(crate) http: ClientConnection,
    pub(crate) endpoint: EndpointKey,
    /// None: it is idle.
    pub(crate) exchange: Option<ExchangeKey>,
    /// The only client whose requests it may carry ([`Reuse::SameClient`]); none: any.
    pub(crate) own_client: Option<ClientKey>,
    /// Requests that it has carried.
    pub(crate) request_count: u64,
    /// It does not take content as fast as it comes.
    pub(crate) queue_is_long: bool,
    /// Its answer is held back, since the client does not take it.
    pub(crate) is_paused: bool,
    /// Its last answer has no end but the connection's, or it has ended its sending.
    pub(crate) ended: bool,
}

/// What a connection was opened to: those to the same are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EndpointKey {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsClientId>,
}

/// A connection that is being opened.
#[derive(Debug)]
pub(crate) struct Connecting {
    pub(crate) endpoint: EndpointKey,
    /// None: the exchange that wanted it is over.
    pub(crate) exchange: Option<ExchangeKey>,
}

/// One request on its way to its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Tells it from others that had its place.
    pub(crate) number: u32,
    /// Who listens; none: nobody (any more), the answer is for the cache alone.
    pub(crate) client: Option<ClientKey>,
    pub(crate) stage: Stage,
    pub(crate) server: Option<ServerKey>,
    pub(crate) connecting: Option<ConnectingKey>,
    pub(crate) route: Route,
    pub(crate) asked: Asked,
    /// What is to be added to the answer to bring the client back to its upstream.
    pub(crate) set_affinity: Option<Arc<str>>,
    /// Its request is familiar.
    pub(crate) known: Option<KnownKey>,
    /// The head that goes upstream, without its end; kept until it is sure that it need not be sent again.
    pub(crate) request: Vec<u8>,
    /// Host is to be the upstream's, and is added when that is known.
    pub(crate) lacks_host: bool,
    /// The request's cookies, while it waits: for an upstream to have room, or for what another one fetches.
    pub(crate) cookies: Vec<u8>,
    /// A hash of what is asked for, for the balancer.
    pub(crate) key_hash: u64,
    /// How the request's content is passed on.
    pub(crate) content: Way,
    /// Its end, if that is chunked.
    pub(crate) last_chunk: LastChunk,
    /// All of the request has been passed on.
    pub(crate) is_request_complete: bool,
    /// The request waits for 100 (Continue), which has not come.
    pub(crate) awaits_continue: bool,
    /// What the server's connection may carry afterwards.
    pub(crate) reuse: Reuse,
    /// How the answer's content is passed on; none: its head has not come.
    pub(crate) answer: Option<Way>,
    /// A byte of an answer has come.
    pub(crate) is_answer_begun: bool,
    /// The server had carried requests before this one.
    pub(crate) is_reused: bool,
    /// Its response told the client that its connection is closed since others wait, and this was counted.
    pub(crate) is_evicted: bool,
    /// Take no connection that was idle: one has just failed.
    pub(crate) wants_fresh: bool,
    pub(crate) retries: u8,
    /// Of the answer that was given; 0: none.
    pub(crate) status: u16,
    pub(crate) began: Instant,
    /// When the head had been sent.
    pub(crate) sent: Instant,
    /// When something last moved.
    pub(crate) progress: Instant,
    /// When the request's content began, later by the time for which we held it back.
    pub(crate) content_began: Instant,
    pub(crate) upstream_duration: Option<Duration>,
    /// Content that came from the client.
    pub(crate) received_bytes: u64,
    /// Content that went to the client.
    pub(crate) sent_bytes: u64,
    /// What the cache holds of it.
    pub(crate) caching: Part,
    /// Where the response comes from.
    pub(crate) source: RequestOutcome,
    /// For the log, if there is one.
    pub(crate) notes: Option<Box<Notes>>,
}

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Another exchange is fetching the answer.
    Waiting,
    /// Every upstream is full.
    Queued,
    /// Its host's addresses are being looked up.
    Resolving,
    /// A connection is being opened for it.
    Connecting,
    /// The request is on its way or complete, the answer's head has not come.
    Asking,
    /// The answer's content is on its way.
    Answering,
    /// Bytes go both ways until both sides have ended.
    Tunnel { client_ended: bool, server_ended: bool },
}

/// Where the request goes.
#[derive(Debug)]
pub(crate) enum Route {
    /// Not decided.
    None,
    /// To one of a reverse proxy's upstreams; those before it could not be reached.
    Upstream {
        choice: Choice,
        tried: Vec<UpstreamId>,
        /// The balancer does not know yet how it ended.
        is_open: bool,
    },
    /// To a host that the client named.
    Host {
        /// As it was named, with its port.
        name: Arc<str>,
        /// Addresses that are left to be tried.
        rest: Vec<SocketAddr>,
    },
}

/// What must be known of a request when its bytes are gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    /// May be sent again without harm (RFC 9110, 9.2.2).
    pub(crate) is_idempotent: bool,
    pub(crate) requests_upgrade: bool,
    /// The client will not lose what stands behind the content.
    pub(crate) accepts_trailers: bool,
}

/// Methods as far as they change how an answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head,
    Connect,
    Other,
}

/// How content is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// There is none, or none that may be sent.
    None,
    /// As it is: its length was announced.
    Raw,
    Chunks,
}

impl Client {
    pub(crate) fn new(id: ConnectionId, since: Instant, accepted: Accepted) -> Self {
        Self {
            id,
            since,
            http: ServerConnection::new(),
            peer: accepted.peer,
            address: accepted.peer.ip().to_canonical().to_string().into(),
            listener: accepted.listener,
            is_secured: false,
            is_trusted: false,
            is_counted: false,
            queue_is_long: false,
            is_paused: false,
            has_pending: false,
            ended: false,
            waiting: Waiting::Idle,
            exchange: None,
            own_server: None,
        }
    }
}

impl Client {
    /// The program is to end; or others wait for its place, and it has had its turn.
    #[inline]
    pub(crate) fn should_leave(&self, is_stopping: bool, pressure: &Pressure, now: Instant) -> bool {
        is_stopping || pressure.should_leave(self.since, now)
    }

    /// If it should leave, the answer to the last request that has come says that there will be no other. Tells
    /// whether the pressure is the reason.
    pub(crate) fn announce_leave(&mut self, is_stopping: bool, pressure: &mut Pressure, now: Instant) -> bool {
        if self.has_pending || self.http.will_close() || !self.should_leave(is_stopping, pressure, now) {
            return false;
        }
        self.http.close_after_response();
        !is_stopping && pressure.evict(now).is_ok()
    }
}

impl Server {
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
        }
    }
}

impl Exchange {
    pub(crate) fn new(number: u32, client: Option<ClientKey>, now: Instant, asked: Asked) -> Self {
        Self {
            number,
            client,
            stage: Stage::Connecting,
            server: None,
            connecting: None,
            route: Route::None,
            asked,
            set_affinity: None,
            known: None,
            request: Vec::new(),
            lacks_host: false,
            cookies: Vec::new(),
            key_hash: 0,
            content: Way::None,
            last_chunk: LastChunk::default(),
            is_request_complete: true,
            awaits_continue: false,
            reuse: Reuse::AnyClient,
            answer: None,
            is_answer_begun: false,
            is_reused: false,
            is_evicted: false,
            wants_fresh: false,
            retries: 0,
            status: 0,
            began: now,
            sent: now,
            progress: now,
            content_began: now,
            upstream_duration: None,
            received_bytes: 0,
            sent_bytes: 0,
            caching: Part::default(),
            source: RequestOutcome::Relayed,
            notes: None,
        }
    }

    /// Whether content of the request can be passed on now.
    pub(crate) fn takes_content(&self) -> bool {
        self.server.is_some() && matches!(self.stage, Stage::Asking | Stage::Answering)
    }

    /// When the request's content will have come too slowly, if nothing more comes.
    pub(crate) fn content_deadline(&self, limits: &Limits) -> Instant {
        let silence = self.progress + limits.body_timeout;
        if limits.receive_rate_min == 0 {
            return silence;
        }
        let nanos = u128::from(self.received_bytes) * 1_000_000_000 / u128::from(limits.receive_rate_min);
        let paid_for = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        silence.min(self.content_began + paid_for.max(limits.body_timeout))
    }

    /// What to tell the client when that deadline has passed.
    pub(crate) fn content_lateness(&self, now: Instant, limits: &Limits) -> RefusalReason {
        if now >= self.progress + limits.body_timeout {
            RefusalReason::ContentTimeout
        } else {
            RefusalReason::ReceiveTooSlow
        }
    }

    /// What the one that is asked is called.
    pub(crate) fn upstream_name(&self) -> Option<&str> {
        match &self.route {
            Route::None => None,
            Route::Upstream { choice, .. } => Some(&choice.name),
            Route::Host { name, .. } => Some(name),
        }
    }

    /// The same as far as the client may see it: it has named the host of a forward proxy's request itself.
    pub(crate) fn visible_upstream_name(&self, settings: &Settings) -> Option<&str> {
        match &self.route {
            Route::Upstream { .. } if !settings.shows_upstreams => None,
            _ => self.upstream_name(),
        }
    }

    /// How its request counts among the request times; none: it had no client, its client left, or it is a tunnel.
    pub(crate) fn request_outcome(&self, ending: Ending) -> Option<RequestOutcome> {
        let is_counted = self.client.is_some() && !matches!(self.stage, Stage::Tunnel { .. });
        match ending {
            _ if !is_counted => None,
            Ending::Complete => Some(self.source),
            Ending::UpstreamFailed | Ending::ClientFailed => Some(RequestOutcome::Error),
            Ending::ClientGone | Ending::Stopped => None,
        }
    }
}

impl Client {
    /// What the log is to be told of a request of this client.
    pub(super) fn note(&self, began: UnixMillis, request: Arc<Noted>) -> Notes {
        Notes::new(self.peer, self.listener, self.is_secured, began, request)
    }
}

impl Asked {
    /// The method, as far as the server's connection must know it.
    pub(crate) fn method(self) -> Method<'static> {
        match self.kind {
            Kind::Head => Method::Head,
            Kind::Connect => Method::Connect,
            Kind::Other => Method::Get,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_client_is_small() {
        assert!(size_of::<Client>() <= 160, "{}", size_of::<Client>());
    }
}
