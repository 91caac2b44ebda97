//! The loop of a watch: each interval measures all targets, and is durable before the next one begins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use breme_admin::push::{MetricsExporter, ProblemReports, Protocol, Receiver as PushReceiver};
use breme_admin::{
    Admin, AdminListener, AdminToken, Api, Maintenance, ProcessMetrics, Readiness, ReloadStatus, application_registry,
};
use breme_command::failure::{AGAINST, Failure, NO_VERDICT};
use breme_command::server::ListenPlace;
use breme_driver::Clock;
use breme_load_command::Cancellation;
use breme_watch::history::{JournalInfo, RECENT_MAX, TargetHistory, for_each_interval};
use breme_watch::journal::{Journal, JournalError};
use breme_watch::objective::{AlertKind, AlertLimits, Compliance, ObjectiveMonitor};
use breme_watch::record::{ClockReading, Probe};
use breme_watch::{Destination, File, WatchTarget, text};
use jiff::tz::TimeZone;
use prometheus_client::collector::Collector;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::alerts::Alerts;
use crate::arguments::WatchArgs;
use crate::journal_folder::JournalFolder;
use crate::pages::AdminPages;
use crate::preparation::Preparation;
use crate::prober::{Deadlines, ProbeResult, Prober};
use crate::status::{Status, WatchMetrics};

/// Part of an interval that is left for writing it: one in this many. An interval that ends later costs the next one.
const WRITING_PART: u32 = 10;
/// Part of an interval, one in this many, by which a measurement may be late.
const LATE_PART: u32 = 20;
/// A lasting problem is printed once in this many intervals.
const REPORT_EVERY: u64 = 100;

pub(crate) fn watch(args: &WatchArgs, path: &Path) -> Result<ExitCode, Failure> {
    let process = ProcessMetrics::starting_now();
    let prepared = Preparation::read(path)?;
    let folder_path = args.journal.clone().unwrap_or_else(|| path.with_extension("watch"));
    let folder = JournalFolder::open_write(&folder_path)?;
    let failed =
        |error: JournalError| Failure::run(format!("the journal {} cannot be opened: {error}", folder_path.display()));
    let intervals = folder.intervals()?;
    let alerts_file = folder.alerts_file();
    let journal = Journal::open(folder, prepared.file.retention, intervals, prepared.interval_ms()).map_err(failed)?;
    let info = journal.storage().info_of(&prepared.file, &prepared.connections())?;
    journal.storage().write_info(info.clone(), journal.intervals().clone())?;
    let (sender, events) = channel();
    let stop = Arc::new(Cancellation::default());
    catch_signals(Arc::clone(&stop), sender.clone())?;
    let status = Status::default();
    let (readiness, reloads) = (Readiness::default(), ReloadStatus::default());
    let server = AdminServer { process, status: &status, readiness: &readiness, reloads: &reloads };
    let admin = server.start(args, &folder_path)?;
    let mut watch = WatchLoop {
        path: path.to_owned(),
        file: prepared.file.clone(),
        zone: prepared.zone.clone(),
        targets: Vec::new(),
        alerts: Alerts::start(alerts_file)?,
        exporters: Vec::new(),
        journal,
        status,
        readiness,
        reloads,
        stop,
        sender,
        events,
        wants_reload: false,
        lost: 0,
        problems: BTreeMap::new(),
    };
    watch.apply(prepared, &info)?;
    watch.resume().map_err(failed)?;
    watch.announce(&folder_path);
    watch.run(args.length);
    let code = watch.conclude(args.length.is_some());
    admin.into_iter().for_each(Admin::end);
    Ok(code)
}

/// What the loop waits for.
#[derive(Debug)]
enum Event {
    Stop,
    Reload,
    Measured {
        /// The interval, by its start.
        begun: Instant,
        /// Index of the target in the watch file.
        index: usize,
        result: Box<ProbeResult>,
    },
}

