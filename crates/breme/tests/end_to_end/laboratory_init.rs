//! `breme init` and `breme demo`: the first experiment on a machine.

use std::fs;

use crate::laboratory_harness::{Laboratory, text_of};

/// The file depends on the machine, but can always be run.
#[test]
fn init_writes_an_experiment_and_overwrites_none() {
    let laboratory = Laboratory::new("");
    let output = laboratory.breme(&["init", "first.toml"]);
    let said = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text_of(&output.stderr));
    assert!(said.contains("next    breme run --quick first.toml"), "{said}");
    let check = laboratory.breme(&["run", "--check", "--quick", "first.toml"]);
    assert!(check.status.success(), "{}", text_of(&check.stderr));

    fs::write(laboratory.folder().join("mine.toml"), "mine").unwrap();
    let again = laboratory.breme(&["init", "mine.toml"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text_of(&again.stderr).contains("mine.toml already exists"), "{}", text_of(&again.stderr));
    assert_eq!(fs::read_to_string(laboratory.folder().join("mine.toml")).unwrap(), "mine");
}

#[test]
fn the_demo_needs_no_other_program() {
    let laboratory = Laboratory::new("");
    let output = laboratory.breme(&["demo", "-q"]);
    let said = text_of(&output.stdout);
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{said}{}", text_of(&output.stderr));
    assert!(said.contains("The event loop serves more requests per second"), "{said}");
    assert!(laboratory.folder().join("runs/demo-1/report.html").exists());
    laboratory.wait_deserted();
}
