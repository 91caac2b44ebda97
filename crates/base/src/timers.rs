//! A set of deadlines that returns the nearest.
//!
//! A server moves a connection's deadline with each request, and almost none expires. So moving one later costs a
//! store; the heap is updated when the old entry comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::{Instant, nanos};

/// Deadlines by a small dense key (the index of a connection).
///
/// Moving a deadline later, or clearing it, is one store. Each key has at most a few stale heap entries, since one is
/// pushed only when the deadline moves before the earliest one there.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The deadline; `FAR`: none.
    deadline: Instant,
    /// The earliest live heap entry; `FAR`: none.
    queued: Instant,
}

const EMPTY: Slot = Slot { deadline: Instant::FAR, queued: Instant::FAR };

impl Timers {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets, moves or (with [`Instant::FAR`]) clears the deadline of `key`.
    pub fn set(&mut self, key: u32, deadline: Instant) {
        let index = key as usize;
        if index >= self.slots.len() {
            if deadline == Instant::FAR {
                return;
            }
            self.slots.resize(index + 1, EMPTY);
        }
        let slot = &mut self.slots[index];
        slot.deadline = deadline;
        if deadline < slot.queued {
            slot.queued = deadline;
            self.heap.push(Reverse((deadline, key)));
        }
    }

    pub fn clear(&mut self, key: u32) {
        self.set(key, Instant::FAR);
    }

    /// Changes the length of a wait from `before` to `after`, both counted from its beginning. Without a deadline,
    /// since `before` was endless, it begins `now`.
    pub fn change_wait(&mut self, key: u32, before: Duration, after: Duration, now: Instant) {
        let deadline = match self.deadline(key) {
            None => now + after,
            Some(deadline) if after >= before => deadline + (after - before),
            Some(deadline) => Instant::from_nanos(deadline.as_nanos().saturating_sub(nanos(before - after))),
        };
        self.set(key, deadline);
    }

    /// The deadline of `key`.
    #[must_use]
    pub fn deadline(&self, key: u32) -> Option<Instant> {
        let deadline = self.slots.get(key as usize)?.deadline;
        (deadline != Instant::FAR).then_some(deadline)
    }

    /// A lower bound of the nearest deadline.
    ///
    /// It may be too early if that deadline has moved: then [`Timers::pop_due`] returns nothing, and the next call
    /// returns a later one.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes a key whose deadline is not after `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        while let Some(&Reverse((at, key))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let slot = &mut self.slots[key as usize];
            if slot.queued != at {
                continue; // an entry that an earlier one replaced
            }
            slot.queued = Instant::FAR;
            if slot.deadline <= now {
                slot.deadline = Instant::FAR;
                return Some(key);
            }
            if slot.deadline != Instant::FAR {
                slot.queued = slot.deadline;
                self.heap.push(Reverse((slot.deadline, key)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn later_deadline_adds_no_heap_entry() {
        let mut timers = Timers::new();
        for nanos in 10..1_000 {
            timers.set(3, at(nanos));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.pop_due(at(998)), None);
        assert_eq!(timers.next(), Some(at(999)));
        assert_eq!(timers.pop_due(at(999)), Some(3));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn changed_wait_counts_from_its_beginning() {
        let mut timers = Timers::new();
        let [short, long] = [10, 75].map(Duration::from_nanos);
        timers.set(0, at(1_000) + long);
        timers.change_wait(0, long, short, at(1_003));
        assert_eq!(timers.deadline(0), Some(at(1_010)));
        timers.change_wait(0, short, long, at(1_004));
        assert_eq!(timers.deadline(0), Some(at(1_075)));
        // It has expired already.
        timers.change_wait(0, long, short, at(1_050));
        assert_eq!(timers.pop_due(at(1_050)), Some(0));
    }

    #[test]
    fn endless_wait_begins_when_shortened() {
        let mut timers = Timers::new();
        let short = Duration::from_nanos(10);
        timers.set(0, at(1_000) + Duration::MAX);
        timers.change_wait(0, Duration::MAX, short, at(1_003));
        assert_eq!(timers.deadline(0), Some(at(1_013)));
        timers.change_wait(0, short, Duration::MAX, at(1_004));
        assert_eq!(timers.deadline(0), None);
    }

    #[test]
    fn matches_a_map_on_random_histories() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut timers = Timers::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for _ in 0..400 {
                let key = random.below(8) as u32;
                match random.below(4) {
                    0 | 1 => {
                        let deadline = now + random.below(50);
                        timers.set(key, at(deadline));
                        model.insert(key, deadline);
                    }
                    2 => {
                        timers.clear(key);
                        model.remove(&key);
                    }
                    _ => {
                        now += random.below(20);
                        let mut due = Vec::new();
                        while let Some(key) = timers.pop_due(at(now)) {
                            due.push(key);
                        }
                        due.sort_unstable();
                        let expected: Vec<u32> =
                            model.iter().filter(|&(_, &deadline)| deadline <= now).map(|(&key, _)| key).collect();
                        assert_eq!(due, expected, "seed {seed}");
                        model.retain(|_, deadline| *deadline > now);
                    }
                }
                let nearest = model.values().min().map(|&deadline| at(deadline));
                assert!(timers.next().unwrap_or(Instant::FAR) <= nearest.unwrap_or(Instant::FAR), "seed {seed}");
            }
        }
    }
}
