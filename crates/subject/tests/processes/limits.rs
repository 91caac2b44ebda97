//! Limits are enforced, and limits that cannot be set are reported.

use std::path::Path;

use breme_experiment::trial::{ResourceLimits, SubjectKind, SubjectSpec};
use breme_subject::{Hierarchy, Launcher};

use crate::orphans::is_root;
use crate::world::{LONG, bare_launcher, is_alive, keeper, launcher, script, start};

fn limited(text: &str, limits: ResourceLimits) -> SubjectSpec {
    let mut spec = script(text);
    let SubjectKind::Command { process, .. } = &mut spec.kind else { unreachable!() };
    process.limits = limits;
    spec
}

/// Whether this machine and user can set the limit; if not, the test is that the error is clear.
fn starts_or_explains(spec: &SubjectSpec, folder: &Path, what: &str) -> Option<breme_subject::Subject> {
    match start(&launcher(), spec, folder) {
        Ok(subject) => Some(subject),
        Err(fault) if !is_root() => {
            assert!(fault.to_string().contains(&format!("{what} cannot be limited here")), "{fault}");
            eprintln!("this user may not limit {what}: this part is left out");
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn memory_is_limited_and_the_reason_of_death_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ResourceLimits { memory_bytes: Some(30 << 20), ..ResourceLimits::default() };
    let spec = limited("echo ready; exec python3 -c 'x = bytearray(200_000_000)'", limits);
    let Some(subject) = starts_or_explains(&spec, folder.path(), "memory") else { return };
    let ending = subject.wait_ended(LONG).unwrap();
    assert!(ending.is_out_of_memory, "{ending}");
    assert!(ending.to_string().contains("was terminated by SIGKILL (it reached its memory limit"), "{ending}");
}

#[test]
fn a_fork_bomb_is_bounded_and_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ResourceLimits { processes: Some(20), ..ResourceLimits::default() };
    let text = "bomb() { echo $$ >/dev/null; sleep 1000 & bomb | bomb & }; echo ready; trap '' CHLD; while :; do bomb 2>/dev/null; done";
    let spec = limited(text, limits);
    let Some(mut subject) = starts_or_explains(&spec, folder.path(), "the number of processes") else { return };
    let groups = subject.kept().unwrap().control_groups().to_vec();
    let count = || {
        let lists = groups.iter().map(|group| std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default());
        lists.map(|list| list.lines().count()).max().unwrap_or(0)
    };
    crate::world::until(|| count() >= 15 || subject.ended().is_some());
    assert!(count() <= 20);
    subject.stop().unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "nobody is left in it");
}

#[test]
fn a_bomb_that_nothing_bounds_is_cleared_away_too() {
    // Without control groups, by walking through /proc: some dozen processes that keep forking and leave their
    // sessions.
    let folder = tempfile::tempdir().unwrap();
    let text = "
        echo $$ >> pids
        [ $DEPTH -ge 5 ] && exec sleep 1000
        export DEPTH=$((DEPTH + 1))
        setsid sh script & sh script &
        [ $DEPTH -eq 1 ] && echo ready
        exec sleep 1000
    ";
    std::fs::write(folder.path().join("script"), text).unwrap();
    let mut subject = start(&bare_launcher(), &script("DEPTH=0 exec sh script"), folder.path()).unwrap();
    crate::world::until(|| crate::world::pids_in(&folder.path().join("pids")).len() >= 20);
    subject.stop().unwrap();
    let pids = crate::world::pids_in(&folder.path().join("pids"));
    assert!(!pids.iter().any(|&pid| is_alive(pid)));
}

#[test]
fn cpu_time_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ResourceLimits { cpu: Some(0.2), ..ResourceLimits::default() };
    let spec = limited("echo ready; while :; do :; done", limits);
    let Some(subject) = starts_or_explains(&spec, folder.path(), "CPU time") else { return };
    // Only that it was throttled at all; how much depends on the kernel.
    let groups = subject.kept().unwrap().control_groups().to_vec();
    let is_throttled = || {
        let stats = groups.iter().map(|group| std::fs::read_to_string(group.join("cpu.stat")).unwrap_or_default());
        stats
            .flat_map(|stat| stat.lines().map(str::to_owned).collect::<Vec<_>>())
            .any(|line| line.strip_prefix("nr_throttled ").is_some_and(|count| count != "0"))
    };
    crate::world::until(is_throttled);
}

#[test]
fn open_files_are_limited_for_everyone() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ResourceLimits { open_files: Some(50), ..ResourceLimits::default() };
    let subject =
        start(&bare_launcher(), &limited("echo limit $(ulimit -n) ready; exec sleep 100", limits), folder.path());
    assert!(subject.unwrap().printed().contains("limit 50 ready"));
}

#[test]
fn a_limit_that_is_not_permitted_is_reported_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    // A tree in which no group can be created.
    let mounts = "31 30 0:27 / /proc/self rw - cgroup2 cgroup2 rw\n";
    let launcher = Launcher::new(keeper(), "/bin/sh".into(), Hierarchy::find_in(mounts, "0::/\n"));
    let limits = ResourceLimits { cpu: Some(1.0), ..ResourceLimits::default() };
    let fault = start(&launcher, &limited("echo ready", limits), folder.path()).unwrap_err().to_string();
    assert!(fault.contains("CPU time cannot be limited here: /proc/self/cgroup.procs: "), "{fault}");
    let subject = start(&launcher, &limited("echo ready; exec sleep 100", ResourceLimits::default()), folder.path());
    assert!(subject.is_ok(), "without a limit it does without: {subject:?}");
}
