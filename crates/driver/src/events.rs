//! The driver by readiness: one thread, one node, many connections.
//!
//! Each socket is registered once, for both directions, edge-triggered. What a connection can do stands in its flags
//! from then on, so the usual request costs one wait (shared with all that came meanwhile), one receive and one send.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, ConnectionId, ListenerId, Node};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token};

use crate::acceptance::{ACCEPT_PAUSE, AcceptFailure};
use crate::control::{Counters, Stop};
use crate::engine::{Engine, Readiness};
use crate::exactness::Exactness;
use crate::outside::{Outside, has_waiting};
use crate::port::Port;
use crate::socket::Socket;
use crate::transport::Transport;

/// Events fetched by one wait.
const EVENTS_PER_TURN: usize = 256;
/// Connections accepted before those that there are have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// From here on a wait has a long part that need not be exact.
const COARSE_WAIT_MIN: Duration = Duration::from_millis(3);

pub(crate) const WAKER: Token = Token(usize::MAX);

const _: () = assert!(usize::BITS >= 64, "a token holds an index and a generation");

fn token_of(id: ConnectionId) -> Token {
    Token((id.generation() as usize) << 32 | id.index())
}

fn id_of(token: Token) -> ConnectionId {
    ConnectionId::new(token.0 as u32, (token.0 >> 32) as u32)
}

/// The listeners have the largest numbers below the waker: indices of connections do not come near.
fn listener_token(listener: ListenerId) -> Token {
    Token(WAKER.0 - 1 - listener.0)
}

/// Makes new sockets known to the poll; closing them ends that.
pub(crate) struct EventPort(Registry);

impl EventPort {
    fn register(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport> {
        let source = socket.as_raw_fd();
        self.0.register(&mut SourceFd(&source), token_of(id), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Transport::new(Socket::asked(socket)))
    }
}

impl Port for EventPort {
    fn accepted(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport> {
        self.register(socket, id)
    }

    fn connect(&mut self, address: SocketAddr, id: ConnectionId) -> io::Result<Transport> {
        breme_sys::connect(address).and_then(|socket| self.register(socket, id))
    }
}

/// What one shard needs besides its engine.
pub(crate) struct Events {
    poll: Poll,
    listeners: Vec<Listening>,
    /// Nothing is accepted before.
    accept_again: Option<Instant>,
    outside: Outside,
}

struct Listening {
    socket: TcpListener,
    id: ListenerId,
    /// There may be connections to accept.
    is_pending: bool,
}

impl Events {
    pub(crate) fn new(sockets: Vec<TcpListener>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listeners = Vec::with_capacity(sockets.len());
        for (index, socket) in sockets.into_iter().enumerate() {
            let id = ListenerId(index);
            let source = socket.as_raw_fd();
            poll.registry().register(&mut SourceFd(&source), listener_token(id), Interest::READABLE)?;
            listeners.push(Listening { socket, id, is_pending: true });
        }
        Ok(Self { poll, listeners, accept_again: None, outside: Outside::default() })
    }

    pub(crate) fn waker(&self) -> io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }

    pub(crate) fn port(&self) -> io::Result<EventPort> {
        Ok(EventPort(self.poll.registry().try_clone()?))
    }

    /// Runs the node to its end.
    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, EventPort>) -> N {
        let mut events = mio::Events::with_capacity(EVENTS_PER_TURN);
        engine.handle_started();
        let exactness = Exactness::wanted_by(&mut engine);
        while !engine.is_done() {
            let timeout = if self.may_accept(&engine) { Some(Duration::ZERO) } else { self.time_to_wait(&mut engine) };
            let waited = match &exactness {
                None => self.poll.poll(&mut events, timeout),
                Some(_) if timeout.is_some_and(|timeout| engine.may_gather(timeout)) => {
                    self.gather(&mut events, timeout)
                }
                Some(exactness) => self.wait_exactly(&mut events, timeout, exactness),
            };
            if waited.is_err() {
                events.clear(); // a signal: what is due is looked at all the same
            }
            if let Some(exactness) = &exactness {
                engine.note_spin(timeout, exactness.spin, events.is_empty());
            }
            let mut is_woken = false;
            for event in &events {
                is_woken |= self.handle_event(&mut engine, event);
            }
            if is_woken {
                engine.handle_alarm();
                self.handle_stop(&mut engine);
            }
            self.accept(&mut engine, ACCEPTS_PER_TURN);
            self.look_outside(&mut engine);
            engine.handle_turn();
        }
        drop(self);
        engine.into_node()
    }

    fn look_outside<N: Node>(&mut self, engine: &mut Engine<N, EventPort>) {
        let Self { outside, listeners, .. } = self;
        outside.look(engine, listeners.is_empty(), || listeners.iter().any(|listener| has_waiting(&listener.socket)));
    }

