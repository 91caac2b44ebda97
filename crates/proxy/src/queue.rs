//! Requests that wait because every upstream has as many as it may have, in the order in which they came.
//!
//! One queue for all shards. Where a request ends, the one that waits first is woken, in its own shard, and looks for a
//! place. Only when it has found one does it leave, and wakes the next; so the queue also empties when many places come
//! at once (an upstream that is well again), and a wake-up that is lost is made good by the next one. Nobody who comes
//! later passes it: while somebody waits, new requests join behind.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use breme_base::Instant;
use breme_node::ShardId;

/// Who waits, and how to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) shard: ShardId,
    pub(crate) message: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiters: Mutex<VecDeque<(Waiter, Instant)>>,
    /// How many there are, for those who only want to know whether there is any.
    length: AtomicUsize,
    /// Requests that had to wait so far.
    joined: AtomicU64,
}

/// What became of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// Nobody else waits. A place may have become free before anybody could know that somebody waits: look again.
    First,
    /// Others are woken before.
    Behind,
    /// Too many wait already.
    Full,
}

impl Queue {
    /// Joins behind all others, to wait until `deadline`, unless `length_max` wait already.
    pub(crate) fn join(&self, waiter: Waiter, deadline: Instant, length_max: usize) -> Joined {
        let mut waiters = self.waiters();
        if waiters.len() >= length_max {
            return Joined::Full;
        }
        waiters.push_back((waiter, deadline));
        self.joined.fetch_add(1, Ordering::Relaxed);
        self.note_length(&waiters);
        if waiters.len() == 1 { Joined::First } else { Joined::Behind }
    }

    /// Does not wait any more.
    pub(crate) fn leave(&self, waiter: Waiter) {
        let mut waiters = self.waiters();
        if let Some(place) = waiters.iter().position(|(other, _)| *other == waiter) {
            waiters.remove(place);
            self.note_length(&waiters);
        }
    }

    /// Who is to be woken now. Those who are over their time (or whose shard is no more) do not keep the others
    /// waiting.
    pub(crate) fn first(&self, now: Instant) -> Option<Waiter> {
        // Either this sees who has joined, or who joins sees the place that was given back before this.
        fence(Ordering::SeqCst);
        if self.is_empty() {
            return None;
        }
        let mut waiters = self.waiters();
        while waiters.front().is_some_and(|(_, deadline)| *deadline < now) {
            waiters.pop_front();
        }
        self.note_length(&waiters);
        waiters.front().map(|(waiter, _)| *waiter)
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed) as u64
    }

    pub(crate) fn joined(&self) -> u64 {
        self.joined.load(Ordering::Relaxed)
    }

    fn waiters(&self) -> MutexGuard<'_, VecDeque<(Waiter, Instant)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_length(&self, waiters: &VecDeque<(Waiter, Instant)>) {
        self.length.store(waiters.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(message: u64) -> Waiter {
        Waiter { shard: ShardId(0), message }
    }

    #[test]
    fn who_came_first_is_woken_until_it_leaves() {
        let (queue, now) = (Queue::default(), Instant::ZERO);
        assert!(queue.is_empty() && queue.first(now).is_none());
        let joined = [1, 2, 3, 4].map(|message| queue.join(waiter(message), Instant::FAR, 3));
        assert_eq!(joined, [Joined::First, Joined::Behind, Joined::Behind, Joined::Full]);
        assert_eq!((queue.length(), queue.joined()), (3, 3));
        assert_eq!([queue.first(now), queue.first(now)], [Some(waiter(1)); 2]);
        queue.leave(waiter(1));
        queue.leave(waiter(3));
        queue.leave(waiter(3));
        assert_eq!(queue.first(now), Some(waiter(2)));
        queue.leave(waiter(2));
        assert!(queue.is_empty() && queue.first(now).is_none());
    }

    #[test]
    fn who_is_over_time_keeps_nobody_waiting() {
        let (queue, now) = (Queue::default(), Instant::from_nanos(5));
        for (message, deadline) in [(1, 3), (2, 4), (3, 5)] {
            queue.join(waiter(message), Instant::from_nanos(deadline), 9);
        }
        assert_eq!(queue.first(now), Some(waiter(3)));
        assert_eq!(queue.length(), 1);
    }
}
