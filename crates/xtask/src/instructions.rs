//! `cargo xtask instructions`: what a request costs in instructions, compared with bounds.
//!
//! Counts are nearly the same on every machine and in every run, unlike times. Valgrind's callgrind counts those of
//! `crates/proxy/examples/instructions.rs`, twice for each case, with different numbers of requests: the difference is
//! that of the requests alone.

use std::path::Path;
use std::process::Command;

use crate::steps::{StepResult, cargo, root, step, target};

/// A case, and the most instructions that a request may take: the measured number and 5 % more.
const BOUNDS: &[(&str, u64)] = &[
    ("origin-identical", 1130),
    ("origin-varied", 6150),
    ("relay-identical", 6420),
    ("relay-varied", 18_000),
    ("hit-identical", 1_050),
    ("hit-varied", 9800),
    ("load", 1530),
];
/// Below this part of its bound a cost has fallen so much that the bound no longer protects it.
const SLACK_MAX: f64 = 0.85;
/// Numbers of requests: after the fewer, all tables and buffers have their final size.
const COUNTS: (u64, u64) = (1_000, 3_000);

pub(crate) fn check() -> StepResult {
    step("instructions", cargo(&["build", "--profile", "demo", "-p", "breme-proxy", "--example", "instructions"]))?;
    let program = target().join("demo/examples/instructions");
    let mut wrong = Vec::new();
    for &(case, most) in BOUNDS {
        let count =
            (run(&program, case, COUNTS.1)?.saturating_sub(run(&program, case, COUNTS.0)?)) / (COUNTS.1 - COUNTS.0);
        eprintln!("{case:<18}{count:>8} instructions per request, at most {most}");
        if count > most {
            wrong.push(format!("{case}: {count} instructions per request, the bound is {most}"));
        } else if (count as f64) < most as f64 * SLACK_MAX {
            wrong.push(format!("{case}: {count} instructions per request, far below the bound of {most}: lower it"));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("bounds in crates/xtask/src/instructions.rs:\n  {}", wrong.join("\n  ")))
    }
}

/// The instructions of a whole run.
fn run(program: &Path, case: &str, count: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &count.to_string()])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start valgrind: {error}; install the package valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} {case} {count} failed ({}):\n{text}", program.display(), output.status));
    }
    collected(&text).ok_or_else(|| format!("callgrind reports no count:\n{text}"))
}

/// The number in callgrind's line `==123== Collected : 4567`.
fn collected(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("Collected :"))?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_callgrinds_count() {
        let text = "==7== Events    : Ir\n==7== Collected : 13402715\n==7== \n==7== I   refs:      13,402,715\n";
        assert_eq!(collected(text), Some(13_402_715));
        assert_eq!(collected("==7== Events : Ir\n"), None);
    }
}
