//! The heat map of a target: local hours by weekdays.

use std::collections::BTreeMap;

use breme_watch::history::{Point, TargetHistory};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Range of values, as a ratio, that takes at least the whole range of colours: noise gets no strong ones.
const RANGE_MIN: f64 = 1.1;
/// Units and their nanoseconds.
const UNITS: [(&str, f64); 3] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];

/// Hour of the day and day of the week.
type WeekHour = (i8, i8);

#[derive(Default)]
struct Cell {
    medians_ns: Vec<u64>,
    is_down: bool,
}

impl Cell {
    fn median_ns(&self) -> Option<u64> {
        let mut medians = self.medians_ns.clone();
        medians.sort_unstable();
        medians.get(medians.len() / 2).copied()
    }
}

/// Median of each local hour of the week; empty without responses.
pub(super) fn heat_map(target: &TargetHistory, zone: &TimeZone) -> Markup {
    let cells = cells(&target.hours, zone);
    let medians: BTreeMap<WeekHour, u64> =
        cells.iter().filter_map(|(place, cell)| Some((*place, cell.median_ns()?))).collect();
    let (Some(&low), Some(&high)) = (medians.values().min(), medians.values().max()) else { return html! {} };
    let (unit, unit_ns) = UNITS.into_iter().find(|(_, nanos)| high as f64 >= *nanos).unwrap_or(UNITS[2]);
    let range = (high as f64 / low as f64).max(RANGE_MIN).ln();
    let heat = |nanos: u64| (nanos as f64 / low as f64).ln() / range;
    html! {
        h3 { "Hours and days" }
        p.remark { "Median response time of each local hour of the week, " (unit) ". Framed: some intervals were down." }
        div.scroll.whole role="region" aria-label="Hours and days" tabindex="0" {
            table.heat {
                thead { tr { th scope="col" { "hour" } @for day in WEEKDAYS { th scope="col" { (day) } } } }
                tbody {
                    @for hour in 0..24_i8 {
                        tr {
                            th scope="row" { (hour) ":00" }
                            @for day in 0..7_i8 {
                                @let is_down = cells.get(&(hour, day)).is_some_and(|cell| cell.is_down);
                                @match medians.get(&(hour, day)) {
                                    Some(nanos) => td class=[is_down.then_some("down")] style=(format!("--heat:{:.2}", heat(*nanos))) { (digits(*nanos as f64 / unit_ns)) },
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

fn cells(hours: &[Point], zone: &TimeZone) -> BTreeMap<WeekHour, Cell> {
    let mut cells: BTreeMap<WeekHour, Cell> = BTreeMap::new();
    for point in hours {
        let Ok(time) = Timestamp::from_millisecond(point.wall_ms) else { continue };
        let local = time.to_zoned(zone.clone());
        let cell = cells.entry((local.hour(), local.weekday().to_monday_zero_offset())).or_default();
        cell.medians_ns.extend((point.p50_ns > 0).then_some(point.p50_ns));
        cell.is_down |= point.down > 0;
    }
    cells
}

/// Formats three significant digits.
fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
