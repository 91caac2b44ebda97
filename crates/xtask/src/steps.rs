//! Runs the programs that a command consists of, one after the other, until one fails.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The error is a message for the user.
pub(crate) type StepResult = Result<(), String>;

/// Runs a command with our standard output and error.
pub(crate) fn step(name: &str, mut command: Command) -> StepResult {
    eprintln!("── {name}");
    let status = command.status().map_err(|error| format!("{name}: cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

/// Exit statuses of `breme run` whose hypotheses are supported, refuted or undecided: all of them are results.
const STATUSES_OF_RESULTS: [i32; 3] = [0, 3, 4];

pub(crate) fn is_result(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| STATUSES_OF_RESULTS.contains(&code))
}

/// The result of `breme run`.
pub(crate) fn run_result(status: ExitStatus) -> StepResult {
    if is_result(status) { Ok(()) } else { Err(format!("breme run ended with {status}")) }
}

/// What a command prints.
pub(crate) fn output(name: &str, mut command: Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// The target folder of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_run_without_a_verdict_has_a_result() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        assert!([0, 3, 4].map(exited).into_iter().all(|status| run_result(status).is_ok()));
        assert!([1, 2, 130].map(exited).into_iter().all(|status| run_result(status).is_err()));
        assert!(run_result(ExitStatus::from_raw(9)).is_err(), "killed");
    }
}
