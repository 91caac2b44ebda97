//! Charts of a target over time: response times with outages and gaps, rate, resources.

use breme_expression::Unit;
use breme_watch::history::{History, Point, TargetHistory};
use breme_watch::record::{Gap, Outage};
use breme_watch::text;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, Look};
use crate::figures::figure;
use crate::html::bands::bands;
use crate::table::Table;

/// Most outages and gaps marked in a chart or listed.
pub(super) const MARKS_MAX: usize = 200;
/// Most points of a line, more than a screen has columns.
const POINTS_MAX: usize = 1_500;
/// A line breaks where points are farther apart than this many times the median distance.
const GAP_FACTOR: i64 = 3;
/// Longest spans that are shown as intervals, as minutes, and as minutes if these have enough responses.
const INTERVALS_UP_TO_MS: i64 = 2 * 3_600_000;
const MINUTES_UP_TO_MS: i64 = 12 * 3_600_000;
const FULL_MINUTES_UP_TO_MS: i64 = 7 * 86_400_000;
/// Responses per minute from which on its 99th percentile is more than its maximum.
const FULL_MINUTE_RESPONSES: u64 = 100;
const QUANTILES: [&str; 3] = ["median", "95th percentile", "99th percentile"];
/// Height of the grid's margins, pixels.
const AXIS_PX: u32 = 32;

/// Value of a point; none if not measured.
type ValueOf = fn(&Point) -> Option<f64>;

pub(super) struct Charts<'a> {
    pub name: String,
    pub target: &'a TargetHistory,
    pub history: &'a History,
    pub zone: &'a TimeZone,
}

