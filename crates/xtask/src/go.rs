//! Installs programs from the Go module proxy into the target folder: Debian's NATS is too old for sessions.

use std::path::Path;
use std::process::Command;

use crate::steps::{StepResult, step};

/// A version of `nats-server` whose compare-and-set is safe (`breme_cluster::engine::VERSION_MIN`).
const NATS: &str = "github.com/nats-io/nats-server/v2@v2.15.2";

/// Builds `nats/nats-server` in the target folder if it is missing, or another version.
pub(crate) fn install_nats(target: &Path) -> StepResult {
    let folder = target.join("nats");
    let program = folder.join("nats-server");
    let (module, version) = NATS.split_once('@').unwrap_or((NATS, "latest"));
    if is_version(&program, version) {
        return Ok(());
    }
    let mut command = Command::new("go");
    command.args(["install", NATS]).env("GOBIN", &folder).env("GOFLAGS", "-mod=mod");
    step("nats-server", command)?;
    if is_version(&program, version) {
        Ok(())
    } else {
        Err(format!("go did not install {module} {version} into {}", folder.display()))
    }
}

fn is_version(program: &Path, version: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version.trim_start_matches('v')))
}
