//! The driver by threads: a pool, each thread of which runs its own node over one accepted connection at a time, and
//! over those that this node opens.
//!
//! ```text
//!                      waiting (bounded)
//!   acceptor ──accept──►  ▢ ▢ ▢  ──take──►  thread 0: node 0 ── one accepted connection, its upstream ones
//!      ▲                     │              thread 1: node 1 ── …
//!      └──── room again ─────┘              thread 2: idle, rung when something waits
//! ```
//!
//! While more connections wait than there are threads for, the pool is **under pressure**. A thread looks in each turn
//! whether it is, and reports it to its node, which may close its client; threads that sleep are rung for that, a few
//! at a time, until no connection waits any more.
//!
//! A thread waits with poll(2) for its bell and its few sockets; the list is made anew for each wait, since that is
//! cheap for few and nothing must be kept in step.

mod accepting;
mod handoff;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use accepting::Acceptor;
use breme_base::Instant;
use breme_node::{ConnectionId, Node, ShardId};
pub(crate) use handoff::Handoff;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::connection::Connection;
use crate::control::{Alarm, Control, Stop};
use crate::engine::{Engine, Readiness};
use crate::port::Port;
use crate::socket::Socket;
use crate::transport::Transport;

/// How long a thread waits for the peer of a connection that it has closed to close it too: most do, within a round
/// trip, and then it is cheaper to wait for them than to serve the next one beside them (with 10 ms, 300 clients that
/// ask once each cost a fifth more).
const LINGERING_GRACE: Duration = Duration::from_millis(200);
/// Past that the peer is one that may not look at its connection for a long time, and the thread takes the next one
/// beside it. It waits all the same while it has more than so many of them, which would be an attack.
const LINGERING_MAX: usize = 8;

/// A thread that waits for longer gives up its buffers: its client is idle, or reads slowly.
const BUFFERS_KEPT: Duration = Duration::from_secs(1);

/// Nothing needs to be told: the list is made for each wait.
pub(crate) struct SeatPort;

impl Port for SeatPort {
    fn accepted(&mut self, socket: OwnedFd, _id: ConnectionId) -> io::Result<Transport> {
        Ok(Transport::new(Socket::asked(socket)))
    }

    fn connect(&mut self, address: SocketAddr, _id: ConnectionId) -> io::Result<Transport> {
        breme_sys::connect(address).map(|socket| Transport::new(Socket::asked(socket)))
    }
}

/// One thread of the pool.
pub(crate) struct Seat {
    shard: ShardId,
    /// None: the node only opens connections.
    handoff: Option<Arc<Handoff>>,
    control: Arc<Control>,
    serving: Option<ConnectionId>,
    /// What it took last counts as being served.
    is_busy: bool,
    /// It is closed, and its peer has until then to close it too.
    grace_end: Option<Instant>,
    /// It has taken its last connections.
    has_stopped: bool,
    polled: Vec<(ConnectionId, Readiness)>,
}

impl Drop for Seat {
    /// Also when the node panicked.
    fn drop(&mut self) {
        if let Some(handoff) = &self.handoff {
            handoff.leave(self.shard, self.is_busy, self.has_stopped);
        }
    }
}

impl Seat {
    pub(crate) fn new(shard: ShardId, handoff: Option<Arc<Handoff>>, control: Arc<Control>) -> Self {
        Self {
            shard,
            handoff,
            control,
            serving: None,
            is_busy: false,
            grace_end: None,
            has_stopped: false,
            polled: Vec::new(),
        }
    }