/// The first SIGINT or SIGTERM ends the watch. The interval in progress is dropped.
fn catch_signals(stop: Arc<Cancellation>, events: Sender<Event>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("cannot catch signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let wait = move || {
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Stop };
            if matches!(event, Event::Stop) {
                stop.set();
            }
            let _ = events.send(event); // fails if --for has ended the watch
        }
    };
    Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// How waiting for an interval ends.
enum Wait {
    Due,
    Reload,
    Ended,
}

/// What `--admin` shows.
struct AdminServer<'a> {
    process: ProcessMetrics,
    status: &'a Status,
    readiness: &'a Readiness,
    reloads: &'a ReloadStatus,
}

impl AdminServer<'_> {
    fn start(self, args: &WatchArgs, journal: &Path) -> Result<Option<Admin>, Failure> {
        let Some(listener) = args.process.admin()?.map(AdminListener::bind).transpose()? else { return Ok(None) };
        breme_base::output_line!("admin on {}", ListenPlace::plain(listener.address().clone()));
        let maintenance = Maintenance { reloads: self.reloads.clone(), ..Maintenance::default() };
        let own: [Box<dyn Collector>; 2] = [Box::new(WatchMetrics(self.status.clone())), Box::new(maintenance)];
        let registry = application_registry("watch", self.process, own);
        let token = AdminToken::from_file("", None).map_err(Failure::run)?;
        let pages = AdminPages::start(journal.to_owned(), self.status.clone())?;
        let api = Some((Box::new(pages) as Box<dyn Api>, token));
        let started = listener.start(Clock::start(), args.process.cpus(), registry, self.readiness.clone(), api)?;
        Ok(Some(started))
    }
}

/// A target of the watch file.
struct Target {
    prober: Arc<Prober>,
    monitor: ObjectiveMonitor,
}

/// Where the metrics of each interval go.
struct Export {
    protocol: Protocol,
    destination: Option<Destination>,
    exporter: MetricsExporter,
}

struct WatchLoop {
    path: PathBuf,
    file: File,
    zone: TimeZone,
    /// In the order of the file.
    targets: Vec<Target>,
    alerts: Alerts,
    exporters: Vec<Export>,
    journal: Journal<JournalFolder>,
    status: Status,
    readiness: Readiness,
    reloads: ReloadStatus,
    stop: Arc<Cancellation>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    wants_reload: bool,
    /// Intervals in a row that the journal could not store.
    lost: u64,
    /// Problems of the previous interval, and how many intervals they have lasted.
    problems: BTreeMap<String, u64>,
}

impl WatchLoop {
    fn announce(&self, folder: &Path) {
        breme_base::output_line!("watching {}, journal in {}", self.extent(), folder.display());
        if let Some((number, _)) = self.journal.last() {
            breme_base::error_line!("breme watch: the journal continues after interval {number}");
        }
    }

    fn extent(&self) -> String {
        let targets = breme_base::plural(self.targets.len() as u64, "target");
        format!("{targets} every {} s", self.file.interval.as_secs_f64())
    }

    /// Reads the file again. An invalid one changes nothing.
    fn reload(&mut self) {
        let reloaded = Preparation::read(&self.path).and_then(|prepared| {
            let info = self.journal.storage().info_of(&prepared.file, &prepared.connections())?;
            let intervals = self.journal.intervals_with(prepared.interval_ms());
            self.journal.storage().write_info(info.clone(), intervals)?;
            self.apply(prepared, &info)
        });
        self.reloads.record(reloaded.is_ok());
        match reloaded {
            Ok(()) => breme_base::error_line!("breme watch: reloaded {}: {}", self.path.display(), self.extent()),
            Err(failure) => breme_base::error_line!("breme watch: {}\nkeeping the old settings", failure.message),
        }
    }

