//! The live view of a load, and its alternatives, on a terminal created by `script`.

use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::harness::Site;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// The contents of a terminal of this size during `breme load` with these arguments.
fn on_terminal(columns: u16, rows: u16, environment: &[(&str, &str)], arguments: &str) -> (String, Output) {
    let breme = env!("CARGO_BIN_EXE_breme");
    let line = format!("stty cols {columns} rows {rows}; {breme} load {arguments}");
    in_terminal(&line, environment)
}

fn terminal(line: &str, environment: &[(&str, &str)]) -> Child {
    Command::new("script")
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn in_terminal(line: &str, environment: &[(&str, &str)]) -> (String, Output) {
    let mut child = terminal(line, environment);
    let keyboard = child.stdin.take(); // at its end `script` would end, too
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output)
}

/// Text without escape sequences.
fn plain(shown: &str) -> String {
    let mut text = String::new();
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => {
                let is_end = |character: char| character.is_ascii_alphabetic();
                characters.find(|&character| is_end(character));
            }
            '\r' => {}
            other => text.push(other),
        }
    }
    text
}

#[test]
fn the_view_comes_and_goes_and_the_result_stays() {
    let site = Site::lab("auto");
    let url = site.url("/bytes/100");
    for columns in [60, 80, 200] {
        let (shown, output) = on_terminal(columns, 24, &[], &format!("-c 2 -d 1.5s --interval 200ms {url}"));
        assert!(output.status.success(), "{shown}");
        let (before, after) = shown.split_once(LEAVE).unwrap_or_else(|| panic!("no view: {shown}"));
        assert!(before.contains(ENTER) && before.contains("\x1b[?25l") && after.contains("\x1b[?25h"), "{shown}");
        assert!(before.contains("responses/s") && before.contains("\x1b[38;5;6"), "{columns}: {before}");
        let result = plain(after);
        assert!(result.contains("response times up to") && result.contains("seed       1"), "{columns}: {result}");
        let longest = result.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= usize::from(columns), "{longest} of {columns}: {result}");
    }
}

#[test]
fn a_terminal_without_room_or_cursor_has_a_line() {
    let site = Site::lab("auto");
    let url = site.url("/bytes/100");
    let dumb: &[(&str, &str)] = &[("TERM", "dumb")];
    let usual: &[(&str, &str)] = &[];
    let cases = [(50, 24, usual, ""), (80, 10, usual, ""), (80, 24, dumb, ""), (80, 24, usual, "--no-tui")];
    for (columns, rows, environment, flag) in cases {
        let (shown, output) = on_terminal(columns, rows, environment, &format!("-c 2 -d 1.2s {flag} {url}"));
        assert!(
            output.status.success() && !shown.contains(ENTER),
            "{columns} × {rows} {environment:?} {flag}: {shown}"
        );
        assert!(environment.contains(&("TERM", "dumb")) || shown.contains("left"), "{columns} × {rows}: {shown}");
    }
    let (shown, _) = on_terminal(80, 24, &[], &format!("-c 2 -d 0.5s --quiet {url}"));
    assert!(!shown.contains(ENTER) && !shown.contains("left"), "{shown}");
    let (shown, _) = on_terminal(80, 24, &[("NO_COLOR", "1")], &format!("-c 2 -d 1.2s {url}"));
    let is_coloured = |part: &str| {
        part.starts_with("38;") || part.starts_with("3") && part[1..].starts_with(|c: char| ('1'..='7').contains(&c))
    };
    assert!(shown.contains(ENTER), "{shown}");
    assert!(!shown.split("\x1b[").any(is_coloured), "{shown}");
}

#[test]
fn an_interrupt_gives_the_terminal_back() {
    let site = Site::lab("auto");
    let url = site.url("/bytes/100");
    // The load is interrupted as by Ctrl-C, by its own shell.
    let breme = env!("CARGO_BIN_EXE_breme");
    let line = format!("stty cols 80 rows 24; timeout --signal INT --foreground 1 {breme} load -c 2 -d 1m {url}");
    let (shown, _) = in_terminal(&line, &[]);
    let (_, after) = shown.split_once(LEAVE).unwrap_or_else(|| panic!("no view: {shown}"));
    assert!(after.contains("\x1b[?25h") && plain(after).contains("interrupted"), "{shown}");
}

