//! A subject's own counters during a trial.

use std::collections::BTreeMap;

use super::scraper::Scrape;
use super::track::{Sample, Track};

/// The most series whose samples are kept.
const SERIES_MAX: usize = super::exposition::SERIES_MAX;

/// Exposed values, by series.
#[derive(Clone, Debug, Default)]
pub(super) struct SubjectCounters {
    series: BTreeMap<String, Series>,
    track: Track<Values>,
}

#[derive(Clone, Debug)]
struct Series {
    index: usize,
    is_counter: bool,
    last: f64,
    /// The value before a reset to zero (a restart), so that the sum continues to grow.
    offset: f64,
}

#[derive(Clone, Debug)]
struct Values {
    at_ns: u64,
    values: Vec<f64>,
}

impl Sample for Values {
    fn at_ns(&self) -> u64 {
        self.at_ns
    }

    fn between(earlier: &Self, later: &Self, share: f64) -> Self {
        let value = |(index, &later): (usize, &f64)| {
            // A series that did not exist before starts at zero.
            let earlier = earlier.values.get(index).copied().unwrap_or(0.0);
            let value = earlier + (later - earlier) * share;
            if earlier.fract() == 0.0 && later.fract() == 0.0 { value.round() } else { value }
        };
        Self { at_ns: later.at_ns, values: later.values.iter().enumerate().map(value).collect() }
    }
}

impl SubjectCounters {
    /// Adds a scrape, unless one of the same or a later time is known.
    pub(super) fn push(&mut self, scrape: &Scrape) {
        if self.track.samples().next_back().is_some_and(|newest| newest.at_ns >= scrape.at_ns) {
            return;
        }
        for (name, value) in &scrape.exposed {
            let index = self.series.len();
            if index >= SERIES_MAX && !self.series.contains_key(name) {
                continue;
            }
            let series = self.series.entry(name.clone()).or_insert(Series {
                index,
                is_counter: value.is_counter,
                last: value.value,
                offset: 0.0,
            });
            if series.is_counter && value.value < series.last {
                series.offset += series.last;
            }
            series.last = value.value;
        }
        let mut values = vec![0.0; self.series.len()];
        for series in self.series.values() {
            values[series.index] = series.offset + series.last;
        }
        self.track.push(Values { at_ns: scrape.at_ns, values });
    }

    /// The growth of counters from one instant to the other, and the final values of gauges.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64) -> BTreeMap<String, f64> {
        let (Some(from), Some(to)) = (self.track.at(from_ns), self.track.at(to_ns)) else { return BTreeMap::new() };
        let seen = self.track.samples().rfind(|values| values.at_ns <= to_ns).unwrap_or(&to);
        let value = |series: &Series| {
            let at = |values: &Values| values.values.get(series.index).copied().unwrap_or(0.0);
            if series.is_counter { at(&to) - at(&from) } else { at(seen) }
        };
        self.series.iter().map(|(name, series)| (name.clone(), value(series))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::parse;
    use super::*;

    fn counters(scrapes: &[(u64, &str)]) -> SubjectCounters {
        let mut counters = SubjectCounters::default();
        for &(at_ns, text) in scrapes {
            counters.push(&Scrape { at_ns, exposed: parse(text).unwrap() });
        }
        counters
    }

    #[test]
    fn counters_grow_and_gauges_are_as_they_were_last() {
        let counters = counters(&[
            (0, "a_total 10\nopen 3\n"),
            (10, "a_total 30\nopen 4\nb_total 2\n"),
            (20, "a_total 35\nopen 9\nb_total 2\n"),
        ]);
        let check =
            |from, to, name, expected| assert_eq!(counters.within(from, to)[name], expected, "{name} {from} {to}");
        check(0, 20, "a_total", 25.0);
        check(5, 15, "a_total", 13.0);
        check(0, 20, "b_total", 2.0);
        check(0, 20, "open", 9.0);
        check(0, 15, "open", 4.0);
    }

    #[test]
    fn a_restart_does_not_make_a_counter_shrink() {
        let counters = counters(&[(0, "a_total 10\n"), (10, "a_total 30\n"), (20, "a_total 5\n"), (30, "a_total 6\n")]);
        assert_eq!(counters.within(0, 30)["a_total"], 26.0);
        assert!(SubjectCounters::default().within(0, 1).is_empty());
    }
}
