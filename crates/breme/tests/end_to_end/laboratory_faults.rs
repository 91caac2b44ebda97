//! Faults in experiments: servers that are killed, suspended and cut off under load, and the effect on users.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Signal, send_signal, wait, wait_until};
use crate::laboratory_harness::{Laboratory, cpu_ns, text_of};

/// Two servers behind a proxy, one of which is killed, suspended, or restarted.
const TWO: &str = r#"
title = "Two servers behind a proxy"
[subject.left]
kind = "site"
lab = true
threads = 1
[subject.right]
kind = "site"
lab = true
threads = 1
[subject.front]
kind = "proxy"
upstream = ["left", "right"]
threads = 1
[workload.users]
to = "front"
connections = 4
threads = 1
request = "/bytes/10"
[factor.fault]
none = {}
killed = { kill = "left", at = "300ms" }
back = [{ kill = "left", at = "300ms" }, { start = "left", at = "600ms" }]
frozen = [{ freeze = "left", at = "300ms" }, { thaw = "left", at = "1300ms" }]
[design]
blocks = 1
duration = "5s"                 # faults are injected late on a busy machine
warm_up = "200ms"
pause = "0s"
repeats = 0
aa = false
"#;

/// Its complete trials, by the level of the fault.
fn run(laboratory: &Laboratory) -> impl Fn(&str) -> Value {
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    laboratory.wait_deserted();
    let trials = laboratory.trials("one");
    assert!(trials.iter().all(|trial| trial["end"]["how"] == "complete"), "{trials:?}");
    move |level| trials.iter().find(|trial| trial["levels"]["fault"] == level).unwrap().clone()
}

/// The injected faults: action, subject and time, each on time by the clock of the load.
fn faults(trial: &Value) -> Vec<(String, String, f64)> {
    let fault = |fault: &Value| {
        let text = |key: &str| fault[key].as_str().unwrap().to_owned();
        let (planned_s, at_s) = (fault["planned_s"].as_f64().unwrap(), fault["at_s"].as_f64().unwrap());
        assert!(at_s >= planned_s, "{fault}");
        assert!(fault["processes"].as_u64() >= Some(1), "{fault}");
        (text("action"), text("subject"), at_s)
    };
    trial["faults"].as_array().map_or(Vec::new(), |faults| faults.iter().map(fault).collect())
}

fn seconds(trial: &Value, measure: &str) -> f64 {
    trial["workloads"]["users"]["availability"][measure].as_u64().unwrap_or_else(|| panic!("{trial}")) as f64 / 1e9
}

#[test]
fn a_server_behind_a_proxy_is_killed_started_again_and_suspended() {
    let laboratory = Laboratory::new(TWO);
    let trial = run(&laboratory);
    let none = trial("none");
    assert_eq!((faults(&none), &none["workloads"]["users"]["errors"]), (vec![], &serde_json::json!({})), "{none}");
    assert_eq!(none["workloads"]["users"]["availability"]["recovery_ns"], Value::Null);

    let killed = trial("killed");
    let [(action, subject, _)] = &faults(&killed)[..] else { panic!("{killed}") };
    assert_eq!((action.as_str(), subject.as_str()), ("kill", "left"));
    assert!(killed["workloads"]["users"]["ok"].as_u64() > Some(0));
    // Its use until then is known.
    assert!(cpu_ns(&killed["subjects"]["left"]) > 0, "{killed}");

    let back = trial("back");
    let actions: Vec<String> = faults(&back).into_iter().map(|(action, ..)| action).collect();
    assert_eq!(actions, ["kill", "start"]);
    assert!(cpu_ns(&back["subjects"]["left"]) > 0, "it is used again: {back}");

    let frozen = trial("frozen");
    let [(_, _, from), (action, _, to)] = &faults(&frozen)[..] else { panic!("{frozen}") };
    assert_eq!(action, "thaw");
    // Users who waited for it continued to wait.
    assert!(seconds(&frozen, "user_gap_ns") > (to - from) / 2.0, "{frozen}");
    assert_eq!(frozen["workloads"]["users"]["steady"]["state"], "not-checked");
}

/// A path that drops everything for a while; and one that is never healed.
const CUT: &str = r#"
title = "A path that is cut"
measures = ["gap(users)", "gap.user(users)", "recovery(users)", "refused(users)"]
[subject.site]
kind = "site"
lab = true
[subject.path]
kind = "link"
to = "site"
delay = "1ms"
[workload.users]
to = "path"
connections = 3
threads = 1
request = "/bytes/10"
timeout = "500ms"
[factor.fault]
healed = [{ partition = "path", at = "200ms" }, { heal = "path", at = "2200ms" }]
cut = { partition = "path", at = "200ms" }
[design]
blocks = 1
duration = "6s"
warm_up = "100ms"
pause = "0s"
repeats = 0
aa = false
"#;

