//! The faults of a trial: when each is due, and which have been injected.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use breme_experiment::record::FaultRecord;
use breme_experiment::trial::{Fault, TrialSpec};
use breme_stats::log::Reader;

/// The log rounds its start; no fault may come early.
const LOG_RESOLUTION: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Faults<'a> {
    left: &'a [Fault],
    /// Start of the first load, and its warm-up: faults are timed from the end of that.
    load: Option<(LoadStart, Duration)>,
    injected: Vec<Injected<'a>>,
}

/// What is known of the start of a load when its generator has been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadStart {
    At(Instant),
    /// In the head of this log: on a busy machine a generator can need longer to start than the first fault leaves.
    InLog(PathBuf),
}

#[derive(Debug)]
struct Injected<'a> {
    fault: &'a Fault,
    processes: u32,
    /// On the monotonic clock.
    at_ns: u64,
}

impl<'a> Faults<'a> {
    pub(super) fn new(trial: &'a TrialSpec) -> Self {
        Self { left: &trial.faults, load: None, injected: Vec::new() }
    }

    /// The measured part begins after the warm-up of the first load that is started.
    pub(super) fn begin(&mut self, start: LoadStart, warm_up: Duration) {
        self.load.get_or_insert((start, warm_up));
    }

    /// Time until the next fault; none if there is none, or if the load has not begun.
    pub(super) fn next_in(&self) -> Option<Duration> {
        let Some((LoadStart::At(start), warm_up)) = &self.load else { return None };
        Some((*start + *warm_up + self.left.first()?.at).saturating_duration_since(Instant::now()))
    }

    /// Removes the next fault if it is due.
    pub(super) fn take_due(&mut self) -> Option<&'a Fault> {
        if let Some((start, _)) = &mut self.load
            && !self.left.is_empty()
        {
            start.find();
        }
        self.next_in().filter(Duration::is_zero)?;
        let (next, left) = self.left.split_first()?;
        self.left = left;
        Some(next)
    }

    pub(super) fn note(&mut self, fault: &'a Fault, processes: u32, at_ns: u64) {
        self.injected.push(Injected { fault, processes, at_ns });
    }

    /// When the first fault was injected, on the monotonic clock.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.injected.first().map(|first| first.at_ns)
    }

    /// The injected faults, relative to a load that began at `started_ns`.
    pub(super) fn records(&self, started_ns: u64) -> Vec<FaultRecord> {
        let record = |Injected { fault, processes, at_ns }: &Injected<'_>| FaultRecord {
            action: fault.action,
            subject: fault.subject.clone(),
            process: fault.process.clone(),
            processes: *processes,
            planned_s: fault.at.as_secs_f64(),
            at_s: (*at_ns as f64 - started_ns as f64) / 1e9,
        };
        self.injected.iter().map(record).collect()
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

impl LoadStart {
    /// Reads the start from the log, if that has begun.
    fn find(&mut self) {
        if let Self::InLog(log) = self
            && let Some(start) = logged_start(log)
        {
            *self = Self::At(start);
        }
    }
}

fn logged_start(log: &Path) -> Option<Instant> {
    let mut reader = Reader::new(BufReader::new(File::open(log).ok()?)).only(&[]);
    // The start is known at the first interval, which may not be complete yet.
    let _ = reader.next();
    let since_epoch = reader.started()? + LOG_RESOLUTION;
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH + since_epoch).unwrap_or_default();
    Instant::now().checked_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use breme_experiment::trial::FaultAction;

    use super::*;

    fn fault(action: FaultAction, at_s: u64) -> Fault {
        Fault { action, subject: "site".to_owned(), process: None, at: Duration::from_secs(at_s) }
    }

    #[test]
    fn faults_are_due_in_the_window_one_after_another() {
        let all = [fault(FaultAction::Freeze, 0), fault(FaultAction::Thaw, 3600)];
        let mut faults = Faults { left: &all, load: None, injected: Vec::new() };
        assert_eq!((faults.next_in(), faults.take_due()), (None, None), "no load has begun");
        faults.begin(LoadStart::At(Instant::now()), Duration::ZERO);
        faults.begin(LoadStart::At(Instant::now()), Duration::from_secs(50));
        assert_eq!(faults.take_due(), Some(&all[0]));
        faults.note(&all[0], 3, 7_000_000_000);
        assert_eq!(faults.take_due(), None);
        assert!(faults.next_in().unwrap() > Duration::from_secs(3000));
        assert_eq!(faults.first_ns(), Some(7_000_000_000));
        let [record] = &faults.records(5_000_000_000)[..] else { panic!() };
        assert_eq!((record.action, record.processes, record.at_s), (FaultAction::Freeze, 3, 2.0));
        assert!(faults.missed().unwrap().contains("`thaw site` at 3600s"), "{:?}", faults.missed());
    }

    #[test]
    fn a_load_begins_when_its_log_says() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("users.hlog");
        let all = [fault(FaultAction::Kill, 3600)];
        let mut faults = Faults { left: &all, load: None, injected: Vec::new() };
        faults.begin(LoadStart::InLog(log.clone()), Duration::from_secs(100));
        for absent in [None, Some(""), Some("#[Histogram log format version 1.3]\n#[StartTime: 17000")] {
            absent.inspect(|head| fs::write(&log, head).unwrap());
            assert_eq!((faults.take_due(), faults.next_in()), (None, None), "{absent:?}");
        }
        breme_stats::log::write(&mut File::create(&log).unwrap(), SystemTime::now() - Duration::from_secs(600), [])
            .unwrap();
        assert_eq!(faults.take_due(), None);
        let left = faults.next_in().unwrap().as_secs_f64();
        assert!(
            (3000.0..=3100.002).contains(&left),
            "3600 s after the warm-up of 100 s, of which 600 s are over: {left}"
        );
        fs::write(&log, "").unwrap();
        assert!(faults.next_in().is_some(), "known from then on");
    }
}
