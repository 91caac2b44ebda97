//! The metrics of `breme run --admin` during the run.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;

use crate::admin::{check_prometheus_text, metrics};
use crate::harness::{Signal, get, send_signal, wait, wait_until};
use crate::laboratory_ends::{allow, allow_another, held_with};

const HYPOTHESIS: &str = "[[hypothesis]]\nsays = \"No request fails.\"\nexpect = \"errors(user) < 1 %\"\n";

/// Trials per block: two levels, and one of them again.
const BLOCK: usize = 3;

#[test]
fn progress_trials_and_verdicts_are_exported() {
    let laboratory = held_with(HYPOTHESIS);
    allow(&laboratory, BLOCK);
    let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one", "--admin", "127.0.0.1:0"]);
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let admin: SocketAddr = line.trim_end().strip_prefix("admin on http://").expect(&line).parse().unwrap();
    // The next one is blocked.
    wait_until("the second block does not begin", || metrics(admin).get("breme_run_trial") == Some(&4.0));
    check_prometheus_text(admin);
    assert_eq!(get(admin, "/health").status, 200);

    let metrics = metrics(admin);
    let sum = |start: &str| metrics.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum();
    for (name, value) in [("block", 2.0), ("blocks_planned", 4.0), ("trials_planned", 12.0)] {
        assert_eq!(metrics.get(&format!("breme_run_{name}")), Some(&value), "{name}: {metrics:#?}");
    }
    let finished: f64 = sum("breme_run_trials_total{");
    assert_eq!(finished, BLOCK as f64, "{metrics:#?}");
    assert_eq!(metrics["breme_run_info{run=\"one\",title=\"Many short trials\"}"], 1.0);
    let levels: f64 = sum("breme_run_trial_level_info{factor=\"users\",level=\"");
    let verdicts: f64 = sum("breme_run_verdict{hypothesis=\"No request fails.\",verdict=\"");
    assert_eq!([levels, verdicts], [1.0; 2], "{metrics:#?}");
    // A busy machine may make a trial INVALID, which has no figures.
    let counted =
        laboratory.trials("one").into_iter().filter(|trial| trial["invalid_reasons"] == serde_json::json!([]));
    for trial in counted {
        let labels = format!("levels=\"users={}\",workload=\"user\"", trial["levels"]["users"].as_str().unwrap());
        for name in [
            format!("breme_run_response_rate{{{labels}}}"),
            format!("breme_run_cpu_per_request_seconds{{{labels}}}"),
            format!("breme_run_response_time_seconds{{{labels},quantile=\"0.5\"}}"),
            format!("breme_run_response_time_seconds{{{labels},quantile=\"0.99\"}}"),
        ] {
            assert!(metrics.contains_key(&name), "{name}: {metrics:#?}");
        }
    }

    allow_another(&laboratory, BLOCK);
    send_signal(&run, Signal::INT);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(wait(&mut run).code(), Some(130), "{said}");
}
