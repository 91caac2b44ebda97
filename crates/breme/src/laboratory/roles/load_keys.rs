//! The flags of `breme load` and the keys of a workload: a flag or a key without an entry here fails a test. Both take
//! limits, names, defaults and forms of values from `breme_load_plan`.

use std::collections::BTreeSet;

use breme_experiment::plan::{Plan, Roles, Surroundings, schema};
use breme_experiment::trial::{TrialKey, WorkloadSpec};
use breme_load_plan::{CONNECTION_COUNT_MAX, CONNECTIONS_DEFAULT, PIPELINE_DEPTH_MAX, THREAD_COUNT_MAX};
use clap::{Arg, CommandFactory};

use super::{Program, check};

/// A flag, the key for the same setting, and lines of a workload of which the last sets the key.
const PAIRS: &[(&str, &str, &str)] = &[
    ("arrivals", "arrivals", "rate = 5\narrivals = \"poisson\""),
    ("body", "body", "body = \"text\""),
    ("cacert", "cacert", "cacert = \"ca.pem\""),
    ("cache-status", "cache_status", "cache_status = true"),
    ("cert", "cert", "cert = \"client.pem\""),
    ("connections", "connections", "connections = 3"),
    ("cookies", "cookies", "cookies = true"),
    ("deadline", "deadline", "rate = 5\ndeadline = \"1s\""),
    ("driver", "driver", "driver = \"events\""),
    ("duration", "duration", "duration = \"3s\""),
    (
        "expect-body-sha256",
        "expect.sha256",
        "expect.sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
    ),
    ("expect-bytes", "expect.bytes", "expect.bytes = 13"),
    ("expect-contains", "expect.contains", "expect.contains = \"text\""),
    ("expect-status", "expect.status", "expect.status = 204"),
    ("header", "headers", "headers.X = \"1\""),
    ("http", "http", "http = \"1.0\""),
    ("max-in-flight", "max_in_flight", "rate = 5\nmax_in_flight = 3"),
    ("insecure", "insecure", "insecure = true"),
    ("key", "key", "cert = \"client.pem\"\nkey = \"client.key\""),
    ("method", "method", "method = \"PUT\""),
    ("no-keepalive", "keep_alive", "keep_alive = false"),
    ("no-tls-resumption", "tls_resumption", "tls_resumption = false"),
    ("origin-counter", "origin_counter", "origin_counter = \"http://127.0.0.1:1/count\""),
    ("over", "over", "requests = 100\nover = \"10s\""),
    ("pipeline", "pipeline", "pipeline = 2"),
    ("ramp", "ramp", "ramp = \"1s\""),
    ("rate", "rate", "rate = 5"),
    ("requests", "requests", "requests = 100"),
    ("scenario", "scenario", "scenario = \"steps.toml\""),
    ("spin", "spin", "rate = 5\nspin = \"10us\""),
    ("spread", "spread", "scenario = \"steps.toml\"\nhosts = [\"http://a\", \"http://b\"]\nspread = \"user\""),
    ("stages", "stages", "stages = [\"10s:100\", \"1m@100\"]"),
    ("targets", "targets", "targets = \"targets.txt\""),
    ("think", "think", "think = \"1s..3s\""),
    ("threads", "threads", "threads = 2"),
    ("timeout", "timeout", "timeout = \"5s\""),
    ("tls", "tls", "tls = \"1.2\""),
    ("var", "variables", "scenario = \"steps.toml\"\nvariables.page = \"index\""),
    ("max-waiting", "max_waiting", "rate = 5\nmax_waiting = 3"),
];

