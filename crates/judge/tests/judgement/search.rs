//! The search for a failure point on subjects that fail at random: its precision, compared with plain bisection.

use std::time::Duration;

use breme_base::Random;
use breme_experiment::record::{Purpose, TrialFailure, TrialRecord};
use breme_expression::Condition;
use breme_judge::judgement::{SearchOutcome, SearchStep};
use breme_judge::{Next, Search, SearchQuestion};

use crate::fixture::{levels, trial, vocabulary, workload};

fn question(from: f64, to: f64, is_integer: bool) -> SearchQuestion {
    SearchQuestion {
        factor: "crowd".into(),
        from,
        to,
        precision: 0.05,
        is_integer,
        until: Condition::parse("mean(user) > 2 s or errors(user) > 1 %", &vocabulary(&[])).unwrap(),
        at: levels(&[("path", "cached")]),
        trial: Duration::from_secs(5),
        confirmation: Duration::from_secs(30),
        trials_max: 100,
    }
}

/// Runs a search on a subject; `fails` decides whether it fails at a level, in a longer trial or not.
fn run(question: &SearchQuestion, mut fails: impl FnMut(f64, bool, &[SearchStep]) -> Option<bool>) -> SearchOutcome {
    let mut search = Search::new(question);
    let mut steps = Vec::new();
    while let Next::Try { level, length, is_confirmation } = search.next() {
        assert!((question.from..=question.to).contains(&level), "{level} is outside");
        assert!(!question.is_integer || level.fract() == 0.0, "{level} is no whole number");
        assert_eq!(length, if is_confirmation { question.confirmation } else { question.trial });
        let failed = fails(level, is_confirmation, &steps);
        let step = SearchStep { level, failed, trial: steps.len() as u32 + 1, is_confirmation };
        steps.push(step);
        search.take(step);
        assert!(steps.len() <= question.trials_max, "it never ends");
    }
    search.outcome()
}

#[test]
fn a_sharp_point_is_found_and_confirmed_from_both_sides() {
    for point in [1.5_f64, 7.0, 63.5, 64.0, 100.0, 999.0] {
        let outcome = run(&question(1.0, 1_000.0, true), |level, _, _| Some(level > point));
        let (holds, fails) = (outcome.holds_at.unwrap(), outcome.fails_at.unwrap());
        assert!(holds <= point && point < fails, "{point}: {holds}, {fails}");
        assert!(fails <= holds * 1.05 || fails - holds <= 1.0, "{point}: {holds}, {fails}");
        assert!(outcome.is_confirmed && outcome.recovers_at.is_none());
        let confirmed: Vec<f64> =
            outcome.steps.iter().filter(|step| step.is_confirmation).map(|step| step.level).collect();
        assert_eq!(confirmed, [holds, fails, holds], "up, beyond, and back down");
        assert!(outcome.steps.len() <= 30, "{point}: {} trials", outcome.steps.len());
        assert!(outcome.sentence.contains("confirmed by longer trials"), "{}", outcome.sentence);
    }
}

#[test]
fn the_ends_of_the_range_are_found_too() {
    let never = run(&question(1.0, 1_000.0, true), |_, _, _| Some(false));
    assert_eq!((never.holds_at, never.fails_at, never.is_confirmed), (Some(1_000.0), None, true));
    assert!(never.sentence.contains("is false up to crowd = 1,000"), "{}", never.sentence);
    let always = run(&question(8.0, 1_000.0, true), |_, _, _| Some(true));
    assert_eq!((always.holds_at, always.fails_at, always.is_confirmed), (None, Some(8.0), true));
    let from_nothing = run(&question(0.0, 250.0, true), |level, _, _| Some(level > 90.0));
    assert_eq!(from_nothing.holds_at.map(|low| (87.0..=90.0).contains(&low)), Some(true), "{from_nothing:?}");
    let small = run(&question(0.0, 4.0, false), |level, _, _| Some(level > 0.1));
    assert!(small.holds_at.unwrap() <= 0.1 && small.fails_at.unwrap() > 0.1 && small.fails_at.unwrap() < 0.11);
}

