//! Verdicts of small artificial experiments: few blocks, missing blocks, crashes, leaks, counted claims, open levels.

use breme_experiment::record::{Purpose, Steady, SteadyState, TrialFailure, TrialRecord};
use breme_judge::judgement::{FindingKind, HypothesisJudgement, Judgement, Verdict};
use breme_judge::{Levels, Question, judge};

use crate::fixture::{Experiment, Noise, factor, hypothesis, levels, trial, workload};

fn experiment(blocks: u32) -> Experiment {
    Experiment::new(vec![factor("path", &["source", "cached"])], blocks, Noise::Normal, 0.01)
}

fn quarter(levels: &Levels) -> f64 {
    if levels["path"] == "cached" { 0.0025 } else { 0.01 }
}

fn claimed(blocks: u32, expect: &str) -> (Experiment, Vec<TrialRecord>) {
    let mut experiment = experiment(blocks);
    experiment.question.hypotheses = vec![hypothesis(expect, &experiment.question.factors)];
    let records = experiment.run(5, quarter);
    (experiment, records)
}

fn judged(question: &Question, records: &[TrialRecord]) -> HypothesisJudgement {
    judge(question, records).hypotheses.remove(0)
}

fn check(blocks: u32, expect: &str, verdict: Verdict) -> HypothesisJudgement {
    let (experiment, records) = claimed(blocks, expect);
    let judged = judged(&experiment.question, &records);
    assert_eq!(judged.verdict, verdict, "{expect}: {}", judged.sentence);
    judged
}

const FASTER: &str = "mean(user) [path=cached] < 0.5 * mean(user) [path=source]";

#[test]
fn too_few_blocks_are_reported() {
    for blocks in 1..5 {
        let judged = check(blocks, FASTER, Verdict::Undecided { more_blocks: Some(5 - blocks) });
        assert!(judged.sentence.contains("a verdict needs at least 5 blocks"), "{}", judged.sentence);
    }
    check(5, FASTER, Verdict::Supported);
}

#[test]
fn limits_are_limits() {
    check(6, "mean(user) < 20 ms", Verdict::Supported);
    check(6, "mean(user) [path=cached] < 1 ms", Verdict::Refuted);
    check(6, "20 ms > mean(user)", Verdict::Supported);
    let judged = check(6, "mean(user) [path=source] < 10.15 ms", Verdict::Supported);
    assert!(judged.sentence.contains("claimed: less than 10.15 ms"), "{}", judged.sentence);
}

#[test]
fn a_finding_is_relative_to_the_other_side_and_not_to_the_bound() {
    // 4 times as fast: the left side is a quarter of the right one, and half of its half.
    let judged = check(6, FASTER, Verdict::Supported);
    let finding = judged.cases[0].finding.as_ref().unwrap();
    assert_eq!((finding.kind, finding.bound, finding.claimed.as_str()), (FindingKind::Ratio, 0.5, "less than 0.5"));
    assert_eq!(
        (finding.of.as_str(), finding.relative_to.as_str()),
        ("mean(user) [path=cached]", "mean(user) [path=source]")
    );
    assert!((finding.center - 0.25).abs() < 0.01 && finding.low < finding.center && finding.center < finding.high);
    assert!((judged.cases[0].effect.center.unwrap() - 0.5).abs() < 0.02, "the statistics are those of the claim");
    assert!(judged.finding.starts_with("`mean(user)` with cached is 0.25 times ("), "{}", judged.finding);
    assert!(judged.finding.ends_with("that with source; claimed: less than 0.5"), "{}", judged.finding);
    assert!(judged.basis.starts_with("2.51 ms against 9.97 ms over 6 blocks"), "{}", judged.basis);

    // A factor on the left, a division, a number on the left, and a quotient against a number.
    let of = |expect: &str| {
        let (experiment, records) = claimed(6, expect);
        judge(&experiment.question, &records).hypotheses.remove(0).cases[0].finding.clone().unwrap()
    };
    let left = of("4 * mean(user) [path=cached] / 2 < mean(user) [path=source]");
    assert_eq!((left.claimed.as_str(), left.relation.as_str()), ("less than 0.5", "<"));
    assert!((left.center - 0.25).abs() < 0.01, "{left:?}");
    let value = of("20 ms > mean(user) [path=source]");
    assert_eq!((value.kind, value.unit.as_str(), value.relation.as_str()), (FindingKind::Value, "s", "<"));
    assert!(value.is_turned && !of("mean(user) [path=source] < 20 ms").is_turned);
    assert_eq!((value.bound, value.claimed.as_str(), value.relative_to.as_str()), (0.02, "less than 20 ms", ""));
    assert!((value.center - 0.01).abs() < 0.0005 && value.low <= value.center && value.center <= value.high);
    let quotient = of("mean(user) [path=source] / mean(user) [path=cached] > 3");
    assert_eq!((quotient.kind, quotient.claimed.as_str()), (FindingKind::Ratio, "more than 3"));
    assert!((quotient.center - 4.0).abs() < 0.1, "{quotient:?}");
    let same = of("mean(user) [path=cached] ≈ mean(user) [path=source]");
    assert_eq!(same.claimed, "1, within 2 %");
}