    /// Uses a file. Targets that it had before keep their state.
    fn apply(&mut self, prepared: Preparation, info: &JournalInfo) -> Result<(), Failure> {
        let interval_ms = prepared.interval_ms();
        let Preparation { file, zone, measurements, authorizations, webhook, receivers } = prepared;
        let exporters = self.exporters(&file, receivers)?;
        let mut old: BTreeMap<String, (WatchTarget, Target)> = std::mem::take(&mut self.file.targets)
            .into_iter()
            .zip(std::mem::take(&mut self.targets))
            .map(|(written, target)| (written.name.clone(), (written, target)))
            .collect();
        for ((written, measurement), authorization) in file.targets.iter().zip(measurements).zip(authorizations) {
            let (known, monitor) =
                old.remove(&written.name).map(|(was, target)| ((was, target.prober), target.monitor)).unzip();
            let is_same = |was: &WatchTarget| was.is_same(written) && self.file.objective == file.objective;
            let number = info.targets.iter().position(|known| known.name == written.name).unwrap_or(0);
            let prober = match known.filter(|(was, _)| is_same(was)) {
                Some((_, prober)) => {
                    prober.replace_measurement(measurement);
                    prober
                }
                None => {
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    Arc::new(Prober::new(number, written, measurement, authorization, file.objective))
                }
            };
            let limits = AlertLimits::from_file(&file);
            let mut monitor = monitor.unwrap_or_else(|| ObjectiveMonitor::new(limits));
            monitor.set_limits(limits);
            self.targets.push(Target { prober, monitor });
        }
        let names: Vec<&str> = file.targets.iter().map(|target| target.name.as_str()).collect();
        self.status.set_targets(names.iter().copied());
        self.alerts.configure(webhook, file.alert.file.clone(), &names);
        self.journal.change(file.retention, interval_ms);
        (self.file, self.zone, self.exporters) = (file, zone, exporters);
        Ok(())
    }

    /// Keeps those whose destination is the same.
    fn exporters(&mut self, file: &File, receivers: Vec<(Protocol, PushReceiver)>) -> Result<Vec<Export>, Failure> {
        let destination = |protocol| match protocol {
            Protocol::RemoteWrite => file.remote_write.clone(),
            Protocol::Otlp => file.otlp.clone(),
        };
        let mut new = Vec::new();
        for (protocol, receiver) in receivers {
            let destination = destination(protocol);
            let is_same = |old: &Export| (old.protocol, &old.destination) == (protocol, &destination);
            if self.exporters.iter().any(is_same) {
                continue;
            }
            let metrics = WatchMetrics(self.status.clone());
            let registry = application_registry("watch", ProcessMetrics::starting_now(), [Box::new(metrics)]);
            let exporter = MetricsExporter::start("watch", protocol, receiver, registry, ProblemReports::Immediate)?;
            new.push(Export { protocol, destination, exporter });
        }
        let (kept, ended): (Vec<Export>, Vec<Export>) = std::mem::take(&mut self.exporters)
            .into_iter()
            .partition(|old| old.destination == destination(old.protocol));
        if !ended.is_empty() {
            // They first send what they have queued: here, if a thread cannot be started.
            drop(Builder::new().name("exports".to_owned()).spawn(move || drop(ended)));
        }
        new.extend(kept);
        Ok(new)
    }

    /// Continues with the state in which the previous watch ended. Alerts tell more of it than the journal, which may
    /// have lost intervals, and was judged by other limits; the next interval raises what they lack.
    fn resume(&mut self) -> Result<(), JournalError> {
        let last = self.journal.last().map_or(0, |(number, _)| number);
        // At least an hour, for the burn rate, and as many intervals as a target needs to be down.
        let after = last.saturating_sub(self.file.alert.down_after.max(RECENT_MAX as u64));
        let targets = &mut self.targets;
        for_each_interval(self.journal.storage(), after, |interval| {
            for target in targets.iter_mut() {
                let number = target.prober.number();
                if let Some(probe) = interval.probes.iter().find(|probe| probe.target == number) {
                    drop(target.monitor.observe(interval.reading(), probe));
                }
            }
        })?;
        for (target, written) in self.targets.iter_mut().zip(&self.file.targets) {
            for kind in [AlertKind::Availability, AlertKind::BurnRate, AlertKind::Certificate] {
                let said = self.alerts.said_before(&written.name, kind);
                said.into_iter().for_each(|is_bad| target.monitor.set_reported(kind, is_bad));
            }
        }
        Ok(())
    }

