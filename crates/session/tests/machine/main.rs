//! Single steps of one machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod calendars;
mod lab;
mod long_requests;
mod losses;
mod memory;
mod names;

use std::time::Duration;

use breme_session::{
    Access, Change, Durability, ForwardResult, Input, NodeState, Outcome, RanOn, Reads, Refusal, Register, Route,
    SessionState, SessionTarget, Settings,
};
use bytes::Bytes;
use lab::{End, KEY, Lab, NEW, done, name};

fn settings() -> Settings {
    Settings { route: Route::Forward { pull_after: None }, ..Settings::new("node:1") }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn many_requests_share_two_commits() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "0");
    let before = lab.commits;
    lab.is_engine_away = true;
    let first = lab.begin(0);
    lab.write(0, first, "1");
    let others: Vec<_> = (0..100)
        .map(|_| {
            let request = lab.begin(0);
            lab.write(0, request, "2");
            request
        })
        .collect();
    assert_eq!(lab.ends(first), [End::Run("0".into())], "nothing leaves before the commit");
    lab.is_engine_away = false;
    lab.respond();
    assert_eq!(lab.ends(first), [End::Released(Outcome::Done)]);
    for (index, request) in others.into_iter().enumerate() {
        assert_eq!(lab.ends(request), done(if index == 0 { "1" } else { "2" }));
    }
    assert_eq!(lab.commits - before, 2);
}

#[test]
fn a_leased_read_writes_nothing_and_a_confirmed_one_commits() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let before = lab.commits;
    assert_eq!(lab.read(0), done("x"));
    assert_eq!(lab.commits, before);
    let mut lab = Lab::new(&Settings { reads: Reads::Confirmed, ..settings() }, 1);
    lab.create(0, "x");
    let before = lab.commits;
    assert_eq!(lab.read(0), done("x"));
    assert_eq!(lab.commits, before + 1);
}

#[test]
fn a_read_of_a_new_session_stores_nothing() {
    let mut lab = Lab::new(&settings(), 1);
    let request = lab.begin_with(0, SessionTarget::New(KEY), Access::Exclusive, 0);
    lab.finish(0, request, Change::Unchanged);
    assert_eq!(lab.ends(request), done(""));
    assert_eq!((lab.commits, lab.record(KEY), lab.nodes[0].gauges(lab.moment()).sessions), (0, None, 0));
}

#[test]
fn the_same_body_is_no_change() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let before = lab.commits;
    let request = lab.begin(0);
    lab.write(0, request, "x");
    assert_eq!((lab.ends(request), lab.commits), (done("x"), before));
}

#[test]
fn readers_run_together_and_writers_alone() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let shared = [(); 2].map(|()| lab.begin_with(0, SessionTarget::Existing(KEY), Access::Shared, 0));
    let writer = lab.begin(0);
    let late = lab.begin_with(0, SessionTarget::Existing(KEY), Access::Shared, 0);
    for reader in shared {
        assert_eq!(lab.ends(reader), [End::Run("x".into())]);
    }
    assert_eq!(
        (lab.ends(writer), lab.ends(late)),
        (vec![], vec![]),
        "the writer's turn comes before the late reader's"
    );
    lab.finish(0, shared[0], Change::Unchanged);
    assert_eq!(lab.ends(writer), []);
    lab.finish(0, shared[1], Change::Unchanged);
    lab.write(0, writer, "y");
    assert_eq!(lab.ends(writer), done("x"));
    assert_eq!(lab.ends(late), [End::Run("y".into())]);
    lab.write(0, late, "z");
    assert_eq!(lab.ends(late), [End::Released(Outcome::NotDone)], "it was told to read only");
    assert_eq!(lab.read(0), done("y"));
}

#[test]
fn bounds_are_kept() {
    let settings = Settings { session_requests_max: 2, requests_max: 3, body_max: 4, sessions_max: 2, ..settings() };
    let mut lab = Lab::new(&settings, 1);
    lab.create(0, "x");
    let running = lab.begin(0);
    let waiting = lab.begin(0);
    let third = lab.begin(0);
    assert_eq!(lab.ends(third), [End::Refused(Refusal::Busy)]);
    lab.finish(0, running, Change::Write(Bytes::from_static(b"12345")));
    assert_eq!(lab.ends(running), [End::Run("x".into()), End::Released(Outcome::TooLarge)]);
    assert_eq!(lab.ends(waiting), [End::Run("x".into())], "nothing was changed");
    let other = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    let beyond =
        lab.begin_with(0, SessionTarget::New(breme_session::SessionKey::from_bytes([3; 16])), Access::Exclusive, 0);
    assert_eq!(lab.ends(other).len(), 1);
    assert_eq!(lab.ends(beyond), [End::Refused(Refusal::Busy)], "both places are taken by sessions in use");
}

