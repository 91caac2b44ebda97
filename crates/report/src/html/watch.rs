//! A watch as a page: findings, response times with outages, a heat map of hours and weekdays, resources. One file
//! that opens offline, or a page that reloads itself during the watch.

mod charts;
mod heat_map;

use breme_expression::Unit;
use breme_watch::certificate::CertificateExpiry;
use breme_watch::findings::{self, Finding, Verdict};
use breme_watch::history::{History, JournalInfo, TargetHistory, TargetInfo};
use breme_watch::objective::Compliance;
use breme_watch::text;
use charts::{Charts, MARKS_MAX};
use heat_map::heat_map;
use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};
use serde_json::json;

use super::page::{RELOAD_SCRIPT, colour_choice, document, foot, head};
use crate::figures::figure;
use crate::html::parts::{Gallery, table};
use crate::table::Table;
use crate::words;

const WATCH_STYLE: &str = include_str!("../../assets/watch.css");

#[derive(Debug)]
pub struct WatchPage<'a> {
    pub info: &'a JournalInfo,
    pub history: &'a History,
    /// Time zone of all times.
    pub zone: &'a TimeZone,
    /// Seconds after which the page reloads; none for a file.
    pub reload_s: Option<u32>,
}

/// A target with its findings.
struct TargetSection<'a> {
    id: String,
    info: &'a TargetInfo,
    target: &'a TargetHistory,
    findings: Vec<Finding>,
}

