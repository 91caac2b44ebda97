//! What a journal shows, in each format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use breme_report::WatchPage;
use breme_stats::{Histogram, log};
use breme_watch::findings::{self, Finding};
use breme_watch::history::{About, AboutTarget, History, Point, TargetHistory, visit};
use breme_watch::objective::Compliance;
use breme_watch::{csv, sentences};
use clap::ValueEnum;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::ReportArgs;
use super::folder::Folder;
use super::watching::zone;
use crate::failure::Failure;

/// The formats of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Findings, for a terminal.
    Text,
    /// One file with charts, readable offline.
    Html,
    /// Totals, outages and findings.
    Json,
    /// A row per interval, minute or hour, and target.
    Csv,
    /// HdrHistogram log: a histogram per interval, minute or hour, and target.
    Hlog,
}

/// What a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Per {
    /// Every interval that is kept.
    Interval,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// A journal that was read.
pub(super) struct Shown {
    folder: Folder,
    about: About,
    history: History,
    zone: TimeZone,
}

impl Shown {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let folder = Folder::of_reader(path)?;
        let about = folder.about()?;
        let failed = |error| Failure::run(format!("{}: {error}", path.display()));
        let history = History::read(&folder).map_err(failed)?;
        let zone = zone(Some(&about.time_zone))?;
        Ok(Self { folder, about, history, zone })
    }

    fn targets(&self) -> impl Iterator<Item = (&AboutTarget, &TargetHistory)> {
        let about = |number: &u32| self.about.targets.get(usize::try_from(*number).ok()?);
        self.history.targets.iter().filter_map(move |(number, target)| Some((about(number)?, target)))
    }
}

pub(super) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let shown = Shown::read(&args.journal)?;
    let write_to = |out: &mut dyn Write| match args.format {
        Format::Text => out.write_all(text(&shown).as_bytes()),
        Format::Html => out.write_all(html(&shown, None).as_bytes()),
        Format::Json => writeln!(out, "{:#}", document(&shown)),
        Format::Csv => write_csv(&shown, args.per, out),
        Format::Hlog => write_hlog(&shown, args.per, out),
    };
    match &args.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match write_to(&mut out).and_then(|()| out.flush()) {
                // A reader that has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(|error| Failure::run(format!("standard output cannot be written: {error}"))),
            }
        }
        Some(path) => {
            let failed = |error| Failure::run(format!("{}: {error}", path.display()));
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write_to(&mut file).and_then(|()| file.flush()).map_err(failed)
        }
    }
}