    fn time_to_wait<N: Node>(&self, engine: &mut Engine<N, EventPort>) -> Option<Duration> {
        engine.time_to_wait(self.accept_again.into_iter().chain(self.outside.next_look()).min())
    }

    /// Lets events gather for all of a short wait.
    fn gather(&mut self, events: &mut mio::Events, timeout: Option<Duration>) -> io::Result<()> {
        std::thread::sleep(timeout.unwrap_or_default());
        self.poll.poll(events, Some(Duration::ZERO))
    }

    /// Waits to the nanosecond. `epoll_wait` knows milliseconds only, so it does the long part of a wait; it does all
    /// of it where the time is up already.
    fn wait_exactly(
        &mut self,
        events: &mut mio::Events,
        timeout: Option<Duration>,
        exactness: &Exactness,
    ) -> io::Result<()> {
        let Some(timeout) = timeout.map(|timeout| timeout.saturating_sub(exactness.spin)) else {
            return self.poll.poll(events, None);
        };
        if timeout >= COARSE_WAIT_MIN {
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) - 1;
            return self.poll.poll(events, Some(Duration::from_millis(millis)));
        }
        if timeout.is_zero() || breme_sys::wait_until_readable(&self.poll, timeout)? {
            return self.poll.poll(events, Some(Duration::ZERO));
        }
        events.clear();
        Ok(())
    }

    /// Returns whether it was the waker.
    fn handle_event<N: Node>(&mut self, engine: &mut Engine<N, EventPort>, event: &Event) -> bool {
        let token = event.token();
        if token.0 > listener_token(ListenerId(self.listeners.len())).0 {
            if token == WAKER {
                return true;
            }
            self.listeners[WAKER.0 - 1 - token.0].is_pending = true;
            return false;
        }
        let readiness = Readiness {
            is_readable: event.is_readable(),
            is_writable: event.is_writable(),
            is_end_near: event.is_read_closed(),
            is_broken: event.is_error(),
        };
        engine.handle_readiness(id_of(token), readiness);
        false
    }

    fn handle_stop<N: Node>(&mut self, engine: &mut Engine<N, EventPort>) {
        if engine.control().stop() != Stop::Drain || engine.is_stopping() {
            return; // an abort ends the loop by itself
        }
        // Who stands in the backlog has connected to us: serve them, since closing the listener would reset them.
        let backlog = engine.settings().backlog as usize;
        for listener in &mut self.listeners {
            listener.is_pending = true;
            // A lack of descriptors now is for good: there will be no later.
            let _ = listener.accept(engine, backlog, usize::MAX);
        }
        self.listeners.clear();
        engine.handle_stopping();
    }

    fn may_accept<N: Node>(&self, engine: &Engine<N, EventPort>) -> bool {
        self.accept_again.is_none() && engine.has_room() && self.listeners.iter().any(|listener| listener.is_pending)
    }

    fn accept<N: Node>(&mut self, engine: &mut Engine<N, EventPort>, count_max: usize) {
        if let Some(again) = self.accept_again {
            if engine.read_clock() < again {
                return;
            }
            self.accept_again = None;
        }
        let connections_max = engine.settings().connections_max;
        for listener in &mut self.listeners {
            if listener.is_pending && listener.accept(engine, count_max, connections_max).is_err() {
                self.accept_again = Some(engine.read_clock() + ACCEPT_PAUSE);
                return;
            }
        }
    }
}

/// Accepting must pause.
struct Lack;

impl Listening {
    fn accept<N: Node>(
        &mut self,
        engine: &mut Engine<N, EventPort>,
        count_max: usize,
        connections_max: usize,
    ) -> Result<(), Lack> {
        for _ in 0..count_max {
            if engine.connection_count() >= connections_max || engine.is_exiting() {
                break;
            }
            match breme_sys::accept(&self.socket) {
                Ok((socket, peer)) => {
                    engine.handle_accepted(socket, Accepted { listener: self.id, peer });
                }
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::None => {
                        self.is_pending = false;
                        break;
                    }
                    AcceptFailure::One => {}
                    AcceptFailure::Pause => {
                        Counters::add(&engine.counters().accepts_failed);
                        return Err(Lack);
                    }
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_an_id_and_is_no_listener() {
        for id in [ConnectionId::new(0, 0), ConnectionId::new(7, u32::MAX), ConnectionId::new(1 << 20, 3)] {
            assert_eq!(id_of(token_of(id)), id);
            assert!(token_of(id).0 < listener_token(ListenerId(1_000)).0);
        }
    }
}