impl WatchPage<'_> {
    #[must_use]
    pub fn html(&self) -> String {
        let mut gallery = Gallery::default();
        let targets: Vec<TargetSection<'_>> = self.targets();
        let sections: Vec<Markup> = targets.iter().map(|one| self.section(one, &mut gallery)).collect();
        let data = json!({ "charts": gallery.into_json(), "time": null });
        let title = targets.iter().map(|one| one.info.name.as_str()).collect::<Vec<_>>().join(", ");
        let title = words::short(&words::one_line(&title), 100);
        let version = env!("CARGO_PKG_VERSION");
        let head = head(&format!("{title} · breme watch"), version, WATCH_STYLE);
        let main = html! { (self.summary(&targets)) @for section in &sections { (section) } };
        let links = targets.iter().map(|one| (one.id.as_str(), one.info.name.as_str()));
        document(&head, &self.banner(), ("summary", "Summary"), links, &main, &foot(version, &data)).into_string()
    }

    fn targets(&self) -> Vec<TargetSection<'_>> {
        let info = |number: u32| self.info.targets.get(usize::try_from(number).ok()?);
        let with_findings = |(&number, target): (&u32, &'_ TargetHistory)| (number, findings::find(target, self.zone));
        let all: Vec<(u32, Vec<Finding>)> = self.history.targets.iter().map(with_findings).collect();
        all.into_iter()
            .filter_map(|(number, findings)| {
                let (info, target) = (info(number)?, self.history.targets.get(&number)?);
                Some(TargetSection { id: format!("target-{number}"), info, target, findings })
            })
            .collect()
    }

    fn banner(&self) -> Markup {
        let (from, to) = (self.history.from_ms, self.history.to_ms);
        html! {
            header.banner {
                p.run {
                    strong { "breme watch" } " "
                    @if self.history.last > 0 {
                        time { (text::time(from, self.zone)) } " to " time { (text::time(to, self.zone)) }
                    }
                }
                @if let Some(seconds) = self.reload_s { (reload_choice(seconds)) }
                (colour_choice())
            }
        }
    }

    fn summary(&self, targets: &[TargetSection<'_>]) -> Markup {
        let objective = self.info.availability;
        let verdicts: Vec<Option<Compliance>> =
            targets.iter().map(|one| Compliance::from_history(one.target, objective)).collect();
        let met = verdicts.iter().flatten().filter(|one| one.is_met).count();
        let found = targets.iter().flat_map(|one| &one.findings).filter(|one| is_found(one)).count();
        let mut summary =
            Table::new(["target", "objective", "#uptime", "#outages", "#good requests", "#mean", "#median", "#99 %"]);
        for (one, verdict) in targets.iter().zip(&verdicts) {
            let quantiles = one.target.times.quantiles(&[0.5, 0.99]);
            let share = |value: Option<f64>| value.map_or_else(|| String::from("–"), text::percent);
            let time = |nanos: f64| if nanos > 0.0 { figure(nanos / 1e9, Unit::Seconds) } else { String::from("–") };
            let outages =
                one.target.outages.len() as u64 + one.target.outages_more + u64::from(one.target.ongoing.is_some());
            summary.push([
                if one.info.is_removed {
                    format!("{} (no longer watched)", one.info.name)
                } else {
                    one.info.name.clone()
                },
                verdict.map_or("not tested", |one| if one.is_met { "met" } else { "missed" }).to_owned(),
                share(verdict.map(|one| one.uptime)),
                outages.to_string(),
                share(verdict.map(|one| one.good)),
                time(one.target.mean_ns()),
                time(quantiles[0] as f64),
                time(quantiles[1] as f64),
            ]);
        }
        html! {
            section.verdict id="summary" aria-labelledby="title" {
                h1 id="title" { "Objective: " (text::percent(objective)) " available, within " (within(self.info.within_ms)) }
                p.the-answer {
                    @if self.history.last == 0 { "No measurement yet." }
                    @else {
                        (met) " of " (breme_base::plural(targets.len() as u64, "target")) " met the objective; "
                        @if found == 0 { "no effect found." } @else { (breme_base::plural(found as u64, "effect")) " found." }
                    }
                }
                (table("Summary", &summary, None))
                @for one in targets {
                    @if let Some(expiry) = self.certificate(one).filter(|expiry| expiry.is_soon) {
                        p { strong { (words::one_line(&one.info.name)) ": " (text::certificate(&expiry, self.zone)) } }
                    }
                }
                @for sentence in text::gaps(self.history) { p.remark { (sentence) } }
            }
        }
    }

    fn section(&self, one: &TargetSection<'_>, gallery: &mut Gallery) -> Markup {
        let heading = format!("{}-heading", one.id);
        let name = words::one_line(&one.info.name);
        let charts = Charts { name: name.clone(), target: one.target, history: self.history, zone: self.zone };
        let mut findings: Vec<&Finding> = one.findings.iter().collect();
        findings.sort_by_key(|finding| rank(finding));
        html! {
            section id=(one.id) aria-labelledby=(heading) {
                h2 id=(heading) { (name) }
                p.lead {
                    code { (words::one_line(&one.info.url)) }
                    @if one.info.is_removed { " – no longer watched" }
                }
                p { (text::availability(one.target, self.info.availability)) }
                @if let Some(expiry) = self.certificate(one) { p { (text::certificate(&expiry, self.zone)) } }
                h3 { "Findings" }
                ul.findings {
                    @for finding in findings {
                        li class=(class_of(finding)) { (sentence(finding, self.zone)) }
                    }
                }
                @if let Some(chart) = charts.response_times() { h3 { "Response times" } (gallery.figure(&chart)) }
                (self.outages(one))
                (heat_map(one.target, self.zone))
                @for (name, chart) in charts.resources() { h3 { (name) } (gallery.figure(&chart)) }
            }
        }
    }

    fn certificate(&self, one: &TargetSection<'_>) -> Option<CertificateExpiry> {
        self.history.certificate(self.info, one.info, one.target)
    }

    fn outages(&self, one: &TargetSection<'_>) -> Markup {
        let list = &one.target.outages;
        html! {
            @if !list.is_empty() || one.target.ongoing.is_some() {
                h3 { "Outages" }
                ul {
                    @if let Some(outage) = &one.target.ongoing { li { strong { (text::ongoing_outage(outage, self.zone)) } } }
                    @for outage in list.iter().rev().take(MARKS_MAX) { li { (text::outage(outage, self.zone)) } }
                }
                @if list.len() > MARKS_MAX { p.remark { "The latest " (MARKS_MAX) " of " (list.len()) " outages." } }
            }
        }
    }
}

/// Formats a time limit: `500 ms`, `1.5 s`.
fn within(millis: u64) -> String {
    if millis < 1_000 { format!("{millis} ms") } else { format!("{} s", millis as f64 / 1e3) }
}

/// With no-break spaces between numbers and units.
fn sentence(finding: &Finding, zone: &TimeZone) -> String {
    text::finding(finding, zone).replace(" = ", "\u{a0}=\u{a0}").replace(" %", "\u{a0}%")
}

fn is_found(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Found(_))
}

/// Effects first, then tests without an effect.
const fn rank(finding: &Finding) -> u8 {
    match finding.verdict {
        Verdict::Found(_) => 0,
        Verdict::NotFound => 1,
        Verdict::NotTested(_) => 2,
    }
}

const fn class_of(finding: &Finding) -> &'static str {
    match finding.verdict {
        Verdict::Found(_) => "found",
        Verdict::NotFound => "none",
        Verdict::NotTested(_) => "untested",
    }
}

/// Reloads the page periodically, as long as this is chosen. Hidden without scripts.
fn reload_choice(seconds: u32) -> Markup {
    html! {
        label #reload hidden { input type="checkbox" checked data-seconds=(seconds); " Reload every " (seconds) " s" }
        script { (PreEscaped(RELOAD_SCRIPT)) }
    }
}
