//! The record of a workload, as far as it is the result of its load.

use breme_load_result::{CacheSummary, LoadOutcome, PairsSummary, ScenarioSummary, StaleSummary, StepSummary};

use super::{
    AvailabilityRecord, CacheRecord, Distribution, PairsRecord, Sessions, StaleRecord, StepRecord, WorkloadRecord,
};

impl WorkloadRecord {
    /// What was counted over the whole load. The rest is for the caller to add: rates and times, since a part of the
    /// load may count; the recovery, since faults are injected from outside.
    #[must_use]
    pub fn from_load(outcome: &LoadOutcome) -> Self {
        Self {
            answered: outcome.requests.answered,
            ok: outcome.requests.ok,
            errors: outcome.errors.clone(),
            statuses: outcome.statuses.clone(),
            received_bytes: outcome.bytes.received,
            sessions: sessions(&outcome.scenarios),
            steps: outcome.steps.iter().map(|step| (step.name.clone(), step_record(step))).collect(),
            availability: Some(AvailabilityRecord {
                gap_ns: outcome.availability.gap_ns,
                user_gap_ns: outcome.availability.user_gap_ns,
                recovery_ns: None,
            }),
            cache: outcome.cache.map(cache_record),
            stale: outcome.stale.as_ref().map(stale_record),
            pairs: outcome.pairs.map(pairs_record),
            ..Self::default()
        }
    }
}

/// None without a scenario.
fn sessions(scenarios: &[ScenarioSummary]) -> Option<Sessions> {
    let sum = |of: fn(&ScenarioSummary) -> u64| scenarios.iter().map(of).sum();
    (!scenarios.is_empty()).then(|| Sessions {
        begun: sum(|scenario| scenario.begun),
        completed: sum(|scenario| scenario.completed),
        failed: sum(|scenario| scenario.failed),
    })
}

fn step_record(step: &StepSummary) -> StepRecord {
    StepRecord {
        answered: step.answered,
        errors: step.errors.clone(),
        response_mean_ns: step.response_time.mean_ns,
        response_p50_ns: step.response_time.p50_ns,
        response_p99_ns: step.response_time.p99_ns,
    }
}

fn cache_record(cache: CacheSummary) -> CacheRecord {
    CacheRecord { hits: cache.hits, misses: cache.misses, origin_hit_ratio: cache.origin_hit_ratio }
}

fn stale_record(stale: &StaleSummary) -> StaleRecord {
    let StaleSummary { count, judged, unversioned, age, age_histogram, .. } = stale;
    let age = Distribution {
        count: age.count,
        mean_ns: age.mean_ns,
        stdev_ns: age.stdev_ns,
        min_ns: age.min_ns,
        max_ns: age.max_ns,
        histogram: age_histogram.clone(),
    };
    StaleRecord { count: *count, judged: *judged, unversioned: *unversioned, age }
}

fn pairs_record(pairs: PairsSummary) -> PairsRecord {
    PairsRecord {
        responses: pairs.responses,
        inconsistent: pairs.inconsistent,
        stale: pairs.stale,
        lost: pairs.lost,
        foreign: pairs.foreign,
        shared_ids: pairs.shared_ids,
        unknown: pairs.unknown,
    }
}