impl Charts<'_> {
    /// The finest resolution that is readable over the whole time.
    fn points(&self) -> &[Point] {
        let TargetHistory { hours, minutes, recent, .. } = self.target;
        let span = self.history.to_ms - self.history.from_ms;
        let are_full = || {
            let responses: u64 = minutes.iter().map(|minute| minute.counts.ok).sum();
            responses >= FULL_MINUTE_RESPONSES * minutes.len() as u64
        };
        let are_minutes = span <= MINUTES_UP_TO_MS || (span <= FULL_MINUTES_UP_TO_MS && are_full());
        if span <= INTERVALS_UP_TO_MS && !recent.is_empty() {
            recent
        } else if are_minutes && !minutes.is_empty() {
            minutes
        } else {
            hours
        }
    }

    fn local_ms(&self, wall_ms: i64) -> i64 {
        text::local_as_utc(wall_ms, self.zone)
    }

    /// Percentile bands of the response time.
    pub(super) fn response_times(&self) -> Option<Chart> {
        let points = merged(self.points());
        let seconds = |point: &Point| [point.p50_ns, point.p95_ns, point.p99_ns].map(|nanos| nanos as f64 / 1e9);
        let measured = points.iter().flat_map(seconds).filter(|value| *value > 0.0);
        measured.clone().next()?;
        let axis = Axis::fit(measured, Counting::In(Unit::Seconds)).starting_at_zero();
        let mut rows = Table::new(["time", "#median", "#95 %", "#99 %", "#requests", "#errors"]);
        for point in &points {
            let [p50, p95, p99] = seconds(point).map(|value| figure(value, Unit::Seconds));
            let (requests, errors) = (point.counts.requests.to_string(), point.counts.errors().to_string());
            rows.push([text::time(point.wall_ms, self.zone), p50, p95, p99, requests, errors]);
        }
        let places = self.with_breaks(&points, |point| {
            let values = seconds(point);
            (values[0] > 0.0).then(|| values.map(|value| axis.place(value).as_f64().unwrap_or(0.0)))
        });
        let mut series = bands(&places);
        series[1]["markArea"] = self.marks();
        Some(Chart {
            caption: String::from(
                "Median (line), 95th and 99th percentile (bands). Red: outage. Grey: gap. Local time.",
            ),
            says: format!("Response times of {} over time, with outages marked", self.name),
            height_px: 320,
            option: self.option(&axis, 16, &series),
            words: json!({ "x": "@time", "y": axis.words(), "names": QUANTILES }),
            legend: Vec::new(),
            table: rows.limited(MARKS_MAX),
        })
    }

    /// Rate, CPU, memory, threads and descriptors, with their names; those that were measured.
    pub(super) fn resources(&self) -> Vec<(&'static str, Chart)> {
        let points = merged(self.points());
        let charts: [(&str, &str, Unit, ValueOf); 5] = [
            ("Requests per second", "Expected responses per second of measurement.", Unit::PerSecond, |point| {
                // A single request has a response time, and no rate.
                (point.counts.requests > point.up + point.down).then(|| point.rate())
            }),
            ("Processors used", "CPU time of the processes by elapsed time.", Unit::Share, Point::cpu_share),
            ("Memory", "Resident memory of the processes.", Unit::Bytes, |point| {
                Some(point.usage?.memory_bytes as f64)
            }),
            ("Threads", "Threads of the processes.", Unit::Plain, |point| Some(point.usage?.threads as f64)),
            ("Open descriptors", "Open descriptors of the processes.", Unit::Plain, |point| {
                Some(point.usage?.descriptors as f64)
            }),
        ];
        let chart = |(name, caption, unit, value): (&'static str, &str, Unit, ValueOf)| {
            Some((name, self.line(name, caption, unit, value, &points)?))
        };
        charts.into_iter().filter_map(chart).collect()
    }

    fn line(&self, name: &str, caption: &str, unit: Unit, value: ValueOf, points: &[Point]) -> Option<Chart> {
        let values: Vec<(i64, f64)> = points.iter().filter_map(|point| Some((point.wall_ms, value(point)?))).collect();
        if values.is_empty() {
            return None;
        }
        let axis = Axis::fit(values.iter().map(|(_, value)| *value), Counting::In(unit)).starting_at_zero();
        let mut rows = Table::new(["time", &format!("#{name}")]);
        for (wall_ms, value) in &values {
            rows.push([text::time(*wall_ms, self.zone), figure(*value, unit)]);
        }
        let data: Vec<Value> = self
            .with_breaks(points, value)
            .into_iter()
            .map(|(x, value)| json!([x, value.map(|value| axis.place(value))]))
            .collect();
        let series = json!([{
            "type": "line", "id": "value", "name": "line 0", "data": data, "symbol": "none",
            "lineStyle": { "color": Look::neutral(0).colour(), "width": 1.5 },
            "itemStyle": { "color": Look::neutral(0).colour() },
            "markArea": self.marks(),
        }]);
        Some(Chart {
            caption: caption.to_owned(),
            says: format!("{name} of {} over time", self.name),
            height_px: 180,
            option: self.option(&axis, 12, &series),
            words: json!({ "x": "@time", "y": axis.words(), "names": [name] }),
            legend: Vec::new(),
            table: rows.limited(MARKS_MAX),
        })
    }

    fn option(&self, axis: &Axis, top_px: u32, series: &Value) -> Value {
        json!({
            "useUTC": true,
            "grid": { "left": 68, "right": 16, "top": top_px, "bottom": AXIS_PX },
            "xAxis": {
                "type": "time",
                "min": self.local_ms(self.history.from_ms), "max": self.local_ms(self.history.to_ms),
                "splitLine": { "show": false }, "axisLabel": { "hideOverlap": true, "formatter": "@clock" },
            },
            "yAxis": axis.option(""),
            "tooltip": { "trigger": "axis", "formatter": "@axis" },
            "series": series,
        })
    }

    /// Local time and value of each point, with an empty one in each gap.
    fn with_breaks<T>(&self, points: &[Point], value: impl Fn(&Point) -> Option<T>) -> Vec<(i64, Option<T>)> {
        let distance = median_distance(points);
        let mut values = Vec::new();
        let mut before: Option<i64> = None;
        for point in points {
            let x = self.local_ms(point.wall_ms);
            if before.is_some_and(|before| point.wall_ms - before > GAP_FACTOR * distance) {
                values.push((x, None));
            }
            before = Some(point.wall_ms);
            values.push((x, value(point)));
        }
        values
    }

    /// The latest outages and gaps.
    fn marks(&self) -> Value {
        let area = |from_ms: i64, to_ms: i64, colour: &str, opacity: f64| {
            let style = json!({ "color": colour, "opacity": opacity, "borderColor": colour, "borderWidth": 1 });
            json!([{ "xAxis": self.local_ms(from_ms), "itemStyle": style }, { "xAxis": self.local_ms(to_ms) }])
        };
        let span = |length_ms: u64| i64::try_from(length_ms).unwrap_or(0);
        let down = |from_ms: i64, to_ms: i64| area(from_ms, to_ms, "var(--refuted)", 0.35);
        let outage = |one: &Outage| down(one.from_ms, one.from_ms + span(one.length_ms));
        let gap = |one: &Gap| area(one.until_ms - span(one.length_ms), one.until_ms, "var(--n1)", 0.3);
        let mut areas: Vec<Value> = self.target.outages.iter().rev().take(MARKS_MAX).map(outage).collect();
        areas.extend(self.target.ongoing.iter().map(|outage| down(outage.from_ms, self.history.to_ms)));
        areas.extend(self.history.gaps.iter().rev().take(MARKS_MAX).map(gap));
        json!({ "silent": true, "data": areas })
    }
}

/// Neighbouring points merged to at most [`POINTS_MAX`]: the median of medians, the largest tails.
fn merged(points: &[Point]) -> Vec<Point> {
    let merge = |chunk: &[Point]| {
        let mut merged = chunk.get(chunk.len() / 2)?.clone();
        let mut medians: Vec<u64> = chunk.iter().map(|point| point.p50_ns).filter(|nanos| *nanos > 0).collect();
        medians.sort_unstable();
        merged.p50_ns = medians.get(medians.len() / 2).copied().unwrap_or(0);
        merged.p95_ns = chunk.iter().map(|point| point.p95_ns).max()?;
        merged.p99_ns = chunk.iter().map(|point| point.p99_ns).max()?;
        Some(merged)
    };
    points.chunks(points.len().div_ceil(POINTS_MAX).max(1)).filter_map(merge).collect()
}

fn median_distance(points: &[Point]) -> i64 {
    let mut distances: Vec<i64> = points.windows(2).map(|pair| pair[1].wall_ms - pair[0].wall_ms).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).copied().unwrap_or(0).max(1)
}
