//! Exit statuses for CI: a gate passes only what is demonstrably not worse, and an undecided check is no success.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::harness::breme;
use crate::laboratory_harness::{Laboratory, json, text_of};

pub(crate) const SHORT: &str = r#"
title = "Short"
[subject.server]
kind = "site"
lab = true
threads = 1
restart = "never"
[workload.user]
connections = 1
requests = 5
request = "/bytes/10"
[factor]
users = [1, 2, 10]
[design]
blocks = 1
aa = false
pause = "0s"
warm_up = "none"
"#;

/// A run with this many blocks whose times and rates are scaled by these factors, with a scatter of about 1 %.
pub(crate) fn make_run(laboratory: &Laboratory, name: &str, blocks: u64, slower: f64) {
    let folder = laboratory.folder().join("runs").join(name);
    fs::create_dir(&folder).unwrap();
    let real = laboratory.folder().join("runs/real");
    fs::copy(real.join("plan.toml"), folder.join("plan.toml")).unwrap();
    let mut head = json(&fs::read(real.join("run.json")).unwrap());
    head["run"] = name.into();
    fs::write(folder.join("run.json"), head.to_string()).unwrap();
    let mut lines = String::new();
    for block in 1..=blocks {
        for (place, mut trial) in laboratory.trials("real").into_iter().enumerate() {
            let number = (block - 1) * 3 + place as u64 + 1;
            let scatter = 1.0 + 0.01 * (number * 7 % 5) as f64;
            trial["number"] = number.into();
            trial["block"] = block.into();
            // On a busy machine a trial of a few requests may have been INVALID.
            trial["invalid_reasons"] = Value::Array(Vec::new());
            let user = &mut trial["workloads"]["user"];
            user["response"]["mean_ns"] = Value::from(1e6 * slower * scatter);
            user["achieved_rate"] = Value::from(1_000.0 / slower / scatter);
            lines += &format!("{trial}\n");
        }
    }
    fs::write(folder.join("trials.jsonl"), lines).unwrap();
}

fn laboratory_with_runs() -> Laboratory {
    let laboratory = Laboratory::new(SHORT);
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "real"]);
    assert_eq!(output.status.code(), Some(0), "no hypothesis, nothing undecided: {}", text_of(&output.stderr));
    make_run(&laboratory, "before", 6, 1.0);
    make_run(&laboratory, "same", 6, 1.001);
    make_run(&laboratory, "slower", 6, 1.3);
    make_run(&laboratory, "much-slower", 6, 134.0);
    make_run(&laboratory, "cut", 1, 1.0);
    laboratory
}