#[test]
fn a_request_waits_only_so_long() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let running = lab.begin(0);
    let waiting = lab.begin(0);
    lab.pass(seconds(9));
    assert_eq!(lab.ends(waiting), []);
    lab.pass(seconds(2));
    assert_eq!(lab.ends(waiting), [End::Refused(Refusal::Timeout)]);
    lab.finish(0, running, Change::Unchanged);
    assert_eq!(lab.ends(running), done("x"), "who runs may take long");
}

#[test]
fn a_session_that_is_not_used_expires() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    lab.pass(seconds(19 * 60));
    assert_eq!(lab.read(0), done("x"));
    lab.pass(seconds(20 * 60) - Duration::from_millis(1));
    assert_eq!(lab.nodes[0].gauges(lab.moment()).owned, 1);
    lab.pass(Duration::from_millis(1));
    assert_eq!(lab.nodes[0].gauges(lab.moment()).owned, 0);
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Ended);
    assert_eq!(lab.read(0), [End::Absent]);
}

#[test]
fn a_session_that_is_old_expires_however_much_it_is_used() {
    let mut lab = Lab::new(&Settings { absolute: seconds(3_600), ..settings() }, 1);
    lab.create(0, "x");
    for _ in 0..5 {
        lab.pass(seconds(10 * 60));
        assert_eq!(lab.read(0), done("x"));
    }
    lab.pass(seconds(10 * 60));
    assert_eq!(lab.read(0), [End::Absent]);
}

#[test]
fn the_time_of_use_is_written_now_and_then() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let before = lab.commits;
    for _ in 0..100 {
        lab.pass(seconds(6));
        assert_eq!(lab.read(0), done("x"));
    }
    // 600 s, and a tenth of the idle time is 120 s.
    assert_eq!(lab.commits - before, 5);
}

/// The response to a forwarded request says where it ran, so that the next one goes there at once.
#[test]
fn a_response_says_where_a_session_has_moved() {
    let mut lab = Lab::new(&Settings { route: Route::Forward { pull_after: None }, ..settings() }, 3);
    lab.create(0, "x");
    let first = lab.begin(1);
    assert_eq!(lab.ends(first), [End::Forwarded(name(0))]);
    // It moves without this node seeing it.
    let tired = lab.begin_with(2, SessionTarget::Existing(KEY), Access::Exclusive, 2);
    lab.finish(2, tired, Change::Unchanged);
    assert_eq!(lab.ends(tired), done("x"));
    let mut end = |request, by: Option<usize>| {
        let by = by.map(|node| RanOn { node: name(node), count: 1 });
        lab.input(1, Input::ForwardEnded { request, result: ForwardResult::Responded { by } });
        let next = lab.begin(1);
        let [End::Forwarded(to)] = lab.ends(next)[..] else { panic!() };
        (next, to)
    };
    let (second, to) = end(first, None);
    assert_eq!(to, name(0), "nothing was said");
    let (third, to) = end(second, Some(2));
    assert_eq!(to, name(2));
    let (fourth, to) = end(third, Some(2));
    assert_eq!(to, name(2));
    let (_, to) = end(fourth, Some(1));
    assert_eq!(to, name(2), "not this node's word");
}

/// If all clients wait for a frozen node, no other request triggers the search for a new owner.
#[test]
fn a_forwarded_request_alone_ends_a_silent_life() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let request = lab.begin(1);
    assert_eq!(lab.ends(request), [End::Forwarded(name(0))]);
    lab.pass(seconds(60));
    lab.stopped.push(0);
    lab.pass(seconds(2));
    assert_eq!(lab.nodes[1].statistics().fenced_others, 0, "the lease is good");
    lab.is_engine_away = true;
    lab.pass(seconds(10));
    lab.lose_engine_requests();
    lab.is_engine_away = false;
    lab.pass(seconds(3));
    assert_eq!(lab.nodes[1].statistics().fenced_others, 1);
    lab.input(1, Input::ForwardEnded { request, result: ForwardResult::Broken });
    assert_eq!(lab.ends(request), [End::Released(Outcome::Unknown)]);
    assert_eq!(lab.read(1), done("x"));
}

