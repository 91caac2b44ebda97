//! `breme load` with a schedule and with scenarios: compared with the server's own counter and with the schedule, never
//! with the speed of this machine.

use serde_json::Value;

use crate::harness::{Site, load, load_json};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios");

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// Checks that the counts are consistent, and match the server's.
fn require_balance(result: &Value, site: &Site) {
    let (requests, arrivals) = (&result["requests"], &result["open_loop"]);
    assert_eq!(site.counter(), count(&requests["answered"]), "{result:#}");
    let ended = count(&requests["answered"]) + count(&requests["failed"]) + count(&requests["unfinished"]);
    assert_eq!(count(&requests["issued"]), ended, "{result:#}");
    if !arrivals.is_null() {
        let ended = count(&arrivals["begun"]) + count(&arrivals["dropped"]) + count(&arrivals["shed"]);
        assert_eq!(count(&arrivals["due"]), ended, "{result:#}");
    }
    assert_eq!(result["response_time"]["count"], result["service_time"]["count"]);
    let mean = |name: &str| result[name]["mean_ns"].as_f64().unwrap();
    assert!(mean("response_time") >= mean("service_time"), "{result:#}");
}

#[test]
fn as_many_are_due_as_the_schedule_says() {
    for (arguments, due) in [
        (&["-R", "500", "-d", "1", "-c", "20"][..], 500),
        (&["-R", "500", "-d", "1", "-c", "21", "-t", "2"], 500),
        (&["-R", "500", "-d", "1", "-c", "8", "-t", "2", "-p", "4"], 500),
        (&["-R", "300", "-d", "1", "-c", "20", "--no-keepalive"], 300),
        (&["--stages", "500ms:400,500ms@100", "-c", "20"], 150),
        (&["-R", "1k", "-n", "700", "-c", "20"], 700),
    ] {
        let site = Site::lab("events");
        let url = site.url("/bytes/100");
        let mut all = arguments.to_vec();
        all.push(&url);
        let result = load_json(&all);
        assert_eq!(count(&result["open_loop"]["due"]), due, "{arguments:?}: {result:#}");
        require_balance(&result, &site);
    }
}

#[test]
fn poisson_arrivals_do_not_depend_on_the_threads() {
    let due = |threads: &str| {
        let site = Site::lab("events");
        let arguments = ["-R", "700", "--arrivals", "poisson", "--seed", "9", "-d", "1", "-c", "20", "-t", threads];
        let url = site.url("/bytes/1");
        let result = load_json(&[&arguments[..], &[&url]].concat());
        require_balance(&result, &site);
        count(&result["open_loop"]["due"])
    };
    assert_eq!(due("1"), due("2"));
}

#[test]
fn requests_that_a_slow_server_keeps_from_being_sent_are_counted() {
    let site = Site::lab("events");
    // Two connections, 50 ms each: 40 of the 200 per second; nothing may wait longer than 100 ms.
    let arguments = ["-R", "200", "-d", "1", "-c", "2", "--deadline", "100ms"];
    let url = site.url("/delay/50");
    let result = load_json(&[&arguments[..], &[&url]].concat());
    require_balance(&result, &site);
    assert!(count(&result["open_loop"]["shed"]) > 0, "{result:#}");
    assert!(result["response_time"]["p50_ns"].as_u64().unwrap() > 100_000_000, "{result:#}");
    let site = Site::lab("events");
    let url = site.url("/delay/50");
    let result = load_json(&["-R", "200", "-d", "1", "-c", "2", "--max-waiting", "0", &url]);
    require_balance(&result, &site);
    assert!(count(&result["errors"]["dropped"]) > 100, "{result:#}");
}

#[test]
fn the_examples_run_and_each_step_is_timed_by_its_name() {
    let site = Site::start(&["--lab", "--visitors"]);
    let output = tempfile::tempdir().unwrap();
    let steps = output.path().join("run.steps.csv");
    let (scenario, url) = (format!("{EXAMPLES}/editing.toml"), site.url(""));
    let arguments = ["--scenario", &scenario, "-n", "5", "-c", "5", "-o", steps.to_str().unwrap(), &url];
    let result = load_json(&arguments);
    assert_eq!(result["errors"], serde_json::json!({}), "{result:#}");
    let scenarios = &result["scenarios"][0];
    assert_eq!((count(&scenarios["begun"]), count(&scenarios["completed"])), (5, 5), "{result:#}");
    let names: Vec<&str> =
        result["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["open", "save"]);
    let table = std::fs::read_to_string(steps).unwrap();
    assert!(table.starts_with("step,sent,answered,errors,") && table.contains("\nsave,5,5,0,"), "{table}");
    require_balance(&result, &site);

    let site = Site::start(&["--lab"]);
    let (scenario, url) = (format!("{EXAMPLES}/reading.toml"), site.url("/"));
    let result = load_json(&["--scenario", &scenario, "-R", "30", "-d", "1", "-c", "30", &url]);
    assert_eq!(count(&result["open_loop"]["due"]), 30, "{result:#}");
    require_balance(&result, &site);
}

#[test]
fn a_check_of_a_step_that_fails_is_exit_code_3() {
    let site = Site::lab("events");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    let file = format!(
        "base = \"{}\"\n[[scenario]]\nname = \"x\"\nstep = [{{ request = \"GET /bytes/5\", check = {{ bytes = 6 }} }}]\n",
        site.url("")
    );
    std::fs::write(&path, file).unwrap();
    let output = load(&["--scenario", path.to_str().unwrap(), "-n", "3", "-c", "1"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("GET /bytes/5") && stdout.contains("assertion: 3") && stdout.contains("x: 3 begun"),
        "{stdout}"
    );
}

#[test]
fn faults_name_the_flag_or_the_place_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, "[[scenario]]\nname = \"x\"\n[[scenario.step]]\nrequets = \"GET /\"\n").unwrap();
    let path = path.to_str().unwrap();
    let url = "http://127.0.0.1:1/";
    for (arguments, expected) in [
        (&["--scenario", path, url][..], "line 4, column 1: there is no key `requets` here"),
        (&["--scenario", path, url], "did you mean `request`?"),
        (&["--scenario", "/nowhere", url], "--scenario /nowhere: cannot be read"),
        (&["--deadline", "1s", url], "--deadline needs an open loop; set its rate with -R"),
        (&["-R", "fast", url], "\"fast\" is not a rate"),
        (&["-R", "0", url], "a rate of 0 sends nothing"),
        (&["--stages", "10s", url], "TIME:RATE"),
        (&["-R", "5", "--think", "1s", url], "a think time needs a closed loop"),
        (&["-R", "5", "--max-in-flight", "999", url], "raise -c for more"),
        (&["--spin", "1ms", url], "--spin has no effect here"),
        (&["--var", "page", url], "write NAME=VALUE"),
        (&["--var", "seq=1", url], "--var: {seq} is a placeholder;"),
    ] {
        let output = load(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn users_who_think_may_stay_awake_for_it() {
    let site = Site::lab("events");
    let url = site.url("/bytes/{size}");
    let result = load_json(&["--think", "5ms", "--spin", "1s", "-n", "50", "-c", "2", "--var", "size=7", &url]);
    require_balance(&result, &site);
    // Threads that never sleep spin nearly all of the time, which does not count as load.
    assert!(result["generator"]["spin_share"].as_f64().unwrap() > 0.0, "{result:#}");
    assert!(
        result["generator"]["thread_shares"].as_array().unwrap().iter().all(|share| share.as_f64().unwrap() < 0.95)
    );
    assert_eq!(count(&result["bytes"]["content"]), 50 * 7, "{result:#}");
}