#[test]
fn a_gate_passes_only_what_is_not_worse() {
    let laboratory = laboratory_with_runs();
    let compare = |arguments: &[&str]| -> (Option<i32>, String) {
        let output = laboratory.breme(&[&["compare"], arguments].concat());
        (output.status.code(), text_of(&output.stdout) + &text_of(&output.stderr))
    };
    for (arguments, status, said) in [
        (&["before", "same"][..], 0, "Not worse in any of 9 gated rows."),
        (&["before", "slower"], 3, "Worse in 6 of 9 gated rows."),
        (&["before", "much-slower"], 3, "Worse in 6 of 9 gated rows."),
        (&["much-slower", "before"], 0, "Not worse"),
        (&["before", "much-slower", "--margin", "50%"], 3, "Worse in 6"),
        (&["before", "slower", "--margin", "50%"], 0, "Not worse"),
        (&["before", "slower", "--gate", "mean(user) within 40%"], 0, "Not worse in any of 3 gated rows."),
        (&["before", "slower", "--gate", "errors(user)"], 0, "Not worse"),
        (&["before", "slower", "--margin", "28%"], 4, "No verdict"),
        (&["before", "cut"], 4, "1 of 4 blocks"),
        (&["before", "cut", "--allow-undecided"], 0, "No verdict"),
        (&["before", "much-slower", "--allow-undecided"], 3, "Worse"),
        (&["before", "same", "--gate", "count(user)"], 2, "no direction that is better"),
        (&["before", "same", "--gate", "mean(usr)"], 2, "usr"),
        (&["before", "same", "--margin", "0%"], 2, "more than 0%"),
    ] {
        let (code, text) = compare(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    // In the order of the plan: 1, 2, 10.
    let (_, text) = compare(&["before", "slower"]);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("WORSE") && line.contains("rate(user)")).collect();
    let levels: Vec<bool> =
        ["users=1:", "users=2:", "users=10:"].iter().zip(&rows).map(|(level, row)| row.contains(level)).collect();
    assert_eq!(levels, [true; 3], "{text}");
    assert!(text.contains("Gate of 9 rows: passes if the 95 % interval"), "{text}");
}

#[test]
fn runs_without_a_common_combination_or_without_values_give_no_verdict() {
    let laboratory = laboratory_with_runs();
    fs::write(laboratory.folder().join("other.toml"), SHORT.replace("[1, 2, 10]", "[3, 4]")).unwrap();
    assert_eq!(laboratory.breme(&["run", "other.toml", "--name", "other"]).status.code(), Some(0));
    let output = laboratory.breme(&["compare", "before", "other"]);
    assert_eq!(output.status.code(), Some(4), "{}", text_of(&output.stdout));
    assert!(text_of(&output.stdout).contains("no combination of levels in common"));
    let empty = laboratory.folder().join("runs/same/trials.jsonl");
    fs::write(empty, "").unwrap();
    assert_eq!(laboratory.breme(&["compare", "before", "same"]).status.code(), Some(4));
    assert_eq!(laboratory.breme(&["compare", "same", "same"]).status.code(), Some(4));
}

#[test]
fn the_gate_of_the_experiment_is_that_of_the_comparison() {
    let laboratory = Laboratory::new(&format!(
        "{SHORT}\n[gate]\nmeasures = [\"rate(user)\", \"mean(user) within 50 %\"]\nmargin = \"40 %\"\n"
    ));
    assert_eq!(laboratory.breme(&["run", "experiment.toml", "--name", "real"]).status.code(), Some(0));
    make_run(&laboratory, "before", 6, 1.0);
    make_run(&laboratory, "slower", 6, 1.3);
    let compare = |arguments: &[&str]| {
        let output = laboratory.breme(&[&["compare", "before", "slower", "--format", "json"], arguments].concat());
        let result = json(&output.stdout);
        (output.status.code(), result["verdict"].clone(), result["gate"]["rows"].clone())
    };
    assert_eq!(compare(&[]), (Some(0), "not-worse".into(), 6.into()));
    // The mean has a margin of its own.
    assert_eq!(compare(&["--margin", "5%"]), (Some(3), "worse".into(), 6.into()));
    assert_eq!(compare(&["--gate", "mean(user)"]), (Some(0), "not-worse".into(), 3.into()));
}

#[test]
fn ci_servers_get_test_cases_and_annotations() {
    let laboratory = laboratory_with_runs();
    let output = laboratory.breme(&["compare", "before", "slower", "--format", "junit"]);
    let text = text_of(&output.stdout);
    let document = roxmltree::Document::parse(&text).unwrap();
    let count = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!(["testcase", "failure", "error"].map(count), [9, 6, 0]);

    let summary = laboratory.folder().join("summary.md");
    let on_github = |arguments: &[&str]| -> Output {
        let mut command = breme();
        command.current_dir(laboratory.folder()).args(arguments);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary).output().unwrap()
    };
    let output = on_github(&["compare", "before", "slower", "--format", "markdown"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text_of(&output.stdout).starts_with("## before → slower\n\n**Worse in 6 of 9 gated rows."));
    assert_eq!(text_of(&output.stderr).lines().filter(|line| line.starts_with("::error title=")).count(), 6);
    on_github(&["compare", "before", "same"]);
    let written = fs::read_to_string(&summary).unwrap();
    assert!(written.contains("## before → slower\n") && written.contains("## before → same\n"), "appended: {written}");
    // Outside of CI none of it is printed.
    let output = laboratory.breme(&["compare", "before", "slower"]);
    assert!(!text_of(&output.stderr).contains("::error"));
}

#[test]
fn a_hypothesis_without_verdict_is_no_success() {
    let with = |expect: &str| {
        let hypothesis = format!("\n[[hypothesis]]\nsays = \"a & b\"\nexpect = \"{expect}\"\n");
        Laboratory::new(&(SHORT.to_owned() + &hypothesis))
    };
    // One block decides nothing.
    let laboratory = with("mean(user) [users=1] < 10 * mean(user) [users=2]");
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one", "--format", "junit"]);
    assert_eq!(output.status.code(), Some(4), "{}", text_of(&output.stderr));
    let text = text_of(&output.stdout);
    let document = roxmltree::Document::parse(&text).unwrap();
    let case = document.descendants().find(|node| node.has_tag_name("testcase")).unwrap();
    assert_eq!((case.attribute("name"), case.attribute("classname")), (Some("a & b"), Some("Short")));
    assert!(case.first_element_child().unwrap().has_tag_name("error"), "{text}");
    assert_eq!(text_of(&laboratory.breme(&["report", "one", "--format", "junit"]).stdout), text);
    let allowed = laboratory.breme(&["run", "experiment.toml", "--allow-undecided"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", text_of(&allowed.stderr));
    let several = laboratory.breme(&["run", "experiment.toml", "experiment.toml", "--format", "junit"]);
    assert_eq!(several.status.code(), Some(2));
}