/// Flags without a key, and why.
const FLAGS_ONLY: &[(&str, &str)] = &[
    ("accept", "a short form of other programs; `headers`"),
    ("admin", "the run has metrics of its own"),
    ("bearer", "credentials do not belong in a file that is shared"),
    ("body_file", "a short form of other programs; `body`"),
    ("connect-to", "the URL of a subject says where to connect"),
    ("content_type", "a short form of other programs; `headers`"),
    ("fail-if", "hypotheses and gates"),
    ("follow-redirects", "a redirect is a response of its own"),
    ("form", "`body` and its Content-Type"),
    ("format", "the runner reads JSON"),
    ("gaps-after", "follows from the warm-up"),
    ("html", "the report of the run"),
    ("interval", "follows from the duration and the faults"),
    ("ipv4", "the URL of a subject says where to connect"),
    ("ipv6", "the URL of a subject says where to connect"),
    ("json", "the runner reads JSON"),
    ("latency", "no effect; a flag of other programs"),
    ("no-tui", "the progress of the run"),
    #[cfg(target_os = "linux")]
    ("otlp", "the run has metrics of its own"),
    #[cfg(target_os = "linux")]
    ("otlp-auth-file", "the run has metrics of its own"),
    ("output", "the folder of the trial"),
    ("proxy", "`for` of the path"),
    ("quiet", "the progress of the run"),
    ("max-redirects", "a redirect is a response of its own"),
    #[cfg(target_os = "linux")]
    ("remote-write", "the run has metrics of its own"),
    #[cfg(target_os = "linux")]
    ("remote-write-auth-file", "the run has metrics of its own"),
    ("resolve", "the URL of a subject says where to connect"),
    ("seed", "`seed` of the design, different in each block"),
    ("start-on-line", "the runner's control of a generator"),
    ("unix-socket", "the URL of a subject says where to connect"),
    ("until-stopped", "`background`"),
    ("urls", "follows from `to`, `request` and `hosts`"),
    ("user", "credentials do not belong in a file that is shared"),
];

/// Keys without a flag, and why.
const KEYS_ONLY: &[(&str, &str)] = &[
    ("background", "the end of the trial; --until-stopped"),
    ("command", "another generator"),
    ("cpus", "the runner's placement"),
    ("files", "of another generator"),
    ("hosts", "part of the URLs"),
    ("measures", "of another generator"),
    ("request", "part of the URL, and --method"),
    ("server_count", "of another generator"),
    ("start_after", "the order of the workloads"),
    ("to", "part of the URL"),
    ("within", "of another generator"),
];

const URL: &str = "http://127.0.0.1:1/";

fn flags() -> Vec<Arg> {
    Program::command().find_subcommand("load").unwrap().get_arguments().cloned().collect()
}

fn name(flag: &Arg) -> &str {
    flag.get_long().unwrap_or(flag.get_id().as_str())
}

fn keys() -> Vec<String> {
    let schema = serde_json::to_value(schema(&Roles::default())).unwrap();
    let names = |kind: &str| schema["$defs"][kind]["properties"].as_object().unwrap().keys().cloned().collect();
    let (keys, checks): (Vec<String>, Vec<String>) = (names("Workload"), names("Expect"));
    let checks = checks.into_iter().map(|check| format!("expect.{check}"));
    keys.into_iter().filter(|key| key != "expect").chain(checks).collect()
}

type Check<'a> = &'a dyn Fn(&str, &[String]) -> Result<(), String>;

/// An experiment with these lines in its workload.
fn plan(lines: &str, check: Check<'_>) -> Result<Plan, String> {
    let has_requests = lines.contains("scenario = ") || lines.contains("targets = ");
    let request = if has_requests { "" } else { "request = \"/\"\n" };
    let text = format!("[subject.server]\nurl = \"http://127.0.0.1:1\"\n[workload.user]\n{request}{lines}\n");
    let roles = Roles::default();
    let surroundings = Surroundings { roles: &roles, folder: "", read: &|_| Ok(String::new()), check };
    Plan::read(&text, None, &surroundings).map_err(|faults| faults.to_string())
}

fn workload(lines: &str) -> WorkloadSpec {
    let plan = plan(lines, &check).unwrap_or_else(|faults| panic!("{lines}\n{faults}"));
    let mut trial = plan.trial(&TrialKey { block: 1, combination: 0, replicate: 0 }).unwrap();
    trial.workloads.remove(0)
}

