//! Passive ejection: an upstream that fails requests is excluded for a time that doubles with each relapse.

use std::time::Duration;

use breme_base::Instant;

use crate::EjectionSettings;
use crate::changes::EjectionReason;
use crate::upstream::UpstreamTotals;

/// The maximum number of doublings.
const LEVEL_MAX: u32 = 31;

/// Failures of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    /// Ejected until then.
    pub(crate) until: Option<Instant>,
    /// Ejections so far.
    pub(crate) count: u64,
    /// Ejections that lengthen the next one.
    level: u32,
    returned: Instant,
    window: FailureWindow,
}

/// A window begins with the first failure outside of one, and records the totals at that time.
#[derive(Debug, Default)]
struct FailureWindow {
    end: Instant,
    conclusive: u64,
    failed: u64,
}

impl Ejection {
    /// Records a failed request, the `in_row`th in succession. Returns the reason for an ejection, if a limit is
    /// exceeded.
    pub(crate) fn check_limits(
        &mut self,
        now: Instant,
        in_row: u32,
        totals: UpstreamTotals,
        settings: &EjectionSettings,
    ) -> Option<EjectionReason> {
        let share = self.window.share(now, totals, settings);
        if self.until.is_some() {
            return None;
        }
        let is_row = settings.failures_in_row > 0 && in_row >= settings.failures_in_row;
        if is_row { Some(EjectionReason::FailuresInRow(in_row)) } else { share }
    }

    /// Ejects it. Returns the duration.
    pub(crate) fn eject(&mut self, now: Instant, settings: &EjectionSettings) -> Duration {
        let well = now.since(self.returned).as_nanos() / settings.base.as_nanos().max(1);
        let relapses = self.level.saturating_sub(u32::try_from(well).unwrap_or(u32::MAX));
        let duration = settings.base.saturating_mul(1 << relapses.min(LEVEL_MAX)).min(settings.max);
        self.level = (relapses + 1).min(LEVEL_MAX);
        self.until = Some(now + duration);
        self.count += 1;
        duration
    }

    /// Ends the ejection.
    pub(crate) fn restore(&mut self, now: Instant) {
        (self.until, self.returned, self.window) = (None, now, FailureWindow::default());
    }
}

impl FailureWindow {
    fn share(&mut self, now: Instant, totals: UpstreamTotals, settings: &EjectionSettings) -> Option<EjectionReason> {
        if settings.failure_percent == 0 {
            return None;
        }
        if now >= self.end {
            // The failure that opens the window belongs to it.
            let (conclusive, failed) = (totals.conclusive().saturating_sub(1), totals.failed().saturating_sub(1));
            *self = Self { end: now + settings.window, conclusive, failed };
        }
        let (of, failed) =
            (totals.conclusive().saturating_sub(self.conclusive), totals.failed().saturating_sub(self.failed));
        let is_too_much = of >= u64::from(settings.window_requests_min)
            && failed.saturating_mul(100) >= of.saturating_mul(u64::from(settings.failure_percent));
        is_too_much.then_some(EjectionReason::FailureShare { failed, of })
    }
}

/// How many of `count` upstreams may be ejected at once.
pub(crate) fn ejected_max(count: usize, settings: &EjectionSettings) -> usize {
    match settings.ejected_percent_max as usize {
        0 => 0,
        _ if count < 2 => 0,
        percent => (count * percent / 100).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn relapses_double_the_duration() {
        let settings = EjectionSettings {
            base: Duration::from_secs(10),
            max: Duration::from_secs(60),
            ..EjectionSettings::default()
        };
        let mut ejection = Ejection::default();
        let mut now = at(1_000);
        for seconds in [10, 20, 40, 60, 60] {
            assert_eq!(ejection.eject(now, &settings), Duration::from_secs(seconds));
            now = ejection.until.unwrap();
            ejection.restore(now);
        }
        assert_eq!(ejection.count, 5);
        // Healthy for four times the base: of five doublings one is left.
        now = now + Duration::from_secs(40);
        assert_eq!(ejection.eject(now, &settings), Duration::from_secs(20));
        ejection.restore(now);
        assert_eq!(ejection.eject(now + Duration::from_secs(9_999), &settings), Duration::from_secs(10));
    }

    #[test]
    fn ejects_on_consecutive_failures() {
        let settings = EjectionSettings { failures_in_row: 3, ..EjectionSettings::default() };
        let (mut ejection, totals) = (Ejection::default(), UpstreamTotals::default());
        assert_eq!(ejection.check_limits(at(1), 2, totals, &settings), None);
        assert_eq!(ejection.check_limits(at(1), 3, totals, &settings), Some(EjectionReason::FailuresInRow(3)));
        ejection.eject(at(1), &settings);
        assert_eq!(ejection.check_limits(at(2), 4, totals, &settings), None);
    }

    #[test]
    fn ejects_on_failure_share_in_window() {
        let settings = EjectionSettings {
            failures_in_row: 0,
            failure_percent: 50,
            window: Duration::from_secs(10),
            window_requests_min: 4,
            ..EjectionSettings::default()
        };
        let totals =
            |responded, connection_lost| UpstreamTotals { responded, connection_lost, ..UpstreamTotals::default() };
        let mut ejection = Ejection::default();
        assert_eq!(
            ejection.check_limits(at(1), 1, totals(1_000, 1), &settings),
            None,
            "what was before does not count"
        );
        assert_eq!(ejection.check_limits(at(2), 1, totals(1_001, 2), &settings), None, "two of three");
        let share = Some(EjectionReason::FailureShare { failed: 3, of: 4 });
        assert_eq!(ejection.check_limits(at(3), 2, totals(1_001, 3), &settings), share);
        assert_eq!(ejection.check_limits(at(11), 1, totals(1_001, 4), &settings), None, "a new window");
        assert_eq!(ejection.check_limits(at(12), 1, totals(1_010, 5), &settings), None, "two of eleven");
    }

    #[test]
    fn failure_share_is_reached_at_exactly_its_percentage() {
        let settings = EjectionSettings {
            failures_in_row: 0,
            failure_percent: 30,
            window: Duration::from_secs(10),
            window_requests_min: 10,
            ..EjectionSettings::default()
        };
        let is_ejected = |failed, of| {
            let mut ejection = Ejection::default();
            let totals =
                |connection_lost, responded| UpstreamTotals { connection_lost, responded, ..UpstreamTotals::default() };
            ejection.check_limits(at(1), 1, totals(1, 0), &settings);
            let share = Some(EjectionReason::FailureShare { failed, of });
            ejection.check_limits(at(2), 1, totals(failed, of - failed), &settings) == share
        };
        assert!(is_ejected(3, 10) && is_ejected(300, 1_000));
        assert!(
            !is_ejected(2, 10) && !is_ejected(299, 1_000) && !is_ejected(3, 9),
            "a smaller share, too few requests"
        );
    }

    #[test]
    fn ejected_share_is_bounded() {
        let max = |count, percent| {
            ejected_max(count, &EjectionSettings { ejected_percent_max: percent, ..EjectionSettings::default() })
        };
        assert_eq!([max(1, 50), max(2, 50), max(3, 50), max(10, 50), max(10, 100)], [0, 1, 1, 5, 10]);
        assert_eq!([max(3, 10), max(30, 10), max(3, 0)], [1, 3, 0]);
    }
}
