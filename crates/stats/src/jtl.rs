//! `.jtl`: JMeter's result log as CSV, for its listeners, its report generator (`jmeter -g`) and the tools of build
//! servers.
//!
//! The log has a row for each request, as JMeter writes it. (It also supports rows for several requests, with
//! `SampleCount`, but its report generator counts each of these as one.) The rows are derived from the histograms of an
//! interval: their number, their times to the millisecond and the times of failures are as measured; the position of a
//! request in its interval is unknown, so they are spread over it; time and time to the first byte are paired by rank.

use std::io::{self, Write};
use std::time::Duration;

use crate::Histogram;

/// The columns, in the only order that JMeter accepts.
const HEAD: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,\
                    bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect";
/// Nanoseconds of the unit of all columns of time.
const UNIT_NS: u64 = 1_000_000;

/// The requests of an interval.
#[derive(Clone, Copy, Debug)]
pub struct JtlInterval<'a> {
    /// Since 1970-01-01 00:00:00 UTC.
    pub start: Duration,
    pub length: Duration,
    /// Times of all requests that have one, from due to done.
    pub times: &'a Histogram,
    /// The times of failed requests among them.
    pub wrong: &'a Histogram,
    /// The times to the first byte.
    pub first_byte: &'a Histogram,
    /// Requests without a response, and so without a time.
    pub lost: u64,
    pub received_bytes: u64,
}

#[derive(Debug)]
pub struct JtlWriter<W> {
    out: W,
    /// The columns that are the same in every row.
    label: String,
    url: String,
    users: usize,
    /// Start of the first interval: no request began before it.
    started: Option<Duration>,
}

/// How a request ended.
#[derive(Clone, Copy)]
enum Fate {
    Right,
    Wrong,
    Lost,
}

impl Fate {
    /// From `responseCode` to `failureMessage`. The status of each request is unknown, so there are words instead.
    const fn columns(self) -> &'static str {
        match self {
            Self::Right => "ok,,breme 1-1,text,true,",
            Self::Wrong => "wrong,,breme 1-1,text,false,not as expected or not in time",
            Self::Lost => "lost,,breme 1-1,text,false,no answer",
        }
    }
}

impl<W: Write> JtlWriter<W> {
    /// Begins a log of requests to `url` by `users` users, which JMeter lists under `label`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn begin(mut out: W, label: &str, url: &str, users: usize) -> io::Result<Self> {
        writeln!(out, "{HEAD}")?;
        Ok(Self { out, label: quoted(label), url: quoted(url), users, started: None })
    }

    /// Writes the rows of an interval.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&mut self, interval: &JtlInterval<'_>) -> io::Result<()> {
        self.started.get_or_insert(interval.start);
        let count = interval.times.count() + interval.lost;
        let mut spread = Spread::new(interval, count);
        let bytes = interval.received_bytes / interval.times.count().max(1);
        let mut before = 0;
        for step in interval.times.counts().iter_recorded() {
            let (nanos, here) = (step.value_iterated_to(), step.count_at_value());
            let rank = (before + here / 2) as f64 / interval.times.count() as f64;
            let latency = interval.first_byte.quantile(rank).min(nanos);
            let wrong = interval.wrong.counts().count_at(nanos).min(here);
            for (fate, count) in [(Fate::Right, here - wrong), (Fate::Wrong, wrong)] {
                for _ in 0..count {
                    self.row(spread.next(), nanos, fate, bytes, latency)?;
                }
            }
            before += here;
        }
        for _ in 0..interval.lost {
            self.row(spread.next(), 0, Fate::Lost, 0, 0)?;
        }
        Ok(())
    }

    /// Writes the row of a request that ended at `done`; JMeter expects its start.
    fn row(&mut self, done: Duration, nanos: u64, fate: Fate, bytes: u64, latency: u64) -> io::Result<()> {
        let Self { out, label, url, users, started } = self;
        let began = done.saturating_sub(Duration::from_nanos(nanos)).max(started.unwrap_or_default()).as_millis();
        let (elapsed, latency) = (in_unit(nanos), in_unit(latency));
        let columns = fate.columns();
        writeln!(out, "{began},{elapsed},{label},{columns},{bytes},0,{users},{users},{url},{latency},0,0")
    }

    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Equidistant positions in an interval, in scattered order, so that long times do not cluster at its end.