    /// Intervals begin at multiples of their length; missed ones are skipped.
    fn run(&mut self, length: Option<Duration>) {
        let begun = Instant::now();
        let (mut started, mut next) = (begun, begun);
        loop {
            if std::mem::take(&mut self.wants_reload) {
                let before = self.file.interval;
                self.reload();
                if self.file.interval != before {
                    (started, next) = (Instant::now(), Instant::now());
                }
            }
            match self.wait_until(next) {
                Wait::Reload => self.wants_reload = true,
                Wait::Ended => return,
                Wait::Due if length.is_some_and(|length| next.duration_since(begun) >= length) => return,
                Wait::Due => {
                    let due = next_start(started, next, Instant::now(), self.file.interval);
                    if due > next {
                        next = due;
                        continue;
                    }
                    if !self.measure(next) {
                        return;
                    }
                    next = next_start(started, next + self.file.interval, Instant::now(), self.file.interval);
                }
            }
        }
    }

    fn wait_until(&self, time: Instant) -> Wait {
        loop {
            match self.events.recv_timeout(time.saturating_duration_since(Instant::now())) {
                Ok(Event::Reload) => return Wait::Reload,
                Ok(Event::Measured { .. }) => {} // too late
                Err(RecvTimeoutError::Timeout) if !self.stop.is_set() => return Wait::Due,
                _ => return Wait::Ended,
            }
        }
    }

    /// All targets. Those that have not ended when the interval has are unknown. False if the watch ends before that.
    fn measure(&mut self, begun: Instant) -> bool {
        let (reading, interval) = (now(), self.file.interval);
        let end = begun + interval;
        let deadlines = Deadlines { measurement: end, metrics: end - interval / WRITING_PART };
        for (index, target) in self.targets.iter().enumerate() {
            let events = self.sender.clone();
            target.prober.start(&self.stop, deadlines, move |result| {
                let _ = events.send(Event::Measured { begun, index, result: Box::new(result) }); // fails if the watch has ended
            });
        }
        let Some(results) = self.results(begun, end + interval / LATE_PART) else { return false };
        self.stop.clear();
        let (probes, problems): (Vec<_>, Vec<_>) =
            results.into_iter().map(|result| (result.probe, result.problems)).unzip();
        let mut problems: Vec<String> = problems.into_iter().flatten().collect();
        let stored = self.journal.append(reading, probes.clone());
        self.note_stored(stored.err());
        self.observe(reading, &probes);
        problems.extend(self.exporters.iter().filter_map(|export| export.exporter.send(reading.wall_ms)));
        self.report(problems);
        true
    }

