//! Shared by the tests.

use std::path::Path;
use std::time::Duration;

use breme_experiment::trial::{Cpus, ProcessSpec, Ready, ReadyCheck, Restart, SubjectKind, SubjectSpec};
use breme_subject::{Hierarchy, Keeper, Launcher, PlaceholderNames, StartError, Subject};

/// Only reached if something is broken.
pub const LONG: Duration = Duration::from_secs(120);

/// Successive time limits, each for a machine that is too busy for the one before.
pub const GROWING: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5), Duration::from_secs(50)];

pub fn keeper() -> Keeper {
    Keeper::program(Path::new(env!("CARGO_BIN_EXE_breme-keeper")))
}

pub fn launcher() -> Launcher {
    Launcher::new(keeper(), "/bin/sh".into(), Hierarchy::find())
}

/// The environment of an ordinary user on a machine without control groups.
pub fn bare_launcher() -> Launcher {
    Launcher::new(keeper(), "/bin/sh".into(), Hierarchy::none("no control groups in this test"))
}

/// With and without control groups.
pub fn launchers() -> [Launcher; 2] {
    [launcher(), bare_launcher()]
}

pub fn process() -> ProcessSpec {
    ProcessSpec { ports: vec!["port".into()], cpus: Cpus::All, ..ProcessSpec::default() }
}

pub fn spec_of(command: &[&str], process: ProcessSpec, check: ReadyCheck) -> SubjectSpec {
    let command = command.iter().map(|&part| part.to_owned()).collect();
    SubjectSpec {
        name: "specimen".into(),
        kind: SubjectKind::Command { command, process },
        url: "http://127.0.0.1:${port}".into(),
        metrics_url: None,
        ready: Ready { check, within: LONG },
        restart: Restart::Block,
    }
}

/// A shell script that is ready when it prints `ready`.
pub fn script(text: &str) -> SubjectSpec {
    // Prefers the system's programs to wrappers earlier in PATH.
    let text = &format!("PATH=/usr/bin:/bin:$PATH; {text}");
    spec_of(&["sh", "-c", text], process(), ReadyCheck::Line("ready".into()))
}

/// The system's Python, if installed.
pub fn python() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// Serves its working folder.
pub fn python_server() -> SubjectSpec {
    let command = [python(), "-m", "http.server", "--bind", "127.0.0.1", "${port}"];
    spec_of(&command, process(), ReadyCheck::Answer { path: "/".into(), status: 200 })
}

pub fn start(launcher: &Launcher, spec: &SubjectSpec, folder: &Path) -> Result<Subject, StartError> {
    launcher.start(spec, folder, &[], &PlaceholderNames::default())
}

/// Whether a process exists and has not exited.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// The PIDs in a file, one per line.
pub fn pids_in(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Waits for another process without a time limit: the test runner has one.
pub fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
