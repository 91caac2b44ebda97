//! The time without use, by clocks that do not jump, whatever the calendars show.

use std::time::Duration;

use breme_session::{Input, Route, SessionState, Settings};

use crate::lab::{End, KEY, Lab, done, name};
use crate::{seconds, settings};

#[test]
fn calendars_that_jump_end_neither_sessions_nor_leases() {
    for hours_ahead in [-6, 6] {
        let mut lab = Lab::new(&Settings { route: Route::Pull, ..settings() }, 2);
        lab.create(0, "x");
        lab.set_calendars(hours_ahead);
        assert_eq!(lab.read(0), done("x"));
        assert_eq!(lab.read(1), done("x"), "handed over");
        lab.pass(seconds(10));
        for node in &lab.nodes {
            assert!(!node.gauges(lab.moment()).lease_margin.is_zero());
            assert_eq!(node.statistics().fenced, 0);
        }
        lab.stopped = vec![1];
        lab.input(0, Input::Exited { node: name(1), nonce: 2 });
        let request = lab.begin(0);
        lab.write(0, request, "y");
        assert_eq!(lab.ends(request), done("x"), "claimed from a dead owner");
        lab.set_calendars(0);
        assert_eq!(lab.read(0), done("y"));
    }
}

/// The engine deletes records that are not written. So the owner writes that of a session that is only read.
#[test]
fn a_session_that_is_read_is_kept_after_calendars_were_set_back() {
    let mut lab = Lab::new(&settings(), 1);
    lab.set_calendars(6);
    lab.create(0, "x");
    lab.set_calendars(0);
    for _ in 0..60 {
        lab.pass(seconds(60));
        assert_eq!(lab.read(0), done("x"));
    }
    assert!(lab.record(KEY).is_some());
    let request = lab.begin(0);
    lab.write(0, request, "y");
    assert_eq!(lab.ends(request), done("x"));
}

#[test]
fn an_unused_session_of_a_dead_owner_ends_with_its_record() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.stopped = vec![0];
    lab.set_calendars(-6);
    // Twice the idle time, the lease, and a minute.
    lab.pass(seconds(2 * 20 * 60 + 3 + 60) - Duration::from_millis(1));
    assert!(lab.record(KEY).is_some());
    lab.pass(Duration::from_millis(1));
    assert_eq!(lab.read(1), [End::Absent]);
}

#[test]
fn a_released_session_ends_when_it_was_not_used_for_so_long() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.pass(seconds(15 * 60));
    lab.input(0, Input::Leave);
    lab.pass(seconds(5 * 60) - Duration::from_millis(1));
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Free);
    lab.pass(Duration::from_millis(1));
    assert_eq!(lab.read(1), [End::Absent]);
}
