//! Service level objective, error budget and burn rate.
//!
//! The error budget is the share of requests that may fail or be late: 1 − availability. A burn rate of 1 uses it up
//! exactly over the period of the objective; 14.4 uses up a budget of 30 days in two days. An alert is raised while the
//! rate is too high both over an hour and over five minutes, so that it ends soon after its cause
//! (B. Beyer et al.: *The Site Reliability Workbook* (2018), chapter 5).

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateExpiry;
use crate::file::File;
use crate::history::TargetHistory;
use crate::record::{ClockReading, Counts, Probe, TargetState};

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

/// Limits beyond which alerts are raised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlertLimits {
    /// Objective of the error budget.
    pub availability: f64,
    /// Consecutive down intervals.
    pub down_after: u64,
    pub burn_rate: f64,
    /// Time until a certificate expires; zero: no alert.
    pub certificate_within: Duration,
}

impl AlertLimits {
    #[must_use]
    pub const fn from_file(file: &File) -> Self {
        Self {
            availability: file.objective.availability,
            down_after: file.alert.down_after,
            burn_rate: file.alert.burn_rate,
            certificate_within: file.alert.certificate_expires_within,
        }
    }
}

/// Derives alerts of a target from its intervals.
#[derive(Debug)]
pub struct ObjectiveMonitor {
    limits: AlertLimits,
    down_intervals: u64,
    is_down: bool,
    is_too_high: bool,
    is_expiring: bool,
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
    Certificate,
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
    CertificateExpiring(CertificateExpiry),
    CertificateRenewed(CertificateExpiry),
}

impl AlertEvent {
    #[must_use]
    pub const fn kind(&self) -> AlertKind {
        match self {
            Self::Down { .. } | Self::Up => AlertKind::Availability,
            Self::BurnRateHigh { .. } | Self::BurnRateNormal => AlertKind::BurnRate,
            Self::CertificateExpiring(_) | Self::CertificateRenewed(_) => AlertKind::Certificate,
        }
    }
}

impl ObjectiveMonitor {
    /// Starts with a target that is up.
    #[must_use]
    pub const fn new(limits: AlertLimits) -> Self {
        Self {
            limits,
            down_intervals: 0,
            is_down: false,
            is_too_high: false,
            is_expiring: false,
            boot: 0,
            minutes: VecDeque::new(),
        }
    }

    /// Replaces the limits; the state stays.
    pub const fn set_limits(&mut self, limits: AlertLimits) {
        self.limits = limits;
    }

    /// Sets the state that the latest alert of a kind has reported. The next interval reports a change.
    pub const fn set_reported(&mut self, kind: AlertKind, is_bad: bool) {
        match kind {
            AlertKind::Availability => self.is_down = is_bad,
            AlertKind::BurnRate => self.is_too_high = is_bad,
            AlertKind::Certificate => self.is_expiring = is_bad,
        }
    }

    /// Burn rate over the long window; none with too few requests.
    #[must_use]
    pub fn burn_rate(&self) -> Option<f64> {
        self.rate_over(WINDOWS_MIN[0], REQUESTS_MIN[0])
    }

