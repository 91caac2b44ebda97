//! A server that freezes or dies under load: every request is accounted for.

use std::io::Read;
use std::process::{Child, Stdio};

use crate::harness::{Signal, Site, breme, many_per_thread, wait};

/// How long a load runs. If the machine is so slow that the server is lost at its end or later, the next one is longer.
const SECONDS: [&str; 4] = ["2", "8", "30", "90"];
/// Responses before the server is lost.
const ANSWERS: u64 = 100;

/// Starts a load, and returns when it has some responses, or has ended.
fn begin_load(site: &Site, driver: &str, seconds: &str, more: &[&str]) -> Child {
    let mut generator = breme()
        .args(["load", "--json", "--driver", driver, "-c", "20", "-d", seconds, "--timeout", "300ms"])
        .args(more)
        .arg(site.url("/bytes/100"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut own = 1; // the questions are counted too
    while site.counter() < own + ANSWERS && generator.try_wait().unwrap().is_none() {
        own += 1;
    }
    generator
}

/// The errors of a run that has ended regularly, with every request accounted for.
fn errors_of(mut generator: Child) -> serde_json::Value {
    wait(&mut generator);
    let mut text = String::new();
    generator.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let requests = &result["requests"];
    let count = |name: &str| requests[name].as_u64().unwrap();
    assert!(count("answered") > 0, "{requests:#}");
    assert_eq!(count("issued"), count("answered") + count("failed") + count("unfinished"), "{requests:#}");
    let kinds = result["errors"].as_object().unwrap();
    let never_begun = |kind: &str| matches!(kind, "dropped" | "shed");
    let sum = |is_counted: &dyn Fn(&str) -> bool| -> u64 {
        kinds.iter().filter(|(kind, _)| is_counted(kind)).map(|(_, count)| count.as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&|kind| !never_begun(kind)), count("failed"), "{kinds:?} of {requests:#}");
    if let Some(arrivals) = result["open_loop"].as_object() {
        assert_eq!(arrivals["due"], count("issued") + sum(&never_begun), "{kinds:?} of {requests:#}");
    }
    result["errors"].clone()
}

/// Sends `signal` to the server under every kind of load; expects errors of `kind`.
fn lose(signal: Signal, kind: &str) {
    for driver in many_per_thread() {
        for more in [&[][..], &["-p", "4"], &["-R", "2000"]] {
            let errors_of_a_load = |seconds| {
                let site = Site::lab(driver);
                let generator = begin_load(&site, driver, seconds, more);
                site.signal(signal);
                errors_of(generator)
            };
            let seen: Vec<_> =
                SECONDS.into_iter().map(errors_of_a_load).take_while(|errors| errors[kind].is_null()).collect();
            assert!(seen.len() < SECONDS.len(), "{driver} {more:?}: {seen:?}");
        }
    }
}

#[test]
fn that_freezes() {
    lose(Signal::STOP, "timeout");
}

#[test]
fn that_dies() {
    lose(Signal::KILL, "refused");
}
