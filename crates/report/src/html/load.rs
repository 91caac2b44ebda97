//! A load as a page: rate, percentiles and errors on top; response times and rate over time, their distribution,
//! statuses and errors, settings.

use breme_base::{grouped, plural};
use breme_expression::Unit;
use breme_load_result::{ConditionVerdict, FailIfResult, LoadOutcome, Row, SettingsSummary, StepSummary, TimeSummary};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::bands::bands;
use super::page::{Section, all, colour_choice, document, foot, head};
use super::parts::{Gallery, badge, table};
use crate::chart::{Axis, Chart, Counting, Look};
use crate::figures::figure;
use crate::table::{Cell, Table};
use crate::words::{self, VerdictWords};

const LOAD_STYLE: &str = include_str!("../../assets/load.css");
/// Most points of a line, more than a screen has columns.
const POINTS_MAX: usize = 1_500;
/// Most rows of the table below a chart.
const TABLE_ROWS_MAX: usize = 300;
const QUANTILES: [&str; 4] = ["median", "90th percentile", "99th percentile", "maximum"];
/// Room for the labels of the time axis, pixels.
const AXIS_PX: u32 = 32;

/// A figure of a distribution of times.
#[derive(Clone, Copy)]
struct TimeFigure {
    name: &'static str,
    nanos: fn(&TimeSummary) -> u64,
    /// Of fewer times it is only the largest or the smallest.
    samples_min: u64,
}

const MEAN: TimeFigure = TimeFigure { name: "mean", nanos: |times| times.mean_ns.round() as u64, samples_min: 1 };
const MINIMUM: TimeFigure = TimeFigure { name: "minimum", nanos: |times| times.min_ns, samples_min: 1 };
const MEDIAN: TimeFigure = TimeFigure { name: "median", nanos: |times| times.p50_ns, samples_min: 2 };
const P90: TimeFigure = TimeFigure { name: "90 %", nanos: |times| times.p90_ns, samples_min: 10 };
const P95: TimeFigure = TimeFigure { name: "95 %", nanos: |times| times.p95_ns, samples_min: 20 };
const P99: TimeFigure = TimeFigure { name: "99 %", nanos: |times| times.p99_ns, samples_min: 100 };
const P999: TimeFigure = TimeFigure { name: "99.9 %", nanos: |times| times.p999_ns, samples_min: 1_000 };
const MAXIMUM: TimeFigure = TimeFigure { name: "maximum", nanos: |times| times.max_ns, samples_min: 1 };

impl TimeFigure {
    fn shown(self, times: &TimeSummary) -> String {
        if times.count < self.samples_min { String::from("–") } else { time((self.nanos)(times)) }
    }
}

/// Page of a load. All texts are plain text; those beside the outcome have the figures of the output on the terminal.
#[derive(Clone, Debug)]
pub struct LoadPage<'a> {
    pub outcome: &'a LoadOutcome,
    /// The load, such as `50 connections, closed loop, HTTP/1.1, 10.0 s`.
    pub load: String,
    /// Further facts: name, value.
    pub facts: Vec<(String, String)>,
    /// Settings: name, value.
    pub settings: Vec<(String, String)>,
}

