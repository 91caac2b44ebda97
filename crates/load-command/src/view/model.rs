//! The data of the view.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use breme_load::{Counts, Progress, Run};
use breme_stats::Histogram;

use crate::feed::Times;

/// Points of a line, more than a terminal has. Beyond it every second one is removed.
const POINTS_MAX: usize = 2_048;
/// The rate is averaged over this time.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Quantiles of the response times of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantiles {
    /// Middle of the interval, seconds from the start.
    pub at_s: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
}

/// When the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub duration: Option<Duration>,
    pub requests: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Model {
    pub title: String,
    pub load: String,
    pub end: End,
    pub elapsed: Duration,
    pub progress: Progress,
    pub counts: Counts,
    /// Responses per second: time in seconds, rate.
    pub rates: Vec<(f64, f64)>,
    pub quantiles: Vec<Quantiles>,
    /// Response times so far.
    pub response: Histogram,
    started: Instant,
    /// Instants and response counts of the last [`RATE_WINDOW`].
    recent: VecDeque<(Instant, u64)>,
}

impl Model {
    pub(super) fn new(run: &Run) -> Self {
        let plan = run.plan();
        let settings = plan.settings();
        let title = if plan.has_scenario() {
            format!("scenario at {}", plan.url())
        } else {
            format!("{} {}", plan.method_name(), plan.url())
        };
        let shape = if settings.open_loop.is_some() { "open loop" } else { "closed loop" };
        let connections = breme_base::plural(settings.connections as u64, "connection");
        Self {
            title,
            load: format!("{connections}, {shape}"),
            end: End { duration: settings.duration, requests: settings.requests },
            elapsed: Duration::ZERO,
            progress: Progress::default(),
            counts: Counts::default(),
            rates: Vec::new(),
            quantiles: Vec::new(),
            response: Histogram::new(),
            started: Instant::now(),
            recent: VecDeque::new(),
        }
    }

    pub(super) fn add_interval(&mut self, times: &Times) {
        let response = &times.interval.response;
        self.response.merge(response);
        if !response.is_empty() {
            let values = response.quantiles(&[0.5, 0.9, 0.99]);
            let at_s = (times.start + times.length / 2).as_secs_f64();
            self.quantiles.push(Quantiles { at_s, p50_ns: values[0], p90_ns: values[1], p99_ns: values[2] });
        }
        thin(&mut self.quantiles);
    }

    pub(super) fn set_progress(&mut self, now: Instant, run: &Run) {
        self.elapsed = now.duration_since(self.started);
        self.progress = run.progress();
        self.counts = run.counts();
        self.add_answered(now, self.progress.answered);
    }

    fn add_answered(&mut self, now: Instant, answered: u64) {
        while self.recent.len() > 1 && self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW)
        {
            self.recent.pop_front();
        }
        if let Some((since, before)) = self.recent.front() {
            let seconds = now.duration_since(*since).as_secs_f64();
            if seconds > 0.0 {
                self.rates.push((self.elapsed.as_secs_f64(), answered.saturating_sub(*before) as f64 / seconds));
            }
        }
        self.recent.push_back((now, answered));
        thin(&mut self.rates);
    }

    /// Current responses per second.
    pub(super) fn rate(&self) -> f64 {
        self.rates.last().map_or(0.0, |(_, rate)| *rate)
    }

    /// Progress from 0 to 1; none if the run has no end of its own.
    pub(super) fn share_done(&self) -> Option<f64> {
        let done = self.progress.answered + self.progress.errors;
        let of_requests = self.end.requests.map(|requests| done as f64 / requests.max(1) as f64);
        let of_time = self.end.duration.map(|duration| self.elapsed.as_secs_f64() / duration.as_secs_f64().max(1e-9));
        [of_requests, of_time].into_iter().flatten().reduce(f64::max).map(|share| share.clamp(0.0, 1.0))
    }

    /// Remaining time, if it is known.
    pub(super) fn remaining(&self) -> Option<Duration> {
        let of_time = self.end.duration.map(|duration| duration.saturating_sub(self.elapsed));
        let done = self.progress.answered + self.progress.errors;
        let of_requests =
            self.end.requests.filter(|_| self.rate() > 0.0).and_then(|requests| {
                Duration::try_from_secs_f64(requests.saturating_sub(done) as f64 / self.rate()).ok()
            });
        [of_time, of_requests].into_iter().flatten().min()
    }
}

fn thin<T>(points: &mut Vec<T>) {
    if points.len() > POINTS_MAX {
        let mut number = 0;
        points.retain(|_| {
            number += 1;
            number % 2 == 0
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use breme_load_plan::{Plan, Settings};

    use super::*;

    /// One of two minutes of a run whose rate falls while its times rise.
    pub(in crate::view) fn sample() -> Model {
        let settings =
            Settings { duration: Some(Duration::from_secs(120)), ..Settings::new("http://host.example/page") };
        let run = Run::new(
            Plan::new(settings).unwrap_or_else(|error| panic!("{error}")),
            Vec::new(),
            1,
            breme_base::WallClock::starting_at(breme_base::UnixSeconds(0)),
        );
        let mut model = Model::new(&run);
        let started = model.started;
        let mut answered = 0;
        for second in 0..60_u64 {
            model.elapsed = Duration::from_secs(second);
            answered += 12_000 - 100 * second;
            model.add_answered(started + model.elapsed, answered);
            let at_s = second as f64 + 0.5;
            let p50_ns = 400_000 + 10_000 * second;
            model.quantiles.push(Quantiles { at_s, p50_ns, p90_ns: 2 * p50_ns, p99_ns: 9 * p50_ns });
        }
        for step in 0..200_u32 {
            let time = 200_000.0 * 1.02_f64.powi(step as i32);
            (0..200 - step).for_each(|_| model.response.record(time as u64));
        }
        model.progress = Progress { answered, errors: 12, open: 10, bytes_received: answered * 1_100 };
        model.counts.statuses = [(200, answered - 7), (503, 7)].into();
        model.counts.errors = [(breme_load::ErrorKind::Status, 7), (breme_load::ErrorKind::Timeout, 5)].into();
        model
    }

    #[test]
    fn remaining_time_follows_from_the_end_that_comes_first() {
        let mut model = sample();
        assert_eq!(model.remaining(), Some(Duration::from_secs(61)));
        assert_eq!(model.share_done(), Some(59.0 / 120.0));
        model.end = End { duration: None, requests: Some(2 * (model.progress.answered + 12)) };
        let seconds = model.remaining().map_or(0.0, |remaining| remaining.as_secs_f64());
        let expected = (model.progress.answered + 12) as f64 / model.rate();
        assert!((seconds - expected).abs() < 1e-6 && model.share_done() == Some(0.5), "{seconds}");
        model.end = End { duration: None, requests: None };
        assert_eq!((model.remaining(), model.share_done()), (None, None));
    }

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let model = sample();
        assert!((model.rate() - 6_100.0).abs() < 1.0, "{}", model.rate());
    }

    #[test]
    fn lines_are_bounded() {
        let mut model = sample();
        let started = model.started;
        for step in 0..20_000_u64 {
            model.elapsed = Duration::from_secs(60) + Duration::from_millis(250) * step as u32;
            model.add_answered(started + model.elapsed, 1_000_000 + step);
        }
        assert!(model.rates.len() <= POINTS_MAX && model.recent.len() < 10);
    }
}
