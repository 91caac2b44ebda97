//! The licenses of what the binaries contain: most of them require that copies come with their text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{ARCHITECTURES, Edition, copy, write};
use crate::steps::{StepResult, cargo, output, root};

/// How the names of files with licenses begin, in lower case.
const FILE_NAMES: [&str; 6] = ["license", "licence", "unlicense", "copying", "copyright", "notice"];
/// The charts of reports; in the folder of assets.
const CHARTS: [&str; 4] = ["echarts.LICENSE", "echarts.LICENSE-d3", "echarts.LICENSE-zrender", "echarts.NOTICE"];

/// Writes them to a folder. `zig` has the texts of musl and libunwind, which Rust's library for musl contains without
/// them.
pub(super) fn collect(edition: &Edition, folder: &Path, zig: &Path) -> StepResult {
    write(&folder.join("crates.txt"), texts(&linked_crates(&metadata(edition)?)?)?.as_bytes())?;
    for name in CHARTS {
        copy(&root().join("crates/report/assets").join(name), &folder.join(name))?;
    }
    copy(&zig.join("lib/libc/musl/COPYRIGHT"), &folder.join("musl.COPYRIGHT"))?;
    copy(&zig.join("lib/libunwind/LICENSE.TXT"), &folder.join("libunwind.LICENSE"))?;
    let standard_library = sysroot()?.join("share/doc/rust/COPYRIGHT-library.html");
    copy(&standard_library, &folder.join("rust-standard-library.html"))
}

struct LinkedCrate {
    name: String,
    version: String,
    license: String,
    folder: PathBuf,
}

/// The crates of other authors that are linked into `breme`.
fn linked_crates(metadata: &Value) -> Result<Vec<LinkedCrate>, String> {
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let program = packages.iter().find(|(_, package)| package["name"] == "breme");
    let mut waiting = vec![*program.ok_or("cargo metadata has no package breme")?.0];
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else { continue };
        let runs_in_compiler =
            elements(&package["targets"]).flat_map(|target| elements(&target["kind"])).any(|kind| kind == "proc-macro");
        if !runs_in_compiler && linked.insert(id) {
            let is_linked = |dependency: &&Value| elements(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            waiting
                .extend(elements(&node["deps"]).filter(is_linked).filter_map(|dependency| dependency["pkg"].as_str()));
        }
    }
    let of_others = linked.iter().filter_map(|id| packages.get(id)).filter(|package| !package["source"].is_null());
    Ok(of_others.map(|package| linked_crate(package)).collect())
}

fn by_id(values: &Value) -> HashMap<&str, &Value> {
    elements(values).filter_map(|value| Some((value["id"].as_str()?, value))).collect()
}

fn linked_crate(package: &Value) -> LinkedCrate {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let manifest = text("manifest_path");
    LinkedCrate {
        name: text("name"),
        version: text("version"),
        license: text("license"),
        folder: Path::new(&manifest).parent().unwrap_or(Path::new("")).to_path_buf(),
    }
}

/// A list of the crates, then each text once, after the names of the crates that contain it.
fn texts(crates: &[LinkedCrate]) -> Result<String, String> {
    let mut content = String::from("breme contains these crates; the texts of their licenses follow.\n\n");
    let mut owners: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for LinkedCrate { name, version, license, folder } in crates {
        let _ = writeln!(content, "{name} {version}: {license}");
        for file in license_files(folder)? {
            let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            owners.entry(String::from_utf8_lossy(&text).trim().to_owned()).or_default().push(name);
        }
    }
    for (text, names) in owners {
        let _ = write!(content, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(content)
}

fn license_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let has_license = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        file.is_file() && FILE_NAMES.iter().any(|beginning| name.starts_with(beginning))
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(has_license).collect();
    files.sort();
    Ok(files)
}

fn metadata(edition: &Edition) -> Result<Value, String> {
    let mut command = cargo(&["metadata", "--locked", "--format-version", "1"]);
    command.args(edition.flags);
    for architecture in &ARCHITECTURES {
        command.args(["--filter-platform", architecture.target]);
    }
    serde_json::from_slice(&output("cargo metadata", command)?).map_err(|error| format!("cargo metadata: {error}"))
}

fn sysroot() -> Result<PathBuf, String> {
    let mut command = Command::new("rustc");
    command.args(["--print", "sysroot"]).current_dir(root());
    Ok(PathBuf::from(String::from_utf8_lossy(&output("rustc", command)?).trim()))
}

fn elements(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_crates_of_others_that_are_linked_count() {
        let package = |name: &str, source: Value, kind: &str| {
            let (manifest, targets) = (format!("/crates/{name}/Cargo.toml"), json!([{ "kind": [kind] }]));
            json!({ "id": name, "name": name, "version": "1.2.3", "license": "MIT", "source": source,
                    "manifest_path": manifest, "targets": targets })
        };
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let registry = || json!("registry");
        let metadata = json!({
            "packages": [
                package("breme", Value::Null, "bin"),
                package("breme-base", Value::Null, "lib"),
                package("linked", registry(), "lib"),
                package("macros", registry(), "proc-macro"),
                package("of-macros", registry(), "lib"),
                package("of-tests", registry(), "lib"),
                package("of-builds", registry(), "lib"),
            ],
            "resolve": { "nodes": [
                { "id": "breme", "deps": [
                    dependency("breme-base", Value::Null),
                    dependency("macros", Value::Null),
                    dependency("of-tests", json!("dev")),
                    dependency("of-builds", json!("build")),
                ] },
                { "id": "breme-base", "deps": [dependency("linked", Value::Null)] },
                { "id": "macros", "deps": [dependency("of-macros", Value::Null)] },
                { "id": "linked", "deps": [] },
            ] },
        });
        let linked = linked_crates(&metadata).unwrap();
        let named: Vec<_> = linked.iter().map(|linked| (linked.name.as_str(), linked.folder.as_path())).collect();
        assert_eq!(named, [("linked", Path::new("/crates/linked"))]);
    }

    #[test]
    fn each_text_is_written_once() {
        // The folder of the workspace contains two licenses.
        let ours = |name: &str| LinkedCrate {
            name: name.to_owned(),
            version: String::from("1.2.3"),
            license: String::from("MIT OR Apache-2.0"),
            folder: root(),
        };
        let texts = texts(&[ours("one"), ours("other")]).unwrap();
        assert!(texts.contains("one 1.2.3: MIT OR Apache-2.0\nother 1.2.3: "), "{texts}");
        assert_eq!(texts.matches("\none, other\n").count(), 2, "{texts}");
        assert_eq!(texts.matches("Permission is hereby granted").count(), 1, "{texts}");
    }

    #[test]
    fn the_licenses_of_the_charts_are_here() {
        assert!(CHARTS.iter().all(|name| root().join("crates/report/assets").join(name).exists()));
    }
}
