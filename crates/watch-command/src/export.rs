//! `breme watch report`: a journal in each format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use breme_command::failure::Failure;
use breme_report::WatchPage;
use breme_stats::{Histogram, log};
use breme_watch::findings::{self, Finding};
use breme_watch::history::{History, JournalInfo, Point, TargetHistory, TargetInfo, for_each_interval};
use breme_watch::objective::Compliance;
use breme_watch::{csv, text};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::arguments::{ExportFormat, ReportArgs, RowSpan};
use crate::journal_folder::JournalFolder;

/// A journal, read.
pub(crate) struct LoadedJournal {
    folder: JournalFolder,
    info: JournalInfo,
    history: History,
    zone: TimeZone,
}

impl LoadedJournal {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let folder = JournalFolder::open_read(path)?;
        let info = folder.info()?;
        let failed = |error| Failure::run(format!("{}: cannot be read: {error}", path.display()));
        let history = History::read(&folder).map_err(failed)?;
        let zone = text::zone(Some(&info.time_zone)).map_err(Failure::usage)?;
        Ok(Self { folder, info, history, zone })
    }

    fn targets(&self) -> impl Iterator<Item = (&TargetInfo, &TargetHistory)> {
        let info = |number: &u32| self.info.targets.get(usize::try_from(*number).ok()?);
        self.history.targets.iter().filter_map(move |(number, target)| Some((info(number)?, target)))
    }
}

pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let journal = LoadedJournal::read(&args.journal)?;
    let write_to = |out: &mut dyn Write| match args.format {
        ExportFormat::Text => out.write_all(text(&journal).as_bytes()),
        ExportFormat::Html => out.write_all(html(&journal, None).as_bytes()),
        ExportFormat::Json => writeln!(out, "{:#}", document(&journal)),
        ExportFormat::Csv => write_csv(&journal, args.per, out),
        ExportFormat::Hlog => write_hlog(&journal, args.per, out),
    };
    match &args.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            match write_to(&mut out).and_then(|()| out.flush()) {
                // The reader has closed the pipe.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(|error| Failure::run(format!("standard output cannot be written: {error}"))),
            }
        }
        Some(path) => {
            let failed = |error| Failure::run(format!("{}: cannot be written: {error}", path.display()));
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write_to(&mut file).and_then(|()| file.flush()).map_err(failed)
        }
    }
}

