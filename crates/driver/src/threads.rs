//! The thread pool driver: each thread runs its own node with one accepted connection at a time, and the connections
//! that this node opens.
//!
//! ```text
//!                      waiting (bounded)
//!   acceptor ──accept──►  ▢ ▢ ▢  ──take──►  thread 0: node 0 ── one accepted connection, its upstream ones
//!      ▲                     │              thread 1: node 1 ── …
//!      └── space available ──┘              thread 2: idle, woken when a connection waits
//! ```
//!
//! While more connections wait than threads are free, the pool is **under pressure**. Each thread checks this once a
//! turn and notifies its node, which may close its connection. Sleeping threads are woken for that, a few at a time.
//!
//! A thread polls its wake descriptor and its few sockets with poll(2); the list is built for each wait, which is
//! cheap.

mod acceptor;
mod handoff;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use acceptor::Acceptor;
use breme_base::Instant;
use breme_node::{ConnectionId, Node, ShardId};
use breme_sys::Address;
pub(crate) use handoff::Handoff;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::connection::Connection;
use crate::control::{Control, StopMode};
use crate::engine::{Engine, Readiness};
use crate::io_backend::IoBackend;
use crate::socket::Socket;
use crate::transport::Transport;

/// How long a thread waits for the peer's close after its own. Most peers close within a round trip, and waiting is
/// cheaper than serving two connections at once (with 10 ms, 300 clients of one request each cost a fifth more).
const LINGERING_GRACE: Duration = Duration::from_millis(200);
/// After that the thread serves the next connection as well, unless it has more than this many lingering ones, as in an
/// attack.
const LINGERING_MAX: usize = 8;

/// After a longer wait a thread frees its buffers: its client is idle or slow.
const BUFFERS_RELEASE_AFTER: Duration = Duration::from_secs(1);

/// No registration is needed: the poll list is built for each wait.
pub(crate) struct PollBackend;

impl IoBackend for PollBackend {
    fn accepted(&mut self, socket: OwnedFd, _id: ConnectionId) -> io::Result<Transport> {
        Ok(Transport::new(Socket::with_syscalls(socket)))
    }

    fn connect(&mut self, address: &Address, _id: ConnectionId) -> io::Result<Transport> {
        breme_sys::connect(address).map(|socket| Transport::new(Socket::with_syscalls(socket)))
    }
}

pub(crate) struct PoolThread {
    shard: ShardId,
    /// None: the node only opens connections.
    handoff: Option<Arc<Handoff>>,
    control: Arc<Control>,
    serving: Option<ConnectionId>,
    /// The connection it took is still being served.
    is_busy: bool,
    /// The connection is closed; the peer has until then to close it too.
    grace_end: Option<Instant>,
    has_stopped: bool,
    polled: Vec<(ConnectionId, Readiness)>,
}

impl Drop for PoolThread {
    /// Also on panic.
    fn drop(&mut self) {
        if let Some(handoff) = &self.handoff {
            handoff.detach(self.shard, self.is_busy, self.has_stopped);
        }
    }
}

