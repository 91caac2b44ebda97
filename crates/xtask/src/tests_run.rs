//! Runs every test and prints the total counts, since `cargo test` prints a summary per binary only.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::steps::{StepResult, cargo};

#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// A fixed seed makes the cases of property tests the same in each run; set the variable to try others, as plain
/// `cargo test` does each time.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1994");

pub(crate) fn run() -> StepResult {
    eprintln!("── tests");
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if std::env::var_os(SEED.0).is_none() {
        command.env(SEED.0, SEED.1);
    }
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut counts = TestCounts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cannot read the output of the tests: {error}"))?;
            println!("{line}");
            counts.add(&line);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the tests: {error}"))?;
    println!("\n{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored);
    if !status.success() {
        return Err(format!("tests failed ({status})"));
    }
    if counts.passed == 0 {
        return Err(String::from("no test ran"));
    }
    Ok(())
}

impl TestCounts {
    /// Adds a line such as `test result: ok. 7 passed; 0 failed; 1 ignored; …`; other lines are ignored.
    fn add(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else { return };
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

    #[test]
    fn sums_the_summaries_of_all_binaries() {
        let mut counts = TestCounts::default();
        counts.add("test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.09s");
        counts.add("test a::b ... ok");
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        assert_eq!(counts, TestCounts { passed: 10, failed: 2, ignored: 1 });
    }
}
