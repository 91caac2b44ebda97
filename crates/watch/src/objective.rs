//! Service level objective: how much of the error budget is used up, and how fast.
//!
//! The budget is the share of requests that may fail or be late: 1 − availability. A burn rate of 1 uses up the budget
//! exactly in the time for which the objective holds; at 14.4 a budget of 30 days is gone in two days. An alert is
//! raised where the rate is too high over an hour and still is over five minutes, so that it ends soon after the cause
//! (B. Beyer et al.: *The Site Reliability Workbook* (2018), chapter 5).

use std::collections::VecDeque;

use crate::history::TargetHistory;
use crate::record::{Counts, State};

/// The window over which a burn rate is judged, and the one that shows whether it lasts, minutes.
const WINDOWS_MIN: [usize; 2] = [60, 5];
/// Requests in the shorter window from which on a burn rate is judged.
const REQUESTS_MIN: u64 = 10;

/// An objective and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compliance {
    /// Share of known intervals that were up.
    pub uptime: f64,
    /// Share of requests that were answered as expected and in time.
    pub good: f64,
    /// Used part of the error budget; above 1 the objective is missed.
    pub budget_used: f64,
    /// Whether both shares reach the objective.
    pub is_met: bool,
}

impl Compliance {
    /// Of a target; none if nothing is known.
    #[must_use]
    pub fn of(target: &TargetHistory, availability: f64) -> Option<Self> {
        let uptime = target.uptime()?;
        let requests = target.counts.requests.max(1) as f64;
        let good = target.counts.good() as f64 / requests;
        let budget_used = (1.0 - good) / (1.0 - availability);
        Some(Self { uptime, good, budget_used, is_met: uptime >= availability && good >= availability })
    }
}

/// What becomes of a target while it is watched.
#[derive(Debug)]
pub struct Follower {
    availability: f64,
    down_after: u64,
    burn_rate: f64,
    down_intervals: u64,
    is_down: bool,
    is_burning: bool,
    /// Good and all requests of the latest minutes, the current one last.
    minutes: VecDeque<(i64, u64, u64)>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The target is down.
    Down {
        /// Consecutive intervals.
        intervals: u64,
    },
    /// It is up again.
    Up,
    /// The error budget is used up too fast.
    Burning {
        /// Over an hour.
        rate: f64,
    },
    /// It no longer is.
    Calm,
}

impl Follower {
    /// Of a target that is up.
    #[must_use]
    pub const fn new(availability: f64, down_after: u64, burn_rate: f64) -> Self {
        Self {
            availability,
            down_after,
            burn_rate,
            down_intervals: 0,
            is_down: false,
            is_burning: false,
            minutes: VecDeque::new(),
        }
    }

    /// Whether it is down, after as many intervals as that takes.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        self.is_down
    }

    /// Burn rate over the longer window; none without requests.
    #[must_use]
    pub fn burn_rate(&self) -> Option<f64> {
        self.rate_over(WINDOWS_MIN[0])
    }

    /// Takes an interval at a minute of the clock that is never set.
    pub fn take(&mut self, minute: i64, counts: &Counts) -> Vec<Event> {
        let mut events = Vec::new();
        match counts.state() {
            State::Down => {
                self.down_intervals += 1;
                if self.down_intervals >= self.down_after && !std::mem::replace(&mut self.is_down, true) {
                    events.push(Event::Down { intervals: self.down_intervals });
                }
            }
            State::Up => {
                self.down_intervals = 0;
                if std::mem::take(&mut self.is_down) {
                    events.push(Event::Up);
                }
            }
            State::Unknown => {}
        }
        self.count(minute, counts);
        events.extend(self.judge_burning());
        events
    }

    fn count(&mut self, minute: i64, counts: &Counts) {
        match self.minutes.back_mut() {
            Some((known, good, all)) if *known == minute => {
                *good += counts.good();
                *all += counts.requests;
            }
            _ => self.minutes.push_back((minute, counts.good(), counts.requests)),
        }
        while self.minutes.front().is_some_and(|(oldest, ..)| *oldest <= minute - WINDOWS_MIN[0] as i64) {
            self.minutes.pop_front();
        }
    }

    fn rate_over(&self, window: usize) -> Option<f64> {
        let newest = self.minutes.back()?.0;
        let recent = self.minutes.iter().filter(|(minute, ..)| *minute > newest - window as i64);
        let (good, all) = recent.fold((0, 0), |(good, all), (_, more, of)| (good + more, all + of));
        (all >= REQUESTS_MIN).then(|| (1.0 - good as f64 / all as f64) / (1.0 - self.availability))
    }

    fn judge_burning(&mut self) -> Option<Event> {
        let [long, short] = WINDOWS_MIN.map(|window| self.rate_over(window));
        let (long, short) = (long?, short?);
        let is_burning = long >= self.burn_rate && short >= self.burn_rate;
        let was_burning = std::mem::replace(&mut self.is_burning, is_burning);
        match (was_burning, is_burning) {
            (false, true) => Some(Event::Burning { rate: long }),
            (true, false) => Some(Event::Calm),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Counts = one(1);
    const BAD: Counts = one(0);

    const fn one(ok: u64) -> Counts {
        Counts {
            requests: 1,
            ok,
            late: 0,
            client_errors: 0,
            server_errors: 0,
            wrong: 0,
            transport: 1 - ok,
            received_bytes: 0,
            content_bytes: 0,
        }
    }

    #[test]
    fn a_target_is_down_after_some_intervals_and_up_after_one() {
        let mut follower = Follower::new(0.99, 3, f64::INFINITY);
        let mut events = |counts: &Counts| follower.take(0, counts);
        assert!([&BAD, &BAD, &GOOD, &BAD, &BAD].into_iter().all(|counts| events(counts).is_empty()));
        assert_eq!(events(&BAD), [Event::Down { intervals: 3 }]);
        assert!(events(&BAD).is_empty() && events(&Counts::default()).is_empty());
        assert_eq!(events(&GOOD), [Event::Up]);
    }

    #[test]
    fn a_budget_that_burns_is_reported_once_and_its_end_too() {
        let mut follower = Follower::new(0.99, 1_000, 14.4);
        let minutes = |follower: &mut Follower, range: std::ops::Range<i64>, bad_of_ten: u64| -> Vec<Event> {
            let of = |number: u64| if number < bad_of_ten { &BAD } else { &GOOD };
            range
                .flat_map(|minute| (0..10).flat_map(|number| follower.take(minute, of(number))).collect::<Vec<_>>())
                .collect()
        };
        assert!(minutes(&mut follower, 0..60, 0).is_empty());
        let events = minutes(&mut follower, 60..90, 4);
        assert!(matches!(events[..], [Event::Burning { rate }] if (14.4..16.0).contains(&rate)), "{events:?}");
        assert_eq!(minutes(&mut follower, 90..110, 0), [Event::Calm]);
        assert!(follower.burn_rate() > Some(10.0), "an hour is longer than that");
    }
}
