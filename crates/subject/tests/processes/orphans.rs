//! No process is left: not after a normal end, a panic, or `kill -9` of the laboratory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use breme_experiment::trial::{ReadyCheck, SubjectKind, SubjectSpec};
use breme_subject::{Hierarchy, Launcher};

use crate::world::{
    GROWING, LONG, bare_launcher, is_alive, keeper, launcher, launchers, pids_in, process, script, spec_of, start,
    until,
};

/// Starts children in all ways in which they can be orphaned, writes their PIDs to `pids`, and is ready.
const STRAYS: &str = "
    note() { echo $1 >> pids; }
    note $$
    sleep 1000 & note $!
    setsid sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; wait' &
    (setsid sh -c '(trap \"\" TERM HUP INT; echo $(exec sh -c \"echo \\$PPID\") >> pids; touch daemon; while :; do sleep 1000; done) & exit 0' & exit 0) &
    while [ ! -e daemon ] || [ $(wc -l < pids) -lt 5 ]; do sleep 0.01; done
    echo ready
    wait
";

fn assert_none_left(pids: &[u32]) {
    assert!(pids.len() >= 5, "{pids:?}");
    let left: Vec<_> = pids.iter().filter(|&&pid| is_alive(pid)).collect();
    assert!(left.is_empty(), "left: {left:?} of {pids:?}");
}

#[test]
fn children_that_left_session_and_parent_are_stopped_too() {
    for launcher in launchers() {
        // One of them must be killed at the time limit; the first handles the signal if it has the time.
        let signals = GROWING.iter().map(|&within| stop_strays(&launcher, within)).find(|&signal| signal != Some(9));
        assert_eq!(signals, Some(Some(15)));
    }
}

/// The signal that ended the first child.
fn stop_strays(launcher: &Launcher, within: Duration) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = script(STRAYS);
    let SubjectKind::Command { process, .. } = &mut spec.kind else { unreachable!() };
    process.stop_within = Some(within);
    let mut subject = start(launcher, &spec, folder.path()).unwrap();
    let pids = pids_in(&folder.path().join("pids"));
    assert!(pids.iter().all(|&pid| is_alive(pid)), "{pids:?}");
    let ending = subject.stop().unwrap().unwrap();
    assert_none_left(&pids);
    assert!(subject.kept().unwrap().control_groups().iter().all(|group| !group.exists()));
    ending.signal
}

#[test]
fn a_panic_leaves_nothing() {
    for launcher in launchers() {
        let folder = tempfile::tempdir().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _subject = start(&launcher, &script(STRAYS), folder.path()).unwrap();
            std::panic::resume_unwind(Box::new("in a trial"));
        }));
        assert!(panicked.is_err());
        assert_none_left(&pids_in(&folder.path().join("pids")));
    }
}

/// The laboratory of the tests below: this test, run again as a process that can be killed.
#[test]
fn laboratory() {
    let Some(folder) = std::env::var_os("SUBJECT_TEST_FOLDER") else { return };
    let folder = Path::new(&folder);
    let launcher = if std::env::var_os("SUBJECT_TEST_BARE").is_some() { bare_launcher() } else { launcher() };
    let nginx = nginx().map(|spec| start(&launcher, &spec, &folder.join("nginx")).unwrap());
    let _subject = start(&launcher, &script(STRAYS), folder).unwrap();
    let master = nginx.as_ref().and_then(|nginx| Some(nginx.kept()?.pid().to_string()));
    std::fs::write(folder.join("up.new"), master.unwrap_or_default()).unwrap();
    std::fs::rename(folder.join("up.new"), folder.join("up")).unwrap();
    std::thread::sleep(LONG);
}

fn kill_laboratory(is_bare: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "orphans::laboratory"]).env("SUBJECT_TEST_FOLDER", folder.path()).stdout(Stdio::null());
    if is_bare {
        command.env("SUBJECT_TEST_BARE", "1");
    }
    let mut laboratory = command.spawn().unwrap();
    let up = folder.path().join("up");
    until(|| up.exists() || laboratory.try_wait().unwrap().is_some());
    let mut pids = pids_in(&folder.path().join("pids"));
    let masters = pids_in(&up);
    pids.extend(masters.iter().flat_map(|&master| children_of(master)));
    pids.extend(masters);
    assert!(!pids.is_empty() && pids.iter().all(|&pid| is_alive(pid)), "{pids:?}");
    laboratory.kill().unwrap();
    laboratory.wait().unwrap();
    // The keepers detect it by themselves; otherwise this would wait forever.
    until(|| !pids.iter().any(|&pid| is_alive(pid)));
    assert_none_left(&pids);
}