fn logistic(level: f64, point: f64, spread: f64) -> f64 {
    1.0 / (1.0 + (-(level / point).ln() / spread).exp())
}

/// Bisection with one trial per level, whose result is final.
fn plain_bisection(from: f64, to: f64, mut fails: impl FnMut(f64) -> bool) -> f64 {
    let (mut low, mut high) = (from, from);
    while high < to {
        high = (high * 2.0).min(to);
        if fails(high) {
            break;
        }
        low = high;
    }
    while high > low * 1.05 {
        let middle = (low * high).sqrt();
        if fails(middle) { high = middle } else { low = middle }
    }
    (low * high).sqrt()
}

fn quantile(errors: &mut [f64], share: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[((errors.len() - 1) as f64 * share) as usize]
}

/// A subject whose failure probability rises with the load over some 10 %, and which fails once in twenty trials for no
/// reason.
#[test]
fn noise_is_survived_where_plain_bisection_is_not() {
    let question = question(1.0, 4_096.0, false);
    let (mut ours, mut plain, mut trials, mut plain_trials) = (Vec::new(), Vec::new(), 0, 0);
    let experiments = 200;
    for seed in 0..experiments {
        let mut random = Random::stream(9, seed);
        let point = 10.0 * 100.0_f64.powf(random.unit());
        let mut fails = |level: f64, spread: f64| random.chance(logistic(level, point, spread)) || random.chance(0.05);
        let found = plain_bisection(1.0, 4_096.0, |level| {
            plain_trials += 1;
            fails(level, 0.04)
        });
        plain.push((found / point).ln().abs());
        // A longer trial is more reliable.
        let outcome = run(&question, |level, is_long, _| Some(fails(level, if is_long { 0.02 } else { 0.04 })));
        trials += outcome.steps.len();
        let (low, high) = (outcome.holds_at.unwrap_or(1.0), outcome.fails_at.unwrap_or(4_096.0));
        ours.push(((low * high).sqrt() / point).ln().abs());
    }
    let mean_trials = trials as f64 / experiments as f64;
    let (ours_90, plain_90) = (quantile(&mut ours, 0.9), quantile(&mut plain, 0.9));
    let (ours_99, plain_99) = (quantile(&mut ours, 0.99), quantile(&mut plain, 0.99));
    println!(
        "nine in ten within {ours_90:.3} (plain {plain_90:.3}), 99 % within {ours_99:.3} (plain {plain_99:.3}), {mean_trials:.1} trials (plain {:.1})",
        f64::from(plain_trials) / experiments as f64
    );
    assert!(ours_90 < 0.08 && ours_99 < 0.2, "{ours_90} {ours_99}");
    assert!(plain_90 > 5.0 * ours_90, "{plain_90} {ours_90}");
    assert!(mean_trials < 45.0, "{mean_trials}");
}

#[test]
fn a_system_that_does_not_recover_is_noticed() {
    // Once it has failed, it stays broken until the load falls to half.
    let mut is_broken = false;
    let outcome = run(&question(1.0, 1_000.0, true), |level, is_long, _| {
        if !is_long {
            return Some(level > 100.0);
        }
        is_broken = level > 100.0 || is_broken && level > 50.0;
        Some(is_broken)
    });
    assert_eq!(outcome.holds_at.map(|low| (96.0..=100.0).contains(&low)), Some(true), "{outcome:?}");
    let recovered = outcome.recovers_at.unwrap();
    assert!((25.0..=50.0).contains(&recovered), "{recovered}");
    assert!(outcome.is_confirmed && outcome.sentence.contains("recovers only at"), "{}", outcome.sentence);
}

#[test]
fn a_level_that_the_generator_cannot_offer_is_no_failure() {
    let wall = |level: f64, _: bool, _: &[SearchStep]| (level < 300.0).then_some(false);
    let outcome = run(&question(1.0, 1_000.0, true), wall);
    assert_eq!(outcome.fails_at, None);
    assert!((280.0..300.0).contains(&outcome.holds_at.unwrap()), "{outcome:?}");
    assert!(outcome.sentence.contains("Abandoned"), "{}", outcome.sentence);
    let nothing = run(&question(1.0, 1_000.0, true), |_, _, _| None);
    assert_eq!((nothing.holds_at, nothing.fails_at, nothing.is_confirmed), (None, None, false));
}

