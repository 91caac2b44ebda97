//! Events in the order of their times; equal times in the order of planning.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use breme_base::Instant;

pub struct Agenda<E> {
    pub now: Instant,
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    events: BTreeMap<u64, E>,
    planned: u64,
}

impl<E> Agenda<E> {
    pub const fn new() -> Self {
        Self { now: Instant::ZERO, order: BinaryHeap::new(), events: BTreeMap::new(), planned: 0 }
    }

    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    pub fn at(&mut self, at: Instant, event: E) {
        self.planned += 1;
        self.order.push(Reverse((at.max(self.now), self.planned)));
        self.events.insert(self.planned, event);
    }

    pub fn pop(&mut self) -> Option<E> {
        let Reverse((at, number)) = self.order.pop()?;
        self.now = at;
        self.events.remove(&number)
    }
}