impl LoadPage<'_> {
    #[must_use]
    pub fn html(&self) -> String {
        let mut gallery = Gallery::default();
        let sections: Vec<Section> = [
            ("time", "Response times over time", self.over_time(&mut gallery)),
            ("distribution", "Distribution", self.distribution(&mut gallery)),
            ("rate", "Rate", self.rate_over_time(&mut gallery)),
            ("counts", "Statuses and errors", Some(self.counts())),
            ("steps", "Steps", self.steps()),
            ("settings", "Settings", Some(self.settings())),
        ]
        .into_iter()
        .filter_map(|(id, heading, body)| body.map(|body| Section { id, heading, body }))
        .collect();
        let data = json!({ "charts": gallery.into_json(), "time": null });
        let title = words::short(&words::one_line(&self.title()), 100);
        let invalid = if self.is_valid() { "" } else { "INVALID: " };
        let version = &self.outcome.breme_version;
        let head = head(&format!("{invalid}{title} · breme load"), version, LOAD_STYLE);
        let main = html! { (self.summary()) (all(&sections)) };
        let links = sections.iter().map(Section::link);
        document(&head, &self.banner(), ("summary", "Summary"), links, &main, &foot(version, &data)).into_string()
    }

    fn is_valid(&self) -> bool {
        self.outcome.invalid_reasons.is_empty()
    }

    /// The request, such as `GET http://host/page`.
    fn title(&self) -> String {
        let SettingsSummary { url, method, targets, .. } = &self.outcome.settings;
        let what = match self.outcome.scenarios.as_slice() {
            [] => method.clone(),
            [only] => format!("Scenario {:?} at", only.name),
            several => format!("{} at", plural(several.len() as u64, "scenario")),
        };
        let more = if *targets > 1 { format!(" and {} more", grouped(targets - 1)) } else { String::new() };
        format!("{what} {url}{more}")
    }

    /// Requests begun; in an open loop, all that were due.
    fn requests(&self) -> u64 {
        self.outcome.requests.issued.max(self.outcome.open_loop.map_or(0, |open_loop| open_loop.due))
    }

    /// Errors of all kinds.
    fn error_count(&self) -> u64 {
        self.outcome.errors.values().sum()
    }

    /// The check of all responses if every one failed it, and the conditions.
    fn conditions(&self) -> Vec<FailIfResult> {
        let answered = grouped(self.outcome.requests.answered);
        let all_failed = self.outcome.all_failed().then(|| FailIfResult {
            condition: String::from("every response failed its check"),
            verdict: ConditionVerdict::Failed,
            measured: format!("{answered} of {answered}"),
        });
        all_failed.into_iter().chain(self.outcome.conditions.iter().cloned()).collect()
    }

    /// The times of which there are samples, with their names.
    fn times(&self) -> Vec<(&'static str, &TimeSummary)> {
        let all = [
            ("response", &self.outcome.response_time),
            ("service", &self.outcome.service_time),
            ("first byte", &self.outcome.first_byte_time),
            ("connect", &self.outcome.connect_time),
            ("TLS handshake", &self.outcome.handshake_time),
        ];
        all.into_iter().filter(|(_, times)| times.count > 0).collect()
    }

    fn banner(&self) -> Markup {
        let started_s = self.outcome.started_at_unix_s;
        let started = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(started_s));
        html! {
            header.banner {
                p.run {
                    strong { "breme load" } " "
                    @if let Some(started) = started.filter(|_| started_s > 0 && started_s < 200_000_000_000) {
                        time { (httpdate::fmt_http_date(started)) }
                    }
                }
                (colour_choice())
            }
        }
    }

    fn summary(&self) -> Markup {
        let conditions = self.conditions();
        html! {
            section.answer id="summary" aria-labelledby="title" {
                h1 id="title" { (words::one_line(&self.title())) }
                @if !self.is_valid() {
                    div.invalid role="alert" {
                        p { strong { "INVALID" } " " (self.why_invalid()) }
                        ul { @for reason in &self.outcome.invalid_reasons { li { (words::one_line(reason)) } } }
                    }
                }
                p.the-answer { (self.headline()) }
                p.question { (words::one_line(&self.load)) }
                @if !conditions.is_empty() {
                    ul.conditions {
                        @for condition in &conditions {
                            li { (verdict(condition)) " " code { (words::one_line(&condition.condition)) } " " span.measured { (words::one_line(&condition.measured)) } }
                        }
                    }
                }
                @if !self.times().is_empty() { (table("Times", &self.times_table(), None)) }
                @if !self.outcome.notes.is_empty() {
                    aside.warnings aria-label="Notes" {
                        @for note in &self.outcome.notes { p { (words::one_line(note)) } }
                    }
                }
                noscript { p.remark { "The charts need the script in this file. Every number is in the tables too." } }
            }
        }
    }

    /// Without any response the reasons are about the server, or the way to it.
    const fn why_invalid(&self) -> &'static str {
        match self.outcome.requests.answered {
            0 => "There is nothing to measure.",
            _ => "The generator limited this result, not the server.",
        }
    }

    fn headline(&self) -> String {
        let errors = match self.error_count() {
            0 => String::from("no error"),
            count => {
                let share = count as f64 / self.requests().max(count).max(1) as f64;
                format!("{} ({})", plural(count, "error"), figure(share, Unit::Share).replace(' ', "\u{a0}"))
            }
        };
        let response = &self.outcome.response_time;
        if response.count == 0 {
            return format!("No response; {errors}.");
        }
        let within: Vec<String> = [("half", MEDIAN), ("99\u{a0}%", P99), ("all", MAXIMUM)]
            .into_iter()
            .filter(|(_, figure)| response.count >= figure.samples_min)
            .map(|(share, figure)| format!("{share} within {}", figure.shown(response).replace(' ', "\u{a0}")))
            .take(2)
            .collect();
        let rate = self.outcome.achieved_rate;
        let rate = if rate < 99.95 { format!("{rate:.1}") } else { grouped(rate.round() as u64) };
        format!("{rate} responses/s; {}; {errors}.", within.join(", "))
    }

    fn times_table(&self) -> Table {
        let all = self.times();
        let mut rows = Table::new([String::new()].into_iter().chain(all.iter().map(|(name, _)| format!("#{name}"))));
        for figure in [MEAN, MINIMUM, MEDIAN, P90, P95, P99, P999, MAXIMUM] {
            rows.push(std::iter::once(figure.name.to_owned()).chain(all.iter().map(|(_, times)| figure.shown(times))));
        }
        rows
    }

    fn over_time(&self, gallery: &mut Gallery) -> Option<Markup> {
        let intervals = merged(&self.outcome.series);
        let values = |one: &Row| {
            [one.response_p50_ns, one.response_p90_ns, one.response_p99_ns, one.response_max_ns]
                .map(|nanos| nanos as f64 / 1e9)
        };
        let measured = intervals.iter().filter(|one| one.response_p50_ns > 0).flat_map(values);
        measured.clone().next()?;
        let axis = Axis::fit(measured, Counting::In(Unit::Seconds)).starting_at_zero();
        let mut rows = Table::new(["from", "#median", "#90 %", "#99 %", "#maximum"]);
        for one in &intervals {
            let [p50, p90, p99, max] = values(one).map(|value| figure(value, Unit::Seconds));
            rows.push([figure(one.start_s, Unit::Seconds), p50, p90, p99, max]);
        }
        let place = |one: &Row| {
            let places = values(one).map(|value| axis.place(value).as_f64().unwrap_or(0.0));
            (middle(one), (one.response_p50_ns > 0).then_some(places))
        };
        let places: Vec<_> = intervals.iter().map(place).collect();
        Some(gallery.figure(&Chart {
            caption: String::from("Median (line), 90th and 99th percentile and maximum (bands) of each interval."),
            says: String::from("Response times over the time of the run"),
            height_px: 340,
            option: self.option(&axis, &bands(&places)),
            words: json!({ "x": "@lin:s", "y": axis.words(), "names": QUANTILES }),
            legend: Vec::new(),
            table: rows.limited(TABLE_ROWS_MAX),
        }))
    }

    fn rate_over_time(&self, gallery: &mut Gallery) -> Option<Markup> {
        let intervals = merged(&self.outcome.series);
        let per_second = |one: &Row, count: u64| count as f64 / one.length_s.max(1e-9);
        let rates: Vec<(f64, f64, f64)> = intervals
            .iter()
            .map(|one| (middle(one), per_second(one, one.answered), per_second(one, one.errors)))
            .collect();
        rates.first()?;
        let has_errors = self.error_count() > 0;
        let values = rates.iter().flat_map(|(_, rate, errors)| [0.0, *rate, *errors]);
        let axis = Axis::fit(values, Counting::In(Unit::PerSecond)).starting_at_zero();
        let mut rows = Table::new(["from", "#responses", "#errors"]);
        for (one, (_, rate, errors)) in intervals.iter().zip(&rates) {
            rows.push([
                figure(one.start_s, Unit::Seconds),
                figure(*rate, Unit::PerSecond),
                figure(*errors, Unit::PerSecond),
            ]);
        }
        let line = |index: usize, colour: &str, line_type: &str, of: &dyn Fn(&(f64, f64, f64)) -> f64| {
            let data: Vec<Value> = rates.iter().map(|one| json!([one.0, axis.place(of(one))])).collect();
            json!({
                "type": "line", "id": format!("rate {index}"), "name": format!("line {index}"), "data": data,
                "symbol": if data.len() > 40 { "none" } else { "circle" }, "symbolSize": 4,
                "lineStyle": { "color": colour, "width": 1.8, "type": line_type }, "itemStyle": { "color": colour },
            })
        };
        let mut series = vec![line(0, &Look::series(0).colour(), "solid", &|one| one.1)];
        if has_errors {
            series.push(line(1, "var(--refuted)", "dashed", &|one| one.2));
        }
        let caption = if has_errors {
            "Responses per second (solid, blue) and errors per second (dashed, red) in each interval."
        } else {
            "Responses per second in each interval."
        };
        Some(gallery.figure(&Chart {
            caption: caption.to_owned(),
            says: String::from("Responses per second over the time of the run"),
            height_px: 220,
            option: self.option(&axis, &json!(series)),
            words: json!({ "x": "@lin:s", "y": axis.words(), "names": ["responses", "errors"] }),
            legend: Vec::new(),
            table: rows.limited(TABLE_ROWS_MAX),
        }))
    }

    fn option(&self, axis: &Axis, series: &Value) -> Value {
        let end = self.outcome.series.iter().map(|one| one.start_s + one.length_s).fold(0.0, f64::max);
        json!({
            "grid": { "left": 68, "right": 16, "top": 16, "bottom": AXIS_PX },
            "xAxis": {
                "type": "value", "min": 0, "max": end, "splitLine": { "show": false },
                "axisLabel": { "hideOverlap": true, "formatter": "@lin:s", "showMaxLabel": false },
            },
            "yAxis": axis.option(""),
            "tooltip": { "trigger": "axis", "formatter": "@axis" },
            "series": series,
        })
    }

    fn distribution(&self, gallery: &mut Gallery) -> Option<Markup> {
        let bins = &self.outcome.histogram;
        let total: u64 = bins.iter().map(|bin| bin.count).sum();
        (total > 0).then_some(())?;
        let share = |count: u64| count as f64 / total as f64;
        let mut rows = Table::new(["up to", "#responses", "#share", "#cumulative"]);
        let mut below = 0;
        for bin in bins {
            below += bin.count;
            let (own, all) = (figure(share(bin.count), Unit::Share), figure(share(below), Unit::Share));
            rows.push([time(bin.to_ns), grouped(bin.count), own, all]);
        }
        let axis = Axis::fit(bins.iter().flat_map(|bin| [0.0, share(bin.count)]), Counting::In(Unit::Share))
            .starting_at_zero();
        let data: Vec<Value> = bins.iter().map(|bin| axis.place(share(bin.count))).collect();
        let labels: Vec<String> = bins.iter().map(|bin| format!("≤ {}", time(bin.to_ns))).collect();
        Some(gallery.figure(&Chart {
            caption: String::from(
                "Share of the responses by response time. The first and the last bar hold all that lies beyond.",
            ),
            says: String::from("Histogram of the response times"),
            height_px: 260,
            option: json!({
                "grid": { "left": 68, "right": 16, "top": 16, "bottom": AXIS_PX },
                "xAxis": {
                    "type": "category", "data": labels, "axisTick": { "alignWithLabel": true },
                    "axisLabel": { "hideOverlap": true }, "splitLine": { "show": false },
                },
                "yAxis": axis.option(""),
                "tooltip": { "show": false },
                "series": [{
                    "type": "bar", "id": "share", "name": "share", "data": data, "barCategoryGap": "8%",
                    "itemStyle": { "color": Look::series(0).colour() },
                }],
            }),
            words: json!({}),
            legend: Vec::new(),
            table: rows,
        }))
    }

    fn counts(&self) -> Markup {
        let mut statuses = Table::new(["status", "#responses", "#share"]);
        for (status, count) in &self.outcome.statuses {
            let class = if status.starts_with(['2', '3']) { "supported" } else { "refuted" };
            let share = figure(*count as f64 / self.outcome.requests.answered.max(1) as f64, Unit::Share);
            statuses.push([Cell::classed(status.clone(), class), grouped(*count).into(), share.into()]);
        }
        let mut errors = Table::new(["error", "#count", "#share"]);
        for (kind, count) in &self.outcome.errors {
            let share = figure(*count as f64 / self.requests().max(*count).max(1) as f64, Unit::Share);
            errors.push([Cell::classed(kind.clone(), "refuted"), grouped(*count).into(), share.into()]);
        }
        let mut facts = Table::new(["traffic", "value"]);
        for (name, value) in &self.facts {
            facts.push([words::one_line(name), words::one_line(value)]);
        }
        html! {
            div.side-by-side {
                @if !statuses.is_empty() { div { (table("Statuses", &statuses, None)) } }
                @if errors.is_empty() { p.lead { "No error." } } @else { div { (table("Errors", &errors, None)) } }
            }
            @if !facts.is_empty() { (table("Counts", &facts, None)) }
        }
    }

    fn steps(&self) -> Option<Markup> {
        (!self.outcome.steps.is_empty()).then_some(())?;
        let figures = [MEAN, MEDIAN, P90, P99, MAXIMUM];
        let names = ["step", "#responses", "#errors"].map(str::to_owned).into_iter();
        let mut rows = Table::new(names.chain(figures.map(|figure| format!("#{}", figure.name))));
        for StepSummary { name, answered, errors, response_time: times, .. } in &self.outcome.steps {
            let shown = figures.map(|figure| figure.shown(times));
            let errors = grouped(errors.values().sum());
            rows.push([words::one_line(name), grouped(*answered), errors].into_iter().chain(shown));
        }
        Some(table("Steps", &rows, None))
    }

    fn settings(&self) -> Markup {
        let mut rows = Table::new(["setting", "value"]);
        for (name, value) in &self.settings {
            rows.push([words::one_line(name), words::one_line(value)]);
        }
        table("Settings", &rows, None)
    }
}

