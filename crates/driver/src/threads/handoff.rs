//! Where the acceptor and the threads meet: who waits, and who could take them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use breme_base::Instant;
use breme_node::{Accepted, ShardId};

use crate::control::{Control, lock};
use crate::memory_return::MemoryReturn;

/// Accepted connections that wait for a thread; more wait in the kernel's backlog.
const WAITING_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Handoff {
    state: Mutex<Waiting>,
    /// Nothing more will be accepted.
    is_closed: AtomicBool,
    /// How often the pressure has risen and fallen: odd while it is high. Changed under the lock, read by each thread
    /// in each turn.
    changes: AtomicU64,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Waiting {
    sockets: VecDeque<(OwnedFd, Accepted)>,
    /// Threads that have nothing to serve; the last one is rung first, since it is the warmest.
    idle: Vec<ShardId>,
    /// Threads that have not ended.
    live_count: usize,
    /// … among them, those that serve what they have taken.
    busy_count: usize,
    /// Threads that neither have ended nor been told to stop.
    serving_count: usize,
    memory: MemoryReturn,
}

impl Waiting {
    /// More wait than there are threads that could take them, those that are on their way included.
    fn is_under_pressure(&self) -> bool {
        self.sockets.len() > self.live_count - self.busy_count
    }
}

impl Handoff {
    pub(crate) fn new(thread_count: usize, control: Arc<Control>) -> Self {
        let state = Waiting {
            sockets: VecDeque::new(),
            idle: Vec::new(),
            live_count: thread_count,
            busy_count: 0,
            serving_count: thread_count,
            memory: MemoryReturn::default(),
        };
        Self { state: Mutex::new(state), is_closed: AtomicBool::new(false), changes: AtomicU64::new(0), control }
    }

    pub(super) fn has_room(&self) -> bool {
        lock(&self.state).sockets.len() < WAITING_MAX
    }

    pub(super) fn has_threads(&self) -> bool {
        lock(&self.state).live_count > 0
    }

    /// Which rise of the pressure lasts; none: no connection waits for which there is no thread.
    pub(super) fn rise(&self) -> Option<u64> {
        let changes = self.changes.load(Ordering::Relaxed);
        (changes % 2 == 1).then_some(changes)
    }

    pub(super) fn put(&self, socket: OwnedFd, accepted: Accepted) {
        let mut state = lock(&self.state);
        state.sockets.push_back((socket, accepted));
        let idle = state.idle.pop();
        self.note_pressure(&state);
        drop(state);
        self.ring(idle);
    }

    /// Takes a connection to serve; if there is none, the thread will be rung. `was_busy`: it has served the one that
    /// it took before.
    pub(super) fn take(&self, shard: ShardId, was_busy: bool) -> Option<(OwnedFd, Accepted)> {
        let mut state = lock(&self.state);
        state.idle.retain(|&idle| idle != shard);
        let wakes_acceptor = state.sockets.len() >= WAITING_MAX;
        let taken = state.sockets.pop_front();
        if taken.is_none() {
            state.idle.push(shard);
        }
        state.busy_count = state.busy_count + usize::from(taken.is_some()) - usize::from(was_busy);
        let busy_count = state.busy_count;
        let wakes_acceptor = state.memory.has_fallen(busy_count) || wakes_acceptor;
        self.note_pressure(&state);
        drop(state);
        if wakes_acceptor {
            self.ring_acceptor();
        }
        taken
    }

    /// Whether many clients have gone for good, and when to look again.
    pub(super) fn has_unused_memory(&self, now: Instant) -> (bool, Option<Instant>) {
        let mut state = lock(&self.state);
        let busy_count = state.busy_count;
        (state.memory.is_due(busy_count, now), state.memory.deadline())
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.control.ring_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Takes a thread's share of what waits at the end. From now on it takes no more.
    pub(super) fn take_last(&self, shard: ShardId) -> Vec<(OwnedFd, Accepted)> {
        let mut state = lock(&self.state);
        state.idle.retain(|&idle| idle != shard);
        let share = state.sockets.len().div_ceil(state.serving_count.max(1));
        state.serving_count = state.serving_count.saturating_sub(1);
        let taken = state.sockets.drain(..share).collect();
        self.note_pressure(&state);
        taken
    }

    /// A thread has ended. What it was rung for, another must take.
    pub(super) fn leave(&self, shard: ShardId, was_busy: bool, has_stopped: bool) {
        let mut state = lock(&self.state);
        state.live_count -= 1;
        state.busy_count -= usize::from(was_busy);
        state.serving_count -= usize::from(!has_stopped);
        state.idle.retain(|&idle| idle != shard);
        let next = if state.sockets.is_empty() { None } else { state.idle.pop() };
        self.note_pressure(&state);
        drop(state);
        self.ring(next);
        self.ring_acceptor();
    }

    fn note_pressure(&self, state: &Waiting) {
        if state.is_under_pressure() != self.rise().is_some() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use breme_node::ListenerId;

    use super::*;
    use crate::bell::Bell;
    use crate::control::Alarm;

    const FIRST: ShardId = ShardId(0);
    const SECOND: ShardId = ShardId(1);

    fn handoff(thread_count: usize) -> Handoff {
        let alarms = (0..thread_count).map(|_| Alarm::Bell(Bell::new().unwrap())).collect();
        Handoff::new(thread_count, Arc::new(Control::new(alarms, None)))
    }

    fn put(handoff: &Handoff, count: usize) {
        for _ in 0..count {
            let accepted = Accepted { listener: ListenerId(0), peer: ([127, 0, 0, 1], 1).into() };
            handoff.put(UnixStream::pair().unwrap().0.into(), accepted);
        }
    }

    #[test]
    fn a_connection_for_which_a_thread_is_on_its_way_is_no_pressure() {
        let handoff = handoff(2);
        put(&handoff, 2);
        assert_eq!(handoff.rise(), None);
        assert!(handoff.take(FIRST, false).is_some());
        assert_eq!(handoff.rise(), None);
        put(&handoff, 1);
        let rise = handoff.rise();
        assert!(rise.is_some());
        assert!(handoff.take(SECOND, false).is_some());
        assert_eq!(handoff.rise(), rise, "it is the same");
        assert!(handoff.take(SECOND, true).is_some());
        assert_eq!(handoff.rise(), None);
        put(&handoff, 1);
        assert!(handoff.rise() > rise, "this is another");
    }

    #[test]
    fn a_thread_that_ends_takes_its_place_along() {
        let handoff = handoff(2);
        assert!(handoff.take(FIRST, false).is_none());
        put(&handoff, 2);
        assert!(handoff.take(SECOND, false).is_some());
        assert_eq!(handoff.rise(), None);
        handoff.leave(FIRST, false, false);
        assert!(handoff.rise().is_some());
        assert_eq!(handoff.take_last(SECOND).len(), 1);
        assert_eq!(handoff.rise(), None);
        handoff.leave(SECOND, true, true);
        assert!(!handoff.has_threads());
    }
}