/// Whether the experiment itself allows it, before `breme load` is asked.
fn is_key_allowed(lines: &str) -> bool {
    plan(lines, &|_, _| Ok(())).is_ok()
}

fn is_flag_allowed(flag: &str, value: &str) -> bool {
    check("load", &[URL.to_owned(), format!("--{flag}={value}")]).is_ok()
}

#[test]
fn each_flag_and_each_key_has_an_entry() {
    let pairs = || PAIRS.iter();
    let listed: BTreeSet<&str> =
        pairs().map(|(flag, ..)| *flag).chain(FLAGS_ONLY.iter().map(|(flag, _)| *flag)).collect();
    let flags = flags();
    assert_eq!(flags.iter().map(name).collect::<BTreeSet<_>>(), listed);
    let listed: BTreeSet<&str> = pairs().map(|(_, key, _)| *key).chain(KEYS_ONLY.iter().map(|(key, _)| *key)).collect();
    let keys = keys();
    assert_eq!(keys.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed);
}

#[test]
fn a_key_sets_its_flag() {
    for (flag, _, lines) in PAIRS {
        let WorkloadSpec { connections, requests, duration, arguments, .. } = workload(lines);
        let is_flag = |word: &str| word.split('=').next() == Some(format!("--{flag}").as_str());
        let is_set = match *flag {
            "connections" => connections == 3,
            "requests" => requests == Some(100),
            "duration" => duration.is_some(),
            _ => arguments.iter().any(|word| is_flag(word)),
        };
        assert!(is_set, "--{flag} is not set by\n{lines}\n{arguments:?}");
    }
}

/// A key that is not given passes no flag, except for the connections.
#[test]
fn the_defaults_of_keys_are_those_of_the_flags() {
    let WorkloadSpec { connections, requests, duration, arguments, .. } = workload("");
    assert_eq!((requests, duration, arguments.len()), (None, None, 0), "{arguments:?}");
    assert_eq!(connections, CONNECTIONS_DEFAULT as u64);
    let flags = flags();
    let flag = flags.iter().find(|flag| name(flag) == "connections").unwrap();
    assert_eq!(flag.get_default_values(), [connections.to_string().as_str()]);
}

#[test]
fn the_limits_of_keys_are_those_of_the_flags() {
    let limits =
        [("connections", CONNECTION_COUNT_MAX), ("pipeline", PIPELINE_DEPTH_MAX), ("threads", THREAD_COUNT_MAX)];
    for (name, max) in limits {
        for (value, is_allowed) in [(0, false), (1, true), (max, true), (max + 1, false)] {
            assert_eq!(is_key_allowed(&format!("{name} = {value}")), is_allowed, "{name} = {value}");
            assert_eq!(is_flag_allowed(name, &value.to_string()), is_allowed, "--{name} {value}");
        }
    }
}

#[test]
fn the_names_of_keys_are_those_of_the_flags() {
    let drivers = ["auto", "uring", "events", "threads"].map(str::to_owned);
    for flag in flags().iter().filter(|flag| flag.get_action().takes_values()) {
        let known = flag.get_possible_values();
        let mut names: Vec<String> = known.iter().map(|known| known.get_name().to_owned()).collect();
        if name(flag) == "driver" {
            names.extend_from_slice(&drivers);
        }
        let Some((_, key, lines)) = PAIRS.iter().find(|(other, ..)| *other == name(flag)) else { continue };
        let Some((before, _)) = lines.rsplit_once(" = ").filter(|_| !names.is_empty()) else { continue };
        for value in &names {
            workload(&format!("{before} = {value:?}"));
        }
        assert!(!is_key_allowed(&format!("{before} = \"other\"")), "{key}");
        assert!(!is_flag_allowed(name(flag), "other"), "{key}");
    }
}
