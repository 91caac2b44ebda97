//! `breme compare` over many runs: the newest is judged as ever, the others are its history.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::laboratory_gate::{SHORT, make_run};
use crate::laboratory_harness::{Laboratory, json, text_of};

const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

/// When a run began, in days, and on which branch.
fn set_origin(laboratory: &Laboratory, name: &str, day: u64, branch: &str, is_modified: bool) {
    let path = laboratory.folder().join("runs").join(name).join("run.json");
    let mut head = json(&fs::read(&path).unwrap());
    head["started_unix_ms"] = (1_767_225_600_000 + day * 86_400_000).into();
    head["revision"] = serde_json::json!({ "commit": COMMIT, "branch": branch, "is_modified": is_modified });
    fs::write(path, head.to_string()).unwrap();
}

/// Seven runs of main, each 5 % slower than the one before, and a last one on a branch.
fn laboratory_with_history() -> Laboratory {
    let laboratory = Laboratory::new(SHORT);
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "real"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    for day in 1..=7_u64 {
        let name = format!("main-{day}");
        make_run(&laboratory, &name, 6, 1.05_f64.powi(day as i32));
        set_origin(&laboratory, &name, day, "main", false);
    }
    make_run(&laboratory, "fix-1", 6, 1.05_f64.powi(6));
    set_origin(&laboratory, "fix-1", 8, "fix", false);
    laboratory
}

const MAIN: [&str; 7] = ["main-7", "main-6", "main-5", "main-4", "main-3", "main-2", "main-1"];

fn compare(laboratory: &Laboratory, arguments: &[&[&str]]) -> (Option<i32>, String) {
    let output = laboratory.breme(&[&["compare"][..], &arguments.concat()].concat());
    (output.status.code(), text_of(&output.stdout) + &text_of(&output.stderr))
}

#[test]
fn a_history_is_in_the_order_of_time_and_the_gate_judges_the_newest_run_as_one_of_two() {
    let laboratory = laboratory_with_history();
    let as_json = |arguments: &[&str]| {
        let output = laboratory.breme(&[&["compare", "--format", "json"], arguments].concat());
        (output.status.code(), json(&output.stdout))
    };
    let (status, mut whole) = as_json(&MAIN);
    assert_eq!(status, Some(3), "1.05^6 is 1.34");
    let history = whole.as_object_mut().unwrap().remove("history").unwrap();
    assert_eq!((Some(3), whole), as_json(&["main-1", "main-7"]), "the same gate, and two runs have no history");
    let runs: Vec<&Value> = history["runs"].as_array().unwrap().iter().collect();
    let column = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    let names: Vec<&str> = MAIN.iter().rev().copied().collect();
    assert_eq!(column("run"), names);
    assert_eq!(column("role"), ["baseline", "shown", "shown", "shown", "shown", "shown", "judged"]);
    assert!(runs.iter().all(|run| run["revision"]["branch"] == "main"), "{runs:?}");
    let rows = history["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert_eq!(row["points"].as_array().unwrap().len(), 7);
        let (verdict, factor) = (&row["trend"]["verdict"], row["trend"]["center"].as_f64().unwrap());
        let (expected, by) = match row["measure"].as_str().unwrap() {
            "mean(user)" => ("getting-worse", 1.05),
            "rate(user)" => ("getting-worse", 1.0 / 1.05),
            _ => ("not-shown", 0.0),
        };
        assert!(verdict == expected && (factor - by).abs() < 1e-6, "{row}");
    }
    // Backwards in time nothing is worse.
    assert_eq!(compare(&laboratory, &[&["main-7", "main-1"]]).0, Some(0));
    // A run in between that cannot be read gives no history.
    fs::write(laboratory.journal("main-4"), "nothing\nnothing\n").unwrap();
    assert_eq!(compare(&laboratory, &[&MAIN]).0, Some(1));
}

