//! Experiments from file to verdict: servers with known behaviour must be judged correctly.

use std::fs;

use breme_experiment::record::Distribution;
use breme_stats::Histogram;
use serde_json::Value;

use crate::laboratory_harness::{Laboratory, json, text_of};

const DELAYS: &str = r#"
title = "Delays"
question = "How much slower is the slower one?"
measures = ["mean(user)", "p50(user)", "p99(user)", "rate(user)", "errors(user)", "cpu(server)", "memory(server)"]
[subject.server]
kind = "site"
lab = true
threads = 1
restart = "never"
[workload.user]
connections = 2
requests = 10
request = "/delay/${ms}"
[factor]
ms = [5, 40]
[design]
blocks = 6
pause = "0s"
warm_up = "none"
[[hypothesis]]
says = "true"
expect = "p50(user) [ms=40] > 2 * p50(user) [ms=5]"
[[hypothesis]]
says = "false"
expect = "p50(user) [ms=40] < p50(user) [ms=5]"
[[hypothesis]]
says = "right"
expect = "errors(user) < 1 %"
"#;

/// 100 ms and 5 ms are distinguished on any machine before the twelfth block.
#[test]
fn a_run_ends_once_all_is_decided_and_can_be_extended() {
    let text = DELAYS.replace("40", "100").replace("blocks = 6", "blocks = { least = 6, most = 12 }");
    let decided = text.split("[[hypothesis]]").take(2).collect::<Vec<_>>().join("[[hypothesis]]");
    let laboratory = Laboratory::new(&decided);
    let check = text_of(&laboratory.breme(&["run", "experiment.toml", "--check"]).stdout);
    assert!(check.contains("6 to 12 blocks (until every hypothesis has a verdict), 18 to 36 trials"), "{check}");
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let blocks = laboratory.trials("one").iter().filter_map(|trial| trial["block"].as_u64()).max().unwrap();
    assert!((6..12).contains(&blocks), "{blocks}");
    let ended = format!("The run ended after {blocks} of at most 12 blocks");
    assert!(text_of(&output.stdout).contains(&ended), "{}", text_of(&output.stdout));
    let end = fs::read(laboratory.folder().join("runs/one/end.json")).unwrap();
    assert_eq!((json(&end)["end"].as_str(), json(&end)["blocks"].as_u64()), (Some("decided"), Some(blocks)));

    let trials = laboratory.trials("one").len();
    laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!(laboratory.trials("one").len(), trials, "it is decided already");
    let refused = laboratory.breme(&["run", "--resume", "one", "--blocks", &blocks.to_string()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text_of(&refused.stderr).contains("--blocks is the new total"), "{}", text_of(&refused.stderr));
    let longer = laboratory.breme(&["run", "--resume", "one", "--blocks", &(blocks + 1).to_string()]);
    assert!(
        text_of(&longer.stdout).contains(&format!("All {} blocks were run", blocks + 1)),
        "{}",
        text_of(&longer.stdout)
    );
    assert_eq!(laboratory.trials("one").len(), trials + 3);
}

#[test]
fn known_delays_are_judged_as_they_are() {
    let laboratory = Laboratory::new(DELAYS);
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let mut trials = laboratory.trials("one");
    trials.retain(|trial| trial["repeat"] == 0);
    assert_eq!(trials.len(), 18, "two combinations, one of them twice, in six blocks: {}", text_of(&output.stderr));
    for trial in &trials {
        let user = &trial["workloads"]["user"];
        assert_eq!((user["answered"].as_u64(), user["response"]["count"].as_u64()), (Some(10), Some(10)), "{user}");
        let [mean, min, max] = ["mean_ns", "min_ns", "max_ns"].map(|name| user["response"][name].as_f64().unwrap());
        assert!(min >= delay_ns(trial) as f64 && min <= mean && mean <= max, "{user}");
    }
    replay(&laboratory, trials);
    comparisons_of_a_run_with_itself(&laboratory);
    every_format(&laboratory);
}

fn delay_ns(trial: &Value) -> u64 {
    trial["levels"]["ms"].as_str().unwrap().parse::<u64>().unwrap() * 1_000_000
}

/// The lateness of a trial's ten responses depends on the machine, and so do the verdicts. So the same trials are
/// judged again with the times of an idle machine.
fn replay(laboratory: &Laboratory, trials: Vec<Value>) {
    let lines: Vec<String> = trials.into_iter().map(|trial| at_rest(trial).to_string()).collect();
    fs::write(laboratory.journal("one"), lines.join("\n") + "\n").unwrap();
    let output = laboratory.breme(&["run", "--resume", "one", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3), "a hypothesis is refuted: {}", text_of(&output.stderr));
    let judged = json(&output.stdout);
    let verdicts: Vec<&str> = judged["judgement"]["hypotheses"].as_array().unwrap().iter().map(verdict_of).collect();
    assert_eq!(verdicts, ["supported", "refuted", "supported"]);
}

/// Each response 1 to 2 ms after its delay, a different one in each trial.
fn at_rest(mut trial: Value) -> Value {
    let (delay_ns, number) = (delay_ns(&trial), trial["number"].as_u64().unwrap());
    let mut times = Histogram::new();
    (0..10).for_each(|answer| times.record(delay_ns + 1_000_000 + (number * 7 + answer) * 7_919 % 1_000_000));
    let rate = 2.0 / (times.mean() / 1e9);
    let times = serde_json::to_value(Distribution::from_histogram(&times)).unwrap();
    trial["invalid_reasons"] = Value::Array(Vec::new());
    let user = &mut trial["workloads"]["user"];
    for (name, value) in [
        ("response", times.clone()),
        ("service", times),
        ("achieved_rate", rate.into()),
        ("window_s", (10.0 / rate).into()),
        ("held_mean_s", 0.0.into()),
        ("held_max_s", 0.0.into()),
    ] {
        user[name] = value;
    }
    trial
}

fn verdict_of(hypothesis: &Value) -> &str {
    hypothesis["verdict"]["verdict"].as_str().unwrap()
}

fn comparisons_of_a_run_with_itself(laboratory: &Laboratory) {
    // Real times vary; with 90 % only another server is worse.
    let output = laboratory.breme(&["compare", "one", "one", "--format", "json", "--margin", "90%"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
    let rows = json(&output.stdout)["rows"].as_array().unwrap().clone();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["verdict"] != "worse" && row["verdict"] != "better"));
    // The same run with all times of users tripled.
    let run = laboratory.folder().join("runs/one");
    let slower = laboratory.folder().join("runs/slower");
    fs::create_dir(&slower).unwrap();
    for name in ["run.json", "plan.toml"] {
        fs::copy(run.join(name), slower.join(name)).unwrap();
    }
    let slowed: Vec<String> = laboratory.trials("one").into_iter().map(|trial| slowed(trial).to_string()).collect();
    fs::write(slower.join("trials.jsonl"), slowed.join("\n") + "\n").unwrap();
    let code = |arguments: &[&str]| laboratory.breme(&[arguments, &["--margin", "90%"]].concat()).status.code();
    assert_eq!(code(&["compare", "one", "slower"]), Some(3));
    assert_eq!(code(&["compare", "one", "slower", "--gate", "rate(user)"]), Some(0));
    assert_eq!(code(&["compare", "slower", "one"]), Some(0));
    // Times inconsistent with the rate are measured wrongly, which Little's law shows.
    let is_warned = |run: &str| {
        let report = json(&laboratory.breme(&["report", run, "--format", "json"]).stdout);
        report["judgement"]["warnings"].to_string().contains("N = X·(R+Z+H) does not hold")
    };
    assert!(is_warned("slower") && !is_warned("one"));
}

/// Three times as slow.
fn slowed(mut trial: Value) -> Value {
    let mean = &mut trial["workloads"]["user"]["response"]["mean_ns"];
    *mean = Value::from(mean.as_f64().unwrap() * 3.0);
    trial
}

fn every_format(laboratory: &Laboratory) {
    for (format, sign) in [
        ("text", "Delays"),
        ("html", "<!DOCTYPE html>"),
        ("markdown", "## Delays"),
        ("json", "\"hypotheses\""),
        ("csv", "trial,block,"),
        ("measures-csv", "measure,unit,"),
        ("jtl", "timeStamp,elapsed,"),
        ("go-bench", "BenchmarkUser/ms=40"),
    ] {
        let output = laboratory.breme(&["report", "one", "--format", format]);
        assert!(output.status.success() && text_of(&output.stdout).contains(sign), "{format}");
    }
    assert!(laboratory.folder().join("runs/one/report.html").is_file());
    let listed = laboratory.breme(&["runs"]);
    assert!(text_of(&listed.stdout).contains("runs/one"));
}

/// Everything that can run concurrently, and files of the experiment that the generator reads.
const BESIDE: &str = r#"
title = "All at once"
[subject.server]
kind = "site"
lab = true
[workload.user]
connections = 1
requests = 20
request = "/delay/5"
[workload.crowd]
connections = "$crowd"
request = "/bytes/100"
think = "10ms"
[workload.open]
background = true
rate = 100
connections = 5
request = "/delay/2"
[workload.story]
background = true
connections = 2
scenario = "story.toml"
[workload.pipe]
background = true
connections = 1
pipeline = 4
request = "/delay/10"
[factor]
crowd = [0, 3]
[design]
blocks = 1
pause = "0s"
warm_up = "none"
repeats = 0                     # a machine that is busy makes the open loop late
aa = false
"#;

const STORY: &str = r#"
[[scenario]]
name = "read"
[[scenario.step]]
name = "first"
request = "GET /bytes/20"
check = { status = 200 }
"#;

#[test]
fn loads_of_every_kind_run_beside_each_other() {
    let laboratory = Laboratory::new(BESIDE);
    fs::write(laboratory.folder().join("story.toml"), STORY).unwrap();
    // Without --runs the folder of the run is a relative path: this must not affect the processes that run in it.
    laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let trials = laboratory.trials("one");
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_eq!(trial["end"]["how"], "complete", "{}", trial["end"]);
        let mut names: Vec<&String> = trial["workloads"].as_object().unwrap().keys().collect();
        names.retain(|name| *name != "crowd");
        assert_eq!(names, ["open", "pipe", "story", "user"]);
        assert_eq!(trial["workloads"].get("crowd").is_some(), trial["levels"]["crowd"] == "3", "0 users are none");
        assert_eq!(trial["workloads"]["user"]["answered"], 20);
    }
}

