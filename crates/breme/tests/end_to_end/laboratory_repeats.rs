//! INVALID trials are repeated at the end of their block: the remaining work follows from the journal.
//!
//! Whether a real trial is INVALID depends on the machine. So the journal of a finished run is modified: its trial
//! becomes INVALID, and the run is resumed.

use std::fs;

use serde_json::Value;

use crate::laboratory_harness::{Laboratory, json, text_of};

const EXPERIMENT: &str = r#"
title = "One trial"
measures = ["mean(user)"]
[subject.server]
kind = "site"
lab = true
[workload.user]
connections = 1
requests = 20
request = "/delay/1"
[design]
blocks = 1
pause = "0s"
aa = false
"#;

/// Of a saturated generator.
const REASON: &str = "the generator was the limit";

fn is_invalid(trial: &Value) -> bool {
    !trial["invalid_reasons"].as_array().unwrap().is_empty()
}

fn write_journal(laboratory: &Laboratory, trials: &[Value]) {
    let lines: String = trials.iter().map(|trial| format!("{trial}\n")).collect();
    fs::write(laboratory.journal("one"), lines).unwrap();
}

#[test]
fn an_invalid_trial_is_run_again_and_counts_once() {
    let laboratory = Laboratory::new(EXPERIMENT);
    let checked = text_of(&laboratory.breme(&["run", "--check", "experiment.toml"]).stdout);
    assert!(checked.contains("if INVALID trials are repeated"), "{checked}");
    laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    // If the machine made an attempt INVALID, the first one is used.
    let mut first = laboratory.trials("one").swap_remove(0);
    first["invalid_reasons"] = serde_json::json!([REASON]);
    write_journal(&laboratory, &[first]);
    let output = laboratory.breme(&["run", "--resume", "one", "--format", "json"]);
    let trials = laboratory.trials("one");
    let of = |name: &str| -> Vec<u64> { trials.iter().map(|trial| trial[name].as_u64().unwrap()).collect() };
    assert!((2..=3).contains(&trials.len()), "two repeats are the most: {}", trials.len());
    assert_eq!(of("repeat"), (0..trials.len() as u64).collect::<Vec<_>>());
    assert_eq!(of("number"), (1..=trials.len() as u64).collect::<Vec<_>>());
    assert!(trials[..trials.len() - 1].iter().all(is_invalid), "all attempts before the last were in vain");
    let judged = json(&output.stdout)["judgement"].clone();
    assert_eq!(judged["trials"]["run"], 1, "earlier attempts are not counted: {}", text_of(&output.stderr));
    let [notes, warnings] = ["notes", "warnings"].map(|name| judged[name].to_string());
    assert!((notes + &warnings).contains("repeated at the end of the block"), "{judged}");
    // A finished run is not changed.
    laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!(laboratory.trials("one").len(), trials.len());
}

/// Neither the page nor standard output needs the other, and a terminal that can only print gets no colours.
#[test]
fn a_result_that_cannot_be_written_everywhere_is_written_where_it_can() {
    let laboratory = Laboratory::new(EXPERIMENT);
    let into_full_disk = |arguments: &str| {
        let line = format!("{} {arguments} > /dev/full", env!("CARGO_BIN_EXE_breme"));
        std::process::Command::new("sh").args(["-c", &line]).current_dir(laboratory.folder()).output().unwrap()
    };
    let output = into_full_disk("run experiment.toml --name one -q");
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("standard output cannot be written") && stderr.contains("report: runs/one"), "{stderr}");
    let page = laboratory.folder().join("runs/one/report.html");
    assert!(page.is_file());

    // Nobody can write a file in place of a folder.
    fs::remove_file(&page).unwrap();
    fs::create_dir_all(page.join("occupied")).unwrap();
    let output = laboratory.breme(&["report", "one"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(text_of(&output.stdout).contains("One trial"), "{}", text_of(&output.stdout));
    assert!(stderr.contains("report.html: cannot be written"), "{stderr}");

    let line = format!("{} report one", env!("CARGO_BIN_EXE_breme"));
    let coloured = |term: &str| {
        let mut script = std::process::Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(laboratory.folder());
        let output = script.env("TERM", term).env_remove("NO_COLOR").stdin(std::process::Stdio::null()).output();
        text_of(&output.unwrap().stdout).contains('\x1b')
    };
    assert!(coloured("xterm-256color") && !coloured("dumb"));
}

/// A trial that was not steady counts: repeating it would select the undisturbed ones.
#[test]
fn a_trial_that_was_not_steady_is_not_run_again() {
    let laboratory = Laboratory::new(EXPERIMENT);
    laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let mut first = laboratory.trials("one").swap_remove(0);
    first["invalid_reasons"] = serde_json::json!([]);
    first["workloads"]["user"]["steady"] = serde_json::json!({
        "state": "never-steady", "from_s": 0.0, "remark": "the rate changed by -40 % between 0.1 and 0.2 s"
    });
    write_journal(&laboratory, std::slice::from_ref(&first));
    let output = laboratory.breme(&["run", "--resume", "one", "--format", "json"]);
    assert_eq!(laboratory.trials("one"), [first]);
    let judged = json(&output.stdout)["judgement"].clone();
    assert_eq!(judged["trials"]["counted"], 1, "{}", text_of(&output.stderr));
    assert!(judged["notes"].to_string().contains("1 trial not steady, but counted"), "{judged}");
}