fn text(journal: &LoadedJournal) -> String {
    let LoadedJournal { history, zone, info, .. } = journal;
    let mut lines = vec![format!(
        "{} to {}, {}",
        text::time(history.from_ms, zone),
        text::time(history.to_ms, zone),
        breme_base::plural(history.last, "interval")
    )];
    lines.extend(text::gaps(history));
    for (of, target) in journal.targets() {
        let removed = if of.is_removed { ", no longer watched" } else { "" };
        lines.extend([String::new(), format!("{} ({}){removed}", of.name, of.url)]);
        lines.push(text::availability(target, info.availability));
        lines.push(text::response_times(target));
        lines.extend(history.certificate(info, of, target).iter().map(|expiry| text::certificate(expiry, zone)));
        lines.extend(target.outages.iter().rev().take(OUTAGES_IN_TEXT_MAX).rev().map(|one| text::outage(one, zone)));
        lines.extend(target.ongoing.iter().map(|outage| text::ongoing_outage(outage, zone)));
        lines.extend(findings::find(target, zone).iter().map(|one| text::finding(one, zone)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Most outages in the text, the latest; the other formats have all.
const OUTAGES_IN_TEXT_MAX: usize = 20;

pub(crate) fn html(journal: &LoadedJournal, reload_s: Option<u32>) -> String {
    let page = WatchPage { info: &journal.info, history: &journal.history, zone: &journal.zone, reload_s };
    page.html()
}

/// Totals, outages and findings.
pub(crate) fn document(journal: &LoadedJournal) -> Value {
    let LoadedJournal { history, zone, info, .. } = journal;
    let targets: Vec<Value> = journal
        .targets()
        .map(|(of, target)| {
            let compliance = Compliance::from_history(target, info.availability);
            let quantiles = target.times.quantiles(&[0.5, 0.95, 0.99]);
            let latest = target.minutes.last().or(target.recent.last()).and_then(|point| point.usage);
            let outages: Vec<Value> = target
                .outages
                .iter()
                .map(|one| {
                    json!({
                        "from": text::time(one.from_ms, zone),
                        "from_unix_ms": one.from_ms,
                        "length_ms": one.length_ms,
                        "intervals": one.intervals,
                        "cause": one.cause,
                        "end_seen": one.has_end,
                    })
                })
                .collect();
            let certificate = history.certificate(info, of, target).map(|expiry| {
                json!({
                    "expires": text::time(expiry.at_s.saturating_mul(1_000), zone),
                    "expires_unix_s": expiry.at_s,
                    "days_left": expiry.days_left(),
                    "expires_soon": expiry.is_soon,
                })
            });
            let findings: Vec<Value> = findings::find(target, zone).iter().map(|one| finding(one, zone)).collect();
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
                "certificate": certificate,
                "watched": !of.is_removed,
                "down_now": target.ongoing.is_some(),
                "outages": outages,
                "findings": findings,
            })
        })
        .collect();
    json!({
        "schema_version": 1,
        "from": text::time(history.from_ms, zone),
        "to": text::time(history.to_ms, zone),
        "intervals": history.last,
        "unknown_ms": history.unmeasured_ms(),
        "objective": { "availability": info.availability, "within_ms": info.within_ms },
        "targets": targets,
    })
}

fn finding(finding: &Finding, zone: &TimeZone) -> Value {
    let (effect, metric) = finding.hypothesis.keys();
    json!({
        "effect": effect,
        "metric": metric,
        "found": matches!(finding.verdict, findings::Verdict::Found(_)),
        "tested": finding.p.is_some(),
        "p": finding.p,
        "text": text::finding(finding, zone),
    })
}

fn write_csv(journal: &LoadedJournal, per: RowSpan, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", csv::HEADER)?;
    let mut write = |number: u32, point: &Point| -> io::Result<()> {
        let Some(target) = journal.info.targets.get(number as usize) else { return Ok(()) };
        writeln!(out, "{}", csv::line(&text::local_time(point.wall_ms, &journal.zone), target, point))
    };
    if per == RowSpan::Interval {
        let mut failed = Ok(());
        for_each_interval(&journal.folder, 0, |interval| {
            for probe in &interval.probes {
                if failed.is_ok() {
                    failed = write(probe.target, &Point::from_probe(interval.wall_ms, probe));
                }
            }
        })
        .map_err(|error| io::Error::other(error.to_string()))?;
        return failed;
    }
    for (&number, target) in &journal.history.targets {
        let points = if per == RowSpan::Hour { &target.hours } else { &target.minutes };
        points.iter().try_for_each(|point| write(number, point))?;
    }
    Ok(())
}

/// The tag is the index of the target, since names may have spaces.
fn write_hlog(journal: &LoadedJournal, per: RowSpan, mut out: &mut dyn Write) -> io::Result<()> {
    let (sender, spans) = sync_channel(HLOG_WAITING_MAX);
    std::thread::scope(|scope| {
        let read = scope.spawn(move || send_spans(journal, per, &sender));
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(journal.history.from_ms.unsigned_abs());
        let written = log::write(&mut out, started, spans);
        let read = read.join().unwrap_or_else(|_| Err(io::Error::other("internal error, please report it")));
        written.and(read)
    })
}

/// Histograms that wait to be written, of 0.25 MB each.
const HLOG_WAITING_MAX: usize = 16;

fn send_spans(journal: &LoadedJournal, per: RowSpan, spans: &SyncSender<log::Interval>) -> io::Result<()> {
    let (unit_ms, length_ms) = match per {
        RowSpan::Interval => (1, journal.info.interval_ms),
        RowSpan::Minute => (60_000, 60_000),
        RowSpan::Hour => (3_600_000, 3_600_000),
    };
    let send = |number: u32, (start_ms, histogram): (i64, Histogram)| {
        let since_ms = start_ms.saturating_sub(journal.history.from_ms);
        // Fails only if the writer has failed, which reports why.
        let _ = spans.send(log::Interval {
            tag: Some(format!("target-{number}")),
            start: Duration::from_millis(u64::try_from(since_ms).unwrap_or(0)),
            length: Duration::from_millis(length_ms),
            histogram,
        });
    };
    let mut open: BTreeMap<u32, (i64, Histogram)> = BTreeMap::new();
    let visited = for_each_interval(&journal.folder, 0, |interval| {
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