fn children_of(parent: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_killed_laboratory_leaves_nothing() {
    kill_laboratory(false);
}

#[test]
fn a_killed_laboratory_leaves_nothing_without_control_groups_either() {
    kill_laboratory(true);
}

/// A default nginx with two workers that runs as the user of this test; none if it is not installed.
pub fn nginx() -> Option<SubjectSpec> {
    let found = ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().any(|path| Path::new(path).exists());
    if !found {
        eprintln!("nginx is not installed: this part is left out (cargo xtask test installs it)");
        return None;
    }
    let mut process = process();
    let user = if is_root() { "user root;" } else { "" };
    let configuration = "
        daemon off; USER pid ${folder}/nginx.pid; worker_processes 2; error_log stderr;
        events {}
        http {
            access_log off;
            client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
            uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
            server { listen ${address}; location / { return 200 $uri; } }
        }
    ";
    process.files.insert("nginx.conf".into(), configuration.replace("USER", user));
    process.stop_signal = Some("QUIT".into());
    let check = ReadyCheck::Answer { path: "/".into(), status: 200 };
    Some(spec_of(&["nginx", "-p", "${folder}", "-e", "stderr", "-c", "${folder}/nginx.conf"], process, check))
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata)).unwrap_or(1) == 0
}

#[test]
fn nginx_is_stopped_with_its_workers() {
    let Some(spec) = nginx() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    let workers = children_of(subject.kept().unwrap().pid());
    assert!(!workers.is_empty());
    let ending = subject.stop().unwrap().unwrap();
    assert!(ending.is_success(), "{ending}: {}", ending.printed);
    assert!(!workers.iter().any(|&pid| is_alive(pid)));
}

#[test]
fn a_daemon_lives_on_when_its_starter_has_ended() {
    for launcher in launchers() {
        let folder = tempfile::tempdir().unwrap();
        // Its starter exits with success; the process that it leaves is the subject.
        let text = "setsid sh -c 'trap \"echo bye; exit 0\" TERM; echo ready; while :; do sleep 0.01; done' & exit 0";
        let mut subject = start(&launcher, &script(text), folder.path()).unwrap();
        until(|| !is_alive(subject.kept().unwrap().pid()));
        assert_eq!(subject.ended(), None);
        let ending = subject.stop().unwrap().unwrap();
        assert!(ending.is_success() && subject.printed().ends_with("bye"), "{ending}: {}", subject.printed());
    }
}

#[test]
fn a_process_that_ignores_the_signal_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = script("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let SubjectKind::Command { process, .. } = &mut spec.kind else { unreachable!() };
    process.stop_within = Some(Duration::from_millis(20));
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    assert_eq!(subject.stop().unwrap().unwrap().signal, Some(9));
}

#[test]
fn a_frozen_one_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut subject = start(&launcher(), &script("echo ready; kill -STOP $$; sleep 1000"), folder.path()).unwrap();
    assert_eq!(subject.stop().unwrap().unwrap().signal, Some(15));
}

#[test]
fn an_end_is_reported_at_once_with_the_printed_output() {
    let folder = tempfile::tempdir().unwrap();
    let subject = start(&launcher(), &script("echo ready; read line < go; echo out of luck; exit 7"), folder.path());
    // The script cannot open `go`, which does not exist.
    let ending = subject.unwrap().wait_ended(LONG).unwrap();
    assert_eq!(ending.code, Some(7));
    assert!(ending.printed.ends_with("out of luck"), "{}", ending.printed);
}

#[test]
fn a_flood_of_output_is_bounded_and_does_not_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = "yes 'the same line again and again' | head -c 12000000; echo ready; exec sleep 100";
    let subject = start(&launcher(), &script(text), folder.path()).unwrap();
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(size("output.log") + size("output.log.1") < 10 << 20);
    assert!(subject.printed().ends_with("ready") && subject.printed().len() < 20_000);
}

#[test]
fn a_keeper_that_is_killed_takes_its_subject_along() {
    let folder = tempfile::tempdir().unwrap();
    let subject = start(&launcher(), &script("echo ready; exec sleep 1000"), folder.path()).unwrap();
    let kept = subject.kept().unwrap();
    Command::new("kill").args(["-9", &kept.keeper_pid().to_string()]).status().unwrap();
    let ending = subject.wait_ended(LONG).unwrap();
    assert!(ending.to_string().contains("was lost"), "{ending}");
    until(|| !is_alive(kept.pid()));
}

#[test]
fn many_are_started_and_ended_in_a_short_time() {
    let launcher = Launcher::new(keeper(), "/bin/sh".into(), Hierarchy::find());
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let subjects: Vec<_> = (0..10)
        .map(|number| {
            start(&launcher, &script("echo ready; exec sleep 1000"), &folder.path().join(number.to_string())).unwrap()
        })
        .collect();
    let pids: Vec<u32> = subjects.iter().map(|subject| subject.kept().unwrap().pid()).collect();
    drop(subjects);
    assert!(!pids.iter().any(|&pid| is_alive(pid)));
    eprintln!("ten subjects started and killed within {:?}", begun.elapsed());
}
