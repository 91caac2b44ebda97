//! `cargo xtask peers` and `bench`: the laboratory measures breme and its peers.
//!
//! The experiments are in `studies/peers`; `breme run` runs them. `docs/PEERS.md` consists of what they have in common
//! (the machine, the versions, the goals) and their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::steps::{StepResult, cargo, is_result, root, run_result, step, target};

/// The experiments, in the order of the document.
const EXPERIMENTS: [&str; 11] = [
    "generators",
    "pipelining",
    "open-loop",
    "generator-memory",
    "servers",
    "tls",
    "connections",
    "proxies",
    "caches",
    "objects",
    "misses",
];
const FOLDER: &str = "studies/peers";
const DOCUMENT: &str = "docs/PEERS.md";
/// Runs the named experiments, or all, and prints their results. Arguments that begin with `-`, and those after them,
/// are for `breme run`.
pub(crate) fn bench(arguments: &[String]) -> StepResult {
    let breme = build()?;
    let (names, flags) = divided(arguments)?;
    let files: Vec<PathBuf> = names.iter().map(|name| root().join(file(name))).collect();
    let mut command = Command::new(breme);
    command.arg("run").args(files).arg("--runs").arg(runs()).args(flags);
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    run_result(status)
}

/// Runs the named experiments, or all, and writes the document from their reports and the stored ones of the others.
/// With flags it prints the document of the named ones instead.
pub(crate) fn peers(arguments: &[String]) -> StepResult {
    let breme = build()?;
    let (names, flags) = divided(arguments)?;
    let mut failures = BTreeMap::new();
    for name in &names {
        eprintln!("── {name}");
        if let Err(why) = measure(&breme, name, flags) {
            failures.insert(*name, why);
        }
    }
    let result = |name| (name, failures.remove(name).map_or_else(|| report(&breme, name), Err));
    if !flags.is_empty() {
        println!("{}", document(&names.into_iter().map(result).collect::<Vec<_>>()));
        eprintln!("{DOCUMENT} is unchanged: it is written only without flags.");
        return Ok(());
    }
    let text = document(&EXPERIMENTS.map(result));
    let path = root().join(DOCUMENT);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

/// With all optimisations, like a release; the environment variable `BREME` names an existing binary instead.
fn build() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("BREME") {
        return Ok(program.into());
    }
    step("build", cargo(&["build", "--release", "--package", "breme"]))?;
    Ok(target().join("release/breme"))
}

fn file(name: &str) -> String {
    format!("{FOLDER}/{name}.toml")
}

fn runs() -> PathBuf {
    target().join("peers")
}

/// Separates the names of experiments (all, if there are none) from the flags of `breme run`.
fn divided(arguments: &[String]) -> Result<(Vec<&'static str>, &[String]), String> {
    let first_flag = arguments.iter().position(|argument| argument.starts_with('-')).unwrap_or(arguments.len());
    let (names, flags) = arguments.split_at(first_flag);
    let known = |name: &String| EXPERIMENTS.into_iter().find(|known| known == name);
    let unknown =
        |name: &String| format!("there is no experiment {name:?} in {FOLDER}; there are {}", EXPERIMENTS.join(", "));
    let names: Vec<&str> =
        names.iter().map(|name| known(name).ok_or_else(|| unknown(name))).collect::<Result<_, _>>()?;
    Ok((if names.is_empty() { EXPERIMENTS.to_vec() } else { names }, flags))
}

/// A run: its report as Markdown and as JSON.
struct Report {
    markdown: String,
    json: Value,
}

fn measure(breme: &Path, name: &str, flags: &[String]) -> StepResult {
    let folder = runs().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(breme);
    command.arg("run").arg(root().join(file(name))).arg("--runs").arg(runs()).args(["--name", name]);
    printed(command.args(flags)).map(drop)
}