#[test]
fn logging_out_ends_the_session_everywhere() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let request = lab.begin(0);
    let waiting = lab.begin(0);
    lab.finish(0, request, Change::Destroy);
    assert_eq!(lab.ends(request), done("x"));
    assert_eq!(lab.ends(waiting), [End::Absent]);
    assert_eq!((lab.read(0), lab.read(1)), (vec![End::Absent], vec![End::Absent]));
    lab.pass(seconds(61));
    assert_eq!(lab.record(KEY), None, "the tombstone has gone");
    assert_eq!(lab.read(1), [End::Absent]);
}

#[test]
fn login_moves_the_session_to_another_id() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    let request = lab.begin(0);
    lab.finish(0, request, Change::Rotate { to: NEW, body: "in".into() });
    assert_eq!(lab.ends(request), done("x"));
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Rotated);
    assert!(lab.record(KEY).unwrap().body.is_empty());
    assert_eq!(lab.read(0), [End::Absent]);
    let request = lab.begin_with(0, SessionTarget::Existing(NEW), Access::Exclusive, 0);
    assert_eq!(lab.ends(request), [End::Run("in".into())]);
}

#[test]
fn login_does_not_make_a_session_younger() {
    let mut lab = Lab::new(&Settings { absolute: seconds(3_600), idle: seconds(3_600), ..settings() }, 1);
    lab.create(0, "x");
    lab.pass(seconds(50 * 60));
    let request = lab.begin(0);
    lab.finish(0, request, Change::Rotate { to: NEW, body: "in".into() });
    assert_eq!(lab.ends(request), done("x"));
    let read = |lab: &mut Lab| {
        let request = lab.begin_with(0, SessionTarget::Existing(NEW), Access::Exclusive, 0);
        lab.finish(0, request, Change::Unchanged);
        lab.ends(request)
    };
    assert_eq!(read(&mut lab), done("in"));
    lab.pass(seconds(10 * 60));
    assert_eq!(read(&mut lab), [End::Absent]);
}

#[test]
fn an_id_that_was_never_issued_gets_no_session() {
    let mut lab = Lab::new(&settings(), 1);
    assert_eq!(lab.read(0), [End::Absent]);
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Ended, "a read that finds nothing is not believed");
}

#[test]
fn a_commit_without_a_response_is_looked_up() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    lab.is_engine_away = true;
    let request = lab.begin(0);
    lab.write(0, request, "y");
    lab.pass(Duration::from_millis(500));
    lab.lose_engine_requests();
    lab.is_engine_away = false;
    lab.pass(seconds(2));
    assert_eq!(lab.ends(request), done("x"));
    assert_eq!((lab.record(KEY).unwrap().body, lab.record(KEY).unwrap().version), ("y".into(), 2));
}

#[test]
fn an_engine_that_is_away_costs_responses_and_nothing_else() {
    let mut lab = Lab::new(&settings(), 1);
    lab.create(0, "x");
    lab.is_engine_away = true;
    let write = lab.begin(0);
    lab.write(0, write, "y");
    lab.pass(seconds(20));
    assert_eq!(lab.ends(write), [End::Run("x".into()), End::Released(Outcome::Unknown)]);
    let read = lab.begin(0);
    lab.finish(0, read, Change::Unchanged);
    assert_eq!(lab.ends(read), [End::Run("y".into())], "it shows what is not committed, so it waits");
    lab.is_engine_away = false;
    lab.respond();
    lab.pass(seconds(3));
    assert_eq!(lab.ends(read), [End::Released(Outcome::Done)]);
    assert_eq!(lab.record(KEY).unwrap().body, "y", "what was unknown has been done");
    assert_eq!(lab.nodes[0].incarnation().unwrap().number, 1, "nobody has ended its life");
}

#[test]
fn with_memory_a_response_waits_for_nothing() {
    let mut lab = Lab::new(&Settings { durability: Durability::Memory, ..settings() }, 1);
    lab.create(0, "x");
    lab.is_engine_away = true;
    let request = lab.begin(0);
    lab.write(0, request, "y");
    assert_eq!(lab.ends(request), done("x"));
    let request = lab.begin(0);
    lab.finish(0, request, Change::Destroy);
    assert_eq!(lab.ends(request), [End::Run("y".into())], "logging out does wait");
}

/// A request at the second node is forwarded to the first one, which has run so many by then.
fn forward(lab: &mut Lab, count: u64) {
    let request = lab.begin(1);
    assert_eq!(lab.ends(request), [End::Forwarded(name(0))]);
    let by = Some(RanOn { node: name(0), count });
    lab.input(1, Input::ForwardEnded { request, result: ForwardResult::Responded { by } });
}

