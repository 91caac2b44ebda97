//! The time series of a run; by default with intervals of one second.
//!
//! Each shard keeps only the histograms of the current interval and hands them in when it ends; here the shards'
//! intervals are merged, so that an interval's quantiles are those of all its requests. This takes one lock per
//! interval and shard, and the memory does not grow with the run: after [`ROWS_MAX`] rows, pairs of rows are merged.

use std::collections::VecDeque;
use std::time::Duration;

use breme_base::Instant;
use breme_load_result::Row;
use breme_stats::Histogram;

/// Limit of rows: an hour of seconds; a longer run has rows of 2, 4, 8 … intervals.
const ROWS_MAX: usize = 3_600;
/// Limit of intervals that wait for a shard's part. Beyond it they are closed without it, and the part counts in a
/// later interval.
const PENDING_MAX: usize = 16;

/// The measurements of one interval, by one or all shards.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Number of complete responses.
    pub answered: u64,
    /// Number of errors of all kinds.
    pub errors: u64,
    pub received_bytes: u64,
    /// Sum of the times from the arrival of a response in the kernel to its reading.
    pub held_ns: u64,
    /// Maximum of these times.
    pub held_max_ns: u64,
    /// From sending to the end of the response; timed-out requests with their time limit.
    pub service: Histogram,
    /// From sending to the first byte of the response.
    pub first_byte: Histogram,
    /// From the moment the request was wanted, or due, to the end of the response.
    pub response: Histogram,
    /// To open a connection, including the TLS handshake.
    pub connect: Histogram,
    /// The response times of unexpected responses and time-outs.
    pub wrong: Histogram,
    /// Times that are service, first-byte and response time at once; before the interval is complete.
    pub(crate) prompt: Histogram,
}

impl Interval {
    /// Errors without a time: there was no response, or nothing was sent.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.errors.saturating_sub(self.wrong.count())
    }

    pub fn merge(&mut self, other: &Self) {
        self.merge_row(other);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.wrong.merge(&other.wrong);
        self.prompt.merge(&other.prompt);
    }

    /// Adds the shared times to each kind of time.
    fn complete(&mut self) {
        let Self { service, response, first_byte, prompt, .. } = self;
        [service, response, first_byte].into_iter().for_each(|times| times.merge(prompt));
        prompt.clear();
    }

    /// Merges only the values that a row has.
    fn merge_row(&mut self, other: &Self) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.received_bytes += other.received_bytes;
        self.held_ns = self.held_ns.saturating_add(other.held_ns);
        self.held_max_ns = self.held_max_ns.max(other.held_max_ns);
        self.service.merge(&other.service);
        self.response.merge(&other.response);
    }

    pub(crate) fn clear(&mut self) {
        (self.answered, self.errors, self.received_bytes) = (0, 0, 0);
        (self.held_ns, self.held_max_ns) = (0, 0);
        self.service.clear();
        self.first_byte.clear();
        self.response.clear();
        self.connect.clear();
        self.wrong.clear();
        self.prompt.clear();
    }
}

/// A complete interval.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub run_started: Instant,
    /// Start of the interval, from the start of the run.
    pub start: Duration,
    pub length: Duration,
    /// The measurements of all shards.
    pub interval: &'a Interval,
}

