//! The metrics of `breme run --admin`: progress, finished trials, verdicts so far.
//!
//! The run updates them between trials, and a scrape only copies them: nothing is computed while a trial runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use breme_admin::{Families, Label};
use breme_experiment::plan::Plan;
use breme_experiment::record::{TrialEnd, TrialRecord};
use breme_experiment::trial::TrialSpec;
use breme_expression::{Measure, Quantity, TimeFigure, TimeKind};
use breme_judge::judgement::Verdict;
use breme_judge::{MeasureReader, Question, judge_hypotheses};
use breme_runner::Progress;
use breme_subject::machine;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

/// Of the response time.
const QUANTILES: [f64; 2] = [0.5, 0.99];
const VERDICTS: [Verdict; 5] = [
    Verdict::Supported,
    Verdict::Refuted,
    Verdict::PracticallyEqual,
    Verdict::Undecided { more_blocks: None },
    Verdict::NoData,
];
const OUTCOMES: [&str; 3] = ["counted", "invalid", "failed"];

/// The current run. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RunStatus(Arc<Mutex<RunState>>);

#[derive(Debug, Default)]
struct RunState {
    run: String,
    title: String,
    blocks_planned: u32,
    trials_planned: usize,
    block: u32,
    trial: u32,
    levels: Vec<(String, String)>,
    /// By index in [`OUTCOMES`].
    outcomes: [u64; OUTCOMES.len()],
    /// Of the latest valid trial, by its levels and the workload.
    figures: BTreeMap<(String, String), Figures>,
    /// The text of each hypothesis, and its verdict.
    verdicts: Vec<(String, &'static str)>,
}

/// The measurements of a trial, as far as available.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: Option<f64>,
    cpu_s: Option<f64>,
    quantiles_s: [Option<f64>; QUANTILES.len()],
}

impl RunStatus {
    /// Starts to follow a run with these recorded trials.
    pub(super) fn follow(&self, run: &str, plan: &Plan, recorded: &[TrialRecord]) -> Follower {
        let state = RunState {
            run: run.to_owned(),
            title: plan.title.clone(),
            blocks_planned: plan.blocks.to_run(),
            trials_planned: plan.trials().len(),
            ..RunState::default()
        };
        *self.lock() = state;
        let processors = u32::try_from(machine().processors).unwrap_or(u32::MAX);
        let question = Question { processors, ..Question::from(plan) };
        let mut follower = Follower { status: self.clone(), question, records: Vec::new() };
        recorded.iter().for_each(|record| follower.take(record));
        follower.judge();
        follower
    }

    fn lock(&self) -> MutexGuard<'_, RunState> {
        self.0.lock()
    }
}

/// Updates the status of one run.
pub(super) struct Follower {
    status: RunStatus,
    question: Question,
    records: Vec<TrialRecord>,
}

impl Follower {
    pub(super) fn update(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Begins { number, trial, .. } => self.begin(number, trial),
            Progress::Recorded(record) => self.take(record),
            Progress::Decided(_) => self.judge(),
        }
    }

    fn begin(&mut self, number: u32, trial: &TrialSpec) {
        let begins_block = self.status.lock().block != trial.key.block;
        if begins_block {
            self.judge(); // the unit of evidence is the block
        }
        let mut state = self.status.lock();
        (state.trial, state.block) = (number, trial.key.block);
        state.levels.clone_from(&trial.levels);
    }

    fn take(&mut self, record: &TrialRecord) {
        let mut state = self.status.lock();
        (state.trial, state.block) = (record.number, record.block);
        state.outcomes[outcome(record)] += 1;
        if record.counts() {
            let levels: Vec<String> = record.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
            for workload in record.workloads.keys() {
                state.figures.insert((levels.join(", "), workload.clone()), figures(record, workload));
            }
        }
        drop(state);
        self.records.push(record.clone());
    }

    fn judge(&self) {
        let judged = judge_hypotheses(&self.question, &self.records);
        let verdicts = judged.into_iter().map(|hypothesis| (hypothesis.says, hypothesis.verdict.name()));
        self.status.lock().verdicts = verdicts.collect();
    }
}

