//! `breme versus`: servers compared without an experiment file.

use std::fs;

use breme_testkit::reserved_address;

use crate::harness::Site;
use crate::laboratory_harness::{Laboratory, json, text_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_breme");

/// A path of 50 ms each way makes a difference of a factor of twenty, also on a busy machine: a server that waits 5 ms
/// does not saturate the generator, which would make the trials INVALID.
#[test]
fn a_distant_server_loses_to_a_near_one() {
    let laboratory = Laboratory::new("");
    let site = Site::lab("auto");
    let near = format!("near={}", site.url("/delay/5"));
    let far = format!("far={PROGRAM} link --to {} --delay 50ms --listen 127.0.0.1:${{port}}", site.address);
    let arguments = ["versus", &near, &far, "-d", "500ms", "--format", "json", "--save", "saved.toml", "-q"];
    let output = laboratory.breme(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let result = json(&output.stdout);
    let hypothesis = &result["judgement"]["hypotheses"][0];
    assert_eq!(hypothesis["says"], "rate differs between near and far", "{hypothesis}");
    assert_eq!(laboratory.trials("versus-1").len() % 3, 0, "two servers, one of them twice");
    let check = laboratory.breme(&["run", "--check", "saved.toml"]);
    assert!(check.status.success(), "{}", text_of(&check.stderr));
    laboratory.wait_deserted();
}

#[test]
fn the_port_of_a_command_is_discovered() {
    let laboratory = Laboratory::new("");
    fs::write(laboratory.folder().join("page"), "text").unwrap();
    let address = reserved_address();
    let command = format!("{PROGRAM} site $PWD --listen {address}");
    let arguments = ["versus", &command, &command, "--get", "/page", "-d", "100ms", "-q"];
    let output = laboratory.breme(&arguments);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text_of(&output.stderr));
    let plan = fs::read_to_string(laboratory.folder().join("runs/versus-1/plan.toml")).unwrap();
    assert!(plan.contains(&address.to_string()), "{plan}");
    laboratory.wait_deserted();
}

/// Pages of errors are small and fast, and would win.
#[test]
fn a_server_that_only_returns_errors_does_not_win() {
    let laboratory = Laboratory::new("");
    let site = Site::lab("auto");
    let (page, nothing) = (format!("big={}", site.url("/bytes/100000")), format!("small={}", site.url("")));
    let output = laboratory.breme(&["versus", &page, &nothing, "--get", "/no/such/page", "-d", "200ms", "-q"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("/no/such/page returned status 404") && stderr.contains("--get"), "{stderr}");
    assert!(!laboratory.folder().join("runs").exists(), "nothing has begun");

    // A server that is started by the trials is not asked before.
    let started = format!("small={PROGRAM} site --listen 127.0.0.1:${{port}} $PWD");
    let output = laboratory.breme(&["versus", &page, &started, "-d", "200ms"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("every response failed its check: status 404"), "{stderr}");
    assert!(!text_of(&output.stdout).contains("Supported"), "{}", text_of(&output.stdout));
    laboratory.wait_deserted();
}

/// The kernel releases the port of a killed io_uring process after the process.
#[test]
fn servers_that_were_started_for_their_ports_are_gone_before_the_trials() {
    let laboratory = Laboratory::new("");
    let [first, second] = [(), ()].map(|()| reserved_address());
    let server = |address| format!("{PROGRAM} site --lab --listen {address}");
    let arguments = ["versus", &server(first), &server(second), "--get", "/bytes/100", "-d", "50ms", "-q"];
    let output = laboratory.breme(&arguments);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text_of(&output.stderr));
    laboratory.wait_deserted();
}

#[test]
fn mistakes_name_the_remedy() {
    let laboratory = Laboratory::new("");
    let site = format!("{PROGRAM} site --lab --listen 127.0.0.1:0");
    for (arguments, status, expected) in [
        (&["http://127.0.0.1:1/"][..], 2, "--vary"),
        (&["http://127.0.0.1:1/a", "http://127.0.0.1:1/b"], 2, "--get"),
        (&["http://127.0.0.1:1/", "http://127.0.0.1:2/"], 1, "start it first"),
        (&["echo no-such-option; exit 3", "sleep 1"], 1, "no-such-option"),
        (&[&site, "x=http://127.0.0.1:1", "--vary", "size=1,2"], 2, "${size}"),
        (&["http://127.0.0.1:1/", "http://127.0.0.1:2/", "-m", "speed"], 2, "speed"),
    ] {
        let output = laboratory.breme(&[&["versus"], arguments].concat());
        let message = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    laboratory.wait_deserted();
}
