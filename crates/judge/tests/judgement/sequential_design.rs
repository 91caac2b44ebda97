//! Experiments that grow block by block until their hypothesis has a verdict.

use breme_experiment::record::TrialRecord;
use breme_judge::judgement::{Effect, Verdict};
use breme_judge::{is_decided, judge};

use crate::fixture::{Experiment, Noise, hypothesis, times};

/// The claim to be decided.
pub const FASTER: &str = "mean(user) [build=new] < mean(user) [build=old]";
/// Blocks of the default design.
pub const LEAST: u32 = 6;
pub const MOST: u32 = 24;

/// Two builds, one hypothesis, 6 to 24 blocks.
pub fn experiment(noise: Noise, size: f64) -> Experiment {
    let mut experiment = Experiment::of_builds(MOST, noise, size);
    experiment.question.hypotheses = vec![hypothesis(FASTER, &experiment.question.factors)];
    experiment.question.measures.clear();
    experiment.question.looks = Some((LEAST, MOST));
    experiment
}

/// How a run ended.
pub struct Grown {
    pub verdict: Verdict,
    pub effect: Effect,
    pub blocks: u32,
}

impl Grown {
    /// Whether it finds one faster than the other, in either direction.
    pub fn is_difference(&self) -> bool {
        matches!(self.verdict, Verdict::Supported | Verdict::Refuted)
    }
}

/// Judges after each block, like the laboratory. The mean time of `new` is that of `old` times `ratio`.
pub fn grow(experiment: &Experiment, seed: u64, ratio: f64) -> Grown {
    let records = experiment.run(seed, times(ratio));
    let after =
        |blocks: u32| -> Vec<TrialRecord> { records.iter().filter(|record| record.block <= blocks).cloned().collect() };
    let blocks = (LEAST..MOST).find(|&blocks| is_decided(&experiment.question, &after(blocks))).unwrap_or(MOST);
    let judged = judge(&experiment.question, &after(blocks)).hypotheses.remove(0);
    let effect = judged.cases.into_iter().next().expect("it leaves no levels open").effect;
    Grown { verdict: judged.verdict, effect, blocks }
}
