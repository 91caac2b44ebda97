//! Experiments with a cache that is emptied before each trial: this needs a token, which the user need not configure.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::laboratory_harness::{Laboratory, text_of};

/// One page, requested 20 times in each trial, and a proxy that is never restarted.
const EDGE: &str = r#"
title = "A cache between trials"
[subject.origin]
kind = "site"
lab = true
cache_control = "public, max-age=600"
restart = "never"
[subject.edge]
kind = "proxy"
upstream = "origin"
cache_memory = "16MiB"
restart = "never"
[workload.user]
to = "edge"
connections = 1
requests = 20
request = "/bytes/5"
cache_status = true
[design]
blocks = 2
pause = "0s"
warm_up = "none"
reset = "edge.cache"
"#;
const MEMORY: &str = "cache_memory = \"16MiB\"";
const TOKEN: &str = "the-users-own-0123456789";
/// The file of a generated token.
const DRAWN: &str = "breme-admin-token";

/// The growth of a subject's counter in a trial.
fn growth(trial: &Value, subject: &str, series: &str) -> u64 {
    let grown = &trial["subjects"][subject]["counters"][series];
    grown.as_f64().unwrap_or_else(|| panic!("{subject} {series}: {trial}")) as u64
}

/// Misses and hits of the cache, and requests to the origin, in each trial.
fn seen(laboratory: &Laboratory, run: &str) -> Vec<[u64; 3]> {
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", run]);
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    let trials = laboratory.trials(run);
    assert!(trials.len() >= 4, "two in each block: {trials:?}");
    let of = |result: &str| format!("breme_cache_requests_total{{result=\"{result}\"}}");
    let of_origin = "breme_requests_total{status=\"2xx\",version=\"1.1\"}";
    let seen = |trial: &Value| {
        assert_eq!(trial["workloads"]["user"]["ok"], 20, "{trial}");
        let (seen, counted) = (&trial["workloads"]["user"]["cache"], growth(trial, "edge", &of("hit")));
        assert_eq!((&seen["hits"], &seen["misses"]), (&Value::from(counted), &Value::from(20 - counted)), "{trial}");
        [growth(trial, "edge", &of("miss")), growth(trial, "edge", &of("hit")), growth(trial, "origin", of_origin)]
    };
    trials.iter().map(seen).collect()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn each_trial_begins_with_a_miss() {
    let laboratory = Laboratory::new(EDGE);
    let emptied = seen(&laboratory, "emptied");
    assert!(emptied.iter().all(|trial| *trial == [1, 19, 1]), "{emptied:?}");
    let left = files(&laboratory.folder().join("runs"));
    assert!(left.iter().any(|path| path.ends_with("edge/output.log")), "{left:?}");
    assert!(!left.iter().any(|path| path.ends_with(DRAWN)), "{left:?}");

    // Only the reset makes the difference.
    let laboratory = Laboratory::new(&EDGE.replace("reset = \"edge.cache\"\n", ""));
    let kept = seen(&laboratory, "kept");
    assert_eq!(kept[0], [1, 19, 1]);
    assert!(kept[1..].iter().all(|trial| *trial == [0, 20, 0]), "{kept:?}");
}

#[test]
fn a_token_of_the_users_own_does_it_too_and_is_written_nowhere() {
    let own = EDGE.replace(MEMORY, &format!("{MEMORY}\nadmin_token_file = \"token\""));
    let laboratory = Laboratory::new(&own);
    fs::write(laboratory.folder().join("token"), TOKEN).unwrap();
    let emptied = seen(&laboratory, "emptied");
    assert!(emptied.iter().all(|trial| *trial == [1, 19, 1]), "{emptied:?}");
    for path in files(&laboratory.folder().join("runs")) {
        let content = fs::read(&path).unwrap();
        assert!(!content.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()), "{}", path.display());
    }
}

#[test]
fn a_cache_that_cannot_be_emptied_is_reported() {
    let without = Laboratory::new(&EDGE.replace(MEMORY, ""));
    let output = without.breme(&["run", "--check", "experiment.toml"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`edge.cache` needs `cache_memory` in subject `edge`"), "{stderr}");

    // The contents of a configuration file are known once the proxy runs.
    let configured = EDGE.replace(MEMORY, "config = \"edge.toml\"\nadmin_token_file = \"token\"");
    let laboratory = Laboratory::new(&configured.replace("blocks = 2", "blocks = 1\naa = false"));
    fs::write(laboratory.folder().join("edge.toml"), "via-name = \"edge\"\n").unwrap();
    fs::write(laboratory.folder().join("token"), TOKEN).unwrap();
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert_eq!(output.status.code(), Some(1), "no trial counts: {}", text_of(&output.stderr));
    let trial = laboratory.trials("one")[0].to_string();
    for words in ["\"edge\"", "its reset `cache` failed", "returned status 404", "cache_memory = "] {
        assert!(trial.contains(words), "{words}: {trial}");
    }
}

/// A wiki with the port of a proxy that starts after it; both are restarted for each trial.
const PURGING: &str = r#"
title = "A wiki that purges"
[subject.wiki]
kind = "wiki"
lab_pages = 5
cache_control = "public, s-maxage=86400"
edge = "127.0.0.1:${edge.port.admin}"
edge_token_file = "token"
wait_for_edges = true
[subject.edge]
kind = "proxy"
upstream = "wiki"
cache_memory = "16MiB"
admin_token_file = "token"
[workload.user]
to = "edge"
connections = 1
requests = 40
scenario = "edits.toml"
[design]
blocks = 2
pause = "0s"
warm_up = "none"
restart = "trial"
reset = "edge.cache"
"#;
const EDITS: &str = r#"
[[scenario]]
name = "edit"
[[scenario.step]]
request = "GET /wiki/{uniform:1:5}"
[[scenario.step]]
request = "POST /wiki/{uniform:1:5}"
headers = { Content-Type = "text/markdown" }
body = "{page_version}"
"#;

#[test]
fn a_wiki_purges_the_proxy_that_starts_after_it() {
    let laboratory = Laboratory::new(PURGING);
    fs::write(laboratory.folder().join("token"), TOKEN).unwrap();
    fs::write(laboratory.folder().join("edits.toml"), EDITS).unwrap();
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    let trials = laboratory.trials("one");
    assert_eq!(trials.len(), 4);
    for trial in trials {
        let user = &trial["workloads"]["user"];
        assert_eq!((&user["ok"], &user["stale"]["count"]), (&80.into(), &0.into()), "{trial}");
        let purges = trial["subjects"]["wiki"]["counters"].as_object().unwrap();
        let sent = purges.iter().filter(|(name, _)| name.starts_with("breme_wiki_purges_total"));
        assert!(sent.map(|(_, count)| count.as_f64().unwrap()).sum::<f64>() >= 40.0, "{trial}");
    }
}
