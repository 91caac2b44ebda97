//! The faults of a trial: when each is due, and which have been injected.

use std::time::{Duration, Instant};

use breme_experiment::record::FaultRecord;
use breme_experiment::trial::{Fault, TrialSpec};

#[derive(Debug)]
pub(super) struct Faults<'a> {
    left: &'a [Fault],
    /// Start of the measured part, once the load has started.
    window: Option<Instant>,
    happened: Vec<Happened<'a>>,
}

#[derive(Debug)]
struct Happened<'a> {
    fault: &'a Fault,
    processes: u32,
    /// On the monotonic clock.
    at_ns: u64,
}

impl<'a> Faults<'a> {
    pub(super) fn new(trial: &'a TrialSpec) -> Self {
        Self { left: &trial.faults, window: None, happened: Vec::new() }
    }

    /// Sets the start of the measured part, as reported by the first load that does so.
    pub(super) fn begin(&mut self, window: Instant) {
        self.window.get_or_insert(window);
    }

    /// Time until the next fault; none if there is none.
    pub(super) fn next_in(&self) -> Option<Duration> {
        Some((self.window? + self.left.first()?.at).saturating_duration_since(Instant::now()))
    }

    /// Removes the next fault if it is due.
    pub(super) fn take_due(&mut self) -> Option<&'a Fault> {
        self.next_in().filter(Duration::is_zero)?;
        let (next, left) = self.left.split_first()?;
        self.left = left;
        Some(next)
    }

    pub(super) fn note(&mut self, fault: &'a Fault, processes: u32, at_ns: u64) {
        self.happened.push(Happened { fault, processes, at_ns });
    }

    /// When the first fault was injected, on the monotonic clock.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.happened.first().map(|first| first.at_ns)
    }

    /// The injected faults, relative to a load that began at `started_ns`.
    pub(super) fn records(&self, started_ns: u64) -> Vec<FaultRecord> {
        let record = |Happened { fault, processes, at_ns }: &Happened<'_>| FaultRecord {
            action: fault.action,
            subject: fault.subject.clone(),
            process: fault.process.clone(),
            processes: *processes,
            planned_s: fault.at.as_secs_f64(),
            at_s: (*at_ns as f64 - started_ns as f64) / 1e9,
        };
        self.happened.iter().map(record).collect()
    }

    /// Why the trial does not count, if a fault was missed.
    pub(super) fn missed(&self) -> Option<String> {
        let first = self.left.first()?;
        Some(format!(
            "the load ended before the fault `{first}` at {:?}; use a longer load, or an earlier time",
            first.at
        ))
    }
}

#[cfg(test)]
mod tests {
    use breme_experiment::trial::FaultAction;

    use super::*;

    fn fault(action: FaultAction, at_s: u64) -> Fault {
        Fault { action, subject: "site".to_owned(), process: None, at: Duration::from_secs(at_s) }
    }

    #[test]
    fn faults_are_due_in_the_window_one_after_another() {
        let all = [fault(FaultAction::Freeze, 0), fault(FaultAction::Thaw, 3600)];
        let mut faults = Faults { left: &all, window: None, happened: Vec::new() };
        assert_eq!((faults.next_in(), faults.take_due()), (None, None), "no load has begun");
        faults.begin(Instant::now());
        faults.begin(Instant::now() + Duration::from_secs(50));
        assert_eq!(faults.take_due(), Some(&all[0]));
        faults.note(&all[0], 3, 7_000_000_000);
        assert_eq!(faults.take_due(), None);
        assert!(faults.next_in().unwrap() > Duration::from_secs(3000));
        assert_eq!(faults.first_ns(), Some(7_000_000_000));
        let [record] = &faults.records(5_000_000_000)[..] else { panic!() };
        assert_eq!((record.action, record.processes, record.at_s), (FaultAction::Freeze, 3, 2.0));
        assert!(faults.missed().unwrap().contains("`thaw site` at 3600s"), "{:?}", faults.missed());
    }
}
