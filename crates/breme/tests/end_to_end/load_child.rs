//! `breme load` as a child process: started and stopped by its parent, and orphaned.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::harness::{PATIENCE, Signal, Site, breme, load, send_signal, wait};

/// A load that runs until it is stopped, with a pipe as its standard input.
pub(crate) fn background(site: &Site, more: &[&str]) -> Child {
    breme()
        .args(["load", "--json", "--until-stopped", &site.url("/bytes/10")])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until this many responses were sent.
pub(crate) fn wait_for_answers(site: &Site, count: u64) {
    let (before, begun) = (site.counter(), Instant::now());
    let mut own = 1; // the questions are counted too
    while site.counter() < before + own + count {
        assert!(begun.elapsed() < PATIENCE, "fewer than {count} answers came");
        own += 1;
    }
}

pub(crate) fn result(child: &mut Child) -> Value {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn require_complete(result: &Value) {
    assert_eq!(result["interrupted"], Value::Bool(false), "{result:#}");
    // Requests that wait for a connection when an open loop is stopped are dropped, which may happen on a busy machine.
    let kinds = result["errors"].as_object().unwrap();
    assert!(kinds.keys().all(|kind| kind == "dropped" && result["settings"]["until_stopped"] == true), "{result:#}");
    assert_eq!(result["requests"]["issued"], result["requests"]["answered"], "{result:#}");
    assert!(result["requests"]["answered"].as_u64().unwrap() > 100, "{result:#}");
}

#[test]
fn a_background_load_ends_regularly_when_its_standard_input_does() {
    let site = Site::lab("events");
    for more in [&[][..], &["-R", "2k", "-c", "20"]] {
        let mut child = background(&site, more);
        child.stdin.as_mut().unwrap().write_all(b"what comes before the end says nothing\n").unwrap();
        wait_for_answers(&site, 500);
        drop(child.stdin.take());
        assert_eq!(wait(&mut child).code(), Some(0));
        require_complete(&result(&mut child));
    }
}

#[test]
fn a_background_load_ends_regularly_by_a_signal() {
    let site = Site::lab("events");
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = background(&site, &[]);
        wait_for_answers(&site, 500);
        send_signal(&child, signal);
        assert_eq!(wait(&mut child).code(), Some(0), "{signal:?}");
        require_complete(&result(&mut child));
    }
}

#[test]
fn a_background_load_does_not_outlive_who_started_it() {
    let site = Site::lab("events");
    // The shell has the other end of the pipe; when killed, it cannot act.
    let script = "exec 3>&1; mkfifo \"$1/pipe\"; \"$2\" load -q --json --until-stopped -c 2 \"$3\" < \"$1/pipe\" > \"$1/result\" & \
                  exec 4> \"$1/pipe\"; echo $!; read forever";
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", script, "sh", folder.path().to_str().unwrap(), env!("CARGO_BIN_EXE_breme"), &site.url("/bytes/1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_answers(&site, 500);
    shell.kill().unwrap();
    wait(&mut shell);
    // The load has the shell's standard output too: its end shows that neither is left.
    let mut rest = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    let text = std::fs::read_to_string(folder.path().join("result")).unwrap();
    require_complete(&serde_json::from_str(&text).unwrap());
}

#[test]
fn an_input_that_no_other_program_holds_ends_nothing() {
    let site = Site::lab("events");
    let mut child = breme()
        .args(["load", "--json", "--until-stopped", "-c", "1", &site.url("/bytes/1")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_answers(&site, 500);
    send_signal(&child, Signal::TERM);
    assert_eq!(wait(&mut child).code(), Some(0));
    require_complete(&result(&mut child));
}

#[test]
fn a_run_starts_when_the_line_arrives() {
    let site = Site::lab("events");
    let mut child = breme()
        .args(["load", "--json", "--start-on-line", "-n", "200", "-c", "2", &site.url("/bytes/1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(site.counter(), 0, "nothing comes before the line");
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(wait(&mut child).code(), Some(0));
    require_complete(&result(&mut child));
    assert_eq!(site.counter(), 201, "with the question before");

    for (arguments, code, expected) in [
        (&["--start-on-line", "-n", "1"][..], 1, "ended without the line"),
        (&["--start-on-line", "-n", "1", "-b", "@-"], 2, "--start-on-line and --body @- both read standard input"),
        (&["--start-on-line", "-n", "1", "-D", "-"], 2, "--start-on-line and -D - both read standard input"),
        (&["-n", "1", "-D", "/nowhere"], 2, "-D /nowhere: cannot be read"),
        (&["--until-stopped", "-n", "1"], 2, "--requests"),
        (&["--over", "1s"], 2, "--requests"),
        (&["--over", "1s", "-n", "5", "-R", "5"], 2, "--rate"),
        (&["--over", "0", "-n", "5"], 2, "must be above 0"),
    ] {
        let output = load(&[arguments, &["http://127.0.0.1:9/"]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn so_many_requests_are_spread_over_a_time() {
    for more in [&[][..], &["--no-keepalive"], &["--arrivals", "poisson"], &["-t", "2", "--no-keepalive"]] {
        let site = Site::lab("events");
        let url = site.url("/bytes/1");
        let arguments = [&["--json", "-n", "200", "--over", "500ms", "-c", "200", &url], more].concat();
        let output = load(&arguments);
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        require_complete(&result);
        assert_eq!((result["open_loop"]["due"].as_u64(), site.counter()), (Some(200), 200), "{more:?}: {result:#}");
        assert_eq!(result["settings"]["schedule"]["rate"], serde_json::json!(400.0));
        if more.contains(&"--no-keepalive") {
            assert_eq!(result["connections"]["opened"], serde_json::json!(200), "{more:?}: {result:#}");
        }
    }
}
