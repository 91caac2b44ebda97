//! A watch as a page: findings, response times with outages, a heat map of hours and weekdays, resources. One file
//! that opens offline, or a page that reloads itself during the watch.

use std::collections::BTreeMap;

use breme_watch::findings::{self, Finding, Verdict};
use breme_watch::history::{History, JournalInfo, Point, TargetHistory, TargetInfo};
use breme_watch::objective::Compliance;
use breme_watch::record::{Gap, Outage};
use breme_watch::text;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::{CHARTS_SCRIPT, SCRIPT, STYLE, embedded, policy};
use crate::chart::{Axis, Chart, Counting, Look, number};
use crate::figures::{Unit, figure};
use crate::html::parts::{Gallery, table};
use crate::table::Table;
use crate::words;

const WATCH_STYLE: &str = include_str!("../../assets/watch.css");
/// Most points of a line, more than a screen has columns.
const POINTS_MAX: usize = 1_500;
/// Most outages and gaps marked in a chart or listed.
const MARKS_MAX: usize = 200;
/// A line breaks where points are farther apart than this many times the median distance.
const GAP_FACTOR: i64 = 3;
const WEEK_MS: i64 = 7 * 86_400_000;
const HOURS_MS: i64 = 2 * 3_600_000;
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Page of a journal.
#[derive(Debug)]
pub struct WatchPage<'a> {
    /// Description of the journal.
    pub info: &'a JournalInfo,
    /// The journal.
    pub history: &'a History,
    /// Time zone of all times.
    pub zone: &'a TimeZone,
    /// Seconds after which the page reloads; none for a file.
    pub reload_s: Option<u32>,
}

/// Value of a point; none if not measured.
type ValueOf = fn(&Point) -> Option<f64>;

/// A target with its findings.
struct TargetSection<'a> {
    id: String,
    info: &'a TargetInfo,
    target: &'a TargetHistory,
    findings: Vec<Finding>,
}