fn verdict(condition: &FailIfResult) -> Markup {
    let (class, sign, words) = match condition.verdict {
        ConditionVerdict::Failed => ("refuted", "✗", "failed"),
        ConditionVerdict::Passed => ("supported", "✓", "passed"),
        ConditionVerdict::NoVerdict => ("undecided", "?", "no verdict"),
    };
    badge(&VerdictWords { class, sign, words: words.to_owned() })
}

fn time(nanos: u64) -> String {
    figure(nanos as f64 / 1e9, Unit::Seconds)
}

fn middle(one: &Row) -> f64 {
    one.start_s + one.length_s / 2.0
}

/// Neighbouring intervals merged to at most [`POINTS_MAX`], as far as the page shows them; quantiles become the largest
/// of theirs, as in the rows of a long run.
fn merged(intervals: &[Row]) -> Vec<Row> {
    let merge = |chunk: &[Row]| {
        chunk.iter().copied().reduce(|sum, one| Row {
            length_s: sum.length_s + one.length_s,
            answered: sum.answered + one.answered,
            errors: sum.errors + one.errors,
            response_p50_ns: sum.response_p50_ns.max(one.response_p50_ns),
            response_p90_ns: sum.response_p90_ns.max(one.response_p90_ns),
            response_p99_ns: sum.response_p99_ns.max(one.response_p99_ns),
            response_max_ns: sum.response_max_ns.max(one.response_max_ns),
            ..sum
        })
    };
    intervals.chunks(intervals.len().div_ceil(POINTS_MAX).max(1)).filter_map(merge).collect()
}