#[test]
fn a_baseline_has_a_name_or_a_branch() {
    let laboratory = laboratory_with_history();
    set_origin(&laboratory, "main-7", 7, "main", true);
    for (arguments, status, said) in [
        // It is as fast as main-6, the newest run of main without uncommitted changes.
        (&["fix-1", "--baseline", "main-1"][..], 3, "Worse in 6 of 9"),
        (&["fix-1", "--baseline", "branch:main"], 0, "Not worse in any of 9"),
        (&["fix-1", "--baseline", "main-7"], 0, "Not worse in any of 9"),
        (&["main-2", "main-3", "main-1", "--baseline", "fix-1"], 0, "History of 4 runs"),
        (&["fix-1", "--baseline", "branch:nothing"], 1, "breme runs"),
        (&["fix-1", "--baseline", "nothing"], 1, "there is no run here"),
        (&["fix-1", "--baseline", "fix-1"], 2, "two different runs"),
        (&["fix-1"], 2, "two different runs"),
        (&[], 2, "<RUN>"),
    ] {
        let (code, text) = compare(&laboratory, &[arguments]);
        assert_eq!(code, Some(status), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let (_, two) = compare(&laboratory, &[&["fix-1", "--baseline", "branch:main"]]);
    assert_eq!(two, compare(&laboratory, &[&["main-6", "fix-1"]]).1, "word for word a comparison of two runs");
    let listed = text_of(&laboratory.breme(&["runs"]).stdout);
    assert!(
        listed.contains("fix 1a2b3c4d5e  Short") && listed.contains("main 1a2b3c4d5e (modified)  Short"),
        "{listed}"
    );
    let many = vec!["fix-1"; 201];
    assert_eq!(compare(&laboratory, &[&many]).0, Some(2));
}

#[test]
fn every_format_has_the_history_and_the_page_opens_offline() {
    let laboratory = laboratory_with_history();
    let (status, text) = compare(&laboratory, &[&MAIN, &["--html", "page/history.html"]]);
    assert_eq!(status, Some(1), "no such folder: {text}");
    assert!(text.contains("Worse in 6 of 9"), "the result is there nevertheless: {text}");
    let (status, text) = compare(&laboratory, &[&MAIN, &["--html", "history.html"]]);
    assert_eq!(status, Some(3));
    for part in ["History of 7 runs, oldest first", "✗ `mean(user)` at users=10: +5 % per run", "main-7", "judged"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = fs::read_to_string(laboratory.folder().join("history.html")).unwrap();
    assert_eq!(page.matches("class=\"plot\"").count(), 9);
    assert!(page.contains("main-1 → main-7 · breme compare") && page.contains("2026-01-07 00:00"));
    let (status, _) = compare(&laboratory, &[&["main-1", "main-2", "--html", "two.html"]]);
    assert_eq!(status, Some(0));
    assert!(fs::read_to_string(laboratory.folder().join("two.html")).unwrap().contains("main-1 → main-2"));

    let formatted = |format: &str| {
        let output = laboratory.breme(&[&["compare", "--format", format], &MAIN[..]].concat());
        text_of(&output.stdout)
    };
    let markdown = formatted("markdown");
    assert!(markdown.starts_with("## main-1 → main-7, 7 runs\n"), "{markdown}");
    assert!(markdown.contains("\n### History of 7 runs, oldest first\n"), "{markdown}");
    let junit = formatted("junit");
    let document = roxmltree::Document::parse(&junit).unwrap();
    let failures: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"))
        .filter_map(|node| node.attribute("message"))
        .collect();
    assert_eq!(failures.len(), 6);
    assert!(
        failures.iter().all(|message| message.contains("per run") && message.contains("over 7 runs")),
        "{failures:?}"
    );
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text_of(&output.stderr));
    text_of(&output.stdout).trim().to_owned()
}

#[test]
fn a_run_knows_its_commit_and_its_report_shows_it() {
    let laboratory = Laboratory::new(SHORT);
    git(laboratory.folder(), &["init", "--quiet", "--initial-branch=trunk"]);
    git(laboratory.folder(), &["add", "experiment.toml"]);
    git(laboratory.folder(), &["commit", "--quiet", "--message=first"]);
    let commit = git(laboratory.folder(), &["rev-parse", "HEAD"]);
    assert_eq!(laboratory.breme(&["run", "experiment.toml", "--name", "one"]).status.code(), Some(0));
    let head = json(&fs::read(laboratory.folder().join("runs/one/run.json")).unwrap());
    let expected = serde_json::json!({ "commit": commit, "branch": "trunk", "is_modified": false });
    assert_eq!(head["revision"], expected);
    let words = format!("trunk {}", &commit[..10]);
    let text = text_of(&laboratory.breme(&["report", "one"]).stdout);
    // The line may be wrapped.
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&format!("commit {words}")), "{text}");
    assert!(fs::read_to_string(laboratory.folder().join("runs/one/report.html")).unwrap().contains(&words));
}
