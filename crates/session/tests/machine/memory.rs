//! Limits of what a node keeps in memory.

use breme_session::{Access, Change, Outcome, Refusal, RequestNumber, SessionKey, SessionTarget, Settings};
use bytes::Bytes;

use crate::lab::{End, Lab, done};
use crate::{seconds, settings};

fn key(number: u16) -> SessionKey {
    let mut bytes = [9; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    SessionKey::from_bytes(bytes)
}

/// Creates a session whose first request runs.
fn begin(lab: &mut Lab, number: u16) -> RequestNumber {
    lab.begin_with(0, SessionTarget::New(key(number)), Access::Exclusive, 0)
}

fn write(lab: &mut Lab, request: RequestNumber, body: Vec<u8>) {
    lab.finish(0, request, Change::Write(Bytes::from(body)));
}

/// Their deadlines come long before those of idle sessions.
#[test]
fn idle_sessions_make_room_however_many_are_busy() {
    const SESSIONS: u16 = 1_000;
    let mut lab = Lab::new(&Settings { sessions_max: usize::from(SESSIONS), ..settings() }, 1);
    for number in 0..SESSIONS {
        let request = begin(&mut lab, number);
        write(&mut lab, request, vec![b'x']);
    }
    lab.is_engine_away = true;
    let busy: Vec<_> = (0..SESSIONS - 1)
        .map(|number| {
            let request = lab.begin_with(0, SessionTarget::Existing(key(number)), Access::Exclusive, 0);
            // Some wait for a commit, others run on.
            if number % 2 == 0 {
                write(&mut lab, request, vec![b'y']);
            }
            request
        })
        .collect();
    let new = begin(&mut lab, SESSIONS);
    assert_eq!(lab.ends(new), [End::Run(Bytes::new())], "it takes the place of the idle one");
    let beyond = begin(&mut lab, SESSIONS + 1);
    assert_eq!(lab.ends(beyond), [End::Refused(Refusal::Busy)], "all others are in use");
    for request in busy {
        assert_eq!(lab.ends(request), [End::Run("x".into())]);
    }
}

#[test]
fn contents_leave_memory_at_their_limit() {
    let mut lab = Lab::new(&Settings { memory_max: 10_000, ..settings() }, 1);
    for number in 0..100 {
        let request = begin(&mut lab, number);
        write(&mut lab, request, vec![b'x'; 1_000]);
        assert_eq!(lab.ends(request), [End::Run(Bytes::new()), End::Released(Outcome::Done)]);
        lab.pass(seconds(1));
        assert!(lab.nodes[0].gauges(lab.moment()).memory <= 10_000);
    }
    assert_eq!(lab.nodes[0].gauges(lab.moment()).owned, 8, "those used last, less a commit's copy");
    let request = lab.begin_with(0, SessionTarget::Existing(key(0)), Access::Exclusive, 0);
    lab.finish(0, request, Change::Unchanged);
    assert_eq!(lab.ends(request), done(Box::leak("x".repeat(1_000).into_boxed_str())), "nothing is lost");
}

#[test]
fn contents_in_use_leave_no_room_for_other_sessions() {
    let mut lab = Lab::new(&Settings { memory_max: 1_000, ..settings() }, 1);
    let first = begin(&mut lab, 0);
    write(&mut lab, first, vec![b'x'; 1_001]);
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 0);
    let again = lab.begin_with(0, SessionTarget::Existing(key(0)), Access::Exclusive, 0);
    let other = begin(&mut lab, 1);
    assert_eq!(lab.ends(other), [End::Refused(Refusal::Busy)]);
    lab.finish(0, again, Change::Unchanged);
    let other = begin(&mut lab, 1);
    assert_eq!(lab.ends(other), [End::Run(Bytes::new())]);
}
