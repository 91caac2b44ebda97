//! The loop of a watch: each interval measures all targets and is durable before the next one begins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use breme_admin::push::{MetricsExporter, ProblemReports, Protocol, Receiver as PushReceiver};
use breme_admin::{Admin, AdminListener, AdminToken, Api, ProcessMetrics, Readiness, application_registry};
use breme_command::failure::{AGAINST, Failure, NO_VERDICT};
use breme_command::server::ListenPlace;
use breme_driver::Clock;
use breme_load_command::{Cancellation, Measurement};
use breme_watch::history::{RECENT_MAX, TargetHistory, for_each_interval};
use breme_watch::journal::{Journal, JournalError};
use breme_watch::objective::{Compliance, ObjectiveMonitor};
use breme_watch::record::{ClockReading, IntervalRecord};
use breme_watch::{Destination, File, WATCH_FILE_BYTES_MAX, WatchTarget, text};
use jiff::tz::TimeZone;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::alerts::Alerts;
use super::arguments::WatchArgs;
use super::journal_folder::JournalFolder;
use super::pages::AdminPages;
use super::prober::{ProbeResult, Prober};
use super::status::{Status, WatchMetrics};

/// Part of an interval that is left for writing it: one in this many. An interval that ends late costs the next one.
const WRITING_PART: u32 = 10;
/// A lasting problem is printed once in this many intervals.
const REPORT_EVERY: u64 = 100;

pub(super) fn watch(args: &WatchArgs, path: &Path) -> Result<ExitCode, Failure> {
    let process = ProcessMetrics::starting_now();
    let file = read(path)?;
    let zone = text::zone(file.time_zone.as_deref()).map_err(Failure::usage)?;
    let folder_path = args.journal.clone().unwrap_or_else(|| path.with_extension("watch"));
    let folder = JournalFolder::open_write(&folder_path)?;
    let failed =
        |error: JournalError| Failure::run(format!("the journal {} cannot be opened: {error}", folder_path.display()));
    let interval_ms = u64::try_from(file.interval.as_millis()).unwrap_or(u64::MAX);
    let intervals = folder.intervals()?;
    let journal = Journal::open(folder, file.retention, intervals, interval_ms).map_err(failed)?;
    let probers = probers(&file, &journal)?;
    let monitors = monitors(&file, &probers, &journal).map_err(failed)?;
    let status = Status::new(file.targets.iter().map(|target| target.name.clone()));
    let stop = Arc::new(Cancellation::default());
    let stopped = catch_signals(Arc::clone(&stop))?;
    let admin = start_admin(args, process, &status, &folder_path)?;
    let webhook = receiver("alert.webhook", file.alert.webhook.as_ref())?;
    let alerts = Alerts::start(webhook, file.alert.file.clone())?;
    let metrics =
        || application_registry("watch", ProcessMetrics::starting_now(), [Box::new(WatchMetrics(status.clone()))]);
    let mut exporters = Vec::new();
    for (protocol, key, destination) in
        [(Protocol::RemoteWrite, "remote_write", &file.remote_write), (Protocol::Otlp, "otlp", &file.otlp)]
    {
        if let Some(receiver) = receiver(key, destination.as_ref())? {
            let reports = ProblemReports::Immediate;
            exporters.push(MetricsExporter::start("watch", protocol, receiver, metrics(), reports)?);
        }
    }
    let mut watch = WatchLoop {
        file: &file,
        zone,
        probers,
        monitors,
        journal,
        status,
        stop,
        alerts,
        exporters,
        problems: BTreeMap::new(),
    };
    watch.announce(&folder_path);
    watch.run(&stopped, args.length);
    let code = watch.conclude(args.length.is_some());
    admin.into_iter().for_each(Admin::end);
    Ok(code)
}

