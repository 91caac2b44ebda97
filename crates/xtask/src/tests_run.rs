//! Runs every test and prints the total counts, since `cargo test` prints a summary per binary only.
//!
//! A few failures are repeated once, alone: the machine may be shared, and hundreds of tests start servers, clusters
//! and browsers on it. What passes then is reported as flaky.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{ExitStatus, Stdio};

use crate::steps::{StepResult, cargo};

/// What a run of `cargo test` printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    passed: u64,
    failed: u64,
    ignored: u64,
    names_passed: BTreeSet<String>,
    names_failed: BTreeSet<String>,
    /// Test programs that started and did not print their summary.
    unfinished: u64,
}

/// A fixed seed makes the cases of property tests the same in each run; set the variable to try others, as plain
/// `cargo test` does each time.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1994");
/// More failures than a busy machine explains; they are not repeated.
const REPEATED_MAX: usize = 5;

pub(crate) fn run() -> StepResult {
    eprintln!("── tests");
    let (mut outcome, mut status) = run_tests(&["test", "--workspace", "--no-fail-fast"])?;
    if outcome.can_repeat() {
        let repeated = outcome.names_failed.clone();
        eprintln!("── failed tests once more, alone");
        let programs = ["test", "--workspace", "--no-fail-fast", "--"];
        let names = repeated.iter().map(String::as_str).chain(["--exact", "--test-threads=1"]);
        let (second, second_status) = run_tests(&programs.into_iter().chain(names).collect::<Vec<_>>())?;
        if second_status.success() && repeated.is_subset(&second.names_passed) {
            outcome.passed += outcome.failed;
            outcome.failed = 0;
            status = second_status;
            println!();
            for name in &repeated {
                println!("FLAKY: {name} failed beside other tests and passed alone: a defect of the test or the code");
            }
        }
    }
    println!("\n{} passed, {} failed, {} skipped", outcome.passed, outcome.failed, outcome.ignored);
    if !status.success() {
        return Err(format!("tests failed ({status})"));
    }
    if outcome.passed == 0 {
        return Err(String::from("no test ran"));
    }
    Ok(())
}

fn run_tests(arguments: &[&str]) -> Result<(Outcome, ExitStatus), String> {
    let mut command = cargo(arguments);
    if std::env::var_os(SEED.0).is_none() {
        command.env(SEED.0, SEED.1);
    }
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut outcome = Outcome::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cannot read the output of the tests: {error}"))?;
            println!("{line}");
            outcome.add(&line);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the tests: {error}"))?;
    Ok((outcome, status))
}

impl Outcome {
    /// Whether the names of all failures are known and few.
    fn can_repeat(&self) -> bool {
        let names = self.names_failed.len();
        self.unfinished == 0 && self.failed == names as u64 && (1..=REPEATED_MAX).contains(&names)
    }

    /// Adds a line such as `running 7 tests`, `test a::b ... ok` or `test result: ok. 7 passed; 0 failed; 1 ignored;
    /// …`; other lines are ignored.
    fn add(&mut self, line: &str) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.unfinished += 1;
        } else if let Some(summary) = line.strip_prefix("test result: ") {
            self.unfinished = self.unfinished.saturating_sub(1);
            self.add_summary(summary);
        } else if let Some((name, result)) = line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")) {
            let name = name.trim_end_matches(" - should panic").to_owned();
            match result {
                "ok" => _ = self.names_passed.insert(name),
                "FAILED" => _ = self.names_failed.insert(name),
                _ => {}
            }
        }
    }

    fn add_summary(&mut self, summary: &str) {
        let count = |word: &str| {
            let before = summary.split(&format!(" {word}")).next()?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed").unwrap_or(0);
        self.ignored += count("ignored").unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(lines: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        lines.iter().for_each(|line| outcome.add(line));
        outcome
    }

    #[test]
    fn sums_the_summaries_of_all_binaries() {
        let outcome = outcome_of(&[
            "running 8 tests",
            "test a::b ... ok",
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.09s",
            "running 5 tests",
            "test c - should panic ... FAILED",
            "test d ... FAILED",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured",
        ]);
        assert_eq!((outcome.passed, outcome.failed, outcome.ignored, outcome.unfinished), (10, 2, 1, 0));
        assert_eq!(outcome.names_failed, ["c", "d"].map(str::to_owned).into());
        assert!(outcome.names_passed.contains("a::b") && outcome.can_repeat());
    }

    #[test]
    fn a_crash_or_many_failures_are_not_repeated() {
        let summary = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured";
        let failure = ["running 1 test", "test a ... FAILED", summary];
        assert!(outcome_of(&failure).can_repeat());
        assert!(!outcome_of(&[&failure[..], &["running 3 tests"]].concat()).can_repeat());
        // The same name twice: which of them failed is not known.
        assert!(!outcome_of(&[&failure[..], &failure[..]].concat()).can_repeat());
        let names: Vec<String> = (0..=REPEATED_MAX).map(|test| format!("test {test} ... FAILED")).collect();
        let summary = format!("test result: FAILED. 0 passed; {} failed; 0 ignored", names.len());
        let many: Vec<&str> = names.iter().map(String::as_str).chain([&*summary]).collect();
        assert!(!outcome_of(&many).can_repeat());
    }
}
