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
//! A thread waits with poll(2) for its bell and its few sockets; the list is made anew for each wait, since that is cheap
//! for few and nothing must be kept in step.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_node::{Accepted, ConnectionId, ListenerId, Node, ShardId};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::acceptance::{ACCEPT_PAUSE, AcceptFailure};
use crate::connection::Connection;
use crate::control::{Alarm, Control, Counters, Stop, lock};
use crate::engine::{Engine, Readiness};
use crate::port::Port;
use crate::socket::Socket;
use crate::transport::Transport;

/// Accepted connections that wait for a thread; more wait in the kernel's backlog.
const WAITING_MAX: usize = 64;

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

/// Where the acceptor and the threads meet.
#[derive(Debug)]
pub(crate) struct Handoff {
    state: Mutex<Waiting>,
    /// Nothing more will be accepted.
    is_closed: AtomicBool,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Waiting {
    sockets: VecDeque<(OwnedFd, Accepted)>,
    /// Threads that have nothing to serve; the last one is rung first, since it is the warmest.
    idle: Vec<ShardId>,
    /// Threads that have not ended.
    live_count: usize,
    /// Threads that neither have ended nor been told to stop.
    serving_count: usize,
}

impl Handoff {
    pub(crate) fn new(thread_count: usize, control: Arc<Control>) -> Self {
        let state = Waiting {
            sockets: VecDeque::new(),
            idle: Vec::new(),
            live_count: thread_count,
            serving_count: thread_count,
        };
        Self { state: Mutex::new(state), is_closed: AtomicBool::new(false), control }
    }

    fn has_room(&self) -> bool {
        lock(&self.state).sockets.len() < WAITING_MAX
    }

    fn has_threads(&self) -> bool {
        lock(&self.state).live_count > 0
    }

    fn put(&self, socket: OwnedFd, accepted: Accepted) {
        let mut state = lock(&self.state);
        state.sockets.push_back((socket, accepted));
        let idle = state.idle.pop();
        drop(state);
        self.ring(idle);
    }

    /// Takes a connection to serve; if there is none, the thread will be rung.
    fn take(&self, shard: ShardId) -> Option<(OwnedFd, Accepted)> {
        let mut state = lock(&self.state);
        state.idle.retain(|&idle| idle != shard);
        let was_full = state.sockets.len() >= WAITING_MAX;
        let taken = state.sockets.pop_front();
        if taken.is_none() {
            state.idle.push(shard);
        }
        drop(state);
        if was_full {
            self.ring_acceptor();
        }
        taken
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.control.ring_all();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Takes a thread's share of what waits at the end. From now on it takes no more.
    fn take_last(&self, shard: ShardId) -> Vec<(OwnedFd, Accepted)> {
        let mut state = lock(&self.state);
        state.idle.retain(|&idle| idle != shard);
        let share = state.sockets.len().div_ceil(state.serving_count.max(1));
        state.serving_count = state.serving_count.saturating_sub(1);
        state.sockets.drain(..share).collect()
    }

    /// A thread has ended. What it was rung for, another must take.
    fn leave(&self, shard: ShardId, has_stopped: bool) {
        let mut state = lock(&self.state);
        state.live_count -= 1;
        state.serving_count -= usize::from(!has_stopped);
        state.idle.retain(|&idle| idle != shard);
        let next = if state.sockets.is_empty() { None } else { state.idle.pop() };
        drop(state);
        self.ring(next);
        self.ring_acceptor();
    }

    fn ring(&self, idle: Option<ShardId>) {
        if let Some(mailbox) = idle.and_then(|shard| self.control.mailbox(shard)) {
            mailbox.alarm.ring();
        }
    }

    fn ring_acceptor(&self) {
        if let Some(acceptor) = self.control.acceptor() {
            acceptor.ring();
        }
    }
}

/// One thread of the pool.
pub(crate) struct Seat {
    shard: ShardId,
    /// None: the node only opens connections.
    handoff: Option<Arc<Handoff>>,
    control: Arc<Control>,
    serving: Option<ConnectionId>,
    /// It has taken its last connections.
    has_stopped: bool,
    polled: Vec<(ConnectionId, Readiness)>,
}

impl Drop for Seat {
    /// Also when the node panicked.
    fn drop(&mut self) {
        if let Some(handoff) = &self.handoff {
            handoff.leave(self.shard, self.has_stopped);
        }
    }
}

impl Seat {
    pub(crate) fn new(shard: ShardId, handoff: Option<Arc<Handoff>>, control: Arc<Control>) -> Self {
        Self { shard, handoff, control, serving: None, has_stopped: false, polled: Vec::new() }
    }

