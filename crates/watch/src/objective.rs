//! Service level objective, error budget and burn rate.
//!
//! The error budget is the share of requests that may fail or be late: 1 − availability. A burn rate of 1 uses it up
//! exactly over the period of the objective; 14.4 uses up a budget of 30 days in two days. An alert is raised while the
//! rate is too high both over an hour and over five minutes, so that it ends soon after its cause
//! (B. Beyer et al.: *The Site Reliability Workbook* (2018), chapter 5).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::history::TargetHistory;
use crate::record::{ClockReading, Counts, TargetState};

/// Long and short window of the burn rate, minutes.
const WINDOWS_MIN: [u64; 2] = [60, 5];
/// Fewest requests in these windows for a burn rate. The short one only shows whether the cause lasts; a request per
/// minute is enough for that.
const REQUESTS_MIN: [u64; 2] = [10, 1];
const MINUTE_MS: u64 = 60_000;

/// How well a target meets its objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compliance {
    /// Up intervals as a share of up and down ones.
    pub uptime: f64,
    /// Share of requests with an expected response in time.
    pub good: f64,
    /// Used share of the error budget; above 1 the objective is missed.
    pub budget_used: f64,
    /// Whether both shares reach the objective.
    pub is_met: bool,
}

impl Compliance {
    /// None without up or down intervals.
    #[must_use]
    pub fn from_history(target: &TargetHistory, availability: f64) -> Option<Self> {
        let uptime = target.uptime()?;
        let requests = target.counts.requests.max(1) as f64;
        let good = target.counts.good() as f64 / requests;
        let budget_used = (1.0 - good) / (1.0 - availability);
        Some(Self { uptime, good, budget_used, is_met: uptime >= availability && good >= availability })
    }
}

/// Derives alerts of a target from its intervals.
#[derive(Debug)]
pub struct ObjectiveMonitor {
    availability: f64,
    down_after: u64,
    burn_rate: f64,
    down_intervals: u64,
    is_down: bool,
    is_too_high: bool,
    /// Boot from which `minutes` count.
    boot: u16,
    /// Minute, good requests and all requests; the current minute is last.
    minutes: VecDeque<(u64, u64, u64)>,
}

/// What an alert is about. The latest one of each kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    Availability,
    BurnRate,
}

/// A change that raises an alert.
#[derive(Clone, Debug, PartialEq)]
pub enum AlertEvent {
    Down {
        /// Consecutive intervals.
        intervals: u64,
    },
    Up,
    BurnRateHigh {
        /// Over the long window.
        rate: f64,
    },
    BurnRateNormal,
}

impl AlertEvent {
    #[must_use]
    pub const fn kind(&self) -> AlertKind {
        match self {
            Self::Down { .. } | Self::Up => AlertKind::Availability,
            Self::BurnRateHigh { .. } | Self::BurnRateNormal => AlertKind::BurnRate,
        }
    }
}

impl ObjectiveMonitor {
    /// Starts with a target that is up.
    #[must_use]
    pub const fn new(availability: f64, down_after: u64, burn_rate: f64) -> Self {
        Self {
            availability,
            down_after,
            burn_rate,
            down_intervals: 0,
            is_down: false,
            is_too_high: false,
            boot: 0,
            minutes: VecDeque::new(),
        }
    }

    /// Replaces the limits; the state stays.
    pub const fn set_limits(&mut self, availability: f64, down_after: u64, burn_rate: f64) {
        (self.availability, self.down_after, self.burn_rate) = (availability, down_after, burn_rate);
    }

    /// Sets the state that the latest alert of a kind has reported. The next interval reports a change.
    pub const fn set_reported(&mut self, kind: AlertKind, is_bad: bool) {
        match kind {
            AlertKind::Availability => self.is_down = is_bad,
            AlertKind::BurnRate => self.is_too_high = is_bad,
        }
    }

    /// Burn rate over the long window; none with too few requests.
    #[must_use]
    pub fn burn_rate(&self) -> Option<f64> {
        self.rate_over(WINDOWS_MIN[0], REQUESTS_MIN[0])
    }

    /// Adds an interval that began at `reading`.
    pub fn observe(&mut self, reading: ClockReading, counts: &Counts) -> Vec<AlertEvent> {
        let mut events = Vec::new();
        match counts.state() {
            TargetState::Down => {
                self.down_intervals += 1;
                if self.down_intervals >= self.down_after && !std::mem::replace(&mut self.is_down, true) {
                    events.push(AlertEvent::Down { intervals: self.down_intervals });
                }
            }
            TargetState::Up => {
                self.down_intervals = 0;
                if std::mem::take(&mut self.is_down) {
                    events.push(AlertEvent::Up);
                }
            }
            TargetState::Unknown => {}
        }
        self.count(reading, counts);
        events.extend(self.check_burn_rate());
        events
    }

    fn count(&mut self, reading: ClockReading, counts: &Counts) {
        if std::mem::replace(&mut self.boot, reading.boot) != reading.boot {
            self.minutes.clear();
        }
        let minute = reading.boot_ms / MINUTE_MS;
        match self.minutes.back_mut() {
            Some((known, good, all)) if *known == minute => {
                *good += counts.good();
                *all += counts.requests;
            }
            _ => self.minutes.push_back((minute, counts.good(), counts.requests)),
        }
        while self.minutes.front().is_some_and(|(oldest, ..)| oldest + WINDOWS_MIN[0] <= minute) {
            self.minutes.pop_front();
        }
    }