    /// Adds an interval that began at `reading`.
    pub fn observe(&mut self, reading: ClockReading, probe: &Probe) -> Vec<AlertEvent> {
        let (counts, mut events) = (&probe.counts, Vec::new());
        match counts.state() {
            TargetState::Down => {
                self.down_intervals += 1;
                if self.down_intervals >= self.limits.down_after && !std::mem::replace(&mut self.is_down, true) {
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
        events.extend(self.check_certificate(reading, probe.certificate_expires_at));
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
        (all >= requests_min).then(|| (1.0 - good as f64 / all as f64) / (1.0 - self.limits.availability))
    }

    fn check_burn_rate(&mut self) -> Option<AlertEvent> {
        let long = self.burn_rate()?;
        let short = self.rate_over(WINDOWS_MIN[1], REQUESTS_MIN[1])?;
        let is_too_high = long >= self.limits.burn_rate && short >= self.limits.burn_rate;
        let was_too_high = std::mem::replace(&mut self.is_too_high, is_too_high);
        match (was_too_high, is_too_high) {
            (false, true) => Some(AlertEvent::BurnRateHigh { rate: long }),
            (true, false) => Some(AlertEvent::BurnRateNormal),
            _ => None,
        }
    }

    fn check_certificate(&mut self, reading: ClockReading, expires_at: Option<u64>) -> Option<AlertEvent> {
        let within_s = self.limits.certificate_within.as_secs();
        let expiry = CertificateExpiry::new(expires_at.filter(|_| within_s > 0)?, reading.wall_ms, within_s);
        let was_expiring = std::mem::replace(&mut self.is_expiring, expiry.is_soon);
        match (was_expiring, expiry.is_soon) {
            (false, true) => Some(AlertEvent::CertificateExpiring(expiry)),
            (true, false) => Some(AlertEvent::CertificateRenewed(expiry)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ResponseTimes;

    static GOOD: Probe = one(1);
    static BAD: Probe = one(0);

    const fn one(ok: u64) -> Probe {
        let counts = Counts {
            requests: 1,
            ok,
            late: 0,
            client_errors: 0,
            server_errors: 0,
            wrong: 0,
            transport: 1 - ok,
            received_bytes: 0,
            content_bytes: 0,
        };
        Probe {
            target: 0,
            elapsed_ns: 0,
            counts,
            cause: None,
            times: ResponseTimes::None,
            usage: None,
            certificate_expires_at: None,
        }
    }

    fn monitor_with(down_after: u64, burn_rate: f64) -> ObjectiveMonitor {
        let certificate_within = Duration::from_secs(100);
        ObjectiveMonitor::new(AlertLimits { availability: 0.99, down_after, burn_rate, certificate_within })
    }

    const fn minute(minute: u64, boot: u16) -> ClockReading {
        ClockReading { wall_ms: 0, boot_ms: minute * MINUTE_MS, boot }
    }

    #[test]
    fn reports_down_after_three_intervals_and_up_after_one() {
        let mut monitor = monitor_with(3, f64::INFINITY);
        let mut events = |probe: &Probe| monitor.observe(minute(0, 0), probe);
        assert!([&BAD, &BAD, &GOOD, &BAD, &BAD].into_iter().all(|probe| events(probe).is_empty()));
        assert_eq!(events(&BAD), [AlertEvent::Down { intervals: 3 }]);
        assert!(events(&BAD).is_empty() && events(&Probe::default()).is_empty());
        assert_eq!(events(&GOOD), [AlertEvent::Up]);
    }

    #[test]
    fn only_an_up_interval_ends_what_an_alert_has_reported() {
        let monitor = |history: &[&Probe], is_bad| {
            let mut monitor = monitor_with(3, f64::INFINITY);
            history.iter().for_each(|probe| drop(monitor.observe(minute(0, 0), probe)));
            monitor.set_reported(AlertKind::Availability, is_bad);
            monitor
        };
        for history in [&[&GOOD, &BAD, &BAD][..], &[&GOOD], &[&Probe::default()], &[]] {
            let mut monitor = monitor(history, true);
            assert!(
                [&Probe::default(), &BAD, &BAD].iter().all(|probe| monitor.observe(minute(0, 0), probe).is_empty())
            );
            assert_eq!(monitor.observe(minute(0, 0), &GOOD), [AlertEvent::Up]);
        }
        let mut unreported = monitor(&[&BAD; 3], false);
        assert_eq!(unreported.observe(minute(0, 0), &BAD), [AlertEvent::Down { intervals: 4 }]);
    }

    #[test]
    fn reports_burn_rate_once() {
        let mut monitor = monitor_with(1_000, 14.4);
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
        let mut monitor = monitor_with(1_000, 14.4);
        let mut events = |range: std::ops::Range<u64>, probe: &Probe| -> Vec<AlertEvent> {
            range.flat_map(|number| monitor.observe(minute(number, 0), probe)).collect()
        };
        assert!(events(0..9, &BAD).is_empty(), "nine requests are too few");
        assert!(matches!(events(9..30, &BAD)[..], [AlertEvent::BurnRateHigh { rate }] if rate > 99.0));
        assert_eq!(events(30..40, &GOOD), [AlertEvent::BurnRateNormal]);
    }

    #[test]
    fn burn_rate_begins_anew_after_a_reboot() {
        let mut monitor = monitor_with(1_000, 14.4);
        (0..20).for_each(|number| drop(monitor.observe(minute(number, 1), &BAD)));
        assert!(monitor.burn_rate().is_some());
        (0..9).for_each(|number| drop(monitor.observe(minute(10 + number, 2), &GOOD)));
        assert_eq!(monitor.burn_rate(), None);
        monitor.observe(minute(19, 2), &GOOD);
        assert_eq!(monitor.burn_rate(), Some(0.0));
    }

    #[test]
    fn reports_an_expiring_certificate_until_it_is_renewed() {
        let mut monitor = monitor_with(3, f64::INFINITY);
        let observe = |monitor: &mut ObjectiveMonitor, at_s: i64, expires_at| {
            let probe = Probe { certificate_expires_at: expires_at, ..GOOD.clone() };
            let reading = ClockReading { wall_ms: at_s * 1_000, ..minute(0, 0) };
            let mut events = monitor.observe(reading, &probe);
            assert!(
                events.len() < 2 && events.iter().all(|event| event.kind() == AlertKind::Certificate),
                "{events:?}"
            );
            events.pop()
        };
        let expiring = |left_s| CertificateExpiry { at_s: 1_000, left_s, is_soon: true };
        assert_eq!(observe(&mut monitor, 900, Some(1_000)), None);
        assert_eq!(observe(&mut monitor, 901, Some(1_000)), Some(AlertEvent::CertificateExpiring(expiring(99))));
        assert_eq!(observe(&mut monitor, 902, Some(1_000)), None, "it is known");
        assert_eq!(observe(&mut monitor, 903, None), None, "without a handshake nothing is known");
        let renewed = CertificateExpiry { at_s: 2_000, left_s: 1_096, is_soon: false };
        assert_eq!(observe(&mut monitor, 904, Some(2_000)), Some(AlertEvent::CertificateRenewed(renewed)));

        let mut first = monitor_with(3, f64::INFINITY);
        let event = observe(&mut first, 1_010, Some(1_000));
        assert_eq!(event, Some(AlertEvent::CertificateExpiring(expiring(-10))), "at the first interval");
        let mut restarted = monitor_with(3, f64::INFINITY);
        restarted.set_reported(AlertKind::Certificate, true);
        assert_eq!(observe(&mut restarted, 990, Some(1_000)), None);
        restarted.set_limits(AlertLimits { certificate_within: Duration::ZERO, ..restarted.limits });
        assert_eq!(observe(&mut restarted, 0, Some(1_000)), None, "switched off");
    }
}