fn outcome(record: &TrialRecord) -> usize {
    match (record.counts(), &record.end) {
        (true, _) => 0,
        (false, TrialEnd::Complete) => 1,
        (false, TrialEnd::Failed(_)) => 2,
    }
}

fn figures(record: &TrialRecord, workload: &str) -> Figures {
    let mut reader = MeasureReader::new(record);
    let mut value = |quantity: Quantity| reader.value(&Measure { quantity, of: workload.to_owned() }).ok();
    Figures {
        rate: value(Quantity::Rate),
        cpu_s: value(Quantity::CpuPerRequest),
        quantiles_s: QUANTILES
            .map(|quantile| value(Quantity::Time { kind: TimeKind::Response, figure: TimeFigure::Quantile(quantile) })),
    }
}

impl Collector for RunStatus {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.lock();
        let mut families = Families::new(encoder);
        let run = [("run", state.run.clone()), ("title", state.title.clone())];
        families.infos("run", "The run that goes on.", [run])?;
        families.gauge(
            "run_blocks_planned",
            "Blocks at which the run ends at the latest.",
            state.blocks_planned.into(),
        )?;
        families.gauge("run_block", "Block of the current trial.", state.block.into())?;
        let help = "Planned trials, without repeats; 0 for a search.";
        families.gauge("run_trials_planned", help, state.trials_planned as u64)?;
        families.gauge("run_trial", "Number of the current trial.", state.trial.into())?;
        let levels = state.levels.iter().map(|(factor, level)| [("factor", factor.clone()), ("level", level.clone())]);
        families.infos("run_trial_level", "Levels of the current trial.", levels)?;
        let outcomes = OUTCOMES.iter().zip(state.outcomes);
        let outcomes = outcomes.map(|(outcome, count)| ([("outcome", (*outcome).to_owned())], count));
        families.counters("run_trials", "Finished trials, by outcome.", outcomes)?;
        trials(&mut families, &state)?;
        let verdicts = state.verdicts.iter().flat_map(|(says, verdict)| {
            VERDICTS.map(|one| {
                let labels = [("hypothesis", says.clone()), ("verdict", one.name().to_owned())];
                (labels, u64::from(one.name() == *verdict))
            })
        });
        let help = "Whether this is the verdict on a hypothesis after the finished blocks: 1, or 0.";
        families.gauges("run_verdict", help, verdicts)
    }
}

/// Of the latest trial of each combination of levels.
fn trials(families: &mut Families<'_>, state: &RunState) -> fmt::Result {
    let gauges = |value: fn(&Figures) -> Option<f64>| {
        state.figures.iter().filter_map(move |(of, figures)| Some((labels(of), value(figures)?)))
    };
    let help = "Responses per second of the latest trial at these levels.";
    families.numbers("run_response_rate", help, gauges(|figures| figures.rate))?;
    let help = "CPU time of the subject per request, of the latest trial at these levels.";
    families.numbers_of(&Unit::Seconds, "run_cpu_per_request", help, gauges(|figures| figures.cpu_s))?;
    let quantiles = state.figures.iter().flat_map(|(of, figures)| {
        let known = QUANTILES.iter().zip(figures.quantiles_s);
        known.filter_map(|(quantile, value)| {
            let [levels, workload] = labels(of);
            Some(([levels, workload, ("quantile", quantile.to_string())], value?))
        })
    });
    let help = "Quantiles of the response time of the latest trial at these levels.";
    families.numbers_of(&Unit::Seconds, "run_response_time", help, quantiles)
}

fn labels((levels, workload): &(String, String)) -> [Label; 2] {
    [("levels", levels.clone()), ("workload", workload.clone())]
}

#[cfg(test)]
mod tests {
    use breme_admin::{exposition_of, metric_names};

    use super::*;

    #[test]
    fn documentation_names_each_metric() {
        let documentation = include_str!("../../../../docs/EXPERIMENTS.md");
        for name in metric_names(&exposition_of(RunStatus::default()).unwrap()) {
            assert!(documentation.contains(&format!("`breme_{name}`")), "{name}");
        }
    }

    #[test]
    fn verdicts_have_the_names_of_reports() {
        for verdict in VERDICTS {
            assert_eq!(serde_json::to_value(verdict).unwrap()["verdict"], verdict.name());
        }
    }
}