struct Spread {
    start: Duration,
    length: Duration,
    count: u64,
    step: u64,
    place: u64,
}

impl Spread {
    fn new(interval: &JtlInterval<'_>, count: u64) -> Self {
        // A step near the golden section, coprime to the count, visits every position once.
        let golden = (count as f64 * 0.618) as u64;
        let step = (golden.max(1)..).find(|&step| greatest_common_divisor(step, count) <= 1).unwrap_or(1);
        Self { start: interval.start, length: interval.length, count: count.max(1), step, place: 0 }
    }

    fn next(&mut self) -> Duration {
        self.place = (self.place + self.step) % self.count;
        self.start + self.length.mul_f64((self.place as f64 + 0.5) / self.count as f64)
    }
}

const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

const fn in_unit(nanos: u64) -> u64 {
    (nanos + UNIT_NS / 2) / UNIT_NS
}

/// RFC 4180, section 2; without line breaks, since JMeter reads line by line.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn histogram(samples: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        samples.into_iter().for_each(|sample| histogram.record(sample));
        histogram
    }

    fn rows(interval: &JtlInterval<'_>) -> Vec<Vec<String>> {
        let mut writer = JtlWriter::begin(Vec::new(), "GET, all", "http://a/x", 7).unwrap();
        writer.write(interval).unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap().replace("\"GET, all\"", "GET all");
        let rows: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        assert!(rows.iter().all(|row| row.len() == 17), "{text}");
        rows
    }

    #[test]
    fn each_request_has_a_row_with_its_time_and_its_fate() {
        let (times, wrong) = (histogram((1..=90).map(|n| n * 1_000_000)), histogram([5_000_000, 80_000_000]));
        let first_byte = histogram((1..=90).map(|n| n * 500_000));
        let (start, length) = (Duration::from_secs(1_700_000_000), Duration::from_millis(200));
        let received_bytes = 90 * 300;
        let interval = JtlInterval {
            start,
            length,
            times: &times,
            wrong: &wrong,
            first_byte: &first_byte,
            lost: 3,
            received_bytes,
        };
        let rows = rows(&interval);
        assert_eq!(rows[0].join(","), HEAD);
        assert_eq!(rows.len(), 1 + 93);
        let mut fates: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        rows[1..].iter().for_each(|row| *fates.entry((&row[3], &row[7])).or_default() += 1);
        assert_eq!(fates, BTreeMap::from([(("ok", "true"), 88), (("wrong", "false"), 2), (("lost", "false"), 3)]));
        let wrong: Vec<&str> = rows[1..].iter().filter(|row| row[3] == "wrong").map(|row| row[1].as_str()).collect();
        assert_eq!(wrong, ["5", "80"]);
        let millis = |row: &[String], column: usize| row[column].parse::<u64>().unwrap();
        for row in &rows[1..] {
            let done = millis(row, 0) + millis(row, 1);
            assert!((1_700_000_000_000..=1_700_000_000_291).contains(&done), "{row:?}");
            assert!(millis(row, 0) >= 1_700_000_000_000, "nothing began before the run: {row:?}");
            assert!(millis(row, 14) <= millis(row, 1), "{row:?}");
        }
        assert_eq!(rows[1..].iter().map(|row| millis(row, 9)).sum::<u64>(), received_bytes);
        assert_eq!((rows[1][2].as_str(), rows[1][11].as_str(), rows[1][13].as_str()), ("GET all", "7", "http://a/x"));
    }

    #[test]
    fn the_places_are_all_there_once_and_an_empty_interval_has_no_row() {
        let none = &Histogram::new();
        let interval = JtlInterval {
            start: Duration::from_secs(100),
            length: Duration::from_secs(1),
            times: none,
            wrong: none,
            first_byte: none,
            lost: 0,
            received_bytes: 0,
        };
        assert_eq!(rows(&interval).len(), 1);
        for count in [1, 2, 3, 10, 97, 1_000] {
            let mut spread = Spread::new(&interval, count);
            let mut places: Vec<Duration> = (0..count).map(|_| spread.next()).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len() as u64, count);
        }
    }
}
