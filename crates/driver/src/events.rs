//! The readiness driver: one thread, one node, many connections (epoll, kqueue).
//!
//! Each socket is registered once, for both directions, edge-triggered, and its readiness is cached in flags. So a
//! typical request costs a share of one wait, one receive and one send.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, ConnectionId, ListenerId, Node};
use breme_sys::{Address, ListeningSocket};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token};

use crate::accept::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, AcceptError, BacklogCheck, accept_connections, has_waiting};
use crate::control::StopMode;
use crate::counters::LiveCounters;
use crate::engine::{Engine, Readiness};
use crate::io_backend::IoBackend;
use crate::socket::Socket;
use crate::transport::Transport;

/// Events fetched by one wait.
const EVENTS_PER_TURN: usize = 256;
/// Longer waits have a coarse part in milliseconds.
const COARSE_WAIT_MIN: Duration = Duration::from_millis(3);

/// The token of the waker.
pub(crate) const WAKER: Token = Token(usize::MAX);

const _: () = assert!(usize::BITS >= 64, "a token holds an index and a generation");

fn token_of(id: ConnectionId) -> Token {
    Token((id.generation() as usize) << 32 | id.index())
}

fn id_of(token: Token) -> ConnectionId {
    ConnectionId::new(token.0 as u32, (token.0 >> 32) as u32)
}

/// Below the waker's token and far above connection indices.
fn listener_token(listener: ListenerId) -> Token {
    Token(WAKER.0 - 1 - listener.0)
}

/// Registers new sockets with the poll; closing them deregisters them.
pub(crate) struct ReadinessBackend(Registry);

impl ReadinessBackend {
    fn register(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport> {
        let source = socket.as_raw_fd();
        self.0.register(&mut SourceFd(&source), token_of(id), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Transport::new(Socket::with_syscalls(socket)))
    }
}

impl IoBackend for ReadinessBackend {
    fn accepted(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport> {
        self.register(socket, id)
    }

    fn connect(&mut self, address: &Address, id: ConnectionId) -> io::Result<Transport> {
        breme_sys::connect(address).and_then(|socket| self.register(socket, id))
    }
}

pub(crate) struct EventLoop {
    poll: Poll,
    listeners: Vec<EventListener>,
    accept_again: Option<Instant>,
    backlog_check: BacklogCheck,
}

struct EventListener {
    socket: ListeningSocket,
    id: ListenerId,
    /// There may be connections to accept.
    is_pending: bool,
}

impl EventLoop {
    pub(crate) fn new(sockets: Vec<ListeningSocket>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listeners = Vec::with_capacity(sockets.len());
        for (index, socket) in sockets.into_iter().enumerate() {
            let id = ListenerId(index);
            let source = socket.as_fd().as_raw_fd();
            poll.registry().register(&mut SourceFd(&source), listener_token(id), Interest::READABLE)?;
            listeners.push(EventListener { socket, id, is_pending: true });
        }
        Ok(Self { poll, listeners, accept_again: None, backlog_check: BacklogCheck::default() })
    }

    pub(crate) fn waker(&self) -> io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }

    pub(crate) fn backend(&self) -> io::Result<ReadinessBackend> {
        Ok(ReadinessBackend(self.poll.registry().try_clone()?))
    }

    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, ReadinessBackend>) -> N {
        let mut events = mio::Events::with_capacity(EVENTS_PER_TURN);
        engine.handle_started();
        let precise_spin = engine.enable_precise_deadlines();
        while !engine.is_done() {
            let timeout = if self.may_accept(&engine) { Some(Duration::ZERO) } else { self.time_to_wait(&mut engine) };
            let waited = match precise_spin {
                None => self.poll.poll(&mut events, timeout),
                Some(_) if timeout.is_some_and(|timeout| engine.may_coalesce(timeout)) => {
                    self.sleep_and_poll(&mut events, timeout)
                }
                Some(spin) => self.wait_precisely(&mut events, timeout, spin),
            };
            if waited.is_err() {
                events.clear(); // interrupted by a signal: deadlines may be due
            }
            if let Some(spin) = precise_spin {
                engine.count_spin(timeout, spin, events.is_empty());
            }
            let mut is_woken = false;
            for event in &events {
                is_woken |= self.handle_event(&mut engine, event);
            }
            if is_woken {
                engine.handle_wake();
                self.handle_stop(&mut engine);
            }
            self.accept(&mut engine, ACCEPTS_PER_TURN);
            self.check_backlog(&mut engine);
            engine.handle_turn();
        }
        drop(self);
        engine.into_node()
    }

