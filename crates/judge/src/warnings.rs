//! How many trials count, and what limits the conclusions.

use std::collections::{BTreeMap, BTreeSet};

use breme_experiment::record::{Purpose, TrialEnd, TrialRecord, WorkloadRecord, last_attempts};
use breme_expression::{Measure, Quantity, Unit};
use breme_stats::BLOCKS_MIN;

use crate::effect::median;
use crate::judgement::{Judgement, LawCheck, MeasureRow, Scale, TrialCounts};
use crate::laws::HELD_SHARE_MAX;
use crate::levels::{Levels, in_words};
use crate::question::Question;
use crate::words::{amount, count, difference, without_numbers};

/// Share of CPU time stolen by the hypervisor above which times may be affected.
const STEAL_MAX: f64 = 0.01;
/// Share of CPU time used by other programs above which times may be affected.
const FOREIGN_MAX: f64 = 0.05;
/// Share of CPU time used by others above which there is a warning.
const DISTURBED_MAX: f64 = 0.2;
/// Range of a foreign generator's count, as a share of its rate × the window.
const COUNT_SHARE_MIN: f64 = 0.6;
const COUNT_SHARE_MAX: f64 = 1.1;
/// Share of uncounted trials up to which they are a note, not a warning.
const FEW_SHARE: f64 = 0.1;
/// Share of failed requests of a workload from which there is a warning.
const ERRORS_MAX: f64 = 0.01;
/// The kind of errors whose statuses are named.
const WRONG_STATUS: &str = "status";
/// Limit of the different reasons of one kind in a report.
const REASONS_MAX: usize = 5;
/// From this number of repeated trials on, a concentration on one combination is reported.
const UNEVEN_MIN: usize = 4;
/// Minimum number of trials of a combination for a report that they still changed at their end.
const CHANGING_MIN: usize = 3;
/// The kind of trials that changed after their warm-up.
const NOT_STEADY: &str = "not steady, but counted";
/// The kind of trials without a result.
const FAILED: &str = "failed";

pub(crate) fn count_trials(question: &Question, records: &[TrialRecord]) -> TrialCounts {
    let last_attempts: Vec<&TrialRecord> = last_attempts(records).collect();
    let number = |which: fn(&TrialRecord) -> bool| last_attempts.iter().filter(|record| which(record)).count() as u32;
    let mut by_block: BTreeMap<u32, u32> = BTreeMap::new();
    for record in last_attempts.iter().filter(|record| record.purpose == Purpose::Block && record.counts()) {
        *by_block.entry(record.block).or_default() += 1;
    }
    let each = question.trials.checked_div(question.blocks).unwrap_or_default().max(1);
    let is_valid = |record: &TrialRecord| record.end == TrialEnd::Complete && record.invalid_reasons.is_empty();
    TrialCounts {
        planned: question.trials,
        run: last_attempts.len() as u32,
        repeated: (records.len() - last_attempts.len()) as u32,
        counted: number(TrialRecord::counts),
        failed: number(|record| record.end != TrialEnd::Complete),
        invalid: number(|record| record.end == TrialEnd::Complete && !record.invalid_reasons.is_empty()),
        unsteady: last_attempts.iter().filter(|record| is_valid(record) && record.is_unsteady()).count() as u32,
        blocks: by_block.values().filter(|&&counted| counted >= each).count() as u32,
    }
}

