//! Foreign load generators as workloads: their output is parsed, and none of them is left running.

use serde_json::Value;

use crate::laboratory_harness::{Laboratory, cpu_ns, text_of};

fn experiment(command: &str, measures: &str, rest: &str) -> String {
    format!(
        r#"
title = "t"
[subject.site]
kind = "site"
lab = true
threads = 1
[workload.tool]
to = "site"
connections = 4
command = {command}
{rest}
[workload.tool.measures]
{measures}
[design]
blocks = 1
duration = "1s"
warm_up = "none"
pause = "0s"
repeats = 0
aa = false
"#
    )
}

/// The only trial of an experiment.
fn trial(experiment: &str) -> Value {
    let laboratory = Laboratory::new(experiment);
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    laboratory.wait_deserted();
    let trials = laboratory.trials("one");
    assert_eq!(trials.len(), 1, "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    trials[0].clone()
}

fn figure(trial: &Value, name: &str) -> f64 {
    trial["workloads"]["tool"]["figures"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {trial}"))
}

const AB: &str = r#"
rate = { pattern = 'Requests per second:\s+([\d.]+)', unit = "1/s" }
mean = { pattern = 'Time per request:\s+([\d.]+) \[ms\] \(mean\)', unit = "ms" }
p99 = { pattern = '^\s+99%\s+(\d+)', unit = "ms" }
count = { pattern = 'Complete requests:\s+(\d+)' }
failed = [{ pattern = 'Failed requests:\s+(\d+)' }, { pattern = 'Non-2xx responses:\s+(\d+)', otherwise = 0 }]
"#;

#[test]
fn ab_reports_as_many_responses_as_the_server_counts() {
    // Enough for the instruments to see its process.
    let command = r#"["ab", "-q", "-n", "20000", "-c", "${connections}", "${url}/bytes/100"]"#;
    let trial = trial(&experiment(command, AB, "server_count = \"breme_requests_total\""));
    assert_eq!(
        (&trial["end"]["how"], &trial["invalid_reasons"]),
        (&"complete".into(), &serde_json::json!([])),
        "{trial}"
    );
    assert_eq!((figure(&trial, "count"), figure(&trial, "failed")), (20_000.0, 0.0));
    // Four connections in a closed loop: the figures are consistent.
    let users = figure(&trial, "rate") * figure(&trial, "mean");
    assert!((users / 4.0 - 1.0).abs() < 0.01, "{trial}");
    assert_eq!(trial["workloads"]["tool"]["answered"], 20_000);
    assert!(cpu_ns(&trial["generators"]["tool"]) > 0, "{trial}");
}

/// The preparation, a load that follows another at a fraction of its rate, and the resource use of its generator.
#[test]
fn a_load_follows_another_at_half_of_its_rate() {
    let file = r#"
title = "t"
prepare = [["sh", "-c", "mkdir www; printf 0123456789 > www/ten"]]
measures = ["rate(open)", "generator.cpu(open)", "generator.memory(open)", "memory.growth(site)"]
[subject.site]
kind = "site"
directory = "${shared}/www"
threads = 1
reset.warm = { command = ["${breme}", "load", "-q", "-n", "5", "--expect-bytes", "10", "${site.url}/ten"] }
[workload.closed]
command = ["sh", "-c", "echo rate 400; sleep 0.3"]
measures.rate = { pattern = 'rate (\d+)' }
[workload.open]
command = ["${breme}", "load", "--json", "-R", "${rate}", "-d", "${duration}", "${url}/ten"]
rate = "50 % of closed"
[workload.open.measures]
rate = { pattern = '"offered_rate": ([\d.]+)' }
count = { pattern = '"answered": (\d+)' }
[workload.own]
start_after = "open"
rate = "25 % of open"
duration = "1s"
request = "/ten"
[design]
blocks = 1
duration = "1s"
warm_up = "none"
pause = "0s"
repeats = 0
aa = false
reset = ["site.warm"]
"#;
    let trial = trial(file);
    let rate = |name: &str| trial["workloads"][name]["achieved_rate"].as_f64().unwrap_or_else(|| panic!("{trial}"));
    assert!((rate("open") / 200.0 - 1.0).abs() < 0.05, "{trial}");
    let offered = trial["workloads"]["own"]["offered_rate"].as_f64().unwrap_or_else(|| panic!("{trial}"));
    assert!((offered / 50.0 - 1.0).abs() < 0.1, "{trial}");
    // They ran one after the other.
    assert!(trial["length_s"].as_f64().unwrap_or_default() > 2.2, "{trial}");
    let generator = &trial["generators"]["open"];
    assert!(cpu_ns(generator) > 0 && generator["memory_max_bytes"].as_u64() > Some(1 << 20));
    let site = &trial["subjects"]["site"];
    assert!(site["memory_begin_bytes"].as_u64() > Some(1 << 20), "{trial}");
    assert!(site["memory_max_bytes"].as_u64() >= site["memory_begin_bytes"].as_u64(), "{trial}");
}

#[test]
fn a_count_that_is_not_the_servers_makes_the_trial_invalid() {
    let script = "ab -q -n 200 -c 4 ${url}/bytes/100; ab -q -n 200 -c 4 ${url}/bytes/100";
    let command = format!(r#"["sh", "-c", "{script}"]"#);
    let trial = trial(&experiment(&command, AB, "server_count = \"breme_requests_total\""));
    let reason = trial["invalid_reasons"][0].as_str().unwrap_or_else(|| panic!("{trial}"));
    assert_eq!(reason, "tool: it reports 200 responses, but `site` counted 400 requests (breme_requests_total)");
}

#[test]
fn wrk_prints_its_units() {
    let measures = r#"
rate = { pattern = 'Requests/sec:\s+([\d.]+)' }
mean = { pattern = 'Latency\s+([\d.]+)(\w+)' }
bytes = { pattern = 'Transfer/sec:\s+([\d.]+)(\w+)', binary = true }
count = { pattern = '(\d+) requests in' }
failed = { pattern = 'Non-2xx or 3xx responses: (\d+)', otherwise = 0 }
"#;
    let command = r#"["wrk", "-t1", "-c", "${connections}", "-d", "${duration}", "${url}/status/404"]"#;
    let trial = trial(&experiment(command, measures, "server_count = \"breme_requests_total\""));
    assert_eq!(trial["invalid_reasons"], serde_json::json!([]), "{trial}");
    assert!(figure(&trial, "rate") > 0.0 && figure(&trial, "mean") < 1.0 && figure(&trial, "bytes") > 0.0, "{trial}");
    assert_eq!(figure(&trial, "failed"), figure(&trial, "count"), "every response has status 404");
}

/// Why the trial of a generator that is a shell script failed, and the end of its output.
fn failure(script: &str, rest: &str) -> (String, String) {
    let command = format!(r#"["sh", "-c", "{script}"]"#);
    let trial = trial(&experiment(&command, "rate = { pattern = 'rate ([0-9.]+)' }", rest));
    let text = |key: &str| trial["end"][key].as_str().unwrap_or_else(|| panic!("no {key}: {trial}")).to_owned();
    assert_eq!((text("how"), text("who")), ("failed".to_owned(), "tool".to_owned()), "{trial}");
    (text("what"), text("printed"))
}

#[test]
fn a_generator_that_fails_shows_the_end_of_its_output() {
    let (what, printed) = failure("echo the rate is 5", "");
    assert!(what.contains("measures.rate: the pattern 'rate ([0-9.]+)' matches nothing in the output"), "{what}");
    assert_eq!(printed.trim(), "the rate is 5");
    let (what, printed) = failure("echo cannot connect >&2; exit 7", "");
    assert_eq!((what.as_str(), printed.trim()), ("the generator exited with status 7", "cannot connect"));
}

#[test]
fn a_generator_that_does_not_end_is_killed_with_all_that_it_started() {
    let (what, printed) = failure("echo started; sleep 1000 & sleep 1000", "within = \"3s\"");
    assert!(what.contains("did not end in time and was killed; set within = "), "{what}");
    assert!(printed.starts_with("started"), "{printed}");
}

#[test]
fn a_generator_that_is_not_installed_is_found_before_the_first_trial() {
    let laboratory = Laboratory::new(&experiment(r#"["no-such-tool"]"#, "rate = { pattern = '(x)' }", ""));
    let output = laboratory.breme(&["run", "experiment.toml"]);
    let stderr = text_of(&output.stderr);
    assert!(stderr.contains("workload tool: there is no program `no-such-tool`"), "{stderr}");
    assert!(!laboratory.folder().join("runs").exists(), "nothing has begun");
}

#[test]
fn hypotheses_compare_a_foreign_generator_with_the_own_load() {
    let command = r#"["sh", "-c", "printf 'rate %s\n' 0.00${connections}"]"#;
    let own = "\n[[hypothesis]]\nexpect = \"rate(tool) > rate(own)\"\n[workload.own]\nto = \"site\"\n\
               connections = 1\nrequests = 20\nrequest = \"/delay/2\"\nhttp = \"1.1\"\n";
    let text = experiment(command, "rate = { pattern = 'rate ([0-9.]+)' }", "").replace("blocks = 1", "blocks = 5");
    let laboratory = Laboratory::new(&format!("{text}{own}"));
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert_eq!(output.status.code(), Some(3), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    let text = text.replace("0.00${connections}", "${connections}000000000");
    let laboratory = Laboratory::new(&format!("{text}{own}"));
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "one"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    laboratory.wait_deserted();
}