#[cfg(test)]
mod tests {
    use breme_load_result::Requests;

    use super::*;

    fn page(outcome: &LoadOutcome) -> LoadPage<'_> {
        LoadPage { outcome, load: String::new(), facts: Vec::new(), settings: Vec::new() }
    }

    #[test]
    fn more_errors_than_responses_are_in_the_chart() {
        let row = |start_s| Row { start_s, length_s: 1.0, answered: 100, errors: 9_000, ..Row::default() };
        let errors = [("refused".to_owned(), 18_000)].into();
        let outcome = LoadOutcome { series: vec![row(0.0), row(1.0)], errors, ..LoadOutcome::default() };
        let mut gallery = Gallery::default();
        page(&outcome).rate_over_time(&mut gallery).unwrap();
        let option = &gallery.into_json()["chart-1"]["option"];
        assert!(option["yAxis"]["max"].as_f64().unwrap() >= 9_000.0, "{}", option["yAxis"]);
        assert_eq!(option["series"][1]["lineStyle"]["type"], "dashed");
    }

    #[test]
    fn the_generator_is_not_blamed_for_a_server_that_does_not_run() {
        let reason = "no request was answered".to_owned();
        let silent = LoadOutcome { invalid_reasons: vec![reason], ..LoadOutcome::default() };
        let html = page(&silent).html();
        assert!(html.contains("no request was answered") && !html.contains("The generator limited"), "{html}");
        let requests = Requests { answered: 9, ..Requests::default() };
        let late = LoadOutcome { requests, ..silent };
        assert!(page(&late).html().contains("The generator limited this result"));
    }

    #[test]
    fn the_headline_has_no_quantile_of_too_few_times() {
        let headline = |count: u64| {
            let [p50_ns, p99_ns, max_ns] = [1_000_000, 5_000_000, 6_000_000];
            let response_time = TimeSummary { count, p50_ns, p99_ns, max_ns, ..TimeSummary::default() };
            page(&LoadOutcome { response_time, ..LoadOutcome::default() }).headline().replace('\u{a0}', " ")
        };
        assert_eq!(headline(1), "0.0 responses/s; all within 6.00 ms; no error.");
        assert_eq!(headline(99), "0.0 responses/s; half within 1.00 ms, all within 6.00 ms; no error.");
        assert_eq!(headline(100), "0.0 responses/s; half within 1.00 ms, 99 % within 5.00 ms; no error.");
    }
}