/// What may make a result wrong or incomplete, and what is only worth knowing.
pub(crate) fn warnings(
    question: &Question,
    records: &[TrialRecord],
    judgement: &Judgement,
) -> (Vec<String>, Vec<String>) {
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    warnings.extend(few_blocks(question, &judgement.trials));
    let again = repeated(records);
    if let Some((text, is_one_sided)) = again {
        if is_one_sided { warnings.push(text) } else { notes.push(text) }
    }
    let last_attempts: Vec<&TrialRecord> = last_attempts(records).collect();
    let records = last_attempts.as_slice();
    warnings.extend(reasons(FAILED, records, |record| match &record.end {
        TrialEnd::Complete => Vec::new(),
        TrialEnd::Failed(failure) => vec![failure.to_string()],
    }));
    // A few uncounted trials cost blocks, which the verdicts take into account; many may indicate a problem.
    let trials = &judgement.trials;
    let is_few = |number: u32| f64::from(number) <= f64::from(trials.run) * FEW_SHARE;
    let invalid = reasons("INVALID", records, |record| record.invalid_reasons.clone());
    if is_few(trials.invalid) {
        notes.extend(invalid);
    } else {
        warnings.extend(invalid);
    }
    let bounds = missing(question, records, judgement);
    if is_few(trials.invalid + trials.failed) {
        notes.extend(bounds);
    } else {
        warnings.extend(bounds);
    }
    notes.extend(reasons(NOT_STEADY, records, unsteady_workloads));
    warnings.extend(reasons("whose generator contradicts itself", records, contradictions));
    warnings.extend(failing_workloads(question, records));
    warnings.extend(still_changing(records));
    warnings.extend(biased(question, judgement));
    warnings.extend(against_the_law(judgement));
    warnings.extend(held_by_the_generator(judgement));
    for (text, most) in [
        disturbed(records, "taken by the hypervisor", STEAL_MAX, |record| record.machine.steal_share),
        disturbed(records, "used by other programs", FOREIGN_MAX, |record| record.machine.foreign_share),
    ]
    .into_iter()
    .flatten()
    {
        if most > DISTURBED_MAX { warnings.push(text) } else { notes.push(text) }
    }
    warnings.extend(restarted(records));
    warnings.extend(growing(records));
    (warnings, notes)
}

fn few_blocks(question: &Question, trials: &TrialCounts) -> Option<String> {
    let blocks = count(question.blocks as usize, "block");
    // A search has no blocks.
    (trials.run > 0 && trials.planned > 0 && trials.blocks < BLOCKS_MIN).then(|| {
        format!(
            "{} of {blocks} {} complete; a verdict needs at least {BLOCKS_MIN}.",
            trials.blocks,
            if trials.blocks == 1 { "is" } else { "are" }
        )
    })
}

/// How many were repeated, and whether most of them were of one combination: its results are a selection.
fn repeated(records: &[TrialRecord]) -> Option<(String, bool)> {
    let again: Vec<&TrialRecord> = last_attempts(records).filter(|record| record.repeat > 0).collect();
    let times = records.iter().filter(|record| record.repeat > 0).count();
    let counted = again.iter().filter(|record| record.counts()).count();
    let mut of_combination: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
    again.iter().for_each(|record| of_combination.entry(record.combination).or_default().push(record));
    let most = of_combination.into_values().max_by_key(Vec::len)?;
    let were = if again.len() == 1 { "trial was" } else { "trials were" };
    let in_all = if times > again.len() { format!(", {times} times in all") } else { String::new() };
    let is_one_sided = again.len() >= UNEVEN_MIN && most.len() * 2 > again.len();
    let of_one = match in_words(&most[0].levels) {
        levels if is_one_sided && !levels.is_empty() => {
            format!(" {} of them were of {levels}, so its results may be biased by selection.", most.len())
        }
        _ => String::new(),
    };
    let text = format!(
        "{} {were} repeated at the end of the block because of INVALID results{in_all}; {counted} of the repetitions count.{of_one}",
        again.len()
    );
    Some((text, is_one_sided))
}

