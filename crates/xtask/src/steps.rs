//! Runs the programs that a command consists of, one after the other, until one fails.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The error is a message for the user.
pub(crate) type StepResult = Result<(), String>;

/// Runs a command with our standard output and error.
pub(crate) fn step(name: &str, mut command: Command) -> StepResult {
    eprintln!("── {name}");
    let status = command.status().map_err(|error| format!("{name}: cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
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