    fn rate_over(&self, window: u64, requests_min: u64) -> Option<f64> {
        let newest = self.minutes.back()?.0;
        let recent = self.minutes.iter().filter(|(minute, ..)| minute + window > newest);
        let (good, all) = recent.fold((0, 0), |(good, all), (_, more, of)| (good + more, all + of));
        (all >= requests_min).then(|| (1.0 - good as f64 / all as f64) / (1.0 - self.availability))
    }

    fn check_burn_rate(&mut self) -> Option<AlertEvent> {
        let long = self.burn_rate()?;
        let short = self.rate_over(WINDOWS_MIN[1], REQUESTS_MIN[1])?;
        let is_too_high = long >= self.burn_rate && short >= self.burn_rate;
        let was_too_high = std::mem::replace(&mut self.is_too_high, is_too_high);
        match (was_too_high, is_too_high) {
            (false, true) => Some(AlertEvent::BurnRateHigh { rate: long }),
            (true, false) => Some(AlertEvent::BurnRateNormal),
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

    const fn minute(minute: u64, boot: u16) -> ClockReading {
        ClockReading { wall_ms: 0, boot_ms: minute * MINUTE_MS, boot }
    }

    #[test]
    fn reports_down_after_three_intervals_and_up_after_one() {
        let mut monitor = ObjectiveMonitor::new(0.99, 3, f64::INFINITY);
        let mut events = |counts: &Counts| monitor.observe(minute(0, 0), counts);
        assert!([&BAD, &BAD, &GOOD, &BAD, &BAD].into_iter().all(|counts| events(counts).is_empty()));
        assert_eq!(events(&BAD), [AlertEvent::Down { intervals: 3 }]);
        assert!(events(&BAD).is_empty() && events(&Counts::default()).is_empty());
        assert_eq!(events(&GOOD), [AlertEvent::Up]);
    }

    #[test]
    fn only_an_up_interval_ends_what_an_alert_has_reported() {
        let monitor = |history: &[&Counts], is_bad| {
            let mut monitor = ObjectiveMonitor::new(0.99, 3, f64::INFINITY);
            history.iter().for_each(|counts| drop(monitor.observe(minute(0, 0), counts)));
            monitor.set_reported(AlertKind::Availability, is_bad);
            monitor
        };
        for history in [&[&GOOD, &BAD, &BAD][..], &[&GOOD], &[&Counts::default()], &[]] {
            let mut monitor = monitor(history, true);
            assert!(
                [&Counts::default(), &BAD, &BAD].iter().all(|counts| monitor.observe(minute(0, 0), counts).is_empty())
            );
            assert_eq!(monitor.observe(minute(0, 0), &GOOD), [AlertEvent::Up]);
        }
        let mut unreported = monitor(&[&BAD; 3], false);
        assert_eq!(unreported.observe(minute(0, 0), &BAD), [AlertEvent::Down { intervals: 4 }]);
    }

    #[test]
    fn reports_burn_rate_once() {
        let mut monitor = ObjectiveMonitor::new(0.99, 1_000, 14.4);
        let minutes =
            |monitor: &mut ObjectiveMonitor, range: std::ops::Range<u64>, bad_of_ten: u64| -> Vec<AlertEvent> {
                let of = |number: u64| if number < bad_of_ten { &BAD } else { &GOOD };
                let numbers = range.flat_map(|number| (0..10).map(move |request| (number, request)));
                numbers.flat_map(|(number, request)| monitor.observe(minute(number, 0), of(request))).collect()
            };
        assert!(minutes(&mut monitor, 0..60, 0).is_empty());
        let events = minutes(&mut monitor, 60..90, 4);
        assert!(
            matches!(events[..], [AlertEvent::BurnRateHigh { rate }] if (14.4..16.0).contains(&rate)),
            "{events:?}"
        );
        assert_eq!(minutes(&mut monitor, 90..110, 0), [AlertEvent::BurnRateNormal]);
        assert!(monitor.burn_rate() > Some(10.0), "over an hour it is still high");
    }

    #[test]
    fn one_request_per_minute_is_enough_for_a_burn_rate() {
        let mut monitor = ObjectiveMonitor::new(0.99, 1_000, 14.4);
        let mut events = |range: std::ops::Range<u64>, counts: &Counts| -> Vec<AlertEvent> {
            range.flat_map(|number| monitor.observe(minute(number, 0), counts)).collect()
        };
        assert!(events(0..9, &BAD).is_empty(), "nine requests are too few");
        assert!(matches!(events(9..30, &BAD)[..], [AlertEvent::BurnRateHigh { rate }] if rate > 99.0));
        assert_eq!(events(30..40, &GOOD), [AlertEvent::BurnRateNormal]);
    }

    #[test]
    fn burn_rate_begins_anew_after_a_reboot() {
        let mut monitor = ObjectiveMonitor::new(0.99, 1_000, 14.4);
        (0..20).for_each(|number| drop(monitor.observe(minute(number, 1), &BAD)));
        assert!(monitor.burn_rate().is_some());
        (0..9).for_each(|number| drop(monitor.observe(minute(10 + number, 2), &GOOD)));
        assert_eq!(monitor.burn_rate(), None);
        monitor.observe(minute(19, 2), &GOOD);
        assert_eq!(monitor.burn_rate(), Some(0.0));
    }
}