fn text(shown: &Shown) -> String {
    let Shown { history, zone, about, .. } = shown;
    let mut lines = vec![format!(
        "{} to {}, {}",
        sentences::time(history.from_ms, zone),
        sentences::time(history.to_ms, zone),
        breme_base::plural(history.last, "interval")
    )];
    lines.extend(sentences::gaps(history));
    for (of, target) in shown.targets() {
        lines.extend([String::new(), format!("{} ({})", of.name, of.url)]);
        lines.push(sentences::availability(target, about.availability));
        lines.push(sentences::response_times(target));
        lines.extend(
            target.outages.iter().rev().take(OUTAGES_IN_TEXT_MAX).rev().map(|one| sentences::outage(one, zone)),
        );
        lines.extend(target.open.iter().map(|open| sentences::open_outage(open, zone)));
        lines.extend(findings::of(target, zone).iter().map(|one| sentences::finding(one, zone)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The latest outages in the text; all are in the other formats.
const OUTAGES_IN_TEXT_MAX: usize = 20;

pub(super) fn html(shown: &Shown, reload_s: Option<u32>) -> String {
    let page = WatchPage { about: &shown.about, history: &shown.history, zone: &shown.zone, reload_s };
    page.html()
}

/// Totals, outages and findings.
pub(super) fn document(shown: &Shown) -> Value {
    let Shown { history, zone, about, .. } = shown;
    let targets: Vec<Value> = shown
        .targets()
        .map(|(of, target)| {
            let compliance = Compliance::of(target, about.availability);
            let quantiles = target.times.quantiles(&[0.5, 0.95, 0.99]);
            let latest = target.minutes.last().or(target.recent.last()).and_then(|point| point.usage);
            let outages: Vec<Value> = target
                .outages
                .iter()
                .map(|one| {
                    json!({
                        "from": sentences::time(one.from_ms, zone),
                        "from_unix_ms": one.from_ms,
                        "length_ms": one.length_ms,
                        "intervals": one.intervals,
                        "cause": one.cause,
                        "end_seen": one.has_end,
                    })
                })
                .collect();
            let findings: Vec<Value> = findings::of(target, zone).iter().map(|one| finding(one, zone)).collect();
            json!({
                "name": of.name,
                "url": of.url,
                "intervals": { "up": target.up, "down": target.down, "unknown": target.unknown },
                "uptime": compliance.map(|one| one.uptime),
                "objective_met": compliance.map(|one| one.is_met),
                "error_budget_used": compliance.map(|one| one.budget_used),
                "requests": {
                    "sent": target.counts.requests,
                    "ok": target.counts.ok,
                    "late": target.counts.late,
                    "client_errors": target.counts.client_errors,
                    "server_errors": target.counts.server_errors,
                    "wrong": target.counts.wrong,
                    "transport_errors": target.counts.transport,
                },
                "response_time_ns": {
                    "mean": target.mean_ns(), "p50": quantiles[0], "p95": quantiles[1], "p99": quantiles[2],
                },
                "resources": latest.map(|usage| json!({
                    "cpu_share": (usage.over_ns > 0).then(|| usage.cpu_ns as f64 / usage.over_ns as f64),
                    "memory_bytes": usage.memory_bytes,
                    "threads": usage.threads,
                    "descriptors": usage.descriptors,
                    "descriptors_share": usage.descriptors_share,
                })),
                "down_now": target.open.is_some(),
                "outages": outages,
                "findings": findings,
            })
        })
        .collect();
    let unknown_ms: u64 = history.gaps.iter().map(|gap| gap.length_ms).sum();
    json!({
        "schema_version": 1,
        "from": sentences::time(history.from_ms, zone),
        "to": sentences::time(history.to_ms, zone),
        "intervals": history.last,
        "unknown_ms": unknown_ms,
        "objective": { "availability": about.availability, "within_ms": about.within_ms },
        "targets": targets,
    })
}

fn finding(finding: &Finding, zone: &TimeZone) -> Value {
    json!({
        "question": format!("{:?}", finding.question),
        "found": matches!(finding.answer, findings::Answer::Found(_)),
        "judged": finding.p.is_some(),
        "p": finding.p,
        "text": sentences::finding(finding, zone),
    })
}

fn write_csv(shown: &Shown, per: Per, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", csv::HEADER)?;
    let mut write = |number: u32, point: &Point| -> io::Result<()> {
        let Some(target) = shown.about.targets.get(number as usize) else { return Ok(()) };
        writeln!(out, "{}", csv::line(&sentences::time(point.wall_ms, &shown.zone), target, point))
    };
    if per == Per::Interval {
        let mut failed = Ok(());
        visit(&shown.folder, |interval| {
            for probe in &interval.probes {
                if failed.is_ok() {
                    failed = write(probe.target, &Point::of_probe(interval.wall_ms, probe));
                }
            }
        })
        .map_err(|error| io::Error::other(error.to_string()))?;
        return failed;
    }
    for (&number, target) in &shown.history.targets {
        let points = if per == Per::Hour { &target.hours } else { &target.minutes };
        points.iter().try_for_each(|point| write(number, point))?;
    }
    Ok(())
}

/// A histogram per span and target; the tag is the number of the target, since names may have spaces.
fn write_hlog(shown: &Shown, per: Per, mut out: &mut dyn Write) -> io::Result<()> {
    let (sender, spans) = sync_channel(HLOG_WAITING_MAX);
    std::thread::scope(|scope| {
        let read = scope.spawn(move || send_spans(shown, per, &sender));
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(shown.history.from_ms.unsigned_abs());
        let written = log::write(&mut out, started, spans);
        let read = read.join().unwrap_or_else(|_| Err(io::Error::other("internal error, please report it")));
        written.and(read)
    })
}

/// Histograms that wait to be written: each takes a quarter of a megabyte.
const HLOG_WAITING_MAX: usize = 16;

fn send_spans(shown: &Shown, per: Per, spans: &SyncSender<log::Interval>) -> io::Result<()> {
    let (unit_ms, length_ms) = match per {
        Per::Interval => (1, shown.about.interval_ms),
        Per::Minute => (60_000, 60_000),
        Per::Hour => (3_600_000, 3_600_000),
    };
    let send = |number: u32, (start_ms, histogram): (i64, Histogram)| {
        let since_ms = start_ms.saturating_sub(shown.history.from_ms);
        // If nobody reads any more, the writer says why.
        let _ = spans.send(log::Interval {
            tag: Some(format!("target-{number}")),
            start: Duration::from_millis(u64::try_from(since_ms).unwrap_or(0)),
            length: Duration::from_millis(length_ms),
            histogram,
        });
    };
    let mut open: BTreeMap<u32, (i64, Histogram)> = BTreeMap::new();
    let visited = visit(&shown.folder, |interval| {
        let start_ms = interval.wall_ms.div_euclid(unit_ms) * unit_ms;
        for probe in &interval.probes {
            if open.get(&probe.target).is_some_and(|(start, _)| *start != start_ms)
                && let Some(span) = open.remove(&probe.target)
            {
                send(probe.target, span);
            }
            let (_, histogram) = open.entry(probe.target).or_insert_with(|| (start_ms, Histogram::new()));
            probe.times.merge_into(histogram);
        }
    });
    open.into_iter().for_each(|(number, span)| send(number, span));
    visited.map_err(|error| io::Error::other(error.to_string()))
}