/// The number of trials of a kind and the most frequent reasons; of reasons that differ only in measured numbers, the
/// first.
fn reasons(kind: &str, records: &[&TrialRecord], of: impl Fn(&TrialRecord) -> Vec<String>) -> Option<String> {
    // Status 1 and status 2 are two reasons; 4 ms and 5 ms too late are one.
    let key = |reason: &str| if kind == FAILED { reason.to_owned() } else { without_numbers(reason) };
    let each: Vec<Vec<String>> =
        records.iter().map(|record| of(record)).filter(|reasons| !reasons.is_empty()).collect();
    let mut frequent: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for reason in each.iter().flatten() {
        frequent.entry(key(reason)).or_insert((reason, 0)).1 += 1;
    }
    let mut sorted: Vec<(&str, usize)> = frequent.into_values().collect();
    sorted.sort_by_key(|&(_, number)| std::cmp::Reverse(number));
    let frequent_reasons: Vec<String> =
        sorted.iter().take(REASONS_MAX).map(|(reason, number)| format!("{reason} ({number}×)")).collect();
    (!each.is_empty()).then(|| format!("{} {kind}: {}.", count(each.len(), "trial"), frequent_reasons.join("; ")))
}

fn unsteady_workloads(record: &TrialRecord) -> Vec<String> {
    if !record.is_unsteady() || !record.counts() {
        return Vec::new();
    }
    record.unsteady_workloads().map(|(name, remark)| format!("`{name}`: {remark}")).collect()
}

/// Whether a hypothesis or a search is about the success of this workload's requests: failed ones are then a result.
#[must_use]
pub fn is_success_in_question(question: &Question, workload: &str) -> bool {
    let claimed = question.hypotheses.iter().flat_map(|hypothesis| hypothesis.claim.measures());
    let searched = question.searches.iter().flat_map(|search| search.until.measures());
    let is_of_success = |measure: &Measure| {
        let is_interruption =
            matches!(measure.quantity, Quantity::Gap | Quantity::UserGap | Quantity::Recovery | Quantity::Status(_));
        (measure.quantity.is_of_exceptions() || is_interruption) && measure.of == workload
    };
    claimed.map(|(measure, _)| measure).chain(searched).any(is_of_success)
}

/// What the requests of a workload led to at a combination of levels.
#[derive(Default)]
struct Outcomes {
    requests: u64,
    failed: u64,
    errors: BTreeMap<String, u64>,
    statuses: BTreeMap<String, u64>,
}

impl Outcomes {
    fn add(&mut self, load: &WorkloadRecord) {
        let failed = load.failed();
        self.failed += failed;
        self.requests += load.ok + failed;
        for (sum, counts) in [(&mut self.errors, &load.errors), (&mut self.statuses, &load.statuses)] {
            counts.iter().for_each(|(name, count)| *sum.entry(name.clone()).or_default() += count);
        }
    }

    fn failed_share(&self) -> f64 {
        self.failed as f64 / self.requests.max(1) as f64
    }

    /// The most frequent kind of error; of wrong statuses, the most frequent status of an error.
    fn cause(&self) -> String {
        let most = |counts: &BTreeMap<String, u64>| {
            counts.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.clone())
        };
        let kind = most(&self.errors).unwrap_or_default();
        if kind != WRONG_STATUS {
            return kind;
        }
        let of_errors = self.statuses.iter().filter(|(status, _)| status.as_str() >= "400");
        let status = most(&of_errors.map(|(status, count)| (status.clone(), *count)).collect());
        status.or_else(|| most(&self.statuses)).map_or(kind, |status| format!("status {status}"))
    }
}

