//! What is to happen when: the heart of virtual time. What is due at the same instant happens in the order in which it
//! was arranged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use breme_base::Instant;
use breme_node::{CloseReason, ConnectError, ConnectTicket};

use crate::link::EndIndex;

/// Something that is to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
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
    Knock {
        link_index: usize,
    },
    Accept {
        link_index: usize,
    },
    Connected {
        link_index: usize,
    },
    /// TLS began on it.
    Secured {
        end: EndIndex,
        ticket: ConnectTicket,
    },
    ConnectFailed {
        shard_index: usize,
        ticket: ConnectTicket,
        error: ConnectError,
    },
    /// The next of what the peer has sent reaches this end.
    Arrive {
        end: EndIndex,
    },
    /// The driver of this end turns to what it has received.
    Lend {
        end: EndIndex,
    },
    /// The driver of this end can send more.
    Flush {
        end: EndIndex,
    },
    /// The driver of this end tells its node about the queue.
    TellQueue {
        end: EndIndex,
    },
    TellClosed {
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
    /// The network swallows everything from now on.
    Silence {
        link_index: usize,
    },
}

/// All that is arranged.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Arranged>>,
    arranged_count: u64,
}

#[derive(Debug)]
struct Arranged {
    at: Instant,
    order: u64,
    event: Event,
}

impl Agenda {
    pub(crate) fn arrange(&mut self, at: Instant, event: Event) {
        self.arranged_count += 1;
        self.heap.push(Reverse(Arranged { at, order: self.arranged_count, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse(Arranged { at, event, .. })| (at, event))
    }
}

impl Ord for Arranged {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Arranged {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arranged {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Arranged {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_order_of_arrangement() {
        let mut agenda = Agenda::default();
        for (shard_index, nanos) in [(0, 5), (1, 3), (2, 5), (3, 3)] {
            agenda.arrange(Instant::from_nanos(nanos), Event::Start { shard_index });
        }
        let order: Vec<usize> = std::iter::from_fn(|| agenda.next())
            .map(|(_, event)| match event {
                Event::Start { shard_index } => shard_index,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