/// A node that is not a member keeps no session for requests that have ended.
#[test]
fn requests_that_no_longer_wait_leave_nothing() {
    let mut lab = Lab::new(&settings(), 1);
    lab.is_engine_away = true;
    lab.nodes[0] = breme_session::Machine::new(settings(), name(0), 9).unwrap();
    let refused = lab.begin(0);
    let abandoned = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 2);
    lab.input(0, Input::Abandon { request: abandoned });
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 1);
    lab.pass(seconds(11));
    assert_eq!(lab.ends(refused), [End::Refused(Refusal::Timeout)]);
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 0);
}

/// Others get requests as well, so that the session would go to and fro.
#[test]
fn a_session_that_is_used_everywhere_stays_where_it_is() {
    let mut lab = Lab::new(&Settings { route: Route::Forward { pull_after: Some(2) }, ..settings() }, 2);
    lab.create(0, "x");
    for count in [2, 4, 7, 9, 11] {
        forward(&mut lab, count);
    }
    assert_eq!(lab.nodes[0].statistics().given, 0);
    forward(&mut lab, 12);
    assert_eq!(lab.read(1), done("x"));
    assert_eq!(lab.nodes[0].statistics().given, 1);
}

#[test]
fn a_wrong_node_forwards_and_after_some_requests_takes_over() {
    let mut lab = Lab::new(&Settings { route: Route::Forward { pull_after: Some(2) }, ..settings() }, 2);
    lab.create(0, "x");
    for count in [2, 3] {
        forward(&mut lab, count);
    }
    let before = lab.commits;
    assert_eq!(lab.read(1), done("x"));
    assert_eq!(lab.commits, before + 1, "a hand-over is one commit");
    let request = lab.begin(0);
    assert_eq!(lab.ends(request), [End::Forwarded(name(1))]);
}

#[test]
fn a_session_is_kept_for_the_delay_of_its_release() {
    let delay = Duration::from_millis(300);
    let mut lab = Lab::new(&Settings { route: Route::Pull, release_delay: delay, ..settings() }, 2);
    lab.create(0, "x");
    let request = lab.begin(1);
    lab.pass(delay / 2);
    assert_eq!(lab.read(0), done("x"), "the owner goes on, and the delay begins again");
    lab.pass(delay - Duration::from_millis(1));
    assert_eq!(lab.ends(request), []);
    lab.pass(Duration::from_millis(1));
    assert_eq!(lab.ends(request), [End::Run("x".into())]);
}

/// The owner will not release it before the other node gives up waiting: the answer comes at once.
#[test]
fn a_long_delay_of_a_release_delays_no_request() {
    let delay = seconds(5);
    let mut lab = Lab::new(&Settings { route: Route::Pull, release_delay: delay, ..settings() }, 2);
    lab.create(0, "x");
    for _ in 0..3 {
        let request = lab.begin(1);
        assert_eq!(lab.ends(request), [End::Forwarded(name(0))]);
        lab.input(1, Input::ForwardEnded { request, result: ForwardResult::Responded { by: None } });
    }
    assert_eq!(lab.asked, 1, "the other node does not ask again before the delay has passed");
    lab.pass(delay);
    assert_eq!(lab.read(1), done("x"));
}

#[test]
fn a_frozen_owner_is_fenced_after_its_lease() {
    let mut lab = Lab::new(&Settings { route: Route::Pull, ..settings() }, 2);
    lab.create(0, "x");
    lab.stopped = vec![0];
    let request = lab.begin(1);
    lab.pass(seconds(2));
    assert_eq!(lab.ends(request), [End::Forwarded(name(0))], "the owner did not respond to the question");
    lab.input(1, Input::ForwardEnded { request, result: ForwardResult::Unreachable });
    lab.pass(seconds(2));
    assert_eq!(lab.ends(request), [End::Run("x".into())]);
    lab.write(1, request, "y");
    assert_eq!(lab.ends(request), [End::Released(Outcome::Done)]);
    // It thaws, and a request reaches it first.
    lab.is_engine_away = true;
    lab.stopped.clear();
    let stale = lab.begin(0);
    lab.finish(0, stale, Change::Unchanged);
    assert_eq!(lab.ends(stale), [End::Run("x".into())], "its response is held");
    lab.is_engine_away = false;
    lab.respond();
    lab.pass(seconds(1));
    assert_eq!(lab.ends(stale), [End::Released(Outcome::NotDone)]);
    assert_eq!(lab.nodes[0].incarnation().unwrap().number, 2);
}