    /// Runs the node to its end.
    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, SeatPort>) -> N {
        engine.handle_started();
        while !engine.is_done() {
            self.serve_next(&mut engine);
            let is_woken = self.wait(&mut engine);
            self.look_for_pressure(&mut engine);
            for index in 0..self.polled.len() {
                let (id, readiness) = self.polled[index];
                engine.handle_readiness(id, readiness);
            }
            if is_woken {
                engine.handle_alarm();
                self.handle_stop(&mut engine);
            }
            engine.handle_turn();
        }
        engine.into_node()
    }

    /// If this thread is free, it takes the next connection.
    fn serve_next<N: Node>(&mut self, engine: &mut Engine<N, SeatPort>) {
        while !self.has_stopped && !engine.is_exiting() && self.is_free(engine) {
            let Some(handoff) = &self.handoff else { return };
            self.serving = None;
            self.grace_end = None;
            let taken = handoff.take(self.shard, self.is_busy);
            self.is_busy = taken.is_some();
            let Some((socket, accepted)) = taken else { return };
            self.serving = engine.handle_accepted(socket, accepted);
        }
    }

    fn is_free<N: Node>(&mut self, engine: &mut Engine<N, SeatPort>) -> bool {
        let Some(connection) = self.serving.and_then(|id| engine.connection(id)) else { return true };
        if !connection.is_lingering() || engine.lingering_count() > LINGERING_MAX {
            self.grace_end = None;
            return false;
        }
        let now = engine.read_clock();
        engine.is_under_pressure() || *self.grace_end.get_or_insert(now + LINGERING_GRACE) <= now
    }

    /// Reports to the node when others begin or cease to wait for its thread; before a deadline that depends on it.
    fn look_for_pressure<N: Node>(&self, engine: &mut Engine<N, SeatPort>) {
        if let Some(handoff) = &self.handoff {
            engine.set_pressure(handoff.rise().is_some());
        }
    }

    /// Waits for the bell, the sockets or a deadline. Returns whether the bell was rung.
    fn wait<N: Node>(&mut self, engine: &mut Engine<N, SeatPort>) -> bool {
        self.polled.clear();
        let timeout = engine.time_to_wait(self.grace_end);
        let is_long = engine.has_buffers() && timeout.is_none_or(|timeout| timeout > BUFFERS_KEPT);
        let timeout = if is_long { Some(BUFFERS_KEPT) } else { timeout };
        let Some(Alarm::Bell(bell)) = self.control.mailbox(self.shard).map(|mailbox| &mailbox.alarm) else {
            return false;
        };
        let receive_bytes_max = engine.settings().receive_bytes_max;
        let mut watched = Vec::with_capacity(1 + engine.connection_count());
        watched.push(PollFd::new(bell, PollFlags::IN));
        for (id, connection) in engine.connections() {
            if let Some(interest) = interest(connection, receive_bytes_max) {
                watched.push(PollFd::from_borrowed_fd(connection.transport.as_fd(), interest));
                self.polled.push((id, Readiness::default()));
            }
        }
        if poll(&mut watched, timeout).is_err() {
            self.polled.clear(); // a signal: what is due is looked at all the same
            return false;
        }
        for (polled, watched) in self.polled.iter_mut().zip(&watched[1..]) {
            polled.1 = readiness(watched.revents());
        }
        let is_rung = !watched[0].revents().is_empty();
        self.polled.retain(|(_, readiness)| readiness.is_any());
        if is_long && !is_rung && self.polled.is_empty() {
            engine.give_up_buffers();
        }
        if is_rung {
            bell.hear();
        }
        is_rung
    }

    fn handle_stop<N: Node>(&mut self, engine: &mut Engine<N, SeatPort>) {
        if self.control.stop() != Stop::Drain || self.has_stopped {
            return; // an abort ends the loop by itself
        }
        if let Some(handoff) = &self.handoff {
            if !handoff.is_closed() {
                return; // the acceptor rings again when its listeners are closed
            }
            // Who was accepted has connected to us: serve them all, side by side this once, since after the node has
            // been told to stop nothing new may come.
            for (socket, accepted) in handoff.take_last(self.shard) {
                engine.handle_accepted(socket, accepted);
            }
        }
        self.has_stopped = true;
        self.grace_end = None;
        engine.handle_stopping();
    }
}

impl Readiness {
    fn is_any(&self) -> bool {
        self.is_readable || self.is_writable || self.is_end_near || self.is_broken
    }
}

/// What to wait for at a connection. None where even an error would be told again and again, with nothing to do about
/// it.
fn interest(connection: &Connection, receive_bytes_max: usize) -> Option<PollFlags> {
    let mut interest = PollFlags::empty();
    if connection.wants_bytes(receive_bytes_max) && !connection.is_readable {
        interest |= PollFlags::IN;
    }
    if connection.wants_to_send() && !connection.is_writable {
        interest |= PollFlags::OUT;
    }
    (!interest.is_empty() || !connection.is_end_near).then_some(interest)
}

fn readiness(told: PollFlags) -> Readiness {
    Readiness {
        is_readable: told.contains(PollFlags::IN),
        is_writable: told.contains(PollFlags::OUT),
        is_end_near: told.contains(PollFlags::HUP),
        is_broken: told.contains(PollFlags::ERR),
    }
}

fn poll(watched: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // A time too long for the kernel's type is as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    rustix::event::poll(watched, timeout.as_ref())?;
    Ok(())
}
