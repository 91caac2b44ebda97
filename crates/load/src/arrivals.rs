//! The arrivals of an open loop: one queue for all shards, so that nothing depends on their number.
//!
//! A shard with a free user takes the next arrival **before** it is due and reserves the user for it; so each arrival
//! wakes one shard, and a shard without a free user takes none. Arrivals that become due while no user is free wait
//! here in order, as ranges of numbers and not as requests: a backlog of a million costs a few bytes. Beyond the bound
//! arrivals are dropped, and counted.
//!
//! The queue has no timer: each call first advances it to the present. Between two calls arrivals are only added and
//! none is taken, so the result is the same as if each had been added at its own instant.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use breme_base::{Instant, nanos};
use breme_load_plan::{Pace, Schedule};
use parking_lot::Mutex;

/// A request or session that is to begin at its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Number in the run, from 0.
    pub number: u64,
    pub due: Instant,
}

/// The result of claiming the next arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This one, which is due or will be.
    Taken(Arrival),
    /// The limit of arrivals in flight is reached; the shard is woken when that changes.
    Full,
    /// There is none before the end of the run.
    NoneYet,
    /// There will be no more.
    Over,
}

/// The bounds of an open loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Limit of arrivals that wait for a connection.
    pub waiting_max: u64,
    /// Limit of arrivals in flight; none: as many as the connections hold.
    pub in_flight_max: Option<u64>,
    /// Total number of arrivals.
    pub count_max: u64,
    /// Arrivals due after this time are omitted.
    pub duration: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    bounds: Bounds,
    state: Mutex<ArrivalQueueState>,
}

#[derive(Debug)]
struct ArrivalQueueState {
    schedule: Schedule,
    epoch: Instant,
    /// The first number that is not due yet.
    next: u64,
    /// Due numbers that were not taken, ascending.
    waiting: VecDeque<Range<u64>>,
    waiting_count: u64,
    /// Returned arrivals: their reserved connections were lost. At most one per shard.
    returned: Vec<Arrival>,
    in_flight: u64,
    dropped: u64,
    /// Free places of each shard, in addition to that of its reserved arrival.
    free_places: Box<[u64]>,
    /// Shards that were refused because of the limit in flight.
    is_starved: Box<[bool]>,
    shards_left: usize,
}

impl ArrivalQueue {
    pub(crate) fn new(pace: &Pace, seed: u64, shard_count: usize, bounds: Bounds) -> Self {
        let state = ArrivalQueueState {
            schedule: Schedule::new(pace, seed),
            epoch: Instant::ZERO,
            next: 0,
            waiting: VecDeque::new(),
            waiting_count: 0,
            returned: Vec::new(),
            in_flight: 0,
            dropped: 0,
            free_places: vec![0; shard_count].into(),
            is_starved: vec![false; shard_count].into(),
            shards_left: shard_count,
        };
        Self { bounds, state: Mutex::new(state) }
    }

    /// Whether arrivals in flight have a lower limit than the number of places on connections.
    pub(crate) const fn is_capped(&self) -> bool {
        self.bounds.in_flight_max.is_some()
    }

    /// Sets the start of the schedule. Every shard calls it with the same instant.
    pub(crate) fn begin(&self, epoch: Instant) {
        self.state.lock().epoch = epoch;
    }

    /// Claims the next arrival for a shard that can take `places` more. Also returns how many were dropped meanwhile.
    pub(crate) fn claim(&self, shard: usize, places: u64, now: Instant) -> (Claim, u64) {
        let mut state = self.state.lock();
        state.free_places[shard] = places;
        state.advance(&self.bounds, now);
        let claim = state.claim(&self.bounds, shard);
        if matches!(claim, Claim::Taken(_)) {
            state.free_places[shard] = places.saturating_sub(1);
        }
        (claim, std::mem::take(&mut state.dropped))
    }

    /// Records that a shard could take nothing until `now`. Returns how many were dropped meanwhile.
    pub(crate) fn note_busy(&self, shard: usize, now: Instant) -> u64 {
        let mut state = self.state.lock();
        state.free_places[shard] = 0;
        state.advance(&self.bounds, now);
        std::mem::take(&mut state.dropped)
    }

    /// Returns an arrival that the shard cannot begin.
    pub(crate) fn give_back(&self, shard: usize, arrival: Arrival) {
        let mut state = self.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.free_places[shard] = 0;
        let place = state.returned.partition_point(|other| other.number > arrival.number);
        state.returned.insert(place, arrival);
    }