#[test]
fn the_word_of_a_supervisor_saves_the_wait() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.stopped = vec![0];
    lab.input(1, Input::Exited { node: name(0), nonce: 1 });
    assert_eq!(lab.read(1), done("x"), "no time has passed");
}

#[test]
fn a_node_that_leaves_gives_all_away_first() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let running = lab.begin(0);
    lab.input(0, Input::Leave);
    assert!(!lab.has_left(0));
    lab.write(0, running, "y");
    assert_eq!(lab.ends(running), done("x"));
    assert!(lab.has_left(0));
    let (_, value) = lab.engine.read(lab.now, &Register::Node(name(0))).unwrap();
    assert_eq!(breme_session::NodeRecord::decode(&name(0), &value).unwrap().state, NodeState::Over);
    assert_eq!(lab.read(1), done("y"));
    let late = lab.begin(0);
    assert_eq!(lab.ends(late), [End::Forwarded(name(1))]);
}

#[test]
fn a_node_that_leaves_serves_new_sessions_if_nobody_else_can() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let running = lab.begin(0);
    lab.input(0, Input::Leave);
    let new = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    assert_eq!(lab.ends(new), [End::Forwarded(name(1))]);
    lab.input(0, Input::ForwardEnded { request: new, result: ForwardResult::Unreachable });
    assert_eq!(lab.ends(new), [End::Run(Bytes::new())]);
    lab.write(0, new, "y");
    assert_eq!(lab.ends(new), [End::Released(Outcome::Done)]);
    lab.finish(0, running, Change::Unchanged);
    assert!(lab.has_left(0));
    assert_eq!(lab.record(NEW).unwrap().state, SessionState::Free);
}

/// It hands its sessions over, but serves requests that must run here, and does not leave.
#[test]
fn a_node_that_drains_remains_a_member() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.input(0, Input::Drain);
    assert_eq!(lab.record(KEY).unwrap().state, SessionState::Free);
    let stored = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, settings().hops_max);
    lab.write(0, stored, "y");
    assert_eq!(lab.ends(stored), done(""), "the handler has run here before");
    assert_eq!(lab.record(NEW).unwrap().state, SessionState::Free);
    let existing = lab.begin(0);
    assert_eq!(lab.ends(existing), [End::Forwarded(name(1))]);
    lab.input(0, Input::ForwardEnded { request: existing, result: ForwardResult::Unreachable });
    assert_eq!(lab.ends(existing), [End::Run("x".into())]);
    lab.finish(0, existing, Change::Unchanged);
    assert_eq!(lab.ends(existing), [End::Released(Outcome::Done)]);
    assert!(!lab.has_left(0));
    lab.input(0, Input::Leave);
    assert!(lab.has_left(0));
}

#[test]
fn a_session_that_ends_while_its_node_leaves_does_not_keep_it() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    let running = lab.begin(0);
    lab.input(0, Input::Leave);
    lab.finish(0, running, Change::Destroy);
    assert_eq!(lab.ends(running), done("x"));
    assert!(lab.has_left(0));
}

#[test]
fn a_session_out_of_memory_is_claimed_again() {
    let mut lab = Lab::new(&Settings { sessions_max: 1, ..settings() }, 1);
    lab.create(0, "x");
    let request = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    lab.write(0, request, "other");
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 1);
    assert_eq!(lab.read(0), done("x"));
    assert_eq!(lab.record(KEY).unwrap().epoch, 2);
}

#[test]
fn a_session_out_of_memory_is_handed_over() {
    let mut lab = Lab::new(&Settings { sessions_max: 1, route: Route::Pull, ..settings() }, 2);
    lab.create(0, "x");
    let request = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    lab.write(0, request, "other");
    assert_eq!(lab.nodes[0].gauges(lab.moment()).sessions, 1);
    assert_eq!(lab.read(1), done("x"));
}

#[test]
fn a_damaged_record_is_refused_and_kept() {
    let mut lab = Lab::new(&settings(), 1);
    let register = Register::Session(KEY);
    let value = Bytes::from_static(b"not a record");
    let expected = breme_session::Sequence::ABSENT;
    let request = breme_session::EngineRequest::CompareAndSet { register, expected, value, time_to_live: None };
    lab.engine.execute(lab.now, &request);
    assert_eq!(lab.read(0), [End::Refused(Refusal::Damaged)]);
    assert_eq!(lab.engine.read(lab.now, &register).unwrap().1, "not a record");
}
