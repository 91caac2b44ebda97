//! The queue between acceptor and pool threads.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use breme_base::Instant;
use breme_node::{Accepted, ShardId};
use parking_lot::Mutex;

use crate::control::Control;
use crate::heap_trim::HeapTrim;

/// Accepted connections that wait for a thread; further ones wait in the kernel's backlog.
const HANDOFF_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Handoff {
    state: Mutex<HandoffState>,
    /// The acceptor has ended.
    is_closed: AtomicBool,
    /// Number of rises and falls of pressure: odd while high. Written under the lock, read by each thread once a turn.
    changes: AtomicU64,
    control: Arc<Control>,
}

#[derive(Debug)]
struct HandoffState {
    sockets: VecDeque<(OwnedFd, Accepted)>,
    /// Idle threads, last in first out, for warm caches.
    idle: Vec<ShardId>,
    /// Running threads.
    live_count: usize,
    /// Of these, busy.
    busy_count: usize,
    /// Threads neither ended nor stopping.
    serving_count: usize,
    heap_trim: HeapTrim,
}

impl HandoffState {
    /// More connections wait than threads are free or about to take one.
    fn is_under_pressure(&self) -> bool {
        self.sockets.len() > self.live_count - self.busy_count
    }
}

impl Handoff {
    pub(crate) fn new(thread_count: usize, control: Arc<Control>) -> Self {
        let state = HandoffState {
            sockets: VecDeque::new(),
            idle: Vec::new(),
            live_count: thread_count,
            busy_count: 0,
            serving_count: thread_count,
            heap_trim: HeapTrim::default(),
        };
        Self { state: Mutex::new(state), is_closed: AtomicBool::new(false), changes: AtomicU64::new(0), control }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.state.lock().sockets.len() < HANDOFF_MAX
    }

    pub(super) fn has_threads(&self) -> bool {
        self.state.lock().live_count > 0
    }

    /// Number of the current rise of pressure; none: not under pressure.
    pub(super) fn pressure_epoch(&self) -> Option<u64> {
        let changes = self.changes.load(Ordering::Relaxed);
        (changes % 2 == 1).then_some(changes)
    }

    pub(super) fn put(&self, socket: OwnedFd, accepted: Accepted) {
        let mut state = self.state.lock();
        state.sockets.push_back((socket, accepted));
        let idle = state.idle.pop();
        self.update_pressure(&state);
        drop(state);
        self.wake(idle);
    }

    /// Takes the next connection; if there is none, the thread will be woken. `was_busy`: its previous connection is
    /// done.
    pub(super) fn take(&self, shard: ShardId, was_busy: bool) -> Option<(OwnedFd, Accepted)> {
        let mut state = self.state.lock();
        state.idle.retain(|&idle| idle != shard);
        let wakes_acceptor = state.sockets.len() >= HANDOFF_MAX;
        let taken = state.sockets.pop_front();
        if taken.is_none() {
            state.idle.push(shard);
        }
        state.busy_count = state.busy_count + usize::from(taken.is_some()) - usize::from(was_busy);
        let busy_count = state.busy_count;
        let wakes_acceptor = state.heap_trim.has_fallen(busy_count) || wakes_acceptor;
        self.update_pressure(&state);
        drop(state);
        if wakes_acceptor {
            self.wake_acceptor();
        }
        taken
    }

    /// Whether to trim the heap now, and when to check again.
    pub(super) fn is_trim_due(&self, now: Instant) -> (bool, Option<Instant>) {
        let mut state = self.state.lock();
        let busy_count = state.busy_count;
        (state.heap_trim.is_due(busy_count, now), state.heap_trim.deadline())
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.control.wake_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// On stop: takes the thread's share of the waiting connections, the last it gets.
    pub(super) fn take_share(&self, shard: ShardId) -> Vec<(OwnedFd, Accepted)> {
        let mut state = self.state.lock();
        state.idle.retain(|&idle| idle != shard);
        let share = state.sockets.len().div_ceil(state.serving_count.max(1));
        state.serving_count = state.serving_count.saturating_sub(1);
        let taken = state.sockets.drain(..share).collect();
        self.update_pressure(&state);
        taken
    }

    /// The thread ends; passes a pending wake-up on.
    pub(super) fn detach(&self, shard: ShardId, was_busy: bool, has_stopped: bool) {
        let mut state = self.state.lock();
        state.live_count -= 1;
        state.busy_count -= usize::from(was_busy);
        state.serving_count -= usize::from(!has_stopped);
        state.idle.retain(|&idle| idle != shard);
        let next = if state.sockets.is_empty() { None } else { state.idle.pop() };
        self.update_pressure(&state);
        drop(state);
        self.wake(next);
        self.wake_acceptor();
    }

    fn update_pressure(&self, state: &HandoffState) {
        if state.is_under_pressure() != self.pressure_epoch().is_some() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wake(&self, idle: Option<ShardId>) {
        if let Some(mailbox) = idle.and_then(|shard| self.control.mailbox(shard)) {
            mailbox.waker.wake();
        }
    }

    fn wake_acceptor(&self) {
        if let Some(acceptor) = self.control.acceptor() {
            acceptor.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use breme_node::ListenerId;

    use super::*;
    use crate::control::ShardWaker;
    use crate::wake_fd::WakeFd;

    const FIRST: ShardId = ShardId(0);
    const SECOND: ShardId = ShardId(1);

    fn handoff(thread_count: usize) -> Handoff {
        let alarms = (0..thread_count).map(|_| ShardWaker::Fd(WakeFd::new().unwrap())).collect();
        Handoff::new(thread_count, Arc::new(Control::new(alarms, None)))
    }

    fn put(handoff: &Handoff, count: usize) {
        for _ in 0..count {
            let accepted = Accepted { listener: ListenerId(0), peer: None };
            handoff.put(UnixStream::pair().unwrap().0.into(), accepted);
        }
    }

    #[test]
    fn woken_thread_counts_as_free() {
        let handoff = handoff(2);
        put(&handoff, 2);
        assert_eq!(handoff.pressure_epoch(), None);
        assert!(handoff.take(FIRST, false).is_some());
        assert_eq!(handoff.pressure_epoch(), None);
        put(&handoff, 1);
        let pressure_epoch = handoff.pressure_epoch();
        assert!(pressure_epoch.is_some());
        assert!(handoff.take(SECOND, false).is_some());
        assert_eq!(handoff.pressure_epoch(), pressure_epoch, "it is the same");
        assert!(handoff.take(SECOND, true).is_some());
        assert_eq!(handoff.pressure_epoch(), None);
        put(&handoff, 1);
        assert!(handoff.pressure_epoch() > pressure_epoch, "this is another");
    }

    #[test]
    fn ended_thread_reduces_capacity() {
        let handoff = handoff(2);
        assert!(handoff.take(FIRST, false).is_none());
        put(&handoff, 2);
        assert!(handoff.take(SECOND, false).is_some());
        assert_eq!(handoff.pressure_epoch(), None);
        handoff.detach(FIRST, false, false);
        assert!(handoff.pressure_epoch().is_some());
        assert_eq!(handoff.take_share(SECOND).len(), 1);
        assert_eq!(handoff.pressure_epoch(), None);
        handoff.detach(SECOND, true, true);
        assert!(!handoff.has_threads());
    }
}