/// Called with every complete interval, by a shard's thread, so it must not block.
pub type Observer = Box<dyn FnMut(Observed<'_>) + Send>;

/// The intervals of all shards.
pub(crate) struct Series {
    /// Length of an interval.
    length: Duration,
    run_started: Instant,
    total: Interval,
    rows: Vec<Row>,
    rows_max: usize,
    intervals_per_row: u64,
    /// The first interval of the open row.
    row_begins: u64,
    /// The sum of the open row.
    open_row: Interval,
    pending: VecDeque<Pending>,
    spare: Vec<Interval>,
    /// The first open interval.
    next_index: u64,
    /// Each shard has handed in every interval before this.
    handed_in: Vec<u64>,
    observer: Option<Observer>,
}

struct Pending {
    index: u64,
    interval: Interval,
}

/// Marks a shard that hands in nothing more.
const DONE: u64 = u64::MAX;

impl Series {
    pub(crate) fn new(length: Duration, shard_count: usize, observer: Option<Observer>) -> Self {
        Self {
            length,
            run_started: Instant::ZERO,
            total: Interval::default(),
            rows: Vec::new(),
            rows_max: ROWS_MAX,
            intervals_per_row: 1,
            row_begins: 0,
            open_row: Interval::default(),
            pending: VecDeque::new(),
            spare: Vec::new(),
            next_index: 0,
            handed_in: vec![0; shard_count],
            observer,
        }
    }

    /// Starts the run, for all shards at the same instant.
    pub(crate) const fn begin(&mut self, started: Instant) {
        self.run_started = started;
    }

    /// Takes a shard's measurements of the interval `index`; the shard hands in nothing more before `next`.
    pub(crate) fn hand_in(&mut self, shard: usize, index: u64, next: u64, interval: &Interval) {
        self.total.merge(interval);
        let index = index.max(self.next_index);
        let place = self.pending.partition_point(|pending| pending.index < index);
        if self.pending.get(place).is_none_or(|pending| pending.index != index) {
            let interval = self.spare.pop().unwrap_or_default();
            self.pending.insert(place, Pending { index, interval });
        }
        self.pending[place].interval.merge(interval);
        if let Some(handed_in) = self.handed_in.get_mut(shard) {
            *handed_in = next;
        }
        self.close_complete();
    }

    pub(crate) fn finish_shard(&mut self, shard: usize, index: u64, interval: &Interval) {
        self.hand_in(shard, index, DONE, interval);
    }

    fn close_complete(&mut self) {
        let complete = self.handed_in.iter().copied().min().unwrap_or(DONE);
        while let Some(index) = self.pending.front().map(|pending| pending.index) {
            // The last intervals wait for `finish`, which has the length of the very last one.
            let is_complete = complete != DONE && index < complete;
            if !is_complete && self.pending.len() <= PENDING_MAX {
                return;
            }
            self.close_until(index);
            self.close_front(self.length);
        }
    }

    /// When the interval `index` begins.
    fn start_of(&self, index: u64) -> Duration {
        Duration::from_nanos((self.length.as_nanos() as u64).saturating_mul(index))
    }

    /// Closes the intervals before `index`, which are empty: no thread of the generator ran at their ends.
    fn close_until(&mut self, index: u64) {
        if self.next_index >= index {
            return;
        }
        let empty = Interval::default();
        while self.next_index < index {
            let (start, length) = (self.start_of(self.next_index), self.length);
            if let Some(observer) = &mut self.observer {
                observer(Observed { run_started: self.run_started, start, length, interval: &empty });
            }
            self.next_index += 1;
            self.close_row_at_boundary();
        }
    }

    fn close_front(&mut self, length: Duration) {
        let Some(Pending { index, mut interval }) = self.pending.pop_front() else { return };
        interval.complete();
        let start = self.start_of(index);
        if let Some(observer) = &mut self.observer {
            observer(Observed { run_started: self.run_started, start, length, interval: &interval });
        }
        self.next_index = index + 1;
        if length == self.length && self.intervals_per_row == 1 {
            self.push_row(self.start_of(self.next_index), &interval);
        } else {
            self.open_row.merge_row(&interval);
            if length == self.length {
                self.close_row_at_boundary();
            }
        }
        interval.clear();
        self.spare.push(interval);
    }

    fn close_row_at_boundary(&mut self) {
        if self.next_index.is_multiple_of(self.intervals_per_row) {
            self.close_row(self.start_of(self.next_index));
        }
    }

    /// Closes the open row, which ends at `end`.
    fn close_row(&mut self, end: Duration) {
        let mut open_row = std::mem::take(&mut self.open_row);
        self.push_row(end, &open_row);
        open_row.clear();
        self.open_row = open_row;
    }

    /// Adds a row that ends at `end`.
    fn push_row(&mut self, end: Duration, measured: &Interval) {
        let start = self.start_of(self.row_begins);
        let length = end.saturating_sub(start).max(Duration::from_nanos(1));
        self.row_begins = self.next_index;
        let Interval { answered, errors, received_bytes, held_ns, held_max_ns, service, response, .. } = measured;
        self.rows.push(Row {
            start_s: start.as_secs_f64(),
            length_s: length.as_secs_f64(),
            answered: *answered,
            errors: *errors,
            received_bytes: *received_bytes,
            service_mean_ns: service.mean(),
            service_p50_ns: service.quantile(0.5),
            service_p90_ns: service.quantile(0.9),
            service_p99_ns: service.quantile(0.99),
            service_max_ns: service.max(),
            response_p50_ns: response.quantile(0.5),
            response_p90_ns: response.quantile(0.9),
            response_p99_ns: response.quantile(0.99),
            response_max_ns: response.max(),
            held_mean_ns: *held_ns as f64 / (*answered).max(1) as f64,
            held_max_ns: *held_max_ns,
        });
        if self.rows.len() >= self.rows_max {
            self.rows = self.rows.chunks(2).map(merged).collect();
            self.intervals_per_row *= 2;
        }
    }

    /// Closes the rest of a run that lasted `elapsed`.
    pub(crate) fn finish(&mut self, elapsed: Duration) {
        while let Some(index) = self.pending.front().map(|pending| pending.index) {
            self.close_until(index);
            // The last one ends with the run, so it includes the wait at the end.
            let is_last = self.pending.len() == 1;
            let rest = elapsed.saturating_sub(self.start_of(index)).max(Duration::from_nanos(1));
            self.close_front(if is_last { rest } else { self.length });
        }
        self.total.complete();
        let has_rest = self.open_row.answered + self.open_row.errors > 0;
        if has_rest {
            self.close_row(elapsed);
        }
        self.observer = None;
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The whole run, once it is finished.
    pub(crate) const fn total(&self) -> &Interval {
        &self.total
    }
}

impl std::fmt::Debug for Series {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Series").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

/// A sum of decimal fractions, rounded to undo binary representation errors.
fn to_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

fn merged(rows: &[Row]) -> Row {
    let first = rows[0];
    rows[1..].iter().fold(first, |sum, row| {
        let answered = sum.answered + row.answered;
        let mean = |of: fn(&Row) -> f64| {
            let weight = |row: &Row| of(row) * row.answered as f64 / answered.max(1) as f64;
            weight(&sum) + weight(row)
        };
        Row {
            start_s: sum.start_s,
            length_s: to_nanoseconds(sum.length_s + row.length_s),
            answered,
            errors: sum.errors + row.errors,
            received_bytes: sum.received_bytes + row.received_bytes,
            service_mean_ns: mean(|row| row.service_mean_ns),
            service_p50_ns: sum.service_p50_ns.max(row.service_p50_ns),
            service_p90_ns: sum.service_p90_ns.max(row.service_p90_ns),
            service_p99_ns: sum.service_p99_ns.max(row.service_p99_ns),
            service_max_ns: sum.service_max_ns.max(row.service_max_ns),
            response_p50_ns: sum.response_p50_ns.max(row.response_p50_ns),
            response_p90_ns: sum.response_p90_ns.max(row.response_p90_ns),
            response_p99_ns: sum.response_p99_ns.max(row.response_p99_ns),
            response_max_ns: sum.response_max_ns.max(row.response_max_ns),
            held_mean_ns: mean(|row| row.held_mean_ns),
            held_max_ns: sum.held_max_ns.max(row.held_max_ns),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn interval(times: &[u64]) -> Interval {
        let mut interval = Interval { answered: times.len() as u64, ..Interval::default() };
        times.iter().for_each(|&time| interval.service.record(time));
        interval
    }

    #[test]
    fn an_interval_is_closed_when_every_shard_has_handed_it_in() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&seen);
        let observer: Observer =
            Box::new(move |one| observed.lock().unwrap().push((one.start, one.length, one.interval.answered)));
        let mut series = Series::new(SECOND, 2, Some(observer));
        series.hand_in(0, 0, 1, &interval(&[10, 20]));
        series.hand_in(0, 1, 2, &interval(&[30]));
        assert!(series.rows().is_empty(), "shard 1 may still have something");
        series.hand_in(1, 0, 1, &interval(&[40]));
        assert_eq!(series.rows().len(), 1);
        assert_eq!((series.rows()[0].answered, series.rows()[0].service_max_ns), (3, 40));
        series.finish_shard(1, 1, &interval(&[]));
        series.finish_shard(0, 2, &interval(&[5]));
        series.finish(Duration::from_millis(2_500));
        let rows: Vec<(f64, f64, u64)> =
            series.rows().iter().map(|row| (row.start_s, row.length_s, row.answered)).collect();
        assert_eq!(rows, [(0.0, 1.0, 3), (1.0, 1.0, 1), (2.0, 0.5, 1)]);
        assert_eq!((series.total().answered, series.total().service.count()), (5, 5));
        let expected = [(Duration::ZERO, SECOND, 3), (SECOND, SECOND, 1), (SECOND * 2, SECOND / 2, 1)];
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[test]
    fn intervals_without_anything_are_rows_and_observed_too() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&seen);
        let observer: Observer = Box::new(move |one| observed.lock().unwrap().push((one.start, one.interval.answered)));
        let mut series = Series::new(SECOND, 1, Some(observer));
        series.hand_in(0, 0, 3, &interval(&[1]));
        series.hand_in(0, 3, 4, &interval(&[1]));
        assert_eq!(series.rows().iter().map(|row| row.answered).collect::<Vec<_>>(), [1, 0, 0, 1]);
        assert_eq!(*seen.lock().unwrap(), [(Duration::ZERO, 1), (SECOND, 0), (2 * SECOND, 0), (3 * SECOND, 1)]);
    }

    #[test]
    fn a_shard_that_is_stuck_holds_up_only_a_bounded_number_of_intervals_and_loses_nothing() {
        let mut series = Series::new(SECOND, 2, None);
        for index in 0..100 {
            series.hand_in(0, index, index + 1, &interval(&[1]));
        }
        assert!(series.pending.len() <= PENDING_MAX);
        series.hand_in(1, 0, 100, &interval(&[1]));
        series.finish(Duration::from_secs(100));
        assert_eq!(series.rows().iter().map(|row| row.answered).sum::<u64>(), 101);
        assert_eq!(series.rows().len(), 100);
    }

    #[test]
    fn a_long_run_gets_coarser_rows() {
        let mut series = Series { rows_max: 40, ..Series::new(SECOND, 1, None) };
        let seconds = 111;
        for second in 0..seconds {
            series.hand_in(0, second, second + 1, &interval(&[second + 1]));
        }
        series.finish(Duration::from_secs(seconds));
        assert!(series.rows().len() <= 40);
        assert_eq!(series.rows().iter().map(|row| row.answered).sum::<u64>(), seconds);
        let whole: f64 = series.rows().iter().map(|row| row.length_s).sum();
        assert_eq!(whole, seconds as f64);
        assert!(series.rows().windows(2).all(|pair| pair[0].start_s + pair[0].length_s == pair[1].start_s));
        assert_eq!(series.rows()[0].service_mean_ns, 2.5, "seconds 1 to 4");
    }
    #[test]
    fn the_times_of_short_intervals_are_exact() {
        let mut series = Series { rows_max: 40, ..Series::new(Duration::from_millis(10), 1, None) };
        for index in 0..33 {
            series.hand_in(0, index, index + 1, &interval(&[1]));
        }
        let start = |series: &Series, row: usize| series.rows()[row].start_s;
        assert_eq!([start(&series, 3), start(&series, 29)], [0.03, 0.29]);
        for index in 33..47 {
            series.hand_in(0, index, index + 1, &interval(&[1]));
        }
        series.finish(Duration::from_millis(475));
        let last = series.rows().last().unwrap();
        assert_eq!((start(&series, 1), series.rows()[7].length_s), (0.02, 0.02));
        assert_eq!((last.start_s, last.length_s, last.answered), (0.46, 0.015, 1));
    }
}
