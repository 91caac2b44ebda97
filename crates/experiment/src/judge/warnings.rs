//! How many trials count, and what should be known before any of it is believed.

use std::collections::BTreeMap;

use crate::judge::question::Question;
use crate::judge::words::{count, without_numbers};
use crate::judgement::{Judgement, TrialCounts};
use crate::record::{Purpose, SteadyState, TrialEnd, TrialRecord};

/// The hypervisor took so much of the processors' time that times may be its.
const STEAL_MAX: f64 = 0.01;
/// Others used so much of the processors' time.
const FOREIGN_MAX: f64 = 0.05;
/// The most different reasons of one kind that are told.
const REASONS_MAX: usize = 5;

pub(crate) fn count_trials(question: &Question, records: &[TrialRecord]) -> TrialCounts {
    let of_blocks = || records.iter().filter(|record| record.purpose == Purpose::Block);
    let number = |which: fn(&TrialRecord) -> bool| records.iter().filter(|record| which(record)).count() as u32;
    let mut by_block: BTreeMap<u32, u32> = BTreeMap::new();
    for record in of_blocks().filter(|record| record.counts() && !is_unsteady(record)) {
        *by_block.entry(record.block).or_default() += 1;
    }
    let each = question.trials.checked_div(question.blocks).unwrap_or_default().max(1);
    TrialCounts {
        planned: question.trials,
        run: records.len() as u32,
        counted: number(|record| record.counts() && !is_unsteady(record)),
        failed: number(|record| record.end != TrialEnd::Complete),
        invalid: number(|record| record.end == TrialEnd::Complete && !record.invalid_reasons.is_empty()),
        unsteady: number(|record| record.counts() && is_unsteady(record)),
        blocks: by_block.values().filter(|&&counted| counted >= each).count() as u32,
    }
}

fn is_unsteady(record: &TrialRecord) -> bool {
    // Overload does not rest, and a search asks for it.
    record.purpose == Purpose::Block
        && record.workloads.values().any(|workload| workload.steady.state == SteadyState::NeverSteady)
}

pub(crate) fn warnings(question: &Question, records: &[TrialRecord], judgement: &Judgement) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(few_blocks(question, &judgement.trials));
    warnings.extend(reasons("failed", records, |record| match &record.end {
        TrialEnd::Complete => Vec::new(),
        TrialEnd::Failed { who, what, .. } => vec![format!("{who}: {what}")],
    }));
    warnings.extend(reasons("INVALID", records, |record| record.invalid_reasons.clone()));
    warnings.extend(reasons("without a steady state", records, unsteady_workloads));
    warnings.extend(biased(judgement));
    warnings.extend(against_the_law(judgement));
    warnings.extend(disturbed(records, "taken by the hypervisor", STEAL_MAX, |record| record.machine.steal_share));
    warnings.extend(disturbed(records, "used by other programs", FOREIGN_MAX, |record| record.machine.foreign_share));
    warnings.extend(restarted(records));
    warnings
}

fn few_blocks(question: &Question, trials: &TrialCounts) -> Option<String> {
    let needed = crate::judge::blocks_min(question.confidence);
    let percent = question.confidence * 100.0;
    let complete = count(trials.blocks as usize, "block") + if trials.blocks == 1 { " is" } else { " are" };
    (trials.run > 0 && trials.blocks < needed)
        .then(|| format!("{complete} complete; {needed} at least are needed for verdicts at {percent:.0} %."))
}

/// How many trials there are of a kind, and the most frequent reasons; of those that differ in their numbers only, the first.
fn reasons(kind: &str, records: &[TrialRecord], of: impl Fn(&TrialRecord) -> Vec<String>) -> Option<String> {
    let each: Vec<Vec<String>> = records.iter().map(of).filter(|reasons| !reasons.is_empty()).collect();
    let mut frequent: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for reason in each.iter().flatten() {
        frequent.entry(without_numbers(reason)).or_insert((reason, 0)).1 += 1;
    }
    let mut sorted: Vec<(&str, usize)> = frequent.into_values().collect();
    sorted.sort_by_key(|&(_, number)| std::cmp::Reverse(number));
    let told: Vec<String> =
        sorted.iter().take(REASONS_MAX).map(|(reason, number)| format!("{reason} ({number}×)")).collect();
    (!each.is_empty()).then(|| format!("{} {kind}: {}.", count(each.len(), "trial"), told.join("; ")))
}

fn unsteady_workloads(record: &TrialRecord) -> Vec<String> {
    if !is_unsteady(record) {
        return Vec::new();
    }
    let unsteady = record.workloads.iter().filter(|(_, workload)| workload.steady.state == SteadyState::NeverSteady);
    unsteady
        .map(|(name, workload)| match &workload.steady.remark {
            Some(remark) => format!("`{name}`: {remark}"),
            None => format!("`{name}`"),
        })
        .collect()
}

fn biased(judgement: &Judgement) -> Vec<String> {
    let biased = judgement.noise.iter().filter(|floor| floor.is_biased);
    biased
        .map(|floor| {
            let size = floor.effect.center.map(|center| format!("{center:.3}")).unwrap_or_default();
            format!(
                "Two trials of the same thing (A/A) were called different in `{}` ({size}): effects up to this size are taken for noise.",
                floor.measure
            )
        })
        .collect()
}

fn against_the_law(judgement: &Judgement) -> Option<String> {
    let wrong: Vec<_> = judgement.laws.iter().filter(|law| !law.agrees).collect();
    let worst = wrong.iter().max_by(|one, other| {
        let off = |law: &crate::judgement::LawCheck| (law.users_by_law / law.users).ln().abs();
        off(one).total_cmp(&off(other))
    })?;
    Some(format!(
        "In {} of {} closed loops N = X·(R+Z) does not hold, in trial {} `{}` has {} users and by the law {:.1}: something was measured wrongly.",
        wrong.len(),
        judgement.laws.len(),
        worst.trial,
        worst.workload,
        worst.users,
        worst.users_by_law
    ))
}

fn disturbed(records: &[TrialRecord], by: &str, limit: f64, share: impl Fn(&TrialRecord) -> f64) -> Option<String> {
    let shares: Vec<f64> = records.iter().map(share).filter(|&share| share > limit).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    Some(format!("In {} up to {:.0} % of the processors' time was {by}.", count(shares.len(), "trial"), most * 100.0))
}

fn restarted(records: &[TrialRecord]) -> Option<String> {
    let restarted =
        records.iter().filter(|record| record.subjects.values().any(|subject| subject.restarts > 0)).count();
    (restarted > 0)
        .then(|| format!("In {} a subject was started anew while it was measured.", count(restarted, "trial")))
}
