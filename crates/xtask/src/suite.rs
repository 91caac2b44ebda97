//! The public suite of cases for HTTP caches, from the registry of Node's packages, into the folder of what is built.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::{Outcome, step};

const NAME: &str = "http-cache-tests";
/// One version, since results are compared with those that are written down.
const VERSION: &str = "0.4.5";
/// Its folder there.
const FOLDER: &str = "cache-suite";

/// Installs it where it lacks. It runs no script of any package.
pub(crate) fn install(target: &Path) -> Outcome {
    let folder = target.join(FOLDER);
    if is_there(&folder) {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--prefix"]);
    command.arg(&folder).arg(format!("{NAME}@{VERSION}"));
    step("the suite of the caches", command)?;
    if is_there(&folder) { Ok(()) } else { Err(format!("npm installed no {NAME} {VERSION} into {}", folder.display())) }
}

fn is_there(folder: &Path) -> bool {
    let manifest = folder.join("node_modules").join(NAME).join("package.json");
    let version = format!("\"version\": \"{VERSION}\"");
    fs::read_to_string(manifest).is_ok_and(|text| text.contains(&version))
}