    /// Records the end of an arrival, whatever its outcome.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }

    /// A shard that was refused and can be served now.
    pub(crate) fn next_starved(&self) -> Option<usize> {
        let mut state = self.state.lock();
        if self.bounds.in_flight_max.is_some_and(|max| state.in_flight >= max) {
            return None;
        }
        let shard = state.is_starved.iter().position(|&is_starved| is_starved)?;
        state.is_starved[shard] = false;
        Some(shard)
    }

    /// The shard takes nothing more from `now` on. For the last one, returns how many arrivals remain that no shard
    /// will begin.
    pub(crate) fn finish_shard(&self, shard: usize, now: Instant) -> u64 {
        let mut state = self.state.lock();
        state.advance(&self.bounds, now);
        state.free_places[shard] = 0;
        state.is_starved[shard] = false;
        state.shards_left = state.shards_left.saturating_sub(1);
        let mut left = std::mem::take(&mut state.dropped);
        if state.shards_left == 0 {
            left += std::mem::take(&mut state.waiting_count);
            state.waiting.clear();
            left += state.returned.iter().filter(|arrival| arrival.due <= now).count() as u64;
            state.returned.clear();
        }
        left
    }
}

impl ArrivalQueueState {
    /// Adds the arrivals that became due until `now`.
    fn advance(&mut self, bounds: &Bounds, now: Instant) {
        let last = bounds.duration.map_or(u64::MAX, |duration| nanos(duration).saturating_sub(1));
        let since = now.nanos_since(self.epoch);
        let due = self.schedule.count_until(since.min(last)).min(bounds.count_max);
        let fresh = due.saturating_sub(self.next);
        if fresh == 0 {
            return;
        }
        // Arrivals that a free connection will take in a moment do not count as waiting.
        let places: u64 = self.free_places.iter().sum();
        let permits = bounds.in_flight_max.map_or(u64::MAX, |max| max.saturating_sub(self.in_flight));
        let room = bounds.waiting_max.saturating_add(places.min(permits)).saturating_sub(self.waiting_count);
        let kept = fresh.min(room);
        match self.waiting.back_mut() {
            _ if kept == 0 => {}
            Some(last) if last.end == self.next => last.end += kept,
            _ => self.waiting.push_back(self.next..self.next + kept),
        }
        self.waiting_count += kept;
        self.dropped += fresh - kept;
        self.next = due;
    }

    fn claim(&mut self, bounds: &Bounds, shard: usize) -> Claim {
        let is_full = bounds.in_flight_max.is_some_and(|max| self.in_flight >= max);
        let Some(arrival) = self.peek(bounds) else {
            let is_over = self.next >= bounds.count_max || bounds.duration.is_none();
            return if is_over { Claim::Over } else { Claim::NoneYet };
        };
        if is_full {
            self.is_starved[shard] = true;
            return Claim::Full;
        }
        self.in_flight += 1;
        if self.returned.pop().is_some() {
            return Claim::Taken(arrival);
        }
        match self.waiting.front_mut() {
            Some(first) => {
                first.start += 1;
                self.waiting_count -= 1;
                if first.is_empty() {
                    self.waiting.pop_front();
                }
            }
            None => self.next += 1,
        }
        Claim::Taken(arrival)
    }

    /// The arrival to be taken next.
    fn peek(&mut self, bounds: &Bounds) -> Option<Arrival> {
        if let Some(&arrival) = self.returned.last() {
            return Some(arrival);
        }
        let number = self.waiting.front().map_or(self.next, |first| first.start);
        let since = Duration::from_nanos(self.schedule.due(number)?);
        let is_none = number >= bounds.count_max || bounds.duration.is_some_and(|duration| since >= duration);
        (!is_none).then_some(Arrival { number, due: self.epoch + since })
    }
}

#[cfg(test)]
mod tests {
    use breme_load_plan::Arrivals;

    use super::*;

    const EPOCH: Instant = Instant::from_nanos(500);

    /// One arrival per millisecond.
    fn each_millisecond(bounds: Bounds, shard_count: usize) -> ArrivalQueue {
        let queue = ArrivalQueue::new(&Pace::constant(1_000.0, Arrivals::Even), 1, shard_count, bounds);
        queue.begin(EPOCH);
        queue
    }

    const OPEN: Bounds = Bounds { waiting_max: 1_000_000, in_flight_max: None, count_max: u64::MAX, duration: None };

