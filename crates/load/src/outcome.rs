//! The result of a run: the merged counts of the shards, and a verdict on their validity. Its types are in
//! `breme_load_result`, which its readers share.

mod availability;
mod counts;
mod generator;
mod lateness;
mod reads;
mod sessions;
mod settings;
mod users;
mod validity;

use std::time::Duration;

use breme_base::{Instant, nanos};
use breme_load_result::{LoadOutcome, SCHEMA_VERSION, TimeSummary};
use breme_stats::Histogram;
pub use generator::Generator;
pub use validity::LATENESS_P99_MAX;

use crate::bins::bins;
use crate::error_kind::ErrorKind;
use crate::merge::Merge;
use crate::node::Load;
use crate::run::Run;
use crate::tally::Tally;

const HISTOGRAM_BINS: usize = 12;

impl Run {
    /// Merges the counts of the shards. Call it once, after all have ended.
    #[must_use]
    pub fn outcome(&self, shards: &mut [Load], generator: &Generator) -> LoadOutcome {
        let mut tally = Tally::for_scenarios(self.plan().scenarios());
        shards.iter_mut().for_each(Load::close);
        shards.iter().for_each(|shard| tally.merge(&shard.tally));
        let started = self.started().unwrap_or_default();
        let ended = shards.iter().map(|shard| shard.span.ended).max().unwrap_or_default();
        let window = window(shards, started, ended);
        tally.availability.close(started + window, self.latest_outcomes());
        let mut series = self.series();
        series.finish(ended.since(started));
        let requests = counts::requests(&tally);
        let per_second = |count: u64| if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() };
        let mut outcome = LoadOutcome {
            schema_version: SCHEMA_VERSION,
            breme_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_unix_s: generator.started_at.as_secs(),
            started_at_unix_ns: nanos(generator.started_at),
            started_at_monotonic_ns: nanos(generator.started_at_monotonic),
            valid: true,
            invalid_reasons: Vec::new(),
            notes: Vec::new(),
            interrupted: generator.interrupted,
            elapsed_ns: nanos(window),
            offered_rate: per_second(if self.queue().is_some() { tally.arrived } else { requests.issued }),
            achieved_rate: per_second(tally.answered - tally.answered_late),
            lateness: lateness::summary(&tally),
            users: self.queue().is_none().then(|| users::summary(self, &tally, nanos(window))),
            dispersion: self.queue().is_none().then(|| dispersion(shards, window)).flatten(),
            open_loop: self.queue().is_some().then(|| counts::open_loop(&tally)),
            generator: generator::usage(shards, generator, ended.since(started), requests.issued),
            redirects: counts::redirects(self, &tally),
            requests,
            availability: availability::summary(&tally, started),
            errors: counts::errors(&tally.errors),
            statuses: counts::statuses(&tally),
            bytes: counts::bytes(&tally),
            connections: counts::connections(&tally),
            service_time: TimeSummary::from_histogram(&series.total().service),
            response_time: TimeSummary::from_histogram(&series.total().response),
            histogram: bins(&series.total().response, HISTOGRAM_BINS),
            first_byte_time: TimeSummary::from_histogram(&series.total().first_byte),
            connect_time: TimeSummary::from_histogram(&series.total().connect),
            handshake_time: TimeSummary::from_histogram(&tally.handshake_times),
            tls: generator.tls.clone(),
            cache: reads::cache(self, &tally),
            stale: reads::stale(self, &tally),
            pairs: reads::pairs(self, &tally),
            conditions: Vec::new(),
            scenarios: sessions::scenarios(self, &tally),
            steps: sessions::steps(self, &tally),
            series: series.rows().to_vec(),
            settings: settings::summary(self),
        };
        drop(series);
        outcome.invalid_reasons = validity::invalid_reasons(self, &outcome);
        outcome.valid = outcome.invalid_reasons.is_empty();
        outcome.notes = validity::notes(&outcome);
        outcome
    }

    /// Whether any response was other than expected.
    #[must_use]
    pub fn expectations_failed(&self, outcome: &LoadOutcome) -> bool {
        let count = |kind: ErrorKind| outcome.errors.get(kind.name()).copied().unwrap_or(0);
        let has_checks = match self.plan().scenarios() {
            Some(scenarios) => scenarios.has_checks(),
            None => self.plan().settings().expectations.any(),
        };
        has_checks && count(ErrorKind::Status) + count(ErrorKind::Assertion) + count(ErrorKind::Capture) > 0
    }

    #[must_use]
    pub fn response_histogram(&self) -> Histogram {
        self.series().total().response.clone()
    }

    /// Number of responses that were as expected and took longer than `limit`.
    #[must_use]
    pub fn late(&self, limit: Duration) -> u64 {
        let series = self.series();
        let later = |times: &Histogram| times.count_between(nanos(limit).saturating_add(1), breme_stats::TIME_NS_MAX);
        later(&series.total().response).saturating_sub(later(&series.total().wrong))
    }

    #[must_use]
    pub fn connect_histogram(&self) -> Histogram {
        self.series().total().connect.clone()
    }

    #[must_use]
    pub fn service_histogram(&self) -> Histogram {
        self.series().total().service.clone()
    }
}

fn dispersion(shards: &[Load], window: Duration) -> Option<f64> {
    crate::dispersion::dispersion(shards.iter().map(|shard| shard.tally.sends), nanos(window))
}

/// The time to which rates refer: the wait at the end does not reduce them.
fn window(shards: &[Load], started: Instant, ended: Instant) -> Duration {
    let window_ends = shards.iter().map(|shard| shard.window_ends).filter(|&ends| ends != Instant::FAR).max();
    window_ends.map_or(ended, |window_ends| ended.min(window_ends)).since(started)
}
