//! From an experiment file to its result: the plan, artificial records of all its trials, the judgement.

use breme_experiment::plan::{Diagnostics, Flag, Plan, Role, Roles, Surroundings};
use breme_experiment::record::TrialRecord;
use breme_judge::judgement::Verdict;
use breme_judge::{Question, judge};

use crate::fixture::{Disturbance, Noise, trial, workload};

const FILE: &str = r#"
title = "A cache"
question = "Does a cache keep the site usable under load?"

[subject.site]
kind = "site"
lab = true

[path]
source = { to = "site" }
cached = { to = "site" }

[workload.user]
connections = "$crowd"
request = "/bytes/100"

[factor]
path = ["source", "cached"]
crowd = [1, 4, 16]

[design]
blocks = 6

[measure]
slowdown = "p99(user) / p50(user)"

[[hypothesis]]
says = "under the heaviest load the cache keeps the user's time below a quarter of the bare server's"
expect = "mean(user) [path=cached, crowd=16] < 0.25 * mean(user) [path=source, crowd=16]"

[[hypothesis]]
says = "everything is answered"
expect = "pass(user) == 100 %"

[[published]]
measure = "mean(user)"
source = "study 1"
values = [{ at = { path = "cached" }, value = "14.4 ms" }]
"#;

/// Reads a file that needs no other.
fn read(text: &str) -> Result<Plan, Diagnostics> {
    let lab = Flag { name: "lab".to_owned(), ..Flag::default() };
    let roles = Roles(vec![Role { name: "site".to_owned(), flags: vec![lab], resets: Vec::new() }]);
    let no_file = |_: &str| Err("there is no such file".to_owned());
    Plan::read(text, None, &Surroundings { roles: &roles, folder: "/lab", read: &no_file, check: &|_, _| Ok(()) })
}

fn records(plan: &Plan) -> Vec<TrialRecord> {
    let mut noise = Disturbance::new(Noise::Normal, 0.02, 1);
    let keys = plan.trials().into_iter().enumerate();
    let of_key = keys.map(|(index, key)| {
        let levels = plan.trial(&key).unwrap().levels.into_iter().collect::<std::collections::BTreeMap<_, _>>();
        let crowd: f64 = levels["crowd"].parse().unwrap();
        let mean_s = if levels["path"] == "cached" { 0.001 } else { 0.001 * crowd } * noise.draw().exp();
        let record = trial(key.block, key.replicate, &levels, workload(mean_s, crowd as u64, 10.0));
        TrialRecord { number: index as u32 + 1, combination: key.combination, ..record }
    });
    of_key.collect()
}

#[test]
fn a_file_gets_its_answer() {
    let plan = read(FILE).unwrap_or_else(|faults| panic!("{faults}"));
    let question = Question::from(&plan);
    let judgement = judge(&question, &records(&plan));
    assert_eq!(judgement.trials.planned, 6 * 7, "one combination twice in each block");
    assert_eq!((judgement.trials.run, judgement.trials.counted, judgement.trials.blocks), (42, 42, 6));
    assert!(judgement.hypotheses.iter().all(|judged| judged.verdict == Verdict::Supported), "{}", judgement.answer);
    assert!(judgement.grounds.contains("“under the heaviest load"), "{}", judgement.grounds);
    assert!(judgement.answer.starts_with("All 2 hypotheses are supported. `mean(user)` with "), "{}", judgement.answer);
    let table = judgement.tables.iter().find(|table| table.measure == "mean(user)").unwrap();
    let published = table.rows.iter().filter(|row| row.published.as_ref().is_some_and(|figure| figure.value == 0.0144));
    assert_eq!(published.count(), 3, "whatever the crowd");
    assert!(judgement.laws.iter().all(|law| law.agrees) && judgement.laws.len() == 42);
    assert!(!judgement.noise.is_empty());
}

#[test]
fn a_hypothesis_has_its_own_range_even_if_it_is_that_of_the_design() {
    let of_file = |rest: &str| {
        let text = FILE.replace("100 %\"\n", &format!("100 %\"\n{rest}"));
        read(&text).unwrap_or_else(|faults| panic!("{faults}"))
    };
    for (rest, own, verdict) in
        [("equal_within = \"2 %\"\n", Some(0.02), Verdict::Supported), ("", None, Verdict::Refuted)]
    {
        let plan = of_file(rest);
        let mut records = records(&plan);
        for user in records.iter_mut().filter_map(|record| record.workloads.get_mut("user")) {
            user.errors.insert("status".into(), user.ok / 1_000);
        }
        let stored = read(&plan.to_toml()).unwrap_or_else(|faults| panic!("{faults}"));
        for plan in [plan, stored] {
            let question = Question::from(&plan);
            assert_eq!(question.hypotheses[1].equal_within, own);
            assert_eq!(judge(&question, &records).hypotheses[1].verdict, verdict);
        }
    }
}

#[test]
fn levels_that_are_numbers_are_in_their_order() {
    let unordered = FILE.replace("crowd = [1, 4, 16]", "crowd = [16, 1, 4]");
    assert_ne!(unordered, FILE);
    let plan = read(&unordered).unwrap_or_else(|faults| panic!("{faults}"));
    let factors = Question::from(&plan).factors;
    let levels = |name: &str| factors.iter().find(|factor| factor.name == name).unwrap().levels.join(" ");
    assert_eq!((levels("crowd").as_str(), levels("path").as_str()), ("1 4 16", "source cached"));
}