    /// One per target; none if the watch ends.
    fn results(&mut self, of: Instant, deadline: Instant) -> Option<Vec<ProbeResult>> {
        let mut results: Vec<Option<ProbeResult>> = self.targets.iter().map(|_| None).collect();
        while results.iter().any(Option::is_none) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Measured { begun, index, result }) if begun == of => results[index] = Some(*result),
                Ok(Event::Measured { .. }) => {} // of an earlier interval
                Ok(Event::Reload) => self.wants_reload = true,
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        let late = "the measurement did not end with its interval";
        let complete = results.into_iter().zip(&self.targets);
        Some(complete.map(|(result, target)| result.unwrap_or_else(|| target.prober.unknown(late))).collect())
    }

    /// Reports when the journal begins to lose intervals, and when it no longer does.
    fn note_stored(&mut self, error: Option<JournalError>) {
        match error {
            None if self.lost == 0 => {}
            None => {
                let lost = breme_base::plural(self.lost, "interval");
                breme_base::error_line!("breme watch: the journal can be written again; {lost} lost");
                self.readiness.set_lack(None);
                self.lost = 0;
            }
            Some(error) => {
                if self.lost == 0 {
                    breme_base::error_line!(
                        "breme watch: intervals are lost from now on: {error}; check the disk of the journal"
                    );
                }
                self.lost += 1;
                self.readiness.set_lack(Some(format!("the journal cannot be written: {error}")));
            }
        }
    }

    /// Prints new problems, and lasting ones once in [`REPORT_EVERY`] intervals.
    fn report(&mut self, problems: Vec<String>) {
        let before = std::mem::take(&mut self.problems);
        for problem in problems {
            let lasted = before.get(&problem).map_or(0_u64, |lasted| lasted + 1);
            if lasted.is_multiple_of(REPORT_EVERY) {
                breme_base::error_line!("breme watch: {problem}");
            }
            self.problems.insert(problem, lasted);
        }
    }

    fn observe(&mut self, reading: ClockReading, probes: &[Probe]) {
        let mut raised = Vec::new();
        let mut status = self.status.lock();
        status.intervals += 1;
        status.lost += u64::from(self.lost > 0);
        for (probe, (target, status)) in probes.iter().zip(self.targets.iter_mut().zip(&mut status.targets)) {
            status.take(probe);
            let events = target.monitor.observe(reading, probe);
            raised.extend(events.into_iter().map(|event| (status.name.clone(), event, probe.cause.as_deref())));
            status.burn_rate = target.monitor.burn_rate();
        }
        drop(status); // a slow disk must not delay the metrics
        let time = text::time(reading.wall_ms, &self.zone);
        raised.iter().for_each(|(name, event, cause)| self.alerts.raise(name, &time, event, *cause));
    }

    /// Prints a line per target; derives the exit status.
    fn conclude(&self, is_gate: bool) -> ExitCode {
        let mut worst = 0;
        for target in &self.status.lock().targets {
            let mut history =
                TargetHistory { up: target.up, down: target.down, unknown: target.unknown, ..TargetHistory::default() };
            (history.counts.requests, history.counts.ok) = (target.requests, target.good);
            let compliance = Compliance::from_history(&history, self.file.objective.availability);
            let code = compliance.as_ref().map_or(NO_VERDICT, |it| if it.is_met { 0 } else { AGAINST });
            // A missed objective outweighs a target without measurements.
            worst = if worst == AGAINST || code == 0 { worst } else { code };
            let summary = compliance.map_or_else(
                || String::from("no up or down interval"),
                |compliance| {
                    format!(
                        "up in {} of {} intervals, {:.3} % of requests good: objective {}",
                        target.up,
                        target.up + target.down,
                        compliance.good * 100.0,
                        if compliance.is_met { "met" } else { "missed" }
                    )
                },
            );
            breme_base::output_line!("{}: {summary}", target.name);
        }
        ExitCode::from(if is_gate { worst } else { 0 })
    }
}

/// The next start of an interval, `earliest` or later; those are skipped that would begin more than a little late.
fn next_start(started: Instant, earliest: Instant, now: Instant, interval: Duration) -> Instant {
    let late = (now - started).saturating_sub(interval / WRITING_PART);
    let passed = late.as_nanos().div_ceil(interval.as_nanos().max(1));
    (started + interval * u32::try_from(passed).unwrap_or(u32::MAX)).max(earliest)
}

fn now() -> ClockReading {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = Duration::new(u64::try_from(boot.tv_sec).unwrap_or(0), u32::try_from(boot.tv_nsec).unwrap_or(0));
    ClockReading {
        wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        boot_ms: u64::try_from(boot.as_millis()).unwrap_or(u64::MAX),
        boot: boot_number(),
    }
}

/// From the kernel's random identifier of this boot.
fn boot_number() -> u16 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u16::from_str_radix(id.get(..4).unwrap_or_default(), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_ends_a_little_late_does_not_cost_the_next_one() {
        let (started, interval) = (Instant::now(), Duration::from_secs(10));
        let next = |earliest, millis| {
            let (earliest, now) = (started + interval * earliest, started + Duration::from_millis(millis));
            (next_start(started, earliest, now, interval) - started).as_secs()
        };
        assert_eq!([0, 1_000].map(|now| next(0, now)), [0; 2]);
        assert_eq!([0, 9_000, 10_000, 10_900].map(|now| next(1, now)), [10; 4]);
        assert_eq!([10_010, 20_900].map(|now| next(2, now)), [20; 2]);
        assert_eq!([11_001, 35_000].map(|now| next(1, now)), [20, 40], "missed ones are skipped");
    }
}