fn read(path: &Path) -> Result<File, Failure> {
    let failed = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let bytes = breme_sys::read_bounded(path, WATCH_FILE_BYTES_MAX)
        .map_err(|error| failed(format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(String::from("it is not UTF-8, as TOML must be")))?;
    File::parse(&text, check).map_err(|problems| failed(format!("\n{problems}")))
}

/// Checks that a measurement fits into the interval.
fn check(target: &WatchTarget, file: &File) -> Result<(), String> {
    let measurement = Measurement::new(&target.load).map_err(|failure| failure.message)?;
    match measurement.longest() {
        Some(longest) if longest <= file.interval => Ok(()),
        Some(longest) => Err(format!(
            "a measurement with its time limit takes up to {} s, and an interval has {} s; use a longer interval, a \
             shorter duration or a shorter timeout",
            longest.as_secs_f64(),
            file.interval.as_secs_f64()
        )),
        None => Err(String::from(
            "several requests one after another have no time limit together; add a duration to the load",
        )),
    }
}

fn receiver(key: &str, destination: Option<&Destination>) -> Result<Option<PushReceiver>, Failure> {
    let Some(Destination { url, auth_file }) = destination else { return Ok(None) };
    let receiver = PushReceiver::new(url.clone(), auth_file.as_ref().map(PathBuf::from));
    receiver.map(Some).map_err(|problem| Failure::run(format!("{key}_auth_file {problem}")))
}

fn probers(file: &File, journal: &Journal<JournalFolder>) -> Result<Vec<Prober>, Failure> {
    // The journal assigns the indexes of targets.
    let loads: Vec<u64> = file
        .targets
        .iter()
        .map(|target| Ok(Measurement::new(&target.load)?.connections() as u64))
        .collect::<Result<_, Failure>>()?;
    let info = journal.storage().update_info(file, &loads, journal.intervals())?;
    let number = |target: &WatchTarget| info.targets.iter().position(|known| known.name == target.name).unwrap_or(0);
    let prober =
        |target: &WatchTarget| Prober::new(u32::try_from(number(target)).unwrap_or(u32::MAX), target, file.objective);
    let probers: Vec<Prober> = file.targets.iter().map(prober).collect::<Result<_, Failure>>()?;
    // All targets are measured at the same time.
    let descriptors = probers.iter().map(Prober::descriptors).sum::<Result<u64, Failure>>()?;
    breme_sys::ensure_descriptor_limit(descriptors).map_err(Failure::run)?;
    Ok(probers)
}

/// With the state in which the previous watch ended: its alerts were sent.
fn monitors(
    file: &File,
    probers: &[Prober],
    journal: &Journal<JournalFolder>,
) -> Result<Vec<ObjectiveMonitor>, JournalError> {
    let alert = &file.alert;
    let monitor = |_: &Prober| ObjectiveMonitor::new(file.objective.availability, alert.down_after, alert.burn_rate);
    let mut monitors: Vec<ObjectiveMonitor> = probers.iter().map(monitor).collect();
    let last = journal.last().map_or(0, |(number, _)| number);
    // At least an hour, for the burn rate, and as many intervals as a target needs to be down.
    let after = last.saturating_sub(alert.down_after.max(RECENT_MAX as u64));
    for_each_interval(journal.storage(), after, |interval| {
        for (prober, monitor) in probers.iter().zip(&mut monitors) {
            let probe = interval.probes.iter().find(|probe| probe.target == prober.number());
            probe.into_iter().for_each(|probe| drop(monitor.observe(interval.reading(), &probe.counts)));
        }
    })?;
    Ok(monitors)
}

/// The first signal ends the watch. The interval in progress is dropped.
fn catch_signals(stop: Arc<Cancellation>) -> Result<Receiver<()>, Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("cannot catch signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (sender, receiver) = channel();
    let wait = move || {
        if signals.forever().next().is_some() {
            stop.set();
            let _ = sender.send(()); // fails if --for has ended the watch
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(receiver)
}

fn start_admin(
    args: &WatchArgs,
    process: ProcessMetrics,
    status: &Status,
    journal: &Path,
) -> Result<Option<Admin>, Failure> {
    let Some(listener) = args.process.admin()?.map(AdminListener::bind).transpose()? else { return Ok(None) };
    breme_base::output_line!("admin on {}", ListenPlace::plain(listener.address().clone()));
    let registry = application_registry("watch", process, [Box::new(WatchMetrics(status.clone()))]);
    let token = AdminToken::from_file("", None).map_err(Failure::run)?;
    let pages = AdminPages::new(journal.to_owned());
    let api = Some((Box::new(pages) as Box<dyn Api>, token));
    Ok(Some(listener.start(Clock::start(), args.process.cpus(), registry, Readiness::default(), api)?))
}

struct WatchLoop<'a> {
    file: &'a File,
    zone: TimeZone,
    probers: Vec<Prober>,
    monitors: Vec<ObjectiveMonitor>,
    journal: Journal<JournalFolder>,
    status: Status,
    stop: Arc<Cancellation>,
    alerts: Alerts,
    exporters: Vec<MetricsExporter>,
    /// Problems of the previous interval, and how many intervals they have lasted.
    problems: BTreeMap<String, u64>,
}

impl WatchLoop<'_> {
    fn announce(&self, folder: &Path) {
        let targets = breme_base::plural(self.probers.len() as u64, "target");
        let interval = self.file.interval.as_secs_f64();
        breme_base::output_line!("watching {targets} every {interval} s, journal in {}", folder.display());
        if let Some((number, _)) = self.journal.last() {
            breme_base::error_line!("breme watch: the journal continues after interval {number}");
        }
    }

    /// Intervals begin at multiples of their length; missed ones are skipped.
    fn run(&mut self, stopped: &Receiver<()>, length: Option<Duration>) {
        let started = Instant::now();
        let mut next = started;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) || self.stop.is_set() {
                return;
            }
            if length.is_some_and(|length| next.duration_since(started) >= length) {
                return;
            }
            self.measure(next + self.file.interval - self.file.interval / WRITING_PART);
            let passed = started.elapsed().as_nanos() / self.file.interval.as_nanos().max(1);
            next = started + self.file.interval * u32::try_from(passed + 1).unwrap_or(u32::MAX);
        }
    }

    /// All targets, with metrics until the `deadline`.
    fn measure(&mut self, deadline: Instant) {
        let reading = now();
        let (stop, probers) = (&self.stop, &self.probers);
        let results: Vec<ProbeResult> = std::thread::scope(|scope| {
            let probe = |prober| scope.spawn(move || Prober::probe(prober, stop, deadline));
            let threads: Vec<_> = probers.iter().map(probe).collect();
            let ended = threads.into_iter().zip(probers);
            ended.map(|(thread, prober)| thread.join().unwrap_or_else(|_| prober.unknown())).collect()
        });
        self.stop.clear();
        if self.stop.is_set() {
            return;
        }
        let (probes, problems): (Vec<_>, Vec<_>) =
            results.into_iter().map(|result| (result.probe, result.problems)).unzip();
        let mut problems: Vec<String> = problems.into_iter().flatten().collect();
        match self.journal.append(reading, probes) {
            Ok(interval) => {
                self.observe(&interval);
                problems.extend(self.exporters.iter().filter_map(|exporter| exporter.send(interval.wall_ms)));
            }
            Err(error) => problems.push(format!("this interval is lost: {error}; check the disk of the journal")),
        }
        self.report(problems);
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

    fn observe(&mut self, interval: &IntervalRecord) {
        let time = text::time(interval.wall_ms, &self.zone);
        let mut status = self.status.lock();
        for (probe, (monitor, status)) in interval.probes.iter().zip(self.monitors.iter_mut().zip(status.iter_mut())) {
            status.take(probe);
            for event in monitor.observe(interval.reading(), &probe.counts) {
                self.alerts.raise(&status.name, &time, &event, probe.cause.as_deref());
            }
            (status.is_down, status.burn_rate) = (monitor.is_down(), monitor.burn_rate());
        }
    }

    /// Prints a line per target; derives the exit status.
    fn conclude(&self, is_gate: bool) -> ExitCode {
        let mut worst = 0;
        for target in self.status.lock().iter() {
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
