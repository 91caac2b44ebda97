//! Times without a successful response, in virtual time.

use std::time::Duration;

use breme_base::{Instant, ThinkTime};
use breme_load::REPORT_EVERY;
use breme_load_plan::{OpenLoop, Settings};
use breme_load_result::AvailabilitySummary;
use breme_node::ConnectError;

use crate::world::{Reply, Request, Then, World, ok};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of the simulated network.
const ROUND_TRIP: Duration = Duration::from_micros(200);

fn timed(duration: Duration, connections: usize) -> Settings {
    Settings { duration: Some(duration), connections, ..Settings::new("http://a/") }
}

/// Its time since the start of the run.
fn at(instant: Instant) -> Duration {
    instant.since(Instant::from_nanos(1_000))
}

fn is_down(instant: Instant) -> bool {
    (2 * SECOND..3 * SECOND).contains(&at(instant))
}

fn unavailable() -> Reply {
    let bytes = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec();
    Reply { bytes, ..Reply::default() }
}

fn assert_near(nanos: u64, expected: Duration, within: Duration) {
    let found = Duration::from_nanos(nanos);
    assert!(found.abs_diff(expected) <= within, "{found:?} is not {expected:?}");
}

/// A server that responds with 503 for a second, to two users on two threads.
#[test]
fn wrong_responses_are_a_gap_and_refusals_and_it_is_over_with_the_first_good_one() {
    let serve = |request: &Request| if is_down(request.at) { unavailable() } else { ok("x") }.after(MILLISECOND);
    for shards in [1, 2] {
        let outcome = World::new(timed(5 * SECOND, 2), shards, serve).finish();
        let AvailabilitySummary { gap_ns, gap_from_ns, user_gap_ns, user_gap_from_ns, .. } = outcome.availability;
        let exact = MILLISECOND + 2 * ROUND_TRIP;
        assert_near(gap_ns, SECOND, exact + REPORT_EVERY);
        assert_near(user_gap_ns, SECOND, 2 * exact);
        assert_near(gap_from_ns, 2 * SECOND, exact);
        assert_near(user_gap_from_ns, 2 * SECOND, exact);
        let recovery = &outcome.availability;
        assert_near(recovery.last_failure_ns.unwrap(), 3 * SECOND, exact);
        assert_near(recovery.recovered_ns.unwrap(), 3 * SECOND, 2 * exact);
        assert_eq!(recovery.refused, outcome.statuses["503"]);
    }
}

/// One of two users has a connection to a server that does not respond for a second.
#[test]
fn a_gap_of_one_user_is_none_of_the_service() {
    let serve = |request: &Request| {
        let is_stuck = request.connection == 0 && at(request.at) >= 2 * SECOND;
        ok("x").after(if is_stuck && request.at < Instant::from_nanos(2_001_500_000) { SECOND } else { MILLISECOND })
    };
    let availability = World::new(timed(5 * SECOND, 2), 1, serve).finish().availability;
    assert!(availability.gap_ns < 5_000_000, "{availability:?}");
    assert_near(availability.user_gap_ns, SECOND, MILLISECOND);
    assert_eq!((availability.refused, availability.last_failure_ns, availability.recovered_ns), (0, None, None));
}

/// The server is gone for a second: connections are reset, new ones refused. The pauses between attempts belong to it.
#[test]
fn refused_connections_and_the_pauses_between_them_are_a_gap() {
    let serve =
        |request: &Request| ok("x").after(MILLISECOND).then(if is_down(request.at) { Then::Reset } else { Then::Keep });
    let settings = timed(6 * SECOND, 3);
    let mut world =
        World::new(settings, 1, serve).door(|_, now| if is_down(now) { Err(ConnectError::Refused) } else { Ok(()) });
    let outcome = world.finish();
    let availability = outcome.availability;
    assert_eq!(availability.refused, outcome.errors["refused"]);
    // The fifth pause is the first that ends after the second: 50 + 100 + 200 + 400 + 800 ms.
    assert_near(availability.user_gap_ns, Duration::from_millis(1_550), 20 * MILLISECOND);
    assert_near(availability.gap_ns, Duration::from_millis(1_550), 20 * MILLISECOND);
    assert!(availability.recovered_ns > availability.last_failure_ns);
}

#[test]
fn who_has_no_response_at_the_end_has_a_gap_until_then() {
    let serve = |request: &Request| ok("x").after(if at(request.at) > SECOND { 20 * SECOND } else { MILLISECOND });
    let availability = World::new(timed(3 * SECOND, 2), 1, serve).finish().availability;
    assert_near(availability.gap_ns, 2 * SECOND, 2 * MILLISECOND);
    assert_near(availability.user_gap_ns, 2 * SECOND, 2 * MILLISECOND);
}

#[test]
fn think_times_are_in_no_gap_of_a_user() {
    let settings = Settings { think: Some(ThinkTime::Constant(SECOND)), ..timed(10 * SECOND, 1) };
    let availability = World::new(settings, 1, |_| ok("x").after(MILLISECOND)).finish().availability;
    assert_near(availability.user_gap_ns, MILLISECOND, MILLISECOND);
    assert_near(availability.gap_ns, SECOND, 5 * MILLISECOND);
}

#[test]
fn gaps_before_the_window_do_not_count() {
    let serve = |request: &Request| ok("x").after(if at(request.at) < SECOND { SECOND } else { 3 * MILLISECOND });
    let settings = Settings { gaps_after: 2 * SECOND, ..timed(4 * SECOND, 2) };
    let availability = World::new(settings, 1, serve).finish().availability;
    assert!(availability.gap_ns < 5_000_000 && availability.user_gap_ns < 5_000_000, "{availability:?}");
    assert!(availability.gap_from_ns >= 2_000_000_000, "{availability:?}");
}

#[test]
fn an_open_loop_has_gaps_too() {
    let settings = Settings { open_loop: Some(OpenLoop::constant(200.0)), ..timed(5 * SECOND, 50) };
    let serve = |request: &Request| if is_down(request.at) { unavailable() } else { ok("x") }.after(MILLISECOND);
    let availability = World::new(settings, 2, serve).finish().availability;
    assert_near(availability.gap_ns, SECOND, 10 * MILLISECOND);
    assert!(availability.user_gap_ns >= 900_000_000, "{availability:?}");
}