/// On a busy machine one trial of a level may count and the next ninety be INVALID.
#[test]
fn a_level_with_one_good_trial_among_invalid_ones_is_abandoned() {
    let mut is_first = true;
    let outcome = run(&question(1.0, 1_000.0, true), |level, _, _| {
        if level < 300.0 {
            return Some(false);
        }
        std::mem::take(&mut is_first).then_some(false)
    });
    assert!(outcome.abandoned.contains(&512.0), "{outcome:?}");
    let of_level = outcome.steps.iter().filter(|step| step.level == 512.0).count();
    assert!(of_level <= 6, "{of_level} trials of one level");
    assert!((280.0..300.0).contains(&outcome.holds_at.unwrap()), "{outcome:?}");
    assert!(outcome.sentence.contains("512 (4 of 5 trials)"), "{}", outcome.sentence);
}

#[test]
fn a_search_on_a_machine_that_is_too_busy_gives_up() {
    for seed in 0..100 {
        let mut random = Random::stream(5, seed);
        let outcome = run(&question(1.0, 1_000.0, true), |level, _, _| random.chance(0.1).then_some(level > 42.0));
        let uncounted = outcome.steps.iter().filter(|step| step.failed.is_none()).count();
        assert!(uncounted <= 30 && outcome.steps.len() <= 45, "{outcome:?}");
        let gave_up = outcome.sentence.contains("stopped after 30 trials");
        assert_eq!(gave_up, uncounted == 30, "{}", outcome.sentence);
    }
}

#[test]
fn a_coin_ends_too() {
    for seed in 0..100 {
        let mut random = Random::stream(4, seed);
        let outcome = run(&question(1.0, 1_000.0, true), |_, _, _| Some(random.chance(0.5)));
        assert!(outcome.steps.len() <= 100);
    }
}

fn record(number: u32, level: f64, is_confirmation: bool, fails: bool) -> TrialRecord {
    let purpose = if is_confirmation { Purpose::Confirmation } else { Purpose::Search };
    let workload = workload(if fails { 3.0 } else { 0.1 }, 1, 60.0);
    let levels = levels(&[("path", "cached"), ("crowd", &level.to_string())]);
    TrialRecord { number, purpose, ..trial(number, 0, &levels, workload) }
}

/// A killed run continues at the same step.
#[test]
fn records_are_steps() {
    let question = question(1.0, 1_000.0, true);
    let mut records: Vec<TrialRecord> = Vec::new();
    let mut alive = Search::new(&question);
    while let Next::Try { level, is_confirmation, .. } = alive.next() {
        assert_eq!(Search::from_records(&question, &records).next(), alive.next());
        let number = records.len() as u32 + 1;
        records.push(record(number, level, is_confirmation, level > 42.0));
        alive.take(SearchStep { level, failed: Some(level > 42.0), trial: number, is_confirmation });
        // Another path, and a block of the design: neither belongs to this search.
        let mut other = record(900, 3.0, false, true);
        other.levels.insert("path".into(), "source".into());
        records.insert(0, other);
        records.insert(0, TrialRecord { purpose: Purpose::Block, ..record(901, 3.0, false, true) });
    }
    let resumed = Search::from_records(&question, &records);
    assert_eq!(resumed.outcome(), alive.outcome());
    assert_eq!(
        (resumed.outcome().holds_at, resumed.outcome().fails_at),
        (Some(41.0), Some(43.0)),
        "5 % are near enough"
    );
    let mut crashed = record(500, 40.0, false, false);
    crashed.end = TrialFailure::new("site", "died", "").into();
    records.push(crashed);
    let last = Search::from_records(&question, &records).outcome().steps.pop().unwrap();
    assert_eq!(last.failed, Some(true), "a subject that died has failed");
}
