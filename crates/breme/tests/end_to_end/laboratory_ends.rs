//! Unplanned ends of runs: killed, interrupted, refused, with a closed pipe. The measurements are kept, and nothing
//! else remains.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::{Signal, breme, send_signal, wait, wait_until};
use crate::laboratory_harness::{Laboratory, json, text_of};

const SHORT: &str = r#"
title = "Many short trials"
measures = ["mean(user)"]
[subject.server]
kind = "site"
lab = true
threads = 1
[workload.user]
connections = "$users"
requests = 10
request = "/delay/5"
[factor]
users = [1, 2]
[design]
blocks = 4
pause = "0s"
warm_up = "none"
repeats = 0                     # a busy machine may make a trial INVALID
"#;
const TRIALS: usize = 12;
/// Waits before each trial while there are as many records as the file `allowed` says; meanwhile the file `held`
/// exists.
const HOLDING: &str = r#"
cd ${experiment}
touch held
until [ $(cat runs/*/trials.jsonl 2> /dev/null | wc -l) -lt $(cat allowed) ]; do sleep 0.01; done
rm held
"#;

fn order(trials: &[Value]) -> Vec<(u64, u64, u64)> {
    let key = |trial: &Value| ["block", "combination", "replicate"].map(|name| trial[name].as_u64().unwrap());
    trials.iter().map(key).map(|[block, combination, replicate]| (block, combination, replicate)).collect()
}

fn numbers(trials: &[Value]) -> Vec<u64> {
    trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
}

/// The experiment, with a hold before each trial: so that a run which a test disturbs does not end first, however slow
/// the test is.
fn held() -> Laboratory {
    held_with("")
}

/// With more at the end of the experiment.
pub(crate) fn held_with(more: &str) -> Laboratory {
    let reset = format!("threads = 1\nreset.hold = {{ command = [\"sh\", \"-c\", '''{HOLDING}'''] }}");
    let text = SHORT.replace("threads = 1", &reset).replace("[design]", "[design]\nreset = \"server.hold\"");
    Laboratory::new(&(text + more))
}

/// Sets how many trials may be recorded in total.
pub(crate) fn allow(laboratory: &Laboratory, trials: usize) {
    let (path, new) = (laboratory.folder().join("allowed"), laboratory.folder().join("allowed.new"));
    fs::write(&new, trials.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

/// Allows one more trial of the run "one", and returns when it is running, or has ended on a busy machine.
pub(crate) fn allow_another(laboratory: &Laboratory, recorded: usize) {
    let held = laboratory.folder().join("held");
    wait_until("the next trial is not held back", || held.exists());
    allow(laboratory, recorded + 1);
    wait_until("the trial does not begin", || !held.exists() || laboratory.trial_count("one") > recorded);
}

fn stderr_of(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_run_that_is_killed_again_and_again_loses_nothing_and_leaves_nothing() {
    let laboratory = held();
    allow(&laboratory, 1);
    let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one"]);
    for (recorded, next) in [(1, 3), (3, 6), (6, 9)] {
        laboratory.wait_trials("one", recorded);
        let refused = laboratory.breme(&["run", "--resume", "one"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text_of(&refused.stderr).contains("is in use by another breme"), "{}", text_of(&refused.stderr));
        allow_another(&laboratory, recorded);
        run.kill().unwrap();
        run.wait().unwrap();
        laboratory.wait_deserted();
        allow(&laboratory, next);
        run = laboratory.start(&["run", "--resume", "one"]);
    }
    // Interrupted at the terminal: the results so far are printed.
    laboratory.wait_trials("one", 9);
    allow_another(&laboratory, 9);
    send_signal(&run, Signal::INT);
    let stderr = stderr_of(&mut run);
    assert_eq!(wait(&mut run).code(), Some(130), "{stderr}");
    assert!(stderr.contains("breme run --resume runs/one"), "{stderr}");
    assert!(laboratory.folder().join("runs/one/report.html").is_file());
    laboratory.wait_deserted();
    damage_the_end(&laboratory);
    allow(&laboratory, 10 * TRIALS);

    let last = laboratory.breme(&["run", "--resume", "runs/one"]);
    assert_eq!(last.status.code(), Some(0), "{}", text_of(&last.stderr));
    assert!(text_of(&last.stderr).contains("its trial does not count"), "{}", text_of(&last.stderr));
    let trials = laboratory.trials("one");
    assert_eq!(numbers(&trials), (1..=TRIALS as u64).collect::<Vec<_>>());
    assert_eq!(order(&trials).into_iter().collect::<BTreeSet<_>>().len(), TRIALS, "none twice: {:?}", order(&trials));
    assert!(trials.iter().all(|trial| trial["end"]["how"] == "complete"));

    // Resuming a complete run changes nothing; and an undisturbed run has the same order.
    let before = fs::read(laboratory.journal("one")).unwrap();
    assert_eq!(laboratory.breme(&["run", "--resume", "one"]).status.code(), Some(0));
    assert_eq!(fs::read(laboratory.journal("one")).unwrap(), before);
    assert_eq!(laboratory.breme(&["run", "experiment.toml", "--name", "two"]).status.code(), Some(0));
    assert_eq!(order(&laboratory.trials("two")), order(&trials));
    every_sample_can_be_read(&laboratory);
    laboratory.wait_deserted();
}

/// Truncates the last line, as if the machine had stopped while writing it.
fn damage_the_end(laboratory: &Laboratory) {
    let mut text = fs::read(laboratory.journal("one")).unwrap();
    text.truncate(text.len() - 100);
    fs::write(laboratory.journal("one"), text).unwrap();
}

/// A kill may leave half a line, but never damages another.
fn every_sample_can_be_read(laboratory: &Laboratory) {
    let text = fs::read_to_string(laboratory.folder().join("runs/one/instruments.csv")).unwrap();
    let columns = text.lines().next().unwrap().split(',').count();
    // Names of metrics contain commas.
    let rows = text.lines().filter(|line| !line.contains(",metric,"));
    let odd = rows.filter(|line| line.split(',').count() > columns).count();
    assert_eq!((text.matches("monotonic_ns").count(), odd), (1, 0));
}

#[test]
fn time_spent_before_counts_when_a_run_is_resumed() {
    // A block takes longer: three trials of ten responses after 5 ms each, to one user or to two.
    let laboratory = Laboratory::new(&SHORT.replace("blocks = 4", "blocks = 4\nbudget = \"120ms\""));
    let first = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    assert!(text_of(&first.stderr).contains("the time budget is exhausted"), "{}", text_of(&first.stderr));
    let trials = laboratory.trials("one");
    assert_eq!(trials.len(), 3, "the first block is always run");
    assert!(trials.iter().all(|trial| trial["spent_s"].as_f64().unwrap() >= 0.025));
    let again = laboratory.breme(&["run", "--resume", "one"]);
    assert!(text_of(&again.stderr).contains("raise `budget` in runs/one/plan.toml"), "{}", text_of(&again.stderr));
    assert_eq!(laboratory.trials("one").len(), 3);
    // The budget can be raised.
    let plan = laboratory.folder().join("runs/one/plan.toml");
    let text = fs::read_to_string(&plan).unwrap();
    assert!(text.contains("120ms"), "{text}");
    fs::write(&plan, text.replace("120ms", "1h")).unwrap();
    laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!(laboratory.trials("one").len(), TRIALS);
}

#[test]
fn a_second_signal_ends_at_once_and_leaves_nothing() {
    let endless = SHORT.replace("requests = 10", "duration = \"1h\"");
    let laboratory = Laboratory::new(&endless);
    let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one"]);
    // The run, a server and a generator.
    laboratory.wait_inhabitants(3);
    send_signal(&run, Signal::INT);
    send_signal(&run, Signal::TERM);
    assert!(matches!(wait(&mut run).code(), Some(130 | 143)));
    laboratory.wait_deserted();
}

#[test]
fn an_impossible_command_is_reported_with_its_remedy() {
    let laboratory = Laboratory::new(&SHORT.replace("blocks", "blocs"));
    fs::write(laboratory.folder().join("file"), "").unwrap();
    fs::write(laboratory.folder().join("good.toml"), SHORT).unwrap();
    fs::create_dir_all(laboratory.folder().join("runs/taken")).unwrap();
    fs::write(laboratory.folder().join("twice.toml"), SHORT.replace("workload.user", "workload.server")).unwrap();
    for (arguments, code, said) in [
        (&["run", "experiment.toml"][..], 2, &["line 15, column 1", "did you mean `blocks`?"][..]),
        (&["run", "twice.toml"], 2, &["line 8, column 11", "`server` is a subject already"]),
        (&["run", "nothing.toml"], 2, &["nothing.toml"]),
        (&["run", "good.toml", "--name", "../x"], 2, &["--name", "--runs"]),
        (&["run", "good.toml", "--name", "taken"], 1, &["runs/taken", "another --name"]),
        (&["run", "good.toml", "--runs", "file"], 1, &["file", "--runs"]),
        (&["run", "--resume", "nothing"], 1, &["nothing", "there is no run here"]),
        (&["report", "runs/taken"], 1, &["there is no run here"]),
        (&["compare", "a", "b"], 1, &["there is no run here"]),
        (&["runs", "nothing"], 1, &["nothing"]),
    ] {
        let output = laboratory.breme(arguments);
        let stderr = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(said.iter().all(|text| stderr.contains(text)), "{arguments:?}: {stderr}");
    }
    assert!(!laboratory.folder().join("x").exists());
}

#[test]
fn nobody_has_to_listen() {
    let laboratory = Laboratory::new(SHORT);
    let runs = laboratory.folder().join("runs");
    for number in 0..3 {
        fs::create_dir_all(runs.join(number.to_string())).unwrap();
        let head = json(br#"{"version":1,"run":"x","title":"t","profile":null,"seed":1,"started_unix_ms":1,"breme_version":"0","machine":{"host":"","kernel":"","processor":"","processors":1,"memory_bytes":1,"governor":null,"virtualization":null},"subject_versions":{}}"#);
        fs::write(runs.join(number.to_string()).join("run.json"), head.to_string()).unwrap();
    }
    for arguments in [&["runs"][..], &["runs", "--json"], &["run", "--check", "experiment.toml"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = breme()
            .current_dir(laboratory.folder())
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!((output.status.code(), text_of(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
    }
}