/// The report of the last run of an experiment.
fn report(breme: &Path, name: &str) -> Result<Report, String> {
    let folder = runs().join(name);
    // Relative, so that the commands in the document name no folder of this machine.
    let folder = folder.strip_prefix(root()).unwrap_or(&folder);
    let in_format = |format: &str| {
        let mut command = Command::new(breme);
        printed(command.current_dir(root()).arg("report").arg(folder).args(["--format", format]))
    };
    let json = serde_json::from_str(&in_format("json")?).map_err(|error| format!("the report of {name}: {error}"))?;
    Ok(Report { markdown: in_format("markdown")?, json })
}

/// The standard output of a program, if it exits like a run with results.
fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if is_result(output.status) {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("breme ended with {}", output.status))
    }
}

type Results<'a> = [(&'a str, Result<Report, String>)];

fn document(results: &Results<'_>) -> String {
    let mut text = String::from(
        "# breme and its peers\n\n\
         Generated by `cargo xtask peers` from the experiments in [studies/peers](../studies/peers); do not edit.\n\n",
    );
    text.push_str(&head(results));
    text.push_str(&goals(results));
    for (name, result) in results {
        text.push('\n');
        match result {
            Ok(report) => text.push_str(report.markdown.trim_end()),
            Err(why) => {
                let _ = write!(text, "## {name}\n\nNot measured: {why}.");
            }
        }
        text.push('\n');
    }
    text.push_str(&method());
    text
}

/// Place, time and versions. Stored runs may be of different machines and commits: all are listed.
fn head(results: &Results<'_>) -> String {
    let heads = || results.iter().filter_map(|(_, result)| Some(&result.as_ref().ok()?.json["head"]));
    let started = || heads().filter_map(|head| head["started_unix_ms"].as_u64());
    let versions = heads().filter_map(|head| head["subject_versions"].as_object());
    let versions = versions.flat_map(|versions| versions.values()).filter_map(Value::as_str);
    format!(
        "| | |\n|---|---|\n\
         | experiments started | {} to {} |\n\
         | sources | git {} |\n\
         | machine | {} |\n\
         | kernel | {} |\n\
         | versions | {} |\n\n",
        date(started().min()),
        date(started().max()),
        distinct(heads().map(|head| revision(&head["revision"])), ", "),
        distinct(heads().map(|head| machine(&head["machine"])), "<br>"),
        distinct(heads().map(|head| word(&head["machine"]["kernel"]).to_owned()), "<br>"),
        distinct(versions.flat_map(|version| version.split("; ")).map(str::to_owned), "<br>"),
    )
}

/// Each once, in order.
fn distinct(values: impl Iterator<Item = String>, separator: &str) -> String {
    Vec::from_iter(BTreeSet::from_iter(values)).join(separator)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}

fn machine(machine: &Value) -> String {
    let processors = machine["processors"].as_u64().unwrap_or(0);
    let guest = machine["virtualization"].as_str().map_or_else(String::new, |kind| format!(", {kind}"));
    format!("{}, {processors} processors{guest}", word(&machine["processor"]))
}

/// The commit of a run, and whether the sources differed from it.
fn revision(revision: &Value) -> String {
    let commit = word(&revision["commit"]);
    let commit = commit.get(..12).unwrap_or(commit);
    if revision["is_modified"] == true { format!("{commit} with changes") } else { commit.to_owned() }
}