    fn check_backlog<N: Node>(&mut self, engine: &mut Engine<N, ReadinessBackend>) {
        let Self { backlog_check, listeners, .. } = self;
        backlog_check
            .check(engine, listeners.is_empty(), || listeners.iter().any(|listener| has_waiting(&listener.socket)));
    }

    fn time_to_wait<N: Node>(&self, engine: &mut Engine<N, ReadinessBackend>) -> Option<Duration> {
        engine.time_to_wait(self.accept_again.into_iter().chain(self.backlog_check.next_check()).min())
    }

    /// Sleeps, then collects all events.
    fn sleep_and_poll(&mut self, events: &mut mio::Events, timeout: Option<Duration>) -> io::Result<()> {
        std::thread::sleep(timeout.unwrap_or_default());
        self.poll.poll(events, Some(Duration::ZERO))
    }

    /// Waits with nanosecond precision: `epoll_wait` has milliseconds, so it does the coarse part, `ppoll` the rest.
    fn wait_precisely(
        &mut self,
        events: &mut mio::Events,
        timeout: Option<Duration>,
        spin: Duration,
    ) -> io::Result<()> {
        let Some(timeout) = timeout.map(|timeout| timeout.saturating_sub(spin)) else {
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

    /// Returns whether it is the event of the waker.
    fn handle_event<N: Node>(&mut self, engine: &mut Engine<N, ReadinessBackend>, event: &Event) -> bool {
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
            has_hangup: event.is_read_closed(),
            is_broken: event.is_error(),
        };
        engine.handle_readiness(id_of(token), readiness);
        false
    }

    fn handle_stop<N: Node>(&mut self, engine: &mut Engine<N, ReadinessBackend>) {
        if engine.control().stop_mode() != StopMode::Drain || engine.is_stopping() {
            return; // an abort ends the loop by itself
        }
        // Connections in the backlog are established: closing the listener would reset them.
        let backlog = engine.settings().backlog as usize;
        for listener in &mut self.listeners {
            listener.socket.ignore_handshakes();
            listener.is_pending = true;
            // On stop, a shortage of descriptors is final.
            let _ = listener.accept(engine, backlog, usize::MAX);
        }
        for listener in self.listeners.drain(..) {
            // Closing a descriptor deregisters it only if it is the last one of its socket; those of Unix sockets are
            // shared by shards.
            let source = listener.socket.as_fd().as_raw_fd();
            let _ = self.poll.registry().deregister(&mut SourceFd(&source));
        }
        engine.handle_stopping();
    }

    fn may_accept<N: Node>(&self, engine: &Engine<N, ReadinessBackend>) -> bool {
        self.accept_again.is_none()
            && engine.has_capacity()
            && self.listeners.iter().any(|listener| listener.is_pending)
    }

    fn accept<N: Node>(&mut self, engine: &mut Engine<N, ReadinessBackend>, count_max: usize) {
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

struct AcceptPaused;

impl EventListener {
    fn accept<N: Node>(
        &mut self,
        engine: &mut Engine<N, ReadinessBackend>,
        count_max: usize,
        connections_max: usize,
    ) -> Result<(), AcceptPaused> {
        let may_accept =
            |engine: &Engine<N, ReadinessBackend>| engine.connection_count() < connections_max && !engine.is_exiting();
        if !may_accept(engine) {
            return Ok(());
        }
        let listener = self.id;
        let error = accept_connections(&self.socket, count_max, |socket, peer| {
            engine.handle_accepted(socket, Accepted { listener, peer });
            may_accept(engine)
        });
        match error {
            Some(AcceptError::WouldBlock) => self.is_pending = false,
            Some(AcceptError::Pause) => {
                LiveCounters::add(&engine.counters().accepts_failed);
                return Err(AcceptPaused);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_round_trips_connection_id() {
        for id in [ConnectionId::new(0, 0), ConnectionId::new(7, u32::MAX), ConnectionId::new(1 << 20, 3)] {
            assert_eq!(id_of(token_of(id)), id);
            assert!(token_of(id).0 < listener_token(ListenerId(1_000)).0);
        }
    }
}