/// Workloads that had many failed requests at a combination: their rates and times are also those of errors.
fn failing_workloads(question: &Question, records: &[&TrialRecord]) -> Vec<String> {
    let mut outcomes: BTreeMap<(&String, &Levels), Outcomes> = BTreeMap::new();
    for record in records.iter().filter(|record| record.purpose == Purpose::Block && record.counts()) {
        let asked = |(name, _): &(&String, &WorkloadRecord)| !is_success_in_question(question, name);
        for (name, load) in record.workloads.iter().filter(asked) {
            outcomes.entry((name, &record.levels)).or_default().add(load);
        }
    }
    let mut failing: Vec<_> = outcomes.into_iter().filter(|(_, of)| of.failed_share() > ERRORS_MAX).collect();
    failing.sort_by(|(_, one), (_, other)| other.failed_share().total_cmp(&one.failed_share()));
    let sentence = |((workload, levels), of): &((&String, &Levels), Outcomes)| {
        let at = if levels.is_empty() { String::new() } else { format!(" at {}", in_words(levels)) };
        format!(
            "`{workload}`: {:.0} % of the requests failed{at} ({}): its rate and times are also those of errors.",
            of.failed_share() * 100.0,
            of.cause()
        )
    };
    failing.iter().take(REASONS_MAX).map(sentence).collect()
}

/// Foreign generators whose count does not follow from their rate: a pattern may match another number of the output.
/// The window includes the generator's start, which the rate does not.
fn contradictions(record: &TrialRecord) -> Vec<String> {
    let contradiction = |(name, load): (&String, &WorkloadRecord)| {
        let (count, rate) = (*load.figures.get("count")?, *load.figures.get("rate")?);
        let expected = rate * load.window_s;
        let is_plausible = (expected * COUNT_SHARE_MIN..=expected * COUNT_SHARE_MAX).contains(&count);
        (!is_plausible && record.counts()).then(|| {
            let seconds = load.window_s;
            let [count, rate] = [count, rate].map(|number| amount(number, Unit::Plain));
            format!("`{name}` reports {count} responses in {seconds:.1} s, but {rate} per second; check its patterns")
        })
    };
    record.workloads.iter().filter_map(contradiction).collect()
}

/// Combinations whose response time changed in the same direction at the end of most trials: their results depend on
/// the length of a trial.
fn still_changing(records: &[&TrialRecord]) -> Vec<String> {
    let mut changes: BTreeMap<(&Levels, &str), Vec<f64>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.purpose == Purpose::Block && record.counts()) {
        let is_foreground = |(_, workload): &(&String, &WorkloadRecord)| !workload.is_background;
        for (name, workload) in record.workloads.iter().filter(is_foreground) {
            let change = workload.steady.end_change.unwrap_or(0.0);
            changes.entry((&record.levels, name)).or_default().push(change);
        }
    }
    changes.into_iter().filter_map(|((levels, name), changes)| still_changing_at(levels, name, &changes)).collect()
}

fn still_changing_at(levels: &Levels, workload: &str, changes: &[f64]) -> Option<String> {
    let alike = |sign: f64| changes.iter().copied().filter(move |change| change * sign > 0.0);
    let sign = if alike(1.0).count() >= alike(-1.0).count() { 1.0 } else { -1.0 };
    let size = median(alike(sign).map(f64::abs))?;
    let trials = alike(sign).count();
    let at = if levels.is_empty() { String::new() } else { format!("At {}: ", in_words(levels)) };
    let (rose, meaning) = if sign > 0.0 {
        ("rose", "the subject slows down under load, and its figures depend on the length of a trial")
    } else {
        ("fell", "the warm-up is longer than a trial; raise `duration`")
    };
    (trials >= CHANGING_MIN && trials * 3 >= changes.len() * 2).then(|| {
        format!(
            "{at}the response time of `{workload}` still {rose} at the end of {trials} of {}, by {:.0} %: {meaning}.",
            count(changes.len(), "trial"),
            size * 100.0
        )
    })
}

