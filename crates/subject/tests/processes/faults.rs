//! Faults: a subject, or some of its processes, killed, suspended and resumed.

use std::path::Path;

use breme_experiment::trial::SubjectSpec;
use breme_subject::{FaultError, PlaceholderNames, Subject};

use crate::world::{bare_launcher, is_alive, launcher, launchers, pids_in, script, start, until};

/// Two members, each of which appends its beats to a file of its name, and its PID to `pids`. The first has a child,
/// which writes for it.
const MEMBERS: &str = r#"
    beat='echo $$ >> pids; while :; do echo >> $2; sleep 0.005; done'
    sh -c 'echo $$ >> pids; sh -c "$0" member --writes $2 & wait' "$beat" --name n1 &
    sh -c "$beat" member --name n2 &
    while [ ! -e pids ] || [ $(wc -l < pids) -lt 3 ] || [ ! -e n1 ] || [ ! -e n2 ]; do sleep 0.01; done
    echo ready
    wait
"#;

fn members() -> SubjectSpec {
    script(MEMBERS)
}

fn beats(folder: &Path, member: &str) -> usize {
    std::fs::read(folder.join(member)).unwrap().len()
}

/// Whether `member` is idle while `clock` beats for a while.
fn is_still(member: (&Path, &str), clock: (&Path, &str)) -> bool {
    let (before, from) = (beats(member.0, member.1), beats(clock.0, clock.1));
    until(|| beats(clock.0, clock.1) > from + 40);
    beats(member.0, member.1) == before
}

fn until_it_goes_on(folder: &Path, member: &str) {
    let before = beats(folder, member);
    until(|| beats(folder, member) > before);
}

#[test]
fn all_of_a_subject_is_suspended_and_resumed() {
    let (clock_folder, clock_launcher) = (tempfile::tempdir().unwrap(), launcher());
    let _clock = start(&clock_launcher, &members(), clock_folder.path()).unwrap();
    for launcher in launchers() {
        let folder = tempfile::tempdir().unwrap();
        let mut subject = start(&launcher, &members(), folder.path()).unwrap();
        assert!(subject.freeze(None).unwrap() >= 4);
        assert!(is_still((folder.path(), "n1"), (clock_folder.path(), "n1")));
        assert!(is_still((folder.path(), "n2"), (clock_folder.path(), "n2")));
        assert!(subject.thaw(None) >= 4);
        until_it_goes_on(folder.path(), "n1");
        until_it_goes_on(folder.path(), "n2");
        assert_eq!((subject.thaw(None), subject.ended()), (0, None));
    }
}

#[test]
fn a_process_is_chosen_by_the_words_of_its_command_line() {
    for launcher in launchers() {
        let folder = tempfile::tempdir().unwrap();
        let mut subject = start(&launcher, &members(), folder.path()).unwrap();
        let place = folder.path();
        // The child of the first member belongs to it, whatever its own command line is.
        assert!(subject.freeze(Some("--name n1")).unwrap() >= 2);
        assert!(is_still((place, "n1"), (place, "n2")));
        assert_eq!(subject.thaw(Some("--name n2")), 0, "it is not suspended");
        assert!(is_still((place, "n1"), (place, "n2")));
        assert!(subject.thaw(Some("--name n1")) >= 2);
        until_it_goes_on(place, "n1");

        assert!(subject.kill(Some("--name n1")).unwrap() >= 2);
        let pids = pids_in(&place.join("pids"));
        until(|| pids.iter().filter(|&&pid| is_alive(pid)).count() == 1);
        until_it_goes_on(place, "n2");
        assert_eq!(subject.ended(), None, "the program itself lives on");
        let message = subject.kill(Some("--name n")).unwrap_err().to_string();
        assert!(
            message.contains("none of its processes has \"--name n\" in its command line; they are `"),
            "{message}"
        );
        assert!(message.contains("--name n2`"), "{message}");
    }
}

#[test]
fn a_killed_subject_is_gone_and_can_be_started_again_where_it_was() {
    for launcher in launchers() {
        let folder = tempfile::tempdir().unwrap();
        let mut subject = start(&launcher, &members(), folder.path()).unwrap();
        let pids = pids_in(&folder.path().join("pids"));
        assert!(subject.kill(None).unwrap() >= 4);
        assert!(!pids.iter().any(|&pid| is_alive(pid)));
        assert_eq!(subject.ended().unwrap().signal, Some(9));
        assert!(matches!(subject.kill(None), Err(FaultError::Ended)));
        let ports = subject.ports().clone();
        std::fs::remove_file(folder.path().join("pids")).unwrap();
        subject.start(&launcher, &PlaceholderNames::default()).unwrap();
        assert_eq!((subject.ports(), subject.ended()), (&ports, None));
        until_it_goes_on(folder.path(), "n1");
    }
}

/// Suspends all of a subject, and a part.
fn suspend(subject: &mut Subject) {
    subject.freeze(Some("--name n2")).unwrap();
    subject.freeze(None).unwrap();
}

#[test]
fn a_suspended_process_is_terminated_and_killed_like_any_other() {
    for launcher in [launcher(), bare_launcher()] {
        for is_stopped in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let mut subject = start(&launcher, &members(), folder.path()).unwrap();
            let pids = pids_in(&folder.path().join("pids"));
            suspend(&mut subject);
            if is_stopped {
                assert_eq!(subject.stop().unwrap().unwrap().signal, Some(15));
            }
            drop(subject);
            assert!(pids.len() >= 3 && !pids.iter().any(|&pid| is_alive(pid)), "{pids:?}");
        }
    }
}
