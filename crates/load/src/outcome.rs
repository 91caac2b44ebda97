//! The result of a run: the merged counts of the shards, and a verdict on their validity.

mod availability;
mod counts;
mod document;
mod generator;
mod reads;
mod sessions;
mod settings;
mod times;
mod users;
mod validity;

use std::time::Duration;

pub use availability::AvailabilitySummary;
use breme_base::{Instant, nanos};
use breme_stats::Histogram;
pub use counts::{Bytes, Connections, OpenLoopSummary, RedirectsSummary, Requests, TlsSummary};
use document::SCHEMA_VERSION;
pub use document::{ConditionResult, ConditionVerdict, Outcome};
pub use generator::{Generator, GeneratorUse};
pub use reads::{CacheSummary, PairsSummary, StalePageSummary, StaleSummary};
pub use sessions::{ScenarioSummary, StepSummary};
pub use settings::{ScheduleSummary, SettingsSummary, StageSummary};
pub use times::{Lateness, TimeSummary};
pub use users::UsersSummary;
pub use validity::{
    DISPERSION_MAX, GENERATOR_SHARE_MAX, LATENESS_P99_MAX, LATENESS_SHARE_MAX, SHORT_RUN_MAX, THREAD_SHARE_MAX,
};

use crate::bins::bins;
use crate::node::Load;
use crate::run::Run;
use crate::tally::Tally;

const HISTOGRAM_BINS: usize = 12;

impl Outcome {
    /// Merges the counts of the shards. Call it once, after all have ended.
    #[must_use]
    pub fn of(run: &Run, shards: &mut [Load], generator: &Generator) -> Self {
        let mut tally = Tally::for_scenarios(run.plan().scenarios());
        shards.iter_mut().for_each(Load::close);
        shards.iter().for_each(|shard| tally.merge(&shard.tally));
        let started = run.started().unwrap_or_default();
        let ended = shards.iter().map(|shard| shard.span.ended).max().unwrap_or_default();
        let window = window(shards, started, ended);
        tally.availability.close(started + window, run.latest_success());
        let mut series = run.series();
        series.finish(ended.since(started));
        let requests = Requests::of(&tally);
        let per_second = |count: u64| if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() };
        let mut outcome = Self {
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
            offered_rate: per_second(if run.queue().is_some() { tally.arrived } else { requests.issued }),
            achieved_rate: per_second(tally.answered - tally.answered_late),
            lateness: Lateness::of(&tally),
            users: run.queue().is_none().then(|| UsersSummary::of(run, &tally, nanos(window))),
            dispersion: run.queue().is_none().then(|| dispersion(shards, window)).flatten(),
            open_loop: run.queue().is_some().then(|| OpenLoopSummary::of(&tally)),
            generator: GeneratorUse::of(shards, generator, ended.since(started), requests.issued),
            redirects: RedirectsSummary::of(run, &tally),
            requests,
            availability: AvailabilitySummary::of(&tally, started),
            errors: counts::errors(&tally.errors),
            statuses: counts::statuses(&tally),
            bytes: Bytes::of(&tally),
            connections: Connections::of(&tally),
            service_time: TimeSummary::of(&series.total().service),
            response_time: TimeSummary::of(&series.total().response),
            histogram: bins(&series.total().response, HISTOGRAM_BINS),
            first_byte_time: TimeSummary::of(&series.total().first_byte),
            connect_time: TimeSummary::of(&series.total().connect),
            handshake_time: TimeSummary::of(&tally.handshake_times),
            tls: generator.tls,
            cache: CacheSummary::of(run, &tally),
            stale: StaleSummary::of(run, &tally),
            pairs: PairsSummary::of(run, &tally),
            conditions: Vec::new(),
            scenarios: sessions::scenarios(run, &tally),
            steps: sessions::steps(run, &tally),
            series: series.rows().to_vec(),
            settings: SettingsSummary::of(run),
        };
        drop(series);
        outcome.invalid_reasons = validity::invalid_reasons(run, &outcome);
        outcome.valid = outcome.invalid_reasons.is_empty();
        outcome.notes = validity::notes(&outcome);
        outcome
    }

    /// Adds the number of requests that the origin counted during the run.
    pub fn count_origin(&mut self, requests: u64) {
        let responses = self.requests.answered;
        if let Some(cache) = &mut self.cache {
            cache.count_origin(requests, responses);
        }
    }

    #[must_use]
    pub fn response_histogram(run: &Run) -> Histogram {
        run.series().total().response.clone()
    }

    /// Number of responses that were as expected and took longer than `limit`.
    #[must_use]
    pub fn late(run: &Run, limit: Duration) -> u64 {
        let series = run.series();
        let later = |times: &Histogram| times.count_between(nanos(limit).saturating_add(1), breme_stats::TIME_NS_MAX);
        later(&series.total().response).saturating_sub(later(&series.total().wrong))
    }

    #[must_use]
    pub fn connect_histogram(run: &Run) -> Histogram {
        run.series().total().connect.clone()
    }

    #[must_use]
    pub fn service_histogram(run: &Run) -> Histogram {
        run.series().total().service.clone()
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