impl WatchPage<'_> {
    /// Renders the page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut gallery = Gallery::default();
        let targets: Vec<TargetSection<'_>> = self.targets();
        let sections: Vec<Markup> = targets.iter().map(|one| self.section(one, &mut gallery)).collect();
        let data = json!({ "charts": gallery.into_json(), "time": null });
        let title = targets.iter().map(|one| one.info.name.as_str()).collect::<Vec<_>>().join(", ");
        let title = words::short(&words::one_line(&title), 100);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    @if let Some(seconds) = self.reload_s { meta http-equiv="refresh" content=(seconds); }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="generator" content=(format!("breme {}", env!("CARGO_PKG_VERSION")));
                    meta name="referrer" content="no-referrer";
                    title { (title) " · breme watch" }
                    style { (PreEscaped(STYLE)) (PreEscaped(WATCH_STYLE)) }
                }
                body {
                    a.skip href="#summary" { "Skip to the summary" }
                    (self.banner())
                    nav.contents aria-label="Contents" {
                        ul {
                            li { a href="#summary" { "Summary" } }
                            @for one in &targets { li { a href=(format!("#{}", one.id)) { (one.info.name) } } }
                        }
                    }
                    main {
                        (self.summary(&targets))
                        @for section in &sections { (section) }
                    }
                    footer { p { "FileToml by breme " (env!("CARGO_PKG_VERSION")) ". Charts: Apache ECharts (Apache-2.0), inside this file." } }
                    script type="application/json" id="run" { (PreEscaped(embedded(&data))) }
                    script { (PreEscaped(CHARTS_SCRIPT)) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    fn targets(&self) -> Vec<TargetSection<'_>> {
        let info = |number: u32| self.info.targets.get(usize::try_from(number).ok()?);
        let with_findings = |(&number, target): (&u32, &'_ TargetHistory)| (number, findings::of(target, self.zone));
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
                div.colours role="group" aria-label="Colours" {
                    button type="button" data-colours="auto" aria-pressed="true" { "Auto" }
                    button type="button" data-colours="light" aria-pressed="false" { "Light" }
                    button type="button" data-colours="dark" aria-pressed="false" { "Dark" }
                }
            }
        }
    }

    fn summary(&self, targets: &[TargetSection<'_>]) -> Markup {
        let objective = self.info.availability;
        let verdicts: Vec<Option<Compliance>> =
            targets.iter().map(|one| Compliance::of(one.target, objective)).collect();
        let met = verdicts.iter().flatten().filter(|one| one.is_met).count();
        let found = targets.iter().flat_map(|one| &one.findings).filter(|one| is_found(one)).count();
        let mut summary =
            Table::new(&["target", "#uptime", "#good requests", "#mean", "#median", "#99 %", "#outages", "objective"]);
        for (one, verdict) in targets.iter().zip(&verdicts) {
            let quantiles = one.target.times.quantiles(&[0.5, 0.99]);
            let share =
                |value: Option<f64>| value.map_or_else(|| String::from("–"), |value| figure(value, Unit::Share));
            let time = |nanos: f64| if nanos > 0.0 { figure(nanos / 1e9, Unit::Seconds) } else { String::from("–") };
            summary.push([
                one.info.name.clone(),
                share(verdict.map(|one| one.uptime)),
                share(verdict.map(|one| one.good)),
                time(one.target.mean_ns()),
                time(quantiles[0] as f64),
                time(quantiles[1] as f64),
                (one.target.outages.len() as u64 + one.target.outages_more + u64::from(one.target.ongoing.is_some()))
                    .to_string(),
                verdict.map_or("not judged", |one| if one.is_met { "met" } else { "missed" }).to_owned(),
            ]);
        }
        html! {
            section.verdict id="summary" aria-labelledby="title" {
                h1 id="title" { "Objective " (figure(objective, Unit::Share)) ", within " (figure(self.info.within_ms as f64 / 1e3, Unit::Seconds)) }
                p.the-answer {
                    @if self.history.last == 0 { "No measurement yet." }
                    @else {
                        (met) " of " (breme_base::plural(targets.len() as u64, "target")) " met the objective; "
                        @if found == 0 { "no effect found." } @else { (breme_base::plural(found as u64, "effect")) " found." }
                    }
                }
                (table("Summary", &summary, None))
                @for sentence in text::gaps(self.history) { p.remark { (sentence) } }
            }
        }
    }

    fn section(&self, one: &TargetSection<'_>, gallery: &mut Gallery) -> Markup {
        let heading = format!("{}-heading", one.id);
        html! {
            section id=(one.id) aria-labelledby=(heading) {
                h2 id=(heading) { (words::one_line(&one.info.name)) }
                p.lead { code { (words::one_line(&one.info.url)) } }
                p { (text::availability(one.target, self.info.availability)) }
                h3 { "Findings" }
                ul.findings {
                    @for finding in &one.findings {
                        li class=(class_of(finding)) { (text::finding(finding, self.zone)) }
                    }
                }
                @if let Some(chart) = self.times(one) { h3 { "Response times" } (gallery.figure(&chart)) }
                (self.outages(one))
                (self.heat_map(one))
                @for chart in self.resources(one) { h3 { (chart.caption.split(',').next().unwrap_or_default()) } (gallery.figure(&chart)) }
            }
        }
    }

    /// The finest resolution that the chart can show.
    fn points<'p>(&self, target: &'p TargetHistory) -> &'p [Point] {
        let span = self.history.to_ms - self.history.from_ms;
        if span > WEEK_MS || target.minutes.is_empty() {
            &target.hours
        } else if span > HOURS_MS || target.recent.is_empty() {
            &target.minutes
        } else {
            &target.recent
        }
    }

    fn local_ms(&self, wall_ms: i64) -> i64 {
        text::local_as_utc(wall_ms, self.zone)
    }

    fn times(&self, one: &TargetSection<'_>) -> Option<Chart> {
        let points = pooled(self.points(one.target));
        let quantiles: Vec<[f64; 3]> = points
            .iter()
            .map(|point| [point.p50_ns, point.p95_ns, point.p99_ns].map(|nanos| nanos as f64 / 1e9))
            .collect();
        let measured = quantiles.iter().flatten().copied().filter(|value| *value > 0.0);
        measured.clone().next()?;
        let axis = Axis::fit(measured, Counting::In(Unit::Seconds)).starting_at_zero();
        let mut bands: [Vec<Value>; 3] = Default::default();
        let mut lines: [Vec<Value>; 3] = Default::default();
        let mut rows = Table::new(&["time", "#median", "#95 %", "#99 %", "#requests", "#errors"]);
        let distance = median_distance(&points);
        let mut before: Option<i64> = None;
        for (point, of) in points.iter().zip(&quantiles) {
            let x = self.local_ms(point.wall_ms);
            if before.is_some_and(|before| point.wall_ms - before > GAP_FACTOR * distance) || of[0] <= 0.0 {
                bands.iter_mut().chain(&mut lines).for_each(|list| list.push(json!([x, null])));
            }
            before = Some(point.wall_ms);
            if of[0] > 0.0 {
                let places = of.map(|value| axis.place(value).as_f64().unwrap_or(0.0));
                let heights = [places[0], places[1] - places[0], places[2] - places[1]];
                for index in 0..3 {
                    lines[index].push(json!([x, number(places[index])]));
                    bands[index].push(json!([x, number(heights[index])]));
                }
            }
            let errors = point.counts.errors().to_string();
            let [p50, p95, p99] = of.map(|value| figure(value, Unit::Seconds));
            rows.push([text::time(point.wall_ms, self.zone), p50, p95, p99, point.counts.requests.to_string(), errors]);
        }
        let look = Look::series(0);
        let widths = [2.0, 1.0, 1.0];
        let opacities = [0.0, 0.28, 0.14];
        let mut series = Vec::new();
        for (index, (band, line)) in bands.into_iter().zip(lines).enumerate() {
            let id = if index == 0 { String::from("under low") } else { format!("{index} band") };
            series.push(json!({
                "type": "line", "id": id, "name": id, "data": band, "stack": "bands", "stackStrategy": "all",
                "symbol": "none", "silent": true, "lineStyle": { "opacity": 0 },
                "areaStyle": { "color": look.colour(), "opacity": opacities[index] },
            }));
            series.push(json!({
                "type": "line", "id": format!("quantile {index}"), "name": format!("line {index}"), "data": line,
                "symbol": "none", "z": 3,
                "lineStyle": { "color": look.colour(), "width": widths[index], "opacity": 1.0 - index as f64 * 0.3 },
                "itemStyle": { "color": look.colour() },
            }));
        }
        series[1]["markArea"] = self.marks(one.target);
        Some(Chart {
            caption: String::from(
                "Median (line), 95th and 99th percentile (bands) of the response time. Red: outage. Grey: gap. Local time.",
            ),
            says: format!("Response times of {} over time, with outages marked", words::one_line(&one.info.name)),
            height_px: 320,
            option: json!({
                "useUTC": true,
                "grid": { "left": 68, "right": 16, "top": 16, "bottom": 32 },
                "xAxis": self.time_axis(),
                "yAxis": axis.option(""),
                "tooltip": { "trigger": "axis", "formatter": "@axis" },
                "series": series,
            }),
            words: json!({ "x": "@time", "y": axis.words(), "names": ["median", "95th percentile", "99th percentile"] }),
            legend: Vec::new(),
            table: rows.limited(MARKS_MAX),
        })
    }

    fn time_axis(&self) -> Value {
        json!({
            "type": "time", "min": self.local_ms(self.history.from_ms), "max": self.local_ms(self.history.to_ms),
            "splitLine": { "show": false }, "axisLabel": { "hideOverlap": true },
        })
    }

    /// Marks of the latest outages and gaps.
    fn marks(&self, target: &TargetHistory) -> Value {
        let area = |from_ms: i64, to_ms: i64, colour: &str, opacity: f64| {
            let style = json!({ "color": colour, "opacity": opacity, "borderColor": colour, "borderWidth": 1 });
            json!([{ "xAxis": self.local_ms(from_ms), "itemStyle": style }, { "xAxis": self.local_ms(to_ms) }])
        };
        let until = |from_ms: i64, length_ms: u64| from_ms + i64::try_from(length_ms).unwrap_or(0);
        let outage = |one: &Outage| area(one.from_ms, until(one.from_ms, one.length_ms), "var(--refuted)", 0.35);
        let gap =
            |one: &Gap| area(one.until_ms - i64::try_from(one.length_ms).unwrap_or(0), one.until_ms, "var(--n1)", 0.3);
        let mut areas: Vec<Value> = target.outages.iter().rev().take(MARKS_MAX).map(outage).collect();
        areas.extend(
            target.ongoing.iter().map(|outage| area(outage.from_ms, self.history.to_ms, "var(--refuted)", 0.35)),
        );
        areas.extend(self.history.gaps.iter().rev().take(MARKS_MAX).map(gap));
        json!({ "silent": true, "data": areas })
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

    /// Median of each local hour of the week.
    fn heat_map(&self, one: &TargetSection<'_>) -> Markup {
        let mut cells: BTreeMap<(i8, i8), (Vec<u64>, u64)> = BTreeMap::new();
        for point in &one.target.hours {
            let Ok(time) = Timestamp::from_millisecond(point.wall_ms) else { continue };
            let local = time.to_zoned(self.zone.clone());
            let (times, down) = cells.entry((local.hour(), local.weekday().to_monday_zero_offset())).or_default();
            times.extend((point.p50_ns > 0).then_some(point.p50_ns));
            *down += point.down;
        }
        let mut medians: BTreeMap<(i8, i8), u64> = BTreeMap::new();
        for (place, (times, _)) in &mut cells {
            times.sort_unstable();
            medians.extend(times.get(times.len() / 2).map(|median| (*place, *median)));
        }
        let (Some(low), Some(high)) = (medians.values().min(), medians.values().max()) else { return html! {} };
        let span = (*high as f64 / *low as f64).ln();
        // A range of at least 10 %, so that noise does not look like a pattern.
        let heat = |nanos: u64| (nanos as f64 / *low as f64).ln() / span.max(0.1_f64);
        html! {
            h3 { "Hours and days" }
            p.remark { "Median response time of each local hour of the week. Framed: some intervals were down." }
            div.scroll role="region" aria-label="Hours and days" tabindex="0" {
                table.heat {
                    thead { tr { th scope="col" { "hour" } @for day in WEEKDAYS { th scope="col" { (day) } } } }
                    tbody {
                        @for hour in 0..24_i8 {
                            tr {
                                th scope="row" { (hour) ":00" }
                                @for day in 0..7_i8 {
                                    @let is_down = cells.get(&(hour, day)).is_some_and(|(_, down)| *down > 0);
                                    @match medians.get(&(hour, day)) {
                                        Some(nanos) => td class=[is_down.then_some("down")] style=(format!("--heat:{:.2}", heat(*nanos))) { (figure(*nanos as f64 / 1e9, Unit::Seconds)) },
                                        None => td class=[is_down.then_some("down")] { @if is_down { "down" } @else { "–" } },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn resources(&self, one: &TargetSection<'_>) -> Vec<Chart> {
        let points = pooled(self.points(one.target));
        let charts: [(&str, Unit, ValueOf); 5] = [
            ("Requests per second", Unit::PerSecond, |point| Some(point.rate())),
            ("Processors used", Unit::Share, Point::cpu_share),
            ("Memory", Unit::Bytes, |point| point.usage.map(|usage| usage.memory_bytes as f64)),
            ("Threads", Unit::Plain, |point| point.usage.map(|usage| usage.threads as f64)),
            ("Open descriptors", Unit::Plain, |point| point.usage.map(|usage| usage.descriptors as f64)),
        ];
        charts.into_iter().filter_map(|(name, unit, value)| self.resource(one, name, unit, value, &points)).collect()
    }

    fn resource(
        &self,
        one: &TargetSection<'_>,
        name: &str,
        unit: Unit,
        value: ValueOf,
        points: &[Point],
    ) -> Option<Chart> {
        let values: Vec<(i64, f64)> = points.iter().filter_map(|point| Some((point.wall_ms, value(point)?))).collect();
        if values.is_empty() {
            return None;
        }
        let axis = Axis::fit(values.iter().map(|(_, value)| *value), Counting::In(unit)).starting_at_zero();
        let mut rows = Table::new(&["time", &format!("#{name}")]);
        for (wall_ms, value) in &values {
            rows.push([text::time(*wall_ms, self.zone), figure(*value, unit)]);
        }
        let look = Look::neutral(0);
        let data: Vec<Value> =
            values.iter().map(|(at, value)| json!([self.local_ms(*at), axis.place(*value)])).collect();
        Some(Chart {
            caption: format!("{name} over time."),
            says: format!("{name} of {} over time", words::one_line(&one.info.name)),
            height_px: 180,
            option: json!({
                "useUTC": true,
                "grid": { "left": 68, "right": 16, "top": 12, "bottom": 32 },
                "xAxis": self.time_axis(),
                "yAxis": axis.option(""),
                "tooltip": { "trigger": "axis", "formatter": "@axis" },
                "series": [{
                    "type": "line", "id": "value", "name": "line 0", "data": data, "symbol": "none",
                    "lineStyle": { "color": look.colour(), "width": 1.5 }, "itemStyle": { "color": look.colour() },
                }],
            }),
            words: json!({ "x": "@time", "y": axis.words(), "names": [name] }),
            legend: Vec::new(),
            table: rows.limited(MARKS_MAX),
        })
    }
}

const fn is_found(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Found(_))
}

const fn class_of(finding: &Finding) -> &'static str {
    match finding.verdict {
        Verdict::Found(_) => "found",
        Verdict::NotFound => "none",
        Verdict::NotTested(_) => "unjudged",
    }
}

/// Neighbouring points merged to at most [`POINTS_MAX`]: the median of medians, the largest tails.
fn pooled(points: &[Point]) -> Vec<Point> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    points
        .chunks(together)
        .filter_map(|chunk| {
            let mut pooled = chunk.get(chunk.len() / 2)?.clone();
            let mut medians: Vec<u64> = chunk.iter().map(|point| point.p50_ns).filter(|nanos| *nanos > 0).collect();
            medians.sort_unstable();
            pooled.p50_ns = medians.get(medians.len() / 2).copied().unwrap_or(0);
            pooled.p95_ns = chunk.iter().map(|point| point.p95_ns).max()?;
            pooled.p99_ns = chunk.iter().map(|point| point.p99_ns).max()?;
            Some(pooled)
        })
        .collect()
}

fn median_distance(points: &[Point]) -> i64 {
    let mut distances: Vec<i64> = points.windows(2).map(|pair| pair[1].wall_ms - pair[0].wall_ms).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).copied().unwrap_or(0).max(1)
}
