//! Requests that run for long, while their session ends or its record grows old.

use breme_session::{Access, Change, Durability, Outcome, RequestNumber, SessionState, SessionTarget, Settings};

use crate::lab::{End, KEY, Lab, done};
use crate::{seconds, settings};

/// The engine would delete the record after three minutes.
#[test]
fn a_long_request_keeps_its_session() {
    let mut lab = Lab::new(&Settings { idle: seconds(60), ..settings() }, 1);
    lab.create(0, "x");
    let request = lab.begin(0);
    lab.pass(seconds(600));
    lab.write(0, request, "y");
    assert_eq!(lab.ends(request), done("x"));
    assert_eq!(lab.record(KEY).unwrap().body, "y");
    lab.pass(seconds(60));
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Ended, "nothing runs any more");
}

/// A new session is stored only when it is written.
#[test]
fn a_long_request_of_a_new_session_stores_nothing() {
    let mut lab = Lab::new(&Settings { idle: seconds(60), ..settings() }, 1);
    let request = lab.begin_with(0, SessionTarget::New(KEY), Access::Exclusive, 0);
    lab.pass(seconds(600));
    assert_eq!(lab.commits, 0);
    lab.write(0, request, "x");
    assert_eq!(lab.ends(request), done(""));
}

#[test]
fn logout_waits_for_a_long_request() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let long = lab.begin(0);
    let logout = lab.begin(0);
    assert_eq!(lab.ends(logout), []);
    lab.write(0, long, "y");
    assert_eq!(lab.ends(long), done("x"));
    lab.finish(0, logout, Change::Destroy);
    assert_eq!(lab.ends(logout), done("y"));
    assert_eq!((lab.read(0), lab.read(1)), (vec![End::Absent], vec![End::Absent]));
}

/// Another node has fenced its node and served the logout. The tombstone may have gone by then.
#[test]
fn a_long_request_does_not_bring_its_session_back() {
    for (frozen, outcome) in [(0, Outcome::NotDone), (120, Outcome::Unknown)] {
        let mut lab = Lab::new(&settings(), 2);
        let long = log_out_elsewhere(&mut lab);
        lab.pass(seconds(frozen));
        lab.stopped.clear();
        lab.write(0, long, "y");
        lab.pass(seconds(1));
        assert_eq!(lab.ends(long), [End::Run("x".into()), End::Released(outcome)], "frozen for {frozen} s");
        lab.pass(seconds(60));
        assert_eq!((lab.read(0), lab.read(1)), (vec![End::Absent], vec![End::Absent]));
    }
}

/// With `memory` its response leaves, but the session stays ended.
#[test]
fn not_even_in_memory_does_a_session_come_back() {
    let mut lab = Lab::new(&Settings { durability: Durability::Memory, ..settings() }, 2);
    let long = log_out_elsewhere(&mut lab);
    lab.stopped.clear();
    lab.write(0, long, "y");
    assert_eq!(lab.ends(long), done("x"));
    assert_eq!((lab.read(0), lab.read(1)), (vec![End::Absent], vec![End::Absent]));
}

/// A request runs on the first node, which is frozen; the session ends on the second. Returns the request.
fn log_out_elsewhere(lab: &mut Lab) -> RequestNumber {
    lab.create(0, "x");
    let long = lab.begin(0);
    lab.stopped = vec![0];
    lab.pass(seconds(10)); // its lease ends
    let logout = lab.begin(1);
    lab.finish(1, logout, Change::Destroy);
    assert_eq!(lab.ends(logout), done("x"));
    long
}
