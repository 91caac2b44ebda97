//! Caches, versions of pages, pairs of sessions.

use std::fmt::Write;

use breme_base::terminal::{GREEN, RED, Style};
use breme_base::{grouped, plural};
use breme_load_result::{CacheSummary, LoadOutcome, PairsSummary, StalePageSummary, StaleSummary, TimeSummary};

use crate::figures::{duration, percent};

/// Cache hits, stale reads, and the pairs of sessions.
pub(super) fn reads(outcome: &LoadOutcome, style: Style) -> String {
    let parts = [
        outcome.cache.as_ref().map(cache),
        outcome.stale.as_ref().map(|found| versions(found, style)),
        outcome.pairs.as_ref().map(|found| pairs(found, style)),
    ];
    parts.into_iter().flatten().collect()
}

fn cache(found: &CacheSummary) -> String {
    let CacheSummary { hits, misses, unsaid, hit_ratio, origin_requests, origin_hit_ratio } = *found;
    let mut text = String::new();
    let _ = match hit_ratio {
        Some(ratio) => write!(
            text,
            "cache      {} hits of {} ({})",
            grouped(hits),
            plural(hits + misses, "response"),
            percent(ratio)
        ),
        None => write!(text, "cache      no response to GET says whether it came from a cache"),
    };
    if unsaid > 0 && hit_ratio.is_some() {
        let _ = write!(text, "; {} without Cache-Status", grouped(unsaid));
    }
    if let (Some(requests), Some(ratio)) = (origin_requests, origin_hit_ratio) {
        let requests = plural(requests, "request");
        let _ = write!(text, "; {requests} reached the origin by its own count (hit ratio {})", percent(ratio));
    }
    text.push('\n');
    text
}

fn versions(stale: &StaleSummary, style: Style) -> String {
    let mut text = String::new();
    let count = format!("{} stale", grouped(stale.count));
    let count = style.paint(if stale.count == 0 { GREEN } else { RED }, &count);
    let _ = write!(text, "versions   {count} of {}", plural(stale.judged, "response"));
    if stale.count > 0 {
        let TimeSummary { p50_ns, p99_ns, max_ns, .. } = stale.age;
        let (p50, p99, max) = (duration(p50_ns), duration(p99_ns), duration(max_ns));
        let _ = write!(text, " (age 50 % {p50}, 99 % {p99}, max {max})");
    }
    let _ = write!(text, "; {} acknowledged", plural(stale.writes, "write"));
    if stale.unversioned > 0 {
        let _ = write!(text, "; {} without a version", plural(stale.unversioned, "response"));
    }
    if stale.not_followed > 0 {
        let _ = write!(text, "; {} not followed", plural(stale.not_followed, "write"));
    }
    text.push('\n');
    for StalePageSummary { path, count, age_max_ns } in &stale.pages {
        let _ = writeln!(text, "           {path}: {} stale, age up to {}", grouped(*count), duration(*age_max_ns));
    }
    text
}

/// Findings in the pairs of sessions: the inconsistent ones, and those of the other kinds that occurred.
fn pairs(found: &PairsSummary, style: Style) -> String {
    let wrong = format!("{} inconsistent", grouped(found.inconsistent));
    let wrong = style.paint(if found.inconsistent == 0 { GREEN } else { RED }, &wrong);
    let mut text = format!("pairs      {wrong} of {}", plural(found.responses, "response"));
    let faults = [
        (found.lost, "lost"),
        (found.foreign, "foreign"),
        (found.shared_ids, "shared ids"),
        (found.status_500, "status 500"),
        (found.status_503, "status 503"),
        (found.unknown, "unknown"),
    ];
    let stale = (found.inconsistent > 0).then_some((found.stale, "stale"));
    for (count, what) in stale.into_iter().chain(faults.into_iter().filter(|(count, _)| *count > 0)) {
        let _ = write!(text, "; {} {what}", grouped(count));
    }
    text.push('\n');
    text
}
