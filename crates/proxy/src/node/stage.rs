//! The stages of an exchange.
//!
//! ```text
//!               ┌────────────────── Pending ──────────────────┐
//!   request ──► │ Nothing ─► Following, Queued, Resolving ─┐  │
//!               │    ▲ └──────────► Connecting ◄───────────┤  │    ┌─► Discarding ──┐
//!               │    │                  ▼                  │  │    │                ▼
//!               │    └───────────── Requesting ◄───────────┘  ├────┼──────────► Responding ──► end
//!               │                                             │    │
//!               └─────────────────────────────────────────────┘    └─► Tunnel ──────────────► end
//! ```
//!
//! A stage owns what is valid only in it; a transition takes that away or hands it on. After a failed attempt the stage
//! is `Nothing` again. A stored or a generated response can begin from any wait, so `Responding` follows all of them;
//! the request is not sent again after that, and its buffer is returned for reuse.

use breme_base::Instant;
use breme_cache::{CachedResponse, Follower};

use super::keys::{ConnectingKey, ReplayKey, UpstreamKey};

#[derive(Debug)]
pub(crate) enum Stage {
    /// Until the response's head. The request is kept, to be sent or sent again.
    Pending { request: PreparedRequest, wait: Wait },
    /// The upstream's response is read; when it ends or fails, the client gets this stored one.
    Discarding { upstream: UpstreamKey, response: Box<CachedResponse> },
    /// The response's head was sent, if there is a client, and its body is being relayed.
    Responding { body: BodyMode, source: BodySource },
    /// Until both sides have closed.
    Tunnel { upstream: UpstreamKey, client_ended: bool, upstream_ended: bool },
}

/// A request that can be sent to an upstream. That of CONNECT is empty, as is one that is not yet prepared.
#[derive(Debug, Default)]
pub(crate) struct PreparedRequest {
    /// The head, without its end.
    pub(crate) head: Vec<u8>,
    /// Host is the upstream's, and is added when that is known.
    pub(crate) needs_host: bool,
    pub(crate) requests_upgrade: bool,
    /// A hash of the target, for the balancer.
    pub(crate) key_hash: u64,
    /// The entry of the replay cache.
    pub(crate) replay: Option<ReplayKey>,
}

/// What a request without a response waits for.
#[derive(Debug, Default)]
pub(crate) enum Wait {
    /// Nothing: this call decides.
    #[default]
    Nothing,
    /// Another exchange's fetch.
    Following(Following),
    /// Capacity: all upstreams are at their limit. The balancer needs the cookies.
    Queued {
        since: Instant,
        cookies: Vec<u8>,
    },
    /// The addresses of the route's host.
    Resolving,
    Connecting(ConnectingKey),
    /// The response. The request was sent, or is being sent.
    Requesting(Attempt),
}

/// A request that waits for another exchange's fetch.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) follower: Box<Follower>,
    /// For the balancer, if the request must be forwarded.
    pub(crate) cookies: Vec<u8>,
}

/// A request on an upstream connection.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) upstream: UpstreamKey,
    /// When the request was sent, as far as it had come.
    pub(crate) sent: Instant,
    /// The connection had carried requests before.
    pub(crate) is_reused: bool,
    /// A byte of the response was received.
    pub(crate) response_began: bool,
}

/// How a body is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMode {
    /// No body, or none that may be sent.
    None,
    /// Unchanged: its length was announced.
    Raw,
    Chunks,
}

/// Where the body of a response comes from.
#[derive(Debug)]
pub(crate) enum BodySource {
    /// It is at hand, or this call ends it.
    Memory,
    Upstream(UpstreamKey),
    /// Another exchange's fetch.
    Follower(Box<Follower>),
}

/// A follower taken out of its stage, to be read.
#[derive(Debug)]
pub(super) enum TakenFollower {
    /// Its response has not begun.
    Waiting(Following),
    Reading(Box<Follower>),
}

