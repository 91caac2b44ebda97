//! Installs programs from the npm registry into the target folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::{StepResult, step};

/// Packages that are installed together.
pub(crate) struct Set {
    what: &'static str,
    /// Its folder within the target folder.
    folder: &'static str,
    /// Names and versions. Pinned, since results are compared with recorded ones.
    packages: &'static [(&'static str, &'static str)],
    /// Whether packages may run their own scripts at installation.
    runs_scripts: bool,
}

/// The public HTTP cache test suite.
pub(crate) const CACHE_SUITE: Set = Set {
    what: "cache test suite",
    folder: "cache-suite",
    packages: &[("http-cache-tests", "0.4.5")],
    runs_scripts: false,
};

/// The server that the wiki's study compares: Debian's Node.js has no SQLite yet. Node.js is installed by a script.
pub(crate) const WIKI_PEER: Set = Set {
    what: "Node.js and Express",
    folder: "wiki-node",
    packages: &[("node", "26.10.0"), ("express", "5.3.0")],
    runs_scripts: true,
};

/// Installs the missing packages of the set.
pub(crate) fn install(set: &Set, target: &Path) -> StepResult {
    let folder = target.join(set.folder);
    if set.is_in(&folder) {
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund", "--omit=dev"]);
    command.arg(if set.runs_scripts { "--foreground-scripts" } else { "--ignore-scripts" });
    command.arg("--prefix").arg(&folder);
    command.args(set.packages.iter().map(|(name, version)| format!("{name}@{version}")));
    step(set.what, command)?;
    if set.is_in(&folder) { Ok(()) } else { Err(format!("npm did not install {} into {}", set.what, folder.display())) }
}

impl Set {
    fn is_in(&self, folder: &Path) -> bool {
        self.packages.iter().all(|(name, version)| {
            let manifest = folder.join("node_modules").join(name).join("package.json");
            let version = format!("\"version\": \"{version}\"");
            fs::read_to_string(manifest).is_ok_and(|text| text.contains(&version))
        })
    }
}