impl PoolThread {
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

    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, PollBackend>) -> N {
        engine.handle_started();
        while !engine.is_done() {
            self.serve_next(&mut engine);
            let is_woken = self.wait(&mut engine);
            self.update_pressure(&mut engine);
            for index in 0..self.polled.len() {
                let (id, readiness) = self.polled[index];
                engine.handle_readiness(id, readiness);
            }
            if is_woken {
                engine.handle_wake();
                self.handle_stop(&mut engine);
            }
            engine.handle_turn();
        }
        engine.into_node()
    }

    /// Takes the next connection if this thread is free.
    fn serve_next<N: Node>(&mut self, engine: &mut Engine<N, PollBackend>) {
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

    fn is_free<N: Node>(&mut self, engine: &mut Engine<N, PollBackend>) -> bool {
        let Some(connection) = self.serving.and_then(|id| engine.connection(id)) else { return true };
        if !connection.is_lingering() || engine.lingering_count() > LINGERING_MAX {
            self.grace_end = None;
            return false;
        }
        let now = engine.read_clock();
        engine.is_under_pressure() || *self.grace_end.get_or_insert(now + LINGERING_GRACE) <= now
    }

    /// To be called before deadlines are handled, which depend on pressure.
    fn update_pressure<N: Node>(&self, engine: &mut Engine<N, PollBackend>) {
        if let Some(handoff) = &self.handoff {
            engine.set_pressure(handoff.pressure_epoch().is_some());
        }
    }

    /// Waits for the wake descriptor, the sockets and the next deadline. Returns whether the thread was woken.
    fn wait<N: Node>(&mut self, engine: &mut Engine<N, PollBackend>) -> bool {
        self.polled.clear();
        let timeout = engine.time_to_wait(self.grace_end);
        let is_long = engine.has_buffers() && timeout.is_none_or(|timeout| timeout > BUFFERS_RELEASE_AFTER);
        let timeout = if is_long { Some(BUFFERS_RELEASE_AFTER) } else { timeout };
        let Some(wake_fd) = self.control.wake_fd(self.shard) else { return false };
        let receive_bytes_max = engine.settings().receive_bytes_max;
        let mut poll_list = Vec::with_capacity(1 + engine.connection_count());
        poll_list.push(PollFd::new(wake_fd, PollFlags::IN));
        for (id, connection) in engine.connections() {
            if let Some(interest) = interest(connection, receive_bytes_max) {
                poll_list.push(PollFd::from_borrowed_fd(connection.transport.as_fd(), interest));
                self.polled.push((id, Readiness::default()));
            }
        }
        if poll(&mut poll_list, timeout).is_err() {
            self.polled.clear(); // interrupted by a signal: deadlines may be due
            return false;
        }
        for (polled, event) in self.polled.iter_mut().zip(&poll_list[1..]) {
            polled.1 = readiness(event.revents());
        }
        let is_woken = !poll_list[0].revents().is_empty();
        self.polled.retain(|(_, readiness)| readiness.is_any());
        if is_long && !is_woken && self.polled.is_empty() {
            engine.release_buffers();
        }
        if is_woken {
            wake_fd.drain();
        }
        is_woken
    }

    fn handle_stop<N: Node>(&mut self, engine: &mut Engine<N, PollBackend>) {
        if self.control.stop_mode() != StopMode::Drain || self.has_stopped {
            return; // an abort ends the loop by itself
        }
        if let Some(handoff) = &self.handoff {
            if !handoff.is_closed() {
                return; // the acceptor wakes the threads again when its listeners are closed
            }
            // Accepted connections are established: serve them all concurrently, since a stopping node must not get new
            // ones.
            for (socket, accepted) in handoff.take_share(self.shard) {
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
        self.is_readable || self.is_writable || self.has_hangup || self.is_broken
    }
}

/// The events to poll for. None: poll(2) would report the hang-up again and again.
fn interest(connection: &Connection, receive_bytes_max: usize) -> Option<PollFlags> {
    let mut interest = PollFlags::empty();
    if connection.wants_bytes(receive_bytes_max) && !connection.is_readable {
        interest |= PollFlags::IN;
    }
    if connection.wants_to_send() && !connection.is_writable {
        interest |= PollFlags::OUT;
    }
    (!interest.is_empty() || !connection.has_hangup).then_some(interest)
}

fn readiness(revents: PollFlags) -> Readiness {
    Readiness {
        is_readable: revents.contains(PollFlags::IN),
        is_writable: revents.contains(PollFlags::OUT),
        has_hangup: revents.contains(PollFlags::HUP),
        is_broken: revents.contains(PollFlags::ERR),
    }
}

fn poll(poll_list: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // A timeout that is too long for the kernel is none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    rustix::event::poll(poll_list, timeout.as_ref())?;
    Ok(())
}