#[test]
fn a_path_that_is_cut_is_a_gap_until_it_is_healed_or_the_trial_ends() {
    let laboratory = Laboratory::new(CUT);
    let trial = run(&laboratory);
    let healed = trial("healed");
    let [(_, _, from), (_, _, to)] = &faults(&healed)[..] else { panic!("{healed}") };
    // The path obeys some time after the command.
    for measure in ["gap_ns", "user_gap_ns"] {
        assert!(seconds(&healed, measure) > (to - from) * 0.7, "{healed}");
    }
    let cut = trial("cut");
    let [(_, _, from)] = &faults(&cut)[..] else { panic!("{cut}") };
    let end = cut["length_s"].as_f64().unwrap();
    assert!(seconds(&cut, "gap_ns") > (end - from) * 0.7, "{cut}");
    let users = &cut["workloads"]["users"];
    assert!(users["errors"]["timeout"].as_u64() > Some(0), "{cut}");
    assert_eq!(users["availability"]["recovery_ns"], Value::Null, "it never came back");
    let report = laboratory.breme(&["report", "one"]);
    assert!(text_of(&report.stdout).contains("gap.user(users)"), "{}", text_of(&report.stdout));
    let page = fs::read_to_string(laboratory.folder().join("runs/one/report.html")).unwrap();
    assert!(page.contains("\"partition path\"") && page.contains("\"heal path\""));
}

/// A server that its supervisor restarts.
const SUPERVISED: &str = r#"
title = "A supervised server"
[subject.server]
command = ["sh", "-c", "while :; do ${breme} site --lab --threads 1 --listen 127.0.0.1:${port}; done"]
[workload.users]
connections = 2
threads = 1
request = "/delay/2"             # the generator is never the limit
[factor.fault]
killed = { kill = "server", process = "site --lab", at = "200ms" }
[design]
blocks = 1
duration = "6s"
warm_up = "100ms"
pause = "0s"
repeats = 0
aa = false
"#;

#[test]
fn one_process_of_a_subject_is_killed_and_its_supervisor_starts_it_again() {
    let program = env!("CARGO_BIN_EXE_breme");
    let laboratory = Laboratory::new(&SUPERVISED.replace("${breme}", program));
    let killed = run(&laboratory)("killed");
    let [fault] = killed["faults"].as_array().unwrap().as_slice() else { panic!("{killed}") };
    assert_eq!((&fault["process"], &fault["processes"]), (&"site --lab".into(), &1.into()));
    let users = &killed["workloads"]["users"];
    assert!(users["availability"]["recovery_ns"].as_u64() > Some(0), "{killed}");
    assert!(seconds(&killed, "gap_ns") > 0.0);
}

#[test]
fn a_fault_that_comes_too_late_makes_the_trial_invalid() {
    let text = TWO.replace("connections = 4", "connections = 4\nrequests = 50").replace("300ms", "1h");
    let text = text.replace("1300ms", "2h").replace("at = \"600ms\"", "at = \"2h\"");
    let laboratory = Laboratory::new(&text);
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let trials = laboratory.trials("one");
    let killed = trials.iter().find(|trial| trial["levels"]["fault"] == "killed").unwrap();
    let reason = killed["invalid_reasons"][0].as_str().unwrap();
    assert!(reason.contains("the load ended before the fault `kill left`"), "{killed}");
}

/// Whether it is suspended, by a signal or by its control group.
fn is_suspended(pid: u32) -> bool {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let stat = read(&Path::new("/proc").join(pid.to_string()).join("stat"));
    let groups = read(&Path::new("/proc").join(pid.to_string()).join("cgroup"));
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let is_frozen = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .any(|mount| read(&Path::new(mount).join(group).join("cgroup.events")).lines().any(|line| line == "frozen 1"));
    is_frozen || stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

#[test]
fn a_run_that_is_interrupted_or_killed_leaves_nothing_suspended() {
    let text = TWO.replace("duration = \"5s\"", "duration = \"10m\"").replace("1300ms", "9m");
    let text = text.replace("[factor.fault]\nnone = {}", "[factor.fault]");
    let text = text.replace("killed = { kill = \"left\", at = \"300ms\" }\n", "");
    let text: String = text.lines().filter(|line| !line.starts_with("back")).map(|line| format!("{line}\n")).collect();
    for signal in [Signal::INT, Signal::KILL] {
        let laboratory = Laboratory::new(&text);
        let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one"]);
        wait_until("nothing is suspended", || laboratory.inhabitants().iter().any(|&pid| is_suspended(pid)));
        send_signal(&run, signal);
        let status = wait(&mut run);
        assert_eq!(status.code(), if signal == Signal::INT { Some(130) } else { None });
        laboratory.wait_deserted();
    }
}