    fn at(millis: f64) -> Instant {
        EPOCH + Duration::from_secs_f64(millis / 1e3)
    }

    fn taken(number: u64) -> (Claim, u64) {
        (Claim::Taken(Arrival { number, due: at(number as f64) }), 0)
    }

    #[test]
    fn arrivals_are_taken_before_they_are_due_each_once() {
        let queue = each_millisecond(OPEN, 2);
        assert_eq!(queue.claim(0, 1, at(0.0)), taken(0));
        assert_eq!(queue.claim(1, 1, at(0.0)), taken(1));
        assert_eq!(queue.claim(0, 1, at(0.2)), taken(2));
    }

    #[test]
    fn waiting_arrivals_are_taken_in_order_with_their_own_instants() {
        let queue = each_millisecond(OPEN, 1);
        for number in 0..200 {
            assert_eq!(queue.claim(0, 1, at(100.0)), taken(number));
        }
    }

    #[test]
    fn past_the_bound_the_newest_are_dropped() {
        let queue = each_millisecond(Bounds { waiting_max: 3, ..OPEN }, 1);
        assert_eq!(queue.claim(0, 1, at(0.0)), taken(0));
        // 1, 2 and 3 wait; 4 to 10 are dropped.
        assert_eq!(queue.note_busy(0, at(10.5)), 7);
        assert_eq!([1, 2, 3].map(|_| queue.claim(0, 1, at(10.5))), [1, 2, 3].map(taken));
        assert_eq!(queue.claim(0, 1, at(10.5)), taken(11));
    }

    #[test]
    fn without_room_to_wait_a_free_connection_still_takes_what_is_due() {
        let queue = each_millisecond(Bounds { waiting_max: 0, ..OPEN }, 1);
        assert_eq!(queue.claim(0, 3, at(0.0)), taken(0));
        // The shard is 2 ms late, with two places in addition to that of the first: none is dropped.
        assert_eq!(queue.claim(0, 2, at(2.0)), taken(1));
        assert_eq!(queue.claim(0, 1, at(2.0)), taken(2));
        assert_eq!(queue.note_busy(0, at(5.5)), 3);
    }

    #[test]
    fn arrivals_in_flight_are_bounded_and_the_starved_shard_is_named() {
        let queue = each_millisecond(Bounds { in_flight_max: Some(2), ..OPEN }, 2);
        assert_eq!(queue.claim(0, 5, at(0.0)), taken(0));
        assert_eq!(queue.claim(0, 4, at(1.0)), taken(1));
        assert_eq!(queue.claim(1, 4, at(1.0)).0, Claim::Full);
        assert_eq!(queue.next_starved(), None);
        queue.release();
        assert_eq!((queue.next_starved(), queue.next_starved()), (Some(1), None));
        assert_eq!(queue.claim(1, 4, at(3.0)), taken(2));
    }

    #[test]
    fn an_arrival_that_is_given_back_is_the_next() {
        let queue = each_millisecond(OPEN, 2);
        let (Claim::Taken(first), _) = queue.claim(0, 1, at(0.0)) else { panic!() };
        let (Claim::Taken(second), _) = queue.claim(1, 1, at(0.0)) else { panic!() };
        queue.give_back(1, second);
        queue.give_back(0, first);
        assert_eq!([0, 1, 2].map(|_| queue.claim(0, 1, at(5.0))), [0, 1, 2].map(taken));
    }

    #[test]
    fn the_end_is_exact_and_what_is_left_is_counted_by_the_last_shard() {
        let queue = each_millisecond(Bounds { duration: Some(Duration::from_millis(10)), ..OPEN }, 2);
        for number in 0..5 {
            assert_eq!(queue.claim(0, 1, at(30.0)), taken(number));
        }
        assert_eq!(queue.finish_shard(0, at(30.0)), 0);
        assert_eq!(queue.claim(1, 1, at(30.0)), taken(5));
        assert_eq!(queue.finish_shard(1, at(30.0)), 4, "6, 7, 8 and 9");
        assert_eq!(queue.claim(1, 1, at(30.0)).0, Claim::NoneYet);
        let counted = each_millisecond(Bounds { count_max: 2, ..OPEN }, 1);
        assert_eq!([0, 1].map(|_| counted.claim(0, 1, at(9.0))), [0, 1].map(taken));
        assert_eq!(counted.claim(0, 1, at(9.0)).0, Claim::Over);
        assert_eq!(counted.finish_shard(0, at(9.0)), 0);
    }
}