#[test]
fn the_headline_quotes_the_claim_and_names_verdict_and_effect() {
    let headline = |expect: &str, verdict: Verdict| {
        let (mut experiment, records) = claimed(6, expect);
        experiment.question.hypotheses[0].says = "Cached wins.".to_owned();
        let judgement = judge(&experiment.question, &records);
        assert_eq!(judgement.hypotheses[0].verdict, verdict);
        judgement.answer
    };
    let refuted = headline("mean(user) [path=cached] < 0.2 * mean(user) [path=source]", Verdict::Refuted);
    assert!(refuted.starts_with("Refuted: “Cached wins”. `mean(user)` with cached is 0.25 times (0.2"), "{refuted}");
    assert!(refuted.ends_with(" that with source; claimed: less than 0.2."), "{refuted}");
    assert_eq!(headline("counter.none(site) > 1", Verdict::NoData), "No data: “Cached wins”.");
    let open = headline("mean(user) < 5 ms", Verdict::Refuted);
    assert!(open.starts_with("Refuted: “Cached wins”. At path=source `mean(user)` is "), "{open}");
}

#[test]
fn the_verdicts_of_several_hypotheses_are_counted_and_the_first_number_is_shown() {
    let mut experiment = experiment(6);
    let expects = [FASTER, "mean(user) < 5 ms", "counter.none(site) > 1"];
    experiment.question.hypotheses =
        expects.iter().map(|expect| hypothesis(expect, &experiment.question.factors)).collect();
    let judgement = judge(&experiment.question, &experiment.run(5, quarter));
    let counts = "1 of 3 hypotheses supported, 1 refuted, 1 without data. `mean(user)` with cached is 0.25 times (";
    assert!(judgement.answer.starts_with(counts), "{}", judgement.answer);
}

#[test]
fn claims_on_counts_are_exact() {
    check(6, "errors(user) < 1 %", Verdict::Supported);
    check(6, "errors(user) > 1 %", Verdict::Refuted);
    check(3, "errors(user) < 1 %", Verdict::Undecided { more_blocks: Some(2) });
    check(5, "pass(user) == 100 %", Verdict::Supported);
    check(1, "pass(user) == 100 %", Verdict::Undecided { more_blocks: Some(4) });
    check(4, "failed(user) != 0", Verdict::Undecided { more_blocks: Some(1) });
    check(1, "failed(user) == 1", Verdict::Refuted);
    check(1, "failed(user) != 1", Verdict::Supported);
    check(6, "failed(user) == 0", Verdict::Supported);
    check(6, "failed(user) != 0", Verdict::Refuted);
    check(6, "pass(user) == 99.9 %", Verdict::Refuted);
    let (experiment, mut records) = claimed(6, "pass(user) == 100 %");
    let user = records[7].workloads.get_mut("user").unwrap();
    (user.ok, user.errors) = (user.ok - 1, [("assertion".to_owned(), 1)].into());
    assert_eq!(judged(&experiment.question, &records).verdict, Verdict::Refuted, "one is not all");
}

#[test]
fn open_levels_are_cases_and_all_of_them_must_hold() {
    let judged = check(8, "mean(user) < 5 ms", Verdict::Refuted);
    let verdicts: Vec<Verdict> = judged.cases.iter().map(|case| case.verdict).collect();
    assert_eq!(verdicts, [Verdict::Refuted, Verdict::Supported]);
    assert!(
        judged.sentence.starts_with("Refuted at 1 of 2 combinations, at path=source: `mean(user)` is"),
        "{}",
        judged.sentence
    );
    let judged = check(8, "mean(user) < 15 ms", Verdict::Supported);
    assert!(
        judged.sentence.starts_with("Supported at all 2 combinations, least clearly at path=source"),
        "{}",
        judged.sentence
    );
    let judged = check(8, "mean(user) [path=cached] < mean(user)", Verdict::Supported);
    assert_eq!(judged.cases.len(), 1, "not against itself");
}