/// Blocks in which a combination has no value, and the bounds of its median whatever the missing values.
fn missing(question: &Question, records: &[&TrialRecord], judgement: &Judgement) -> Vec<String> {
    let shown = question.shown();
    let (Some(measure), Some(table)) = (shown.first(), judgement.tables.first()) else { return Vec::new() };
    let mut tried: BTreeMap<&Levels, BTreeSet<u32>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.purpose == Purpose::Block) {
        tried.entry(&record.levels).or_default().insert(record.block);
    }
    let of_row = |row: &MeasureRow| {
        let blocks = tried.get(&row.levels)?.len();
        let lost = blocks.checked_sub(row.values.len()).filter(|&lost| lost > 0)?;
        let at = if row.levels.is_empty() { String::new() } else { format!("At {}: ", in_words(&row.levels)) };
        let bound = match median_bounds(row.values.iter().map(|&(_, value)| value), lost) {
            Some((low, high)) => format!(
                "for any values there, the median over all blocks is between {} and {}",
                amount(low, measure.unit),
                amount(high, measure.unit)
            ),
            None => "the median over all blocks is unbounded".to_owned(),
        };
        let have = if lost == 1 { "has" } else { "have" };
        Some(format!("{at}{lost} of {} {have} no value of `{}`; {bound}.", count(blocks, "block"), measure.name))
    };
    table.rows.iter().filter_map(of_row).take(REASONS_MAX).collect()
}

/// The bounds of the median of these values and `unknown` more; none if it may be anywhere.
fn median_bounds(known: impl Iterator<Item = f64>, unknown: usize) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = known.collect();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len() + unknown;
    // The two middle positions, equal if their number is odd.
    let (lower, upper) = (all.checked_sub(1)? / 2, all / 2);
    let low = sorted.get(lower.checked_sub(unknown)?)?;
    Some((*low, *sorted.get(upper)?))
}

fn biased(question: &Question, judgement: &Judgement) -> Vec<String> {
    let biased = judgement.noise.iter().filter(|floor| floor.is_biased);
    let shown = question.shown();
    let unit = |name: &str| shown.iter().find(|measure| measure.name == name).map(|measure| measure.unit);
    biased
        .map(|floor| {
            let size = floor.effect.center.map_or_else(String::new, |center| match floor.effect.scale {
                Scale::Ratio => format!("{center:.3}"),
                Scale::Difference => difference(center, unit(&floor.measure).unwrap_or(Unit::Plain)),
            });
            format!(
                "Two trials of the same combination (A/A) differ significantly in `{}` ({size}): effects up to this size are considered noise.",
                floor.measure
            )
        })
        .collect()
}

fn against_the_law(judgement: &Judgement) -> Option<String> {
    let wrong: Vec<_> = judgement.laws.iter().filter(|law| !law.agrees).collect();
    let worst = wrong.iter().max_by(|one, other| {
        let off = |law: &LawCheck| (law.users_by_law / law.users).ln().abs();
        off(one).total_cmp(&off(other))
    })?;
    let LawCheck { trial, workload, users, users_by_law, .. } = worst;
    Some(format!(
        "In {} of {} closed loops N = X·(R+Z+H) does not hold; in trial {trial} the measured rate and times account for {users_by_law:.1} of the {users} users of `{workload}`: a measurement is wrong.",
        wrong.len(),
        judgement.laws.len(),
    ))
}

/// Closed workloads whose users mostly waited for the generator, which was therefore the bottleneck.
fn held_by_the_generator(judgement: &Judgement) -> Option<String> {
    let held: Vec<_> = judgement.laws.iter().filter(|law| law.held_share > HELD_SHARE_MAX).collect();
    let worst = held.iter().max_by(|one, other| one.held_share.total_cmp(&other.held_share))?;
    Some(format!(
        "In {} of {} closed loops users waited longer for the generator than for the subject (in trial {}, `{}`, {:.0} % of the time): the generator limits these rates; the response times are not affected.",
        held.len(),
        judgement.laws.len(),
        worst.trial,
        worst.workload,
        worst.held_share * 100.0
    ))
}

