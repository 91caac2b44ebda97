//! Requests that wait in order of arrival because every upstream is at its limit.
//!
//! One queue serves all shards. When a request ends, the first queued one is woken in its own shard and looks for an
//! upstream; it also looks every 200 ms, for capacity that appears in another way (a recovered upstream, a new list).
//! It leaves the queue only when it has an upstream, and wakes the next; so the queue also drains when much capacity
//! appears at once, and a lost wake-up is repaired by the next one. New requests do not overtake queued ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use breme_base::Instant;
use breme_node::ShardId;
use parking_lot::Mutex;

/// A queued request, and how to wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedRequest {
    pub(crate) shard: ShardId,
    pub(crate) message: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    requests: Mutex<VecDeque<(QueuedRequest, Instant)>>,
    /// The length, readable without the lock.
    length: AtomicUsize,
    /// Requests queued so far.
    joined: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    /// The queue was empty. Capacity may have appeared before this entry was visible: check again.
    First,
    /// Others are woken first.
    Later,
    /// The queue is full.
    Full,
}

impl Queue {
    /// Appends a request that waits until `deadline`, unless `length_max` wait already.
    pub(crate) fn join(&self, queued_request: QueuedRequest, deadline: Instant, length_max: usize) -> QueuePosition {
        let mut requests = self.requests.lock();
        if requests.len() >= length_max {
            return QueuePosition::Full;
        }
        requests.push_back((queued_request, deadline));
        self.joined.fetch_add(1, Ordering::Relaxed);
        self.update_length(&requests);
        if requests.len() == 1 { QueuePosition::First } else { QueuePosition::Later }
    }

    pub(crate) fn leave(&self, queued_request: QueuedRequest) {
        let mut requests = self.requests.lock();
        if let Some(place) = requests.iter().position(|(other, _)| *other == queued_request) {
            requests.remove(place);
            self.update_length(&requests);
        }
    }

    /// The request to wake now. Expired ones, perhaps of shards that no longer exist, are removed.
    pub(crate) fn first(&self, now: Instant) -> Option<QueuedRequest> {
        // Either this load sees a joined request, or that request sees the capacity released before.
        fence(Ordering::SeqCst);
        if self.is_empty() {
            return None;
        }
        let mut requests = self.requests.lock();
        while requests.front().is_some_and(|(_, deadline)| *deadline < now) {
            requests.pop_front();
        }
        self.update_length(&requests);
        requests.front().map(|(queued_request, _)| *queued_request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed) as u64
    }

    pub(crate) fn joined(&self) -> u64 {
        self.joined.load(Ordering::Relaxed)
    }

    fn update_length(&self, requests: &VecDeque<(QueuedRequest, Instant)>) {
        self.length.store(requests.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued_request(message: u64) -> QueuedRequest {
        QueuedRequest { shard: ShardId(0), message }
    }

    #[test]
    fn wakes_first_request_until_it_leaves() {
        let (queue, now) = (Queue::default(), Instant::ZERO);
        assert!(queue.is_empty() && queue.first(now).is_none());
        let joined = [1, 2, 3, 4].map(|message| queue.join(queued_request(message), Instant::FAR, 3));
        assert_eq!(joined, [QueuePosition::First, QueuePosition::Later, QueuePosition::Later, QueuePosition::Full]);
        assert_eq!((queue.length(), queue.joined()), (3, 3));
        assert_eq!([queue.first(now), queue.first(now)], [Some(queued_request(1)); 2]);
        queue.leave(queued_request(1));
        queue.leave(queued_request(3));
        queue.leave(queued_request(3));
        assert_eq!(queue.first(now), Some(queued_request(2)));
        queue.leave(queued_request(2));
        assert!(queue.is_empty() && queue.first(now).is_none());
    }

    #[test]
    fn expired_requests_leave_the_queue() {
        let (queue, now) = (Queue::default(), Instant::from_nanos(5));
        for (message, deadline) in [(1, 3), (2, 4), (3, 5)] {
            queue.join(queued_request(message), Instant::from_nanos(deadline), 9);
        }
        assert_eq!(queue.first(now), Some(queued_request(3)));
        assert_eq!(queue.length(), 1);
    }
}