impl Stage {
    /// The upstream connection.
    pub(crate) fn upstream(&self) -> Option<UpstreamKey> {
        match self {
            Self::Pending { wait: Wait::Requesting(Attempt { upstream, .. }), .. }
            | Self::Discarding { upstream, .. }
            | Self::Responding { source: BodySource::Upstream(upstream), .. }
            | Self::Tunnel { upstream, .. } => Some(*upstream),
            Self::Pending { .. } | Self::Responding { .. } => None,
        }
    }

    /// The request, as long as it may still be sent.
    pub(super) fn request(&mut self) -> Option<&mut PreparedRequest> {
        match self {
            Self::Pending { request, .. } => Some(request),
            Self::Discarding { .. } | Self::Responding { .. } | Self::Tunnel { .. } => None,
        }
    }

    /// The request on an upstream connection, while its response is awaited.
    pub(super) fn attempt(&mut self) -> Option<&mut Attempt> {
        match self {
            Self::Pending { wait: Wait::Requesting(attempt), .. } => Some(attempt),
            _ => None,
        }
    }

    /// How the response body is relayed; None before its head, and for tunnels.
    pub(super) fn response_body(&self) -> Option<BodyMode> {
        match self {
            Self::Responding { body, .. } => Some(*body),
            Self::Pending { .. } | Self::Discarding { .. } | Self::Tunnel { .. } => None,
        }
    }

    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self, Self::Tunnel { .. })
    }

    pub(super) fn is_queued(&self) -> bool {
        matches!(self, Self::Pending { wait: Wait::Queued { .. }, .. })
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self, Self::Pending { wait: Wait::Connecting(_), .. })
    }

    /// Whether a byte of the upstream's response was received.
    pub(super) fn has_response(&self) -> bool {
        match self {
            Self::Pending { wait: Wait::Requesting(attempt), .. } => attempt.response_began,
            Self::Pending { .. } => false,
            Self::Discarding { .. } | Self::Responding { .. } | Self::Tunnel { .. } => true,
        }
    }
}

/// Before the response.
impl Stage {
    /// Without effect once the response has begun.
    pub(super) fn wait_for(&mut self, next: Wait) {
        if let Self::Pending { wait, .. } = self {
            *wait = next;
        }
    }

    /// The wait is over: this call decides what comes next.
    pub(super) fn stop_waiting(&mut self) -> Wait {
        match self {
            Self::Pending { wait, .. } => std::mem::take(wait),
            Self::Discarding { .. } | Self::Responding { .. } | Self::Tunnel { .. } => Wait::Nothing,
        }
    }

    /// The connection being opened is open, or could not be opened. Returns whether the exchange waits for it.
    pub(super) fn take_connecting(&mut self, key: ConnectingKey) -> bool {
        let is_awaited = matches!(self, Self::Pending { wait: Wait::Connecting(own), .. } if *own == key);
        if is_awaited {
            self.wait_for(Wait::Nothing);
        }
        is_awaited
    }

    /// Gives up the request on its connection, before a response. Returns the connection, which is still to be removed.
    pub(super) fn give_up_attempt(&mut self) -> Option<UpstreamKey> {
        let upstream = self.attempt().map(|attempt| attempt.upstream);
        self.wait_for(Wait::Nothing);
        upstream
    }

