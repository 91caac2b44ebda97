//! Requests that run for long, while the record of their session grows old.

use breme_session::{Access, SessionState, Settings, Target};

use crate::lab::{KEY, Lab, done};
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
    let request = lab.begin_with(0, Target::New(KEY), Access::Exclusive, 0);
    lab.pass(seconds(600));
    assert_eq!(lab.commits, 0);
    lab.write(0, request, "x");
    assert_eq!(lab.ends(request), done(""));
}