fn date(unix_ms: Option<u64>) -> String {
    let seconds = unix_ms.unwrap_or(0) / 1_000;
    let output = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%d %H:%M UTC"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The hypotheses of all experiments that compare breme with a peer.
fn goals(results: &Results<'_>) -> String {
    let mut text = String::from("## The goals\n\n| goal | measured | verdict |\n|---|---|---|\n");
    for (name, result) in results {
        match result {
            Ok(report) => report.json["judgement"]["hypotheses"].as_array().into_iter().flatten().for_each(|judged| {
                let says = judged["says"].as_str().unwrap_or_default();
                let _ = writeln!(text, "| {says} | {} | {} |", measured(judged), verdict(judged));
            }),
            Err(_) => {
                let _ = writeln!(text, "| {name} | | not measured |");
            }
        }
    }
    text.push_str("\nEach figure is followed by its 95 % confidence interval, from the blocks of the run.\n");
    text
}

/// `0.79 (0.75–0.84)`: what the claim compares with its bound.
fn measured(judged: &Value) -> String {
    let cases = judged["cases"].as_array().map_or(&[][..], Vec::as_slice);
    let [case] = cases else { return format!("{} combinations", cases.len()) };
    let number = |key: &str| case["finding"][key].as_f64();
    let unit = case["finding"]["unit"].as_str().unwrap_or_default();
    match (number("center"), number("low"), number("high")) {
        (Some(center), Some(low), Some(high)) if unit.is_empty() => {
            let digits = if center.abs() < 0.15 { 3 } else { 2 };
            format!("{center:.digits$} ({low:.digits$}–{high:.digits$})")
        }
        _ => String::new(),
    }
}

fn verdict(judged: &Value) -> &'static str {
    match judged["verdict"]["verdict"].as_str() {
        Some("supported") => "reached",
        Some("refuted") => "**missed**",
        Some("practically-equal") => "**missed**: practically equal",
        Some("undecided") => "undecided",
        _ => "no data",
    }
}

/// The description of the method: that of the experiments' folder, without its title.
fn method() -> String {
    let text = fs::read_to_string(root().join(FOLDER).join("README.md")).unwrap_or_default();
    text.split_once("\n\n").map_or_else(String::new, |(_, rest)| format!("\n{rest}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let finding = json!({"center": 0.8321, "low": 0.79, "high": 0.884, "unit": ""});
        let judged = |verdict: &str, cases: Value| json!({"says": "a needs less than b", "verdict": {"verdict": verdict}, "cases": cases});
        Report {
            markdown: "## Servers\n\nA sentence.\n\n".to_owned(),
            json: json!({
                "head": {
                    "machine": {"processor": "A processor", "processors": 2, "kernel": "Linux 6.18", "virtualization": "kvm"},
                    "started_unix_ms": 1_795_614_796_000_u64,
                    "revision": {"commit": "0123456789abcdef0123456789abcdef01234567", "is_modified": true},
                    "subject_versions": {"site": "breme 0.1.0", "load": "wrk 4.1; ab 2.3"},
                },
                "judgement": {"hypotheses": [
                    judged("supported", json!([{"finding": finding}])),
                    judged("refuted", json!([{}, {}])),
                ]},
            }),
        }
    }

    #[test]
    fn the_document_has_the_machine_the_goals_and_a_section_for_each_experiment() {
        let results = [("servers", Ok(report())), ("tls", Err("no certificate".to_owned()))];
        let text = document(&results);
        for part in [
            "| experiments started | 2026-11-25 13:53 UTC to 2026-11-25 13:53 UTC |\n",
            "| sources | git 0123456789ab with changes |\n",
            "| machine | A processor, 2 processors, kvm |\n",
            "| versions | ab 2.3<br>breme 0.1.0<br>wrk 4.1 |\n",
            "| a needs less than b | 0.83 (0.79–0.88) | reached |\n| a needs less than b | 2 combinations | **missed** |\n",
            "| tls | | not measured |\n",
            "\n## Servers\n\nA sentence.\n\n## tls\n\nNot measured: no certificate.\n",
            "\n## How it is measured\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    #[test]
    fn every_experiment_of_the_folder_is_measured() {
        let entries = fs::read_dir(root().join(FOLDER)).unwrap().flatten();
        let found: BTreeSet<String> =
            entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".toml").map(str::to_owned)).collect();
        assert_eq!(found, EXPERIMENTS.map(str::to_owned).into());
    }

    #[test]
    fn names_come_before_flags() {
        let arguments = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let given = arguments("tls servers --quick");
        assert_eq!(divided(&given), Ok((vec!["tls", "servers"], &given[2..])));
        assert_eq!(divided(&[]).unwrap().0.len(), EXPERIMENTS.len());
        assert!(divided(&arguments("site-1k")).unwrap_err().contains("there are generators, pipelining"));
    }
}