#[test]
fn ten_clear_claims_are_supported_by_six_blocks() {
    let mut experiment = experiment(6);
    experiment.question.hypotheses = vec![hypothesis(FASTER, &experiment.question.factors); 10];
    let records = experiment.run(5, quarter);
    let judgement = judge(&experiment.question, &records);
    assert!(judgement.hypotheses.iter().all(|judged| judged.verdict == Verdict::Supported), "{}", judgement.answer);
    assert!(judgement.answer.starts_with("All 10 hypotheses are supported."), "{}", judgement.answer);
    // A clear result alone need not be clear as one of ten.
    let undecided = (0..20)
        .map(|seed| experiment.run(seed, |levels| if levels["path"] == "cached" { 0.0049 } else { 0.01 }))
        .map(|weak| judged(&experiment.question, &weak))
        .find(|judged| judged.cases[0].effect.high < Some(1.0) && judged.verdict != Verdict::Supported)
        .unwrap();
    assert!(undecided.sentence.contains("not after correction for the number of hypotheses"), "{}", undecided.sentence);
}

#[test]
fn a_subject_that_crashes_in_the_third_block_costs_that_block() {
    let (experiment, mut records) = claimed(7, FASTER);
    let crashed = records.iter_mut().find(|record| record.block == 3 && record.levels["path"] == "cached").unwrap();
    crashed.end = TrialFailure::new("site", "ended with signal 11", "oops").into();
    crashed.workloads.clear();
    let judgement = judge(&experiment.question, &records);
    let judged = &judgement.hypotheses[0];
    assert_eq!(judged.verdict, Verdict::Supported);
    assert_eq!(judged.cases[0].effect.blocks.len(), 6);
    assert!(
        judged.sentence.contains("1 of 7 blocks missing: failed: site: ended with signal 11"),
        "{}",
        judged.sentence
    );
    assert_eq!((judgement.trials.failed, judgement.trials.counted, judgement.trials.blocks), (1, 20, 6));
    assert!(
        judgement.warnings.iter().any(|warning| warning.contains("1 trial failed: site: ended with signal 11 (1×)"))
    );
    assert!(judgement.grounds.contains("Of 21 trials, not used: 1 failed."), "{}", judgement.answer);
}

#[test]
fn a_failed_trial_is_an_exception_too() {
    let with_crash = |expect: &str, replicate: u32| {
        let (experiment, mut records) = claimed(6, expect);
        let is_it = |record: &&mut TrialRecord| {
            record.block == 3 && record.replicate == replicate && record.levels["path"] == "source"
        };
        let crashed = records.iter_mut().find(is_it).unwrap();
        crashed.end = TrialFailure::new("site", "ended with signal 11", "").into();
        judged(&experiment.question, &records)
    };
    for expect in ["pass(user) == 100 %", "errors(user) < 1 %", "failed(user) [path=source] != 0"] {
        for replicate in [0, 1] {
            let judged = with_crash(expect, replicate);
            assert_eq!(judged.verdict, Verdict::Undecided { more_blocks: None }, "{expect}: {}", judged.sentence);
            let reason = judged.cases[0].reason.as_deref().unwrap_or_default();
            assert!(reason.starts_with("a failed trial is an exception too, and 1 block had one"), "{reason}");
        }
    }
    assert_eq!(with_crash("pass(user) [path=cached] == 100 %", 0).verdict, Verdict::Supported, "another combination");
    assert_eq!(with_crash("pass(user) == 99 %", 0).verdict, Verdict::Refuted);
    assert_eq!(with_crash("mean(user) < 20 ms", 0).verdict, Verdict::Supported, "a time");
}

/// Discarding disturbed trials would make the subject look better than it is.
#[test]
fn trials_that_are_not_steady_count_and_their_direction_is_reported() {
    let (experiment, mut records) = claimed(6, FASTER);
    let without = judge(&experiment.question, &records);
    for record in records.iter_mut().filter(|record| record.levels["path"] == "cached") {
        let remark = Some("its times grow by 40 % from beginning to end".to_owned());
        record.workloads.get_mut("user").unwrap().steady =
            Steady { state: SteadyState::NeverSteady, remark, end_change: Some(0.4), ..Steady::default() };
    }
    let judgement = judge(&experiment.question, &records);
    assert_eq!(judgement.hypotheses, without.hypotheses);
    assert_eq!((&judgement.comparisons, &judgement.tables), (&without.comparisons, &without.tables));
    assert_eq!((judgement.trials.unsteady, judgement.trials.counted), (6, without.trials.counted));
    let has = |texts: &[String], of: &str| texts.iter().any(|text| text.contains(of));
    assert!(has(&judgement.notes, "6 trials not steady, but counted: `user`: its times grow by 40 %"), "{judgement:?}");
    assert!(
        has(&judgement.warnings, "At path=cached: the response time of `user` still rose at the end of 6 of 6 trials"),
        "{:?}",
        judgement.warnings
    );
}