/// Ctrl-\ and a terminal that is closed, sent by the shell of the load.
#[test]
fn other_signals_of_a_terminal_give_it_back_too() {
    let site = Site::lab("auto");
    let url = site.url("/bytes/100");
    let breme = env!("CARGO_BIN_EXE_breme");
    for signal in ["QUIT", "HUP"] {
        let line =
            format!("stty cols 80 rows 24; timeout --signal {signal} --foreground 1 {breme} load -c 2 -d 1m {url}");
        let (shown, _) = in_terminal(&line, &[]);
        let (_, after) = shown.split_once(LEAVE).unwrap_or_else(|| panic!("no view: {shown}"));
        assert!(after.contains("\x1b[?25h") && plain(after).contains("interrupted"), "{signal}: {shown}");
    }
}

/// Reads what a terminal shows, up to this text.
fn read_until(screen: &mut ChildStdout, text: &str) -> String {
    let mut shown = Vec::new();
    while !shown.ends_with(text.as_bytes()) {
        let mut byte = [0];
        let shown_so_far = String::from_utf8_lossy(&shown).into_owned();
        screen.read_exact(&mut byte).unwrap_or_else(|_| panic!("no {text:?} in {shown_so_far:?}"));
        shown.push(byte[0]);
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn a_suspended_load_gives_the_terminal_back_until_it_continues() {
    const CTRL_Z: &[u8] = b"\x1a";
    const CTRL_C: &[u8] = b"\x03";
    let site = Site::lab("auto");
    let breme = env!("CARGO_BIN_EXE_breme");
    // A shell with job control, which continues its job once that is suspended.
    let url = site.url("/bytes/100");
    let line = format!("set -m; stty cols 80 rows 24; {breme} load -c 2 -d 1m {url}; echo suspended; fg");
    let mut child = terminal(&line, &[("SHELL", "/bin/sh")]);
    let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    read_until(&mut screen, ENTER);
    keyboard.write_all(CTRL_Z).unwrap();
    read_until(&mut screen, LEAVE);
    let meanwhile = read_until(&mut screen, ENTER);
    assert!(meanwhile.contains("\x1b[?25h") && meanwhile.contains("suspended"), "{meanwhile:?}");
    keyboard.write_all(CTRL_C).unwrap();
    read_until(&mut screen, LEAVE);
    let mut rest = String::new();
    screen.read_to_string(&mut rest).unwrap();
    assert!(plain(&rest).contains("interrupted"), "{rest:?}");
    child.wait().unwrap();
}

#[test]
fn pipes_get_a_result_of_80_columns() {
    let site = Site::lab("auto");
    let output = crate::harness::load(&["-c", "2", "-n", "2000", &site.url("/bytes/100")]);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let histogram: Vec<usize> = text
        .lines()
        .skip_while(|line| *line != "response times up to")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.chars().count())
        .collect();
    assert!(histogram.len() > 3 && histogram.iter().all(|width| *width == 80), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_page_is_written() {
    let site = Site::lab("auto");
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.html", "b.page"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let [by_ending, by_flag] = &paths;
    let fail_if = "p99 > 1ns";
    let arguments = ["-c", "2", "-n", "2000", "-o", by_ending, "--html", by_flag, "--fail-if", fail_if];
    let output = crate::harness::load(&[&arguments[..], &[&site.url("/bytes/100")]].concat());
    assert_eq!(output.status.code(), Some(3));
    let pages = paths.each_ref().map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(pages[0], pages[1]);
    for part in ["<!DOCTYPE html>", "GET http://127.0.0.1:", "2 connections, closed loop", "p99 &gt; 1ns", "chart-3"] {
        assert!(pages[0].contains(part), "{part}");
    }
}