/// A subject whose resident memory grows in most trials of a combination.
fn growing(records: &[&TrialRecord]) -> Vec<String> {
    let mut growths: BTreeMap<&str, BTreeMap<&Levels, Vec<f64>>> = BTreeMap::new();
    // While connections are added, every server grows.
    let is_constant = |record: &&&TrialRecord| !record.workloads.values().any(|workload| workload.is_changing);
    for record in records.iter().filter(is_constant) {
        for (name, subject) in &record.subjects {
            let of_levels = growths.entry(name).or_default().entry(&record.levels).or_default();
            of_levels.push(subject.memory_growth_per_s);
        }
    }
    growths.into_iter().filter_map(|(name, by_levels)| growth_of(name, &by_levels)).collect()
}

fn growth_of(name: &str, by_levels: &BTreeMap<&Levels, Vec<f64>>) -> Option<String> {
    let grown = |growths: &[f64]| growths.iter().filter(|&&growth| growth > 0.0).count();
    let growing: Vec<(&Levels, &Vec<f64>)> = by_levels
        .iter()
        .filter(|(_, growths)| grown(growths) * 2 > growths.len())
        .map(|(levels, growths)| (*levels, growths))
        .collect();
    let median_of = |growths: &[f64]| median(growths.iter().copied().filter(|&growth| growth > 0.0)).unwrap_or(0.0);
    let (levels, fastest) =
        growing.iter().max_by(|(_, one), (_, other)| median_of(one).total_cmp(&median_of(other)))?;
    let trials = growing.iter().map(|(_, growths)| grown(growths)).sum();
    let at = if levels.is_empty() { String::new() } else { format!(" at {}", in_words(levels)) };
    Some(format!(
        "The resident memory of `{name}` grew until the end of {}, by {} per minute{at}: a memory leak, or a cache that is not yet full.",
        count(trials, "trial"),
        amount(median_of(fastest) * 60.0, Unit::Bytes)
    ))
}

/// A sentence about the trials above a limit, and the largest share.
fn disturbed(
    records: &[&TrialRecord],
    by: &str,
    limit: f64,
    share: impl Fn(&TrialRecord) -> f64,
) -> Option<(String, f64)> {
    let shares: Vec<f64> = records.iter().map(|record| share(record)).filter(|&share| share > limit).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    let text = format!("In {} up to {:.0} % of the CPU time was {by}.", count(shares.len(), "trial"), most * 100.0);
    Some((text, most))
}

fn restarted(records: &[&TrialRecord]) -> Option<String> {
    let restarted =
        records.iter().filter(|record| record.subjects.values().any(|subject| subject.restarts > 0)).count();
    (restarted > 0).then(|| format!("In {} a subject restarted during the measurement.", count(restarted, "trial")))
}

#[cfg(test)]
mod tests {
    use breme_experiment::plan::PlanMeasure;
    use breme_expression::Vocabulary;

    use super::*;
    use crate::judgement::{Effect, NoiseFloor};

    #[test]
    fn unknown_values_bound_the_median() {
        let bounds = |known: &[f64], unknown| median_bounds(known.iter().copied(), unknown);
        assert_eq!(bounds(&[3.0, 1.0, 2.0], 0), Some((2.0, 2.0)));
        // The third of five; both unknown values are below it, or both above.
        assert_eq!(bounds(&[1.0, 2.0, 3.0], 2), Some((1.0, 3.0)));
        assert_eq!(bounds(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 1), Some((3.0, 5.0)));
        assert_eq!(bounds(&[1.0, 2.0], 2), None);
        assert_eq!(bounds(&[], 3), None);
    }

    #[test]
    fn a_count_that_contradicts_the_rate_is_reported() {
        let reported = |count: f64, rate: f64| {
            let figures = [("count".to_owned(), count), ("rate".to_owned(), rate)].into();
            let load = WorkloadRecord { window_s: 2.0, figures, ..WorkloadRecord::default() };
            contradictions(&TrialRecord { workloads: [("wrk".to_owned(), load)].into(), ..TrialRecord::default() })
        };
        assert_eq!(reported(2_000.0, 1_000.0), Vec::<String>::new());
        assert!(reported(1_400.0, 1_000.0).is_empty(), "it needed 0.6 s to start");
        let half = "`wrk` reports 1,000 responses in 2.0 s, but 1,029 per second; check its patterns";
        assert_eq!(reported(1_000.0, 1_029.166_772), [half]);
        assert_eq!(reported(2_400.0, 1_000.0).len(), 1);
        assert!(contradictions(&TrialRecord::default()).is_empty());
    }

