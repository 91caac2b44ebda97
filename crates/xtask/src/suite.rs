//! Installs the public HTTP cache test suite from the npm registry into the target folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::{Outcome, step};

const NAME: &str = "http-cache-tests";
/// Pinned, since results are compared with recorded ones.
const VERSION: &str = "0.4.5";
/// Its folder within the target folder.
const FOLDER: &str = "cache-suite";

/// Installs the suite if it is missing, without running any package's scripts.
pub(crate) fn install(target: &Path) -> Outcome {
    let folder = target.join(FOLDER);
    if is_there(&folder) {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--prefix"]);
    command.arg(&folder).arg(format!("{NAME}@{VERSION}"));
    step("cache test suite", command)?;
    if is_there(&folder) {
        Ok(())
    } else {
        Err(format!("npm did not install {NAME} {VERSION} into {}", folder.display()))
    }
}

fn is_there(folder: &Path) -> bool {
    let manifest = folder.join("node_modules").join(NAME).join("package.json");
    let version = format!("\"version\": \"{VERSION}\"");
    fs::read_to_string(manifest).is_ok_and(|text| text.contains(&version))
}
