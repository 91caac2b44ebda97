//! The event queue of virtual time. Events at the same instant run in the order of scheduling.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use breme_base::Instant;
use breme_node::{CloseReason, ConnectError, ConnectTicket};

use crate::link::EndIndex;

#[derive(Clone, Copy, Debug)]
pub(crate) enum SimEvent {
    Start {
        shard_index: usize,
    },
    Deadline {
        shard_index: usize,
    },
    Woken {
        shard_index: usize,
        message: u64,
    },
    Stop {
        host_index: usize,
    },
    StopLimit {
        host_index: usize,
    },
    Pressure {
        host_index: usize,
        is_under_pressure: bool,
    },
    /// A connection attempt reaches the listener.
    ConnectAttempt {
        link_index: usize,
    },
    Accept {
        link_index: usize,
    },
    Connected {
        link_index: usize,
    },
    /// TLS was started.
    Secured {
        end: EndIndex,
        ticket: ConnectTicket,
    },
    ConnectFailed {
        shard_index: usize,
        ticket: ConnectTicket,
        error: ConnectError,
    },
    /// The next segment from the peer reaches this end.
    Arrive {
        end: EndIndex,
    },
    /// The driver of this end reads what has arrived.
    Lend {
        end: EndIndex,
    },
    /// The driver of this end can send more.
    Flush {
        end: EndIndex,
    },
    /// The driver of this end notifies its node about the queue.
    NotifyQueue {
        end: EndIndex,
    },
    NotifyClosed {
        end: EndIndex,
        reason: CloseReason,
    },
    CloseLimit {
        end: EndIndex,
        progress: u64,
    },
    ResendLimit {
        end: EndIndex,
    },
    /// The network resets both ends.
    Cut {
        link_index: usize,
    },
    /// The network drops everything from now on.
    Silence {
        link_index: usize,
    },
}

#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<ScheduledEvent>>,
    scheduled_count: u64,
}

#[derive(Debug)]
struct ScheduledEvent {
    at: Instant,
    order: u64,
    event: SimEvent,
}

impl EventQueue {
    pub(crate) fn schedule(&mut self, at: Instant, event: SimEvent) {
        self.scheduled_count += 1;
        self.heap.push(Reverse(ScheduledEvent { at, order: self.scheduled_count, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, SimEvent)> {
        self.heap.pop().map(|Reverse(ScheduledEvent { at, event, .. })| (at, event))
    }
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for ScheduledEvent {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_time_then_scheduling() {
        let mut events = EventQueue::default();
        for (shard_index, nanos) in [(0, 5), (1, 3), (2, 5), (3, 3)] {
            events.schedule(Instant::from_nanos(nanos), SimEvent::Start { shard_index });
        }
        let order: Vec<usize> = std::iter::from_fn(|| events.next())
            .map(|(_, event)| match event {
                SimEvent::Start { shard_index } => shard_index,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