    #[test]
    fn failed_requests_are_reported_unless_a_claim_is_about_them() {
        let record = |errors: &[(&str, u64)]| TrialRecord {
            levels: Levels::from([("server".to_owned(), "small".to_owned())]),
            workloads: [(
                "load".to_owned(),
                WorkloadRecord {
                    ok: 880,
                    errors: errors.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect(),
                    statuses: [("200".to_owned(), 880), ("404".to_owned(), 100), ("503".to_owned(), 5)].into(),
                    ..WorkloadRecord::default()
                },
            )]
            .into(),
            ..TrialRecord::default()
        };
        let claim = |expect: &str| {
            let vocabulary =
                Vocabulary { workloads: vec!["load".to_owned(), "other".to_owned()], ..Vocabulary::default() };
            let claim = breme_expression::Claim::parse(expect, &vocabulary).unwrap();
            let hypothesis = breme_experiment::plan::PlanHypothesis {
                says: String::new(),
                expect: expect.to_owned(),
                claim,
                equal_within: None,
            };
            Question { hypotheses: vec![hypothesis], ..Question::default() }
        };
        let of_rate = claim("rate(load) > 1");
        let warned = |question: &Question, errors: &[(&str, u64)]| failing_workloads(question, &[&record(errors)]);
        let text = "`load`: 12 % of the requests failed at server=small (status 404): \
                    its rate and times are also those of errors.";
        assert_eq!(warned(&of_rate, &[("status", 110), ("reset", 10)]), [text]);
        assert!(warned(&of_rate, &[("reset", 120)])[0].contains("(reset)"));
        assert!(warned(&of_rate, &[("status", 8)]).is_empty(), "less than 1 %");
        for about_errors in ["errors(load) < 50 %", "pass(load) == 100 %", "status.404(load) == 0"] {
            assert!(warned(&claim(about_errors), &[("status", 120)]).is_empty(), "{about_errors}");
        }
        assert_eq!(warned(&claim("errors(other) == 0"), &[("status", 120)]).len(), 1);
    }

    #[test]
    fn a_bias_in_a_share_is_in_percentage_points() {
        let measure = PlanMeasure::from(Measure { quantity: Quantity::ErrorShare, of: "user".into() });
        let question = Question { measures: vec![measure], ..Question::default() };
        let effect = Effect { scale: Scale::Difference, center: Some(0.003), ..Effect::default() };
        let floor = NoiseFloor { measure: "errors(user)".into(), effect, is_biased: true, ..NoiseFloor::default() };
        let judgement = Judgement { noise: vec![floor], ..Judgement::default() };
        assert!(biased(&question, &judgement)[0].contains("in `errors(user)` (0.3 pp)"));
    }

    #[test]
    fn a_change_to_the_end_is_reported_with_its_direction() {
        let levels = Levels::from([("build".to_owned(), "new".to_owned())]);
        let report = |changes: &[f64]| still_changing_at(&levels, "user", changes);
        let fell = report(&[-0.1, -0.12, 0.0, -0.3]).unwrap();
        assert!(
            fell.starts_with(
                "At build=new: the response time of `user` still fell at the end of 3 of 4 trials, by 12 %"
            ),
            "{fell}"
        );
        assert!(report(&[0.1, 0.12, 0.2]).is_some_and(|rose| rose.contains("still rose")));
        assert_eq!(report(&[0.1, -0.12, 0.2, -0.1]), None, "in both directions: noise");
        assert_eq!(report(&[0.1, 0.1]), None, "too few trials");
    }
}
