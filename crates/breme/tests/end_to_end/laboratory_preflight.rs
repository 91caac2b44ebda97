//! Problems of the machine are found before the first trial, and repeated failures end the run.

use crate::laboratory_harness::{Laboratory, text_of};

const WORKLOAD: &str = r#"
[workload.user]
to = "server"
connections = 1
requests = 5
request = "/delay/1"
[design]
blocks = 3
pause = "0s"
warm_up = "none"
"#;

fn failing(subject: &str, factor: &str) -> Laboratory {
    Laboratory::new(&format!("title = \"t\"\n[subject.server]\n{subject}\n{WORKLOAD}\n{factor}\n"))
}

#[test]
fn everything_that_is_missing_is_reported_before_the_first_trial() {
    let laboratory = Laboratory::new(&format!(
        "title = \"t\"
        [subject.server]
        command = [\"no-such-server\"]
        prepare = [[\"no-such-tool\"]]
        [subject.site]
        kind = \"site\"
        directory = \"no-such-folder\"
        [subject.secured]
        kind = \"site\"
        lab = true
        tls_cert = \"no-such.pem\"
        [subject.elsewhere]
        url = \"http://127.0.0.1:1\"
        {WORKLOAD}
        [workload.other]
        to = \"site\"
        request = \"/\"
        [workload.private]
        to = \"secured\"
        request = \"/\"
        [workload.third]
        to = \"elsewhere\"
        request = \"/\"
        "
    ));
    for arguments in [&["run", "experiment.toml"][..], &["run", "--check", "experiment.toml"]] {
        let output = laboratory.breme(arguments);
        let stderr = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for expected in ["`no-such-server`", "`no-such-tool`", "no-such-folder", "no-such.pem", "start it first"] {
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
        assert!(!laboratory.folder().join("runs").exists(), "nothing has begun");
    }
}

#[test]
fn a_server_that_never_starts_ends_the_run_with_its_own_words() {
    let laboratory = failing("command = [\"sh\", \"-c\", \"echo port is cursed; exit 7\"]", "");
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("port is cursed") && stderr.contains("breme run --resume runs/one"), "{stderr}");
    assert_eq!(laboratory.trials("one").len(), 2, "and not twelve");
    // A repaired combination is tried again: failures of earlier sessions do not count.
    let again = laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!((again.status.code(), laboratory.trials("one").len()), (Some(1), 4), "{}", text_of(&again.stderr));
}

#[test]
fn a_combination_that_fails_in_two_blocks_running_ends_the_run() {
    let own = format!("{:?}", env!("CARGO_BIN_EXE_breme"));
    let command = format!("command = [{own}, \"$verb\", \"--lab\", \"--listen\", \"127.0.0.1:${{port}}\"]");
    let laboratory = failing(&command, "order = \"fixed\"\naa = false\n[factor]\nverb = [\"site\", \"sight\"]");
    let output = laboratory.breme(&["run", "experiment.toml", "--name", "one"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("unrecognized subcommand 'sight'"), "{stderr}");
    let trials = laboratory.trials("one");
    assert_eq!(trials.len(), 4, "two blocks of two: {stderr}");
    assert!(laboratory.folder().join("runs/one/report.html").is_file(), "what is known is reported");
}