    /// Takes the follower out, to be read; [`wait_for`](Self::wait_for) or [`read_on`](Self::read_on) puts it back.
    pub(super) fn take_follower(&mut self) -> Option<TakenFollower> {
        match self {
            Self::Pending { wait: wait @ Wait::Following(_), .. } => match std::mem::take(wait) {
                Wait::Following(following) => Some(TakenFollower::Waiting(following)),
                _ => None,
            },
            Self::Responding { source: source @ BodySource::Follower(_), .. } => {
                match std::mem::replace(source, BodySource::Memory) {
                    BodySource::Follower(follower) => Some(TakenFollower::Reading(follower)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The response, and after it.
impl Stage {
    /// The client gets a response, still without a body. Returns the buffer of the request, which is not sent again.
    pub(super) fn begin_response(&mut self) -> Vec<u8> {
        let source = self.upstream().map_or(BodySource::Memory, BodySource::Upstream);
        self.replace(Self::Responding { body: BodyMode::None, source })
    }

    /// The head of the response was written, and says whether there is a body.
    pub(super) fn expect_body(&mut self, mode: BodyMode) {
        if let Self::Responding { body, .. } = self {
            *body = mode;
        }
    }

    /// The client gets a stored response instead of the upstream's. Returns the buffer of the request.
    pub(super) fn discard(&mut self, response: Box<CachedResponse>) -> Vec<u8> {
        match self.upstream() {
            Some(upstream) => self.replace(Self::Discarding { upstream, response }),
            None => Vec::new(),
        }
    }

    /// The discarded response has ended or failed: takes the stored one, which now begins.
    pub(super) fn take_stored(&mut self) -> Option<Box<CachedResponse>> {
        let &mut Self::Discarding { upstream, .. } = self else { return None };
        let responding = Self::Responding { body: BodyMode::None, source: BodySource::Upstream(upstream) };
        match std::mem::replace(self, responding) {
            Self::Discarding { response, .. } => Some(response),
            _ => None,
        }
    }

    /// The rest of the response comes from another exchange's fetch.
    pub(super) fn read_on(&mut self, follower: Box<Follower>) {
        if let Self::Responding { source, .. } = self {
            *source = BodySource::Follower(follower);
        }
    }

    /// Opaque bytes follow. Returns the buffer of the request.
    pub(super) fn begin_tunnel(&mut self) -> Vec<u8> {
        match self.upstream() {
            Some(upstream) => self.replace(Self::Tunnel { upstream, client_ended: false, upstream_ended: false }),
            None => Vec::new(),
        }
    }

    /// Returns the buffer of the request.
    fn replace(&mut self, next: Self) -> Vec<u8> {
        match std::mem::replace(self, next) {
            Self::Pending { request, .. } => request.head,
            Self::Discarding { .. } | Self::Responding { .. } | Self::Tunnel { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\n";

    fn requesting(upstream: UpstreamKey) -> Stage {
        let request = PreparedRequest { head: HEAD.to_vec(), ..PreparedRequest::default() };
        let attempt = Attempt { upstream, sent: Instant::ZERO, is_reused: true, response_began: false };
        Stage::Pending { request, wait: Wait::Requesting(attempt) }
    }

    #[test]
    fn request_is_kept_until_a_response_begins() {
        let upstream = UpstreamKey::new(3);
        let mut stage = requesting(upstream);
        assert_eq!(stage.give_up_attempt(), Some(upstream));
        assert_eq!(stage.upstream(), None);
        let connecting = ConnectingKey::new(1);
        stage.wait_for(Wait::Connecting(connecting));
        assert!(!stage.take_connecting(ConnectingKey::new(2)) && stage.is_connecting(), "another connection");
        assert!(stage.take_connecting(connecting) && !stage.is_connecting());
        assert!(stage.request().is_some_and(|request| request.head == HEAD));
        assert_eq!(stage.begin_response(), HEAD);
        stage.wait_for(Wait::Resolving);
        assert_eq!(stage.response_body(), Some(BodyMode::None), "it does not wait any more");
        assert!(stage.request().is_none());
    }

    #[test]
    fn upstream_outlasts_the_start_of_the_response() {
        let upstream = UpstreamKey::new(3);
        let (mut responding, mut tunnel) = (requesting(upstream), requesting(upstream));
        assert_eq!(responding.begin_response(), HEAD);
        responding.expect_body(BodyMode::Raw);
        assert_eq!((responding.upstream(), responding.response_body()), (Some(upstream), Some(BodyMode::Raw)));
        assert_eq!(tunnel.begin_tunnel(), HEAD);
        assert_eq!((tunnel.upstream(), tunnel.response_body()), (Some(upstream), None));
    }

    #[test]
    fn stage_stays_small() {
        assert!(size_of::<Stage>() <= 112, "{}", size_of::<Stage>());
    }
}