/// Exits after a number of requests in its third life.
const MORTAL: &str = r#"
import http.server, os, sys
lives = os.path.join(sys.argv[2], "lives")
with open(lives, "a") as file:
    file.write("x")
life, requests = os.path.getsize(lives), 0
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global requests
        requests += 1
        if life == 3 and requests == 5:
            print("out of cheese", file=sys.stderr, flush=True)
            os._exit(7)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

const CRASHING: &str = r#"
title = "A crash"
[subject.server]
command = ["python3", "${experiment}/mortal.py", "${port}", "${experiment}"]
[subject.other]
kind = "site"
lab = true
[workload.user]
to = "$to"
requests = 20
connections = 1
request = "/delay/2"            # the generator is never the limit
[factor]
to = ["server", "other"]
[design]
blocks = 4
pause = "0s"
warm_up = "none"
repeats = 0
aa = false
[[hypothesis]]
says = "one is quicker"
expect = "mean(user) [to=server] < mean(user) [to=other]"
"#;

#[test]
fn a_crash_costs_its_trial_and_not_the_run() {
    let laboratory = Laboratory::new(CRASHING);
    fs::write(laboratory.folder().join("mortal.py"), MORTAL).unwrap();
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let (stdout, stderr) = (text_of(&output.stdout), text_of(&output.stderr));
    let trials = laboratory.trials("one");
    let failed: Vec<&Value> = trials.iter().filter(|trial| trial["end"]["how"] != "complete").collect();
    assert_eq!((trials.len(), failed.len()), (8, 1), "{stderr}");
    assert_eq!(
        (failed[0]["end"]["who"].as_str(), failed[0]["levels"]["to"].as_str()),
        (Some("server"), Some("server"))
    );
    assert_eq!(failed[0]["end"]["printed"].as_str().map(str::trim), Some("out of cheese"));
    assert!(stderr.contains("out of cheese") && stderr.contains("status 7"), "{stderr}");
    assert!(stdout.contains("7 of 8 trials count") && stdout.contains("1 failed"), "{stdout}");
    // A subject that is idle because its own trial is another of the block used nothing in this one.
    for trial in trials.iter().filter(|trial| trial["end"]["how"] == "complete") {
        let subjects: Vec<&String> = trial["subjects"].as_object().unwrap().keys().collect();
        assert_eq!(subjects, [trial["levels"]["to"].as_str().unwrap()]);
    }
    let head: Value = json(&fs::read(laboratory.folder().join("runs/one/run.json")).unwrap());
    assert!(head["subject_versions"]["server"].as_str().unwrap().starts_with("Python 3"), "{head}");
    assert!(head["subject_versions"]["other"].as_str().unwrap().starts_with("breme "), "{head}");
    laboratory.wait_deserted();
}