    /// Runs the node to its end.
    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, SeatPort>) -> N {
        engine.handle_started();
        while !engine.is_done() {
            self.serve_next(&mut engine);
            let is_woken = self.wait(&mut engine);
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
        let Some(handoff) = &self.handoff else { return };
        while !self.has_stopped && !engine.is_exiting() && self.serving.is_none_or(|id| !engine.contains(id)) {
            self.serving = None;
            let Some((socket, accepted)) = handoff.take(self.shard) else { return };
            self.serving = engine.handle_accepted(socket, accepted);
        }
    }

    /// Waits for the bell, the sockets or a deadline. Returns whether the bell was rung.
    fn wait<N: Node>(&mut self, engine: &mut Engine<N, SeatPort>) -> bool {
        self.polled.clear();
        let timeout = engine.time_to_wait(None);
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
            // Who was accepted has connected to us: serve them all, side by side this once, since after the node has been told
            // to stop nothing new may come.
            for (socket, accepted) in handoff.take_last(self.shard) {
                engine.handle_accepted(socket, accepted);
            }
        }
        self.has_stopped = true;
        engine.handle_stopping();
    }
}

impl Readiness {
    fn is_any(&self) -> bool {
        self.is_readable || self.is_writable || self.is_end_near || self.is_broken
    }
}

/// What to wait for at a connection. None where even an error would be told again and again, with nothing to do about it.
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

/// The thread that accepts for the pool.
pub(crate) struct Acceptor {
    listeners: Vec<TcpListener>,
    handoff: Arc<Handoff>,
    control: Arc<Control>,
    backlog: usize,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.listeners.clear();
        self.handoff.close();
    }
}

impl Acceptor {
    pub(crate) fn new(listeners: Vec<TcpListener>, handoff: Arc<Handoff>, control: Arc<Control>, backlog: u32) -> Self {
        Self { listeners, handoff, control, backlog: backlog as usize }
    }

    /// Accepts until the program is to end, then what still stands in the backlog.
    pub(crate) fn run(mut self) {
        let mut pause = None;
        while self.control.stop() == Stop::No && self.handoff.has_threads() {
            let ready = self.wait(pause);
            pause = None;
            for index in ready {
                if self.accept(ListenerId(index), 1) == AcceptFailure::Pause {
                    pause = Some(ACCEPT_PAUSE);
                }
            }
        }
        if self.control.stop() == Stop::Drain {
            for index in 0..self.listeners.len() {
                self.accept(ListenerId(index), self.backlog);
            }
        }
    }

    /// Which listeners have a connection. During a pause, or while too many wait for a thread, none is asked.
    fn wait(&mut self, pause: Option<Duration>) -> Vec<usize> {
        let Some(bell) = self.control.acceptor() else { return Vec::new() };
        let is_asking = pause.is_none() && self.handoff.has_room();
        let mut watched = vec![PollFd::new(bell, PollFlags::IN)];
        if is_asking {
            watched.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        if poll(&mut watched, pause).is_err() {
            return Vec::new();
        }
        if !watched[0].revents().is_empty() {
            bell.hear();
        }
        let told = watched[1..].iter().enumerate().filter(|(_, listener)| !listener.revents().is_empty());
        told.map(|(index, _)| index).collect()
    }

    fn accept(&self, id: ListenerId, count_max: usize) -> AcceptFailure {
        for _ in 0..count_max {
            match breme_sys::accept(&self.listeners[id.0]) {
                Ok((socket, peer)) => self.handoff.put(socket, Accepted { listener: id, peer }),
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::One => {}
                    AcceptFailure::None => break,
                    AcceptFailure::Pause => {
                        self.count_failure();
                        return AcceptFailure::Pause;
                    }
                },
            }
        }
        AcceptFailure::None
    }
    /// The acceptor belongs to no shard; the first one counts for it.
    fn count_failure(&self) {
        if let Some(mailbox) = self.control.mailbox(ShardId(0)) {
            Counters::add(&mailbox.counters.accepts_failed);
        }
    }
}
