//! The studies: their files are valid experiments in every profile, and the smallest profiles really run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::breme;

const STUDIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");

/// Every experiment of every study.
fn experiments() -> Vec<PathBuf> {
    let within = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let files = within(Path::new(STUDIES)).into_iter().filter(|path| path.is_dir()).flat_map(|folder| within(&folder));
    let is_experiment = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".toml") && !name.ends_with(".scenario.toml")
    };
    files.filter(is_experiment).collect()
}

/// The profiles of a file. Each may have several tables.
fn profiles(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("[profile.")?.split([']', '.']).next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_study_is_read_in_every_profile() {
    let experiments = experiments();
    assert!(experiments.len() >= 4, "{experiments:?}");
    for path in experiments {
        let profiles = profiles(&path);
        assert!(profiles.iter().any(|name| name == "quick"), "{} has no quick profile", path.display());
        for profile in [vec![]].into_iter().chain(profiles.iter().map(|name| vec!["--profile", name])) {
            let output = breme().args(["run", "--check"]).args(&profile).arg(&path).output().unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr);
            // Not every machine has all servers of all studies; nothing else may be missing.
            let is_missing = |line: &str| line.contains("there is no program") || line.contains("cannot run here");
            let is_read = output.status.success() || complaint.lines().all(is_missing);
            assert!(is_read, "{} {profile:?}: {complaint}", path.display());
            let is_expected = |line: &str| {
                line.contains("not judged in this profile")
                    || line.contains("cannot decide a hypothesis")
                    || is_missing(line)
            };
            assert!(complaint.lines().all(is_expected), "{} {profile:?}: {complaint}", path.display());
        }
    }
}

/// Results of the tiny profile of a study; the folder of runs is relative to the laboratory.
fn tiny(study: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    // One block decides no hypothesis.
    let arguments = ["run", "--quiet", "--profile", "tiny", "--allow-undecided", "--runs", "runs", "--format", "json"];
    let output = breme().args(arguments).arg(format!("{STUDIES}/{study}")).current_dir(&folder).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{study}: {}\n{complaint}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The workload in all trials, none of which may have failed.
fn seen<'a>(results: &'a serde_json::Value, workload: &str) -> Vec<&'a serde_json::Value> {
    let trials = results["trials"].as_array().unwrap();
    trials.iter().map(|trial| trial["workloads"].get(workload).unwrap_or_else(|| panic!("{trial}"))).collect()
}

#[test]
fn pipelining_has_the_right_answers() {
    let results = tiny("pipelining/answers.toml");
    for (workload, status) in [("page", "200"), ("missing", "404"), ("unknown", "501")] {
        let seen = seen(&results, workload);
        assert_eq!(seen.len(), 3, "a trial for each protocol");
        for one in seen {
            assert_eq!((&one["ok"], &one["statuses"][status]), (&40.into(), &40.into()), "{workload}: {one}");
        }
    }
}

#[test]
fn pipelining_gives_each_visitor_an_id_of_its_own() {
    let results = tiny("pipelining/visitors.toml");
    let seen = seen(&results, "users");
    assert_eq!(seen.len(), 2, "a trial for each protocol");
    for one in seen {
        assert_eq!((&one["sessions"]["completed"], &one["sessions"]["failed"]), (&3.into(), &0.into()), "{one}");
        assert_eq!(one["ok"], 3 * 257);
    }
    for trial in results["trials"].as_array().unwrap() {
        assert_eq!(trial["subjects"]["site"]["counters"]["breme_visitors"], 3.0);
    }
}

#[test]
fn the_proxies_answer_as_the_origin_does() {
    for study in ["proxies/as-then.toml", "proxies/beyond.toml", "proxies/cached.toml"] {
        let results = tiny(study);
        for one in seen(&results, "user") {
            let ok = one["ok"].as_u64().unwrap();
            assert!(ok > 0 && one["errors"].as_object().is_none_or(serde_json::Map::is_empty), "{study}: {one}");
        }
    }
}

#[test]
fn a_cache_in_front_of_the_wiki_requests_each_page_once() {
    let results = tiny("wiki/a-reads.toml");
    assert!(seen(&results, "user").iter().all(|user| user["ok"] == 20), "{results}");
    let reached = |path: &str| {
        let trial = results["trials"].as_array().unwrap().iter().find(|trial| trial["levels"]["path"] == path).unwrap();
        trial["subjects"]["wiki"]["counters"]["breme_requests_total"].as_f64().unwrap()
    };
    assert_eq!([reached("source"), reached("nocache")], [20.0, 20.0]);
    assert_eq!([reached("plain"), reached("local")], [5.0, 5.0], "5 pages");
}

#[test]
fn no_reader_of_the_wiki_gets_a_stale_page() {
    let results = tiny("wiki/d-writes.toml");
    let readers = seen(&results, "readers");
    assert_eq!(readers.len(), 2, "with writes and without");
    for reader in &readers {
        assert_eq!(reader["errors"], serde_json::json!({}), "{reader}");
        assert_eq!(reader["sessions"]["completed"], 200, "{reader}");
    }
    let stale = readers.iter().map(|reader| &reader["stale"]).find(|stale| stale.is_object()).unwrap();
    assert_eq!(stale["count"], 0, "{stale}");
    assert!(stale["judged"].as_u64() > Some(0), "{stale}");
}

#[test]
fn an_edge_serves_stale_pages_unless_the_wiki_purges_it() {
    let results = tiny("wiki/edges.toml");
    assert!(seen(&results, "users").iter().all(|users| users["errors"] == serde_json::json!({})), "{results}");
    let stale = |edge: &str| {
        let trial = results["trials"].as_array().unwrap().iter().find(|trial| trial["levels"]["edge"] == edge).unwrap();
        let stale = &trial["workloads"]["users"]["stale"];
        assert!(stale["judged"].as_u64() > Some(0), "{edge}: {stale}");
        stale["count"].as_u64().unwrap()
    };
    assert_eq!(stale("purging"), 0);
    assert!(stale("breme") > 0);
}

#[test]
fn the_wiki_is_read_and_written_as_its_peers_are() {
    let results = tiny("wiki/peers.toml");
    for trial in results["trials"].as_array().unwrap() {
        let workload = if trial["levels"]["task"] == "read" { "reader" } else { "writer" };
        let seen = &trial["workloads"][workload];
        assert!(seen["ok"].as_u64() > Some(0) && seen["errors"] == serde_json::json!({}), "{trial}");
    }
}
