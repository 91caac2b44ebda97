//! From records to a judgement: the results of a run, their certainty, and their limitations.
//!
//! | part | what it does |
//! |---|---|
//! | [`Question`] | the part of a plan needed for the judgement |
//! | [`MeasureReader`] | the value of a measure in one trial, or the reason why there is none |
//! | `warm_up` | which warm-ups are discarded |
//! | `observations`, `effect` | every value in every block; the ratio of two sides within each block, with its interval |
//! | `noise_floor` | the noise floor: how much two trials of the same combination differ |
//! | `look` | after how many blocks the run is judged, and the confidence required there |
//! | `interval_position`, `hypotheses` | the meaning of an interval; verdicts on claims |
//! | `level_comparisons` | every pair of levels |
//! | `tables`, `laws`, `models` | measured and published figures; operational laws; tested predictions |
//! | [`Search`] | the next load to try, until the system fails |
//! | `recorded_run`, `run_row` | a stored run with its values; a measure in two runs |
//! | [`compare`], `gate` | the differences of two runs, and whether the later one passes |
//! | [`HistoryBuilder`] | the gated measures over many runs, with a trend |
//!
//! The unit of evidence is the block, not the request. The same records result in the same judgement, word for word.

mod answer;
mod arithmetic;
mod claims;
mod condition;
mod effect;
mod gate;
mod history;
mod hypotheses;
mod interval_position;
mod laws;
mod level_comparisons;
mod levels;
mod look;
mod measure;
mod models;
mod noise_floor;
mod observations;
mod progress;
mod question;
mod recorded_run;
mod run_comparison;
mod run_row;
mod search;
mod tables;
mod warm_up;
mod warnings;
mod words;

pub mod judgement;

pub use claims::CASES_MAX;
pub use condition::is_met;
pub use gate::{BLOCKS_MIN as GATE_BLOCKS_MIN, GateSummary};
pub use history::{
    HISTORY_RUNS_MAX, History, HistoryBuilder, HistoryPoint, HistoryRow, HistoryRun, RunRole, Trend, TrendVerdict,
};
pub use level_comparisons::COMPARISONS_MAX;
pub use levels::Levels;
pub use measure::{Lack, MeasureReader};
pub use progress::progress;
pub use question::{Factor, PublishedFigure, Question};
pub use recorded_run::{CompareRules, RecordedRun, head_differences};
pub use run_comparison::{RunComparison, compare};
pub use run_row::{GateVerdict, Gated, RunRow, RunVerdict};
pub use search::{Next, Search, SearchQuestion, TRIALS_MAX};
pub use warm_up::agree_on_warm_ups;
pub use warnings::is_success_in_question;
pub use words::amount;

use breme_experiment::record::TrialRecord;
use look::Look;
use noise_floor::NoiseFloors;
use observations::Observations;

use crate::judgement::{HypothesisJudgement, Judgement, Verdict};

/// Judges the records.
#[must_use]
pub fn judge(question: &Question, records: &[TrialRecord]) -> Judgement {
    let agreed = agree_on_warm_ups(records);
    let records = agreed.as_ref();
    let seen = Observations::new(question.all_measures(), records);
    let look = Look::at(question, &seen);
    let (floors, noise) = NoiseFloors::seen(question, &seen);
    let (comparisons, counts) = level_comparisons::compare_levels(question, &seen, &floors, &look);
    let (models, without_model) = models::judge(question, records);
    let mut judgement = Judgement {
        hypotheses: hypotheses::judge(question, &seen, &floors, &look),
        comparisons,
        confidence: question.confidence,
        comparison_counts: Some(counts),
        noise,
        tables: tables::tables(question, &seen),
        laws: laws::check(records),
        searches: question.searches.iter().map(|search| Search::from_records(search, records).outcome()).collect(),
        models,
        trials: warnings::count_trials(question, records),
        ..Judgement::default()
    };
    (judgement.warnings, judgement.notes) = warnings::warnings(question, records, &judgement);
    judgement.warnings.extend(without_model);
    let left_out = counts.all() - judgement.comparisons.len();
    if left_out > 0 {
        judgement.notes.push(format!("{left_out} comparisons with the smallest differences are omitted."));
    }
    (judgement.answer, judgement.grounds) = answer::answer(question, &judgement);
    judgement
}

/// Judges the hypotheses only.
#[must_use]
pub fn judge_hypotheses(question: &Question, records: &[TrialRecord]) -> Vec<HypothesisJudgement> {
    let agreed = agree_on_warm_ups(records);
    let records = agreed.as_ref();
    let seen = Observations::new(question.all_measures(), records);
    let look = Look::at(question, &seen);
    let (floors, _) = NoiseFloors::seen(question, &seen);
    hypotheses::judge(question, &seen, &floors, &look)
}

/// Whether every hypothesis has a verdict, so that a run may end. False without hypotheses.
#[must_use]
pub fn is_decided(question: &Question, records: &[TrialRecord]) -> bool {
    let is_open = |verdict| matches!(verdict, Verdict::Undecided { .. } | Verdict::NoData);
    let judged = judge_hypotheses(question, records);
    !judged.is_empty() && !judged.iter().any(|hypothesis| is_open(hypothesis.verdict))
}