/// One of seven blocks has no value: the median of all cannot be far from that of the others.
#[test]
fn a_missing_value_is_bounded() {
    let (experiment, mut records) = claimed(7, FASTER);
    let late = records.iter_mut().find(|record| record.levels["path"] == "cached" && record.block == 3).unwrap();
    late.invalid_reasons = vec!["late".to_owned()];
    let judgement = judge(&experiment.question, &records);
    let note = judgement.notes.iter().find(|note| note.contains("1 of 7 blocks has no value of")).unwrap();
    assert!(note.starts_with("At path=cached: ") && note.contains("the median over all blocks is between"), "{note}");
}

#[test]
fn memory_that_grows_to_the_end_is_reported() {
    let (experiment, mut records) = claimed(6, FASTER);
    let warned = |records: &[TrialRecord]| -> Vec<String> {
        let warnings = judge(&experiment.question, records).warnings;
        warnings.into_iter().filter(|warning| warning.contains("resident memory")).collect()
    };
    let of_cached = |record: &&mut TrialRecord| record.levels["path"] == "cached";
    // One trial of six may be chance.
    records.iter_mut().find(of_cached).unwrap().subjects.get_mut("site").unwrap().memory_growth_per_s = 9e5;
    assert_eq!(warned(&records), Vec::<String>::new());
    for record in records.iter_mut().filter(of_cached) {
        record.subjects.get_mut("site").unwrap().memory_growth_per_s = 2e5;
    }
    let [warning] = warned(&records).try_into().unwrap();
    assert!(warning.contains("`site` grew until the end of 6 trials, by 12 MB per minute at path=cached"), "{warning}");
    // While connections are added one after another, every server grows.
    for record in &mut records {
        record.workloads.get_mut("user").unwrap().is_changing = true;
    }
    assert_eq!(warned(&records), Vec::<String>::new());
}

#[test]
fn where_nothing_counts_there_is_no_answer() {
    let (experiment, mut records) = claimed(6, FASTER);
    let nothing = judge(&experiment.question, &[]);
    assert_eq!(nothing.answer, "No data: no trial was run.");
    assert_eq!(nothing.hypotheses[0].verdict, Verdict::NoData);
    records.iter_mut().for_each(|record| record.invalid_reasons = vec!["the generator was saturated".into()]);
    let judgement = judge(&experiment.question, &records);
    assert_eq!(judgement.answer, "No data: none of 18 trials counts (18 INVALID).");
    assert!(
        judgement
            .warnings
            .iter()
            .any(|warning| warning.contains("18 trials INVALID: the generator was saturated (18×)"))
    );
}

#[test]
fn an_effect_must_exceed_what_two_trials_of_the_same_thing_show() {
    let mut experiment = experiment(8);
    experiment.question.hypotheses =
        vec![hypothesis("mean(user) [path=cached] < mean(user) [path=source]", &experiment.question.factors)];
    // The second trial of the pair is always slower by 20 %: something is biased.
    let mut records = experiment.run(5, |levels| if levels["path"] == "cached" { 0.0095 } else { 0.01 });
    for record in records.iter_mut().filter(|record| record.replicate == 1) {
        let user = record.workloads.get_mut("user").unwrap();
        *user = workload(user.response.mean_ns / 1e9 * 1.2, 1, 10.0);
    }
    let judgement = judge(&experiment.question, &records);
    let floor = judgement.noise.iter().find(|floor| floor.measure == "mean(user)").unwrap();
    assert!(floor.is_biased && floor.effect.floor.unwrap() > 1.15);
    assert_eq!(judgement.hypotheses[0].verdict, Verdict::Undecided { more_blocks: None });
    assert!(judgement.hypotheses[0].sentence.contains("two trials of the same combination (A/A) differ by as much"));
    let compared = &judgement.comparisons.iter().find(|of| of.measure == "mean(user)").unwrap().sentence;
    assert!(compared.ends_with("(two trials of the same combination, A/A, differ by as much)."), "{compared}");
    assert!(judgement.warnings.iter().any(|warning| warning.contains("differ significantly in `mean(user)`")));
}

#[test]
fn a_comparison_of_few_blocks_says_so_and_mentions_no_pair() {
    let comparison = |blocks: u32, change: fn(&mut TrialRecord)| {
        let experiment = experiment(blocks);
        let mut records = experiment.run(5, quarter);
        records.iter_mut().for_each(change);
        judge(&experiment.question, &records).comparisons.remove(0).sentence
    };
    let without_pair: fn(&mut TrialRecord) = |record| {
        if record.replicate == 1 {
            record.invalid_reasons.push(String::from("none"));
        }
    };
    for (blocks, few) in [(1, "there is 1"), (3, "there are 3"), (4, "there are 4")] {
        for change in [without_pair, |_| {}] {
            let sentence = comparison(blocks, change);
            let why = format!("(a verdict needs at least 5 blocks, {few}); about ");
            assert!(sentence.contains(&why) && !sentence.contains("A/A"), "{sentence}");
        }
    }
}

#[test]
fn comparisons_that_are_left_out_are_counted() {
    let users: Vec<String> = (0..40).map(|level| format!("u{level:02}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let experiment = Experiment::new(vec![factor("users", &users)], 5, Noise::Normal, 0.001);
    let records = experiment.run(5, |levels| if levels["users"].ends_with('0') { 0.01 } else { 0.02 });
    let judgement = judge(&experiment.question, &records);
    let counts = judgement.comparison_counts.unwrap();
    assert_eq!((judgement.comparisons.len(), counts.all()), (500, 2 * 40 * 39 / 2));
    assert!(counts.equal > 500 && counts.different > 100, "{counts:?}");
}

#[test]
fn the_later_attempt_at_a_trial_counts_and_searches_are_no_blocks() {
    let (experiment, records) = claimed(6, FASTER);
    let plain = judge(&experiment.question, &records);
    let mut more = vec![TrialRecord { ..trial(1, 0, &levels(&[("path", "cached")]), workload(9.0, 1, 10.0)) }];
    more.extend(records);
    let search = trial(1, 0, &levels(&[("path", "cached")]), workload(9.0, 1, 10.0));
    more.push(TrialRecord { purpose: Purpose::Search, number: 99, ..search });
    let again = judge(&experiment.question, &more);
    assert_eq!((again.hypotheses, again.tables), (plain.hypotheses, plain.tables));
}

#[test]
fn comparisons_are_of_all_pairs_and_the_largest_effects_come_first() {
    let factors = vec![factor("path", &["source", "cached"]), factor("crowd", &["0", "10", "50"])];
    let experiment = Experiment::new(factors, 6, Noise::Normal, 0.01);
    let records = experiment.run(3, |levels| quarter(levels) * (1.0 + levels["crowd"].parse::<f64>().unwrap() / 10.0));
    let judgement: Judgement = judge(&experiment.question, &records);
    // For each measure: three of the paths, three pairs of crowds on each of two paths.
    assert_eq!(judgement.comparisons.len(), 2 * (3 + 6));
    let first = &judgement.comparisons[0];
    assert_eq!((first.factor.as_str(), first.left.as_str(), first.right.as_str()), ("crowd", "50", "0"));
    assert!(
        first.sentence.contains("faster than") || first.sentence.contains("as many requests"),
        "{}",
        first.sentence
    );
    assert!(judgement.comparisons.windows(2).all(|pair| {
        let size = |at: usize| pair[at].effect.center.unwrap().ln().abs();
        pair[0].verdict != pair[1].verdict || size(0) >= size(1)
    }));
    assert!(
        judgement.answer.contains("faster than `source`"),
        "the answer is about words, not about loads: {}",
        judgement.answer
    );
}

#[test]
fn tables_follow_the_plan_and_have_the_published_figures_beside() {
    let mut experiment = experiment(6);
    experiment.question.published = vec![breme_judge::PublishedFigure {
        measure: "mean(user)".into(),
        at: levels(&[("path", "cached")]),
        value: 0.0144,
        source: "study 1, table A".into(),
    }];
    let judgement = judge(&experiment.question, &experiment.run(1, quarter));
    let table = &judgement.tables[0];
    assert_eq!((table.measure.as_str(), table.unit.as_str(), table.less_is_better), ("mean(user)", "s", Some(true)));
    let paths: Vec<&str> = table.rows.iter().map(|row| row.levels["path"].as_str()).collect();
    assert_eq!(paths, ["source", "cached"]);
    assert!(table.rows[0].published.is_none());
    assert_eq!(table.rows[1].published.as_ref().unwrap().value, 0.0144);
    assert!((table.rows[1].center.unwrap() / 0.0025 - 1.0).abs() < 0.02 && table.rows[1].values.len() == 6);
    assert_eq!(judgement.tables[1].measure, "rate(user)");
}
