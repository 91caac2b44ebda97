//! The closed loop against scripted servers, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use breme_base::{Instant, ThinkTime};
use breme_load::{CONNECT_GIVE_UP, CONNECTING_MAX, DRAIN_INTERRUPTED_MAX, DRAIN_MAX};
use breme_load_plan::{Expectations, Needle, Settings, StatusSet, Target, Variables};
use breme_load_result::LoadOutcome;
use breme_node::{ConnectError, TlsFailure};

use crate::world::{Reply, Request, Then, World, address, ok, unruly};

const MILLISECOND: Duration = Duration::from_millis(1);
const URL: &str = "http://a/";

fn counted(requests: u64, connections: usize) -> Settings {
    Settings { requests: Some(requests), duration: None, connections, ..Settings::new(URL) }
}

fn timed(duration: Duration, connections: usize) -> Settings {
    Settings { duration: Some(duration), connections, ..Settings::new(URL) }
}

fn error(outcome: &LoadOutcome, kind: &str) -> u64 {
    outcome.errors.get(kind).copied().unwrap_or(0)
}

/// To three significant digits.
fn assert_close(nanos: u64, expected: Duration) {
    let expected = expected.as_nanos() as f64;
    assert!((nanos as f64 / expected - 1.0).abs() < 0.002, "{nanos} is not {expected}");
}

fn at(duration: Duration) -> Instant {
    Instant::from_nanos(1_000) + duration
}

/// Little's law: every instant of every user is in one of the parts, and `N = X·(R + Z + H)` holds for the times too:
/// response (connecting included), thinking, and the generator's delay.
#[test]
fn no_time_of_a_user_is_lost() {
    let cases = [
        (1, 0, 0, true),
        (1, 0, 3, true),
        (16, 0, 3, true),
        (1, 5, 0, true),
        (1, 5, 3, true),
        (1, 0, 3, false),
        (1, 5, 3, false),
    ];
    for (depth, think_ms, late_ms, keep_alive) in cases {
        let case = format!("{depth} deep, {think_ms} ms, {late_ms} ms, keep-alive {keep_alive}");
        let think = (think_ms > 0).then_some(ThinkTime::Exponential(think_ms * MILLISECOND));
        let settings = Settings {
            pipeline_depth: depth,
            think,
            keep_alive,
            ..timed(Duration::from_secs(if keep_alive { 20 } else { 3 }), 7)
        };
        let mut world =
            World::new(settings, 2, move |_| if keep_alive { ok("hello") } else { closing() }.after(4 * MILLISECOND));
        world.called_late = late_ms * MILLISECOND;
        let outcome = world.finish();
        let users = outcome.users.unwrap();
        assert_eq!(users.count, (7 * depth) as u64);
        assert!(users.idle < 0.02, "{case}: {users:?}");
        let parts = users.server + users.connecting + users.generator + users.thinking + users.idle;
        assert!((parts - users.count as f64).abs() < 1e-6, "{case}: {users:?}");

        let answered = outcome.requests.answered as f64;
        let of_each = |users: f64| users * outcome.elapsed_ns as f64 / answered / 1e6;
        let held_ns: f64 = outcome.series.iter().map(|row| row.held_mean_ns * row.answered as f64).sum();
        assert_eq!((held_ns / answered / 1e6).round() as u32, late_ms, "{case}");
        assert!((of_each(users.server) / (outcome.service_time.mean_ns / 1e6) - 1.0).abs() < 0.01, "{case}: {users:?}");
        assert!((of_each(users.thinking) - f64::from(think_ms)).abs() < 0.6, "{case}: {users:?}");
        let connecting_ms = if keep_alive { 0.0 } else { 0.1 };
        assert!((of_each(users.connecting) - connecting_ms).abs() < 0.01, "{case}: {users:?}");
        let response_ms = outcome.response_time.mean_ns / 1e6;
        let law = answered / outcome.elapsed_ns as f64
            * 1e6
            * (response_ms + of_each(users.thinking) + held_ns / answered / 1e6);
        assert!((law / users.count as f64 - 1.0).abs() < 0.015, "{case}: {law} of {}", users.count);
    }
}

/// The announced last response of its connection.
fn closing() -> Reply {
    let bytes = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_vec();
    Reply { bytes, then: Then::End, ..Reply::default() }
}

#[test]
fn response_time_begins_when_the_user_wants_the_request() {
    let settings = Settings { keep_alive: false, ..timed(Duration::from_secs(1), 3) };
    let mut world = World::new(settings, 1, |_| closing().after(5 * MILLISECOND)).handshakes(2 * MILLISECOND);
    let outcome = world.finish();
    assert_close(outcome.service_time.p50_ns, 5 * MILLISECOND);
    assert_close(outcome.connect_time.p50_ns, Duration::from_micros(2_100));
    assert_close(outcome.response_time.p50_ns, Duration::from_micros(7_100));
}

/// A server that responds to all requests together, each millisecond.
fn together(request: &Request) -> Reply {
    let rest = 1_000_000 - request.at.as_nanos() % 1_000_000;
    ok("x").after(Duration::from_nanos(rest))
}

#[test]
fn users_who_are_answered_together_do_not_send_together() {
    let index = |think: ThinkTime| {
        let settings = Settings { think: Some(think), ..timed(Duration::from_secs(2), 50) };
        World::new(settings, 1, together).finish()
    };
    let exponential = index(ThinkTime::Exponential(3 * MILLISECOND));
    assert!(exponential.dispersion.unwrap() < 2.0, "{:?}", exponential.dispersion);
    assert!(exponential.notes.is_empty(), "{:?}", exponential.notes);
    let constant = index(ThinkTime::Constant(3 * MILLISECOND));
    assert!(constant.dispersion.unwrap() > 10.0, "{:?}", constant.dispersion);
    assert!(constant.notes.iter().any(|note| note.contains("in bursts")), "{:?}", constant.notes);
}

#[test]
fn users_who_think_do_not_begin_together() {
    let think = Some(ThinkTime::Constant(100 * MILLISECOND));
    let mut world = World::new(Settings { think, ..timed(Duration::from_secs(1), 50) }, 2, |_| ok("x"));
    world.finish();
    let first: Vec<u64> = world.attempts.iter().map(|(at, _)| at.as_nanos() / 1_000_000 / 20).collect();
    assert!((0..5).all(|part| first.iter().filter(|&&at| at == part).count() >= 4), "{first:?}");
}

#[test]
fn a_counted_run_ends_with_its_last_response() {
    let think = Some(ThinkTime::Constant(Duration::from_secs(10)));
    let settings = Settings { think, ..counted(3, 2) };
    let outcome = World::new(settings, 1, |_| ok("x").after(5 * MILLISECOND)).finish();
    assert_eq!(outcome.requests.answered, 3);
    assert!(outcome.elapsed_ns < 20_000_000_000, "nobody thinks after it: {}", outcome.elapsed_ns);
}

#[test]
fn a_proxy_gets_the_whole_url() {
    let targets = vec![Target::url("http://a:81/x?y"), Target::url("http://a:81")];
    let settings = Settings { proxy: Some("http://proxy:3128".into()), targets, ..counted(2, 1) };
    let mut world = World::new(settings, 1, |_| ok("hello"));
    world.finish();
    let targets: Vec<&str> = world.requests.iter().map(Request::target).collect();
    assert_eq!(targets, ["http://a:81/x?y", "http://a:81/"]);
    assert!(world.requests.iter().all(|request| request.text.contains("\r\nHost: a:81\r\n")));
    let peer = &world.run.plan().peers()[0];
    assert_eq!((peer.host.as_str(), peer.port), ("proxy", 3_128));
}

#[test]
fn exactly_the_configured_number_is_sent_and_answered() {
    for (requests, connections, shards, depth, bytewise) in [
        (1, 1, 1, 1, false),
        (1, 10, 4, 1, false),
        (1_000, 7, 2, 1, true),
        (999, 5, 3, 4, false),
        (1_000, 3, 2, 16, true),
    ] {
        let settings = Settings { pipeline_depth: depth, ..counted(requests, connections) };
        let mut world = World::new(settings, shards, |_| ok("hello").after(MILLISECOND));
        world.bytewise = bytewise;
        let outcome = world.finish();
        assert_eq!(
            (outcome.requests.sent, outcome.requests.answered, outcome.requests.ok),
            (requests, requests, requests)
        );
        assert_eq!(world.requests.len() as u64, requests);
        assert_eq!(outcome.statuses["200"], requests);
        assert_eq!(outcome.bytes.content, 5 * requests);
        assert_eq!(outcome.service_time.count, requests);
        assert!(outcome.errors.is_empty() && outcome.valid, "{:?}", outcome.invalid_reasons);
        assert!(outcome.connections.opened <= requests.min(connections as u64), "no connection without a request");
    }
}

#[test]
fn service_time_and_first_byte_are_those_of_the_wire() {
    let outcome = World::new(counted(2, 1), 1, |_| ok("x").after(5 * MILLISECOND)).finish();
    assert_close(outcome.service_time.min_ns, 5 * MILLISECOND);
    assert_close(outcome.service_time.max_ns, 5 * MILLISECOND);
    assert_close(outcome.first_byte_time.max_ns, 5 * MILLISECOND);
    assert_close(outcome.connect_time.max_ns, Duration::from_micros(100));
    assert_eq!(outcome.lateness.max_ns, 0);
    assert_close(outcome.response_time.max_ns, Duration::from_micros(5_100));
    assert_close(outcome.response_time.min_ns, 5 * MILLISECOND);
}

#[test]
fn in_a_pipeline_each_request_has_its_own_time() {
    let settings = Settings { pipeline_depth: 4, ..counted(4, 1) };
    let outcome = World::new(settings, 1, |_| ok("x").after(10 * MILLISECOND)).finish();
    let times = outcome.service_time;
    assert_close(times.min_ns, 10 * MILLISECOND);
    assert_close(times.p50_ns, 20 * MILLISECOND);
    assert_close(times.p75_ns, 30 * MILLISECOND);
    assert_close(times.max_ns, 40 * MILLISECOND);
    assert_eq!(times.mean_ns, 25e6, "the mean is exact");
    assert_close(outcome.first_byte_time.min_ns, 10 * MILLISECOND);
}

#[test]
fn a_pipeline_is_refilled_with_one_send() {
    let settings = Settings { pipeline_depth: 8, ..counted(80, 1) };
    let mut world = World::new(settings, 1, |request| {
        ok("x").after(if request.before % 8 == 0 { MILLISECOND } else { Duration::ZERO })
    });
    let outcome = world.finish();
    assert_eq!(outcome.requests.answered, 80);
    assert!(world.requests.iter().any(|request| request.before == 79), "all on one connection");
}

#[test]
fn a_request_that_takes_too_long_enters_the_times_at_its_limit() {
    let settings = Settings { timeout: 50 * MILLISECOND, pipeline_depth: 3, ..counted(9, 1) };
    // The first connection has no response to its second request.
    let mut world = World::new(settings, 1, |request| match (request.connection, request.before) {
        (0, 1) => Reply::default().after(Duration::from_secs(1_000)),
        _ => ok("x").after(MILLISECOND),
    });
    let outcome = world.finish();
    // The second and third, sent with the first, are too late at 50 ms; the fourth was sent 1 ms later and goes with
    // them.
    assert_eq!((error(&outcome, "timeout"), error(&outcome, "aborted")), (2, 1));
    assert_eq!((outcome.requests.issued, outcome.requests.answered, outcome.requests.failed), (9, 6, 3));
    assert_close(outcome.service_time.max_ns, 50 * MILLISECOND);
    assert_eq!(outcome.service_time.count, 8, "six answers, and twice the limit");
    assert_eq!((outcome.connections.opened, outcome.connections.reconnects), (2, 1));
}

#[test]
fn users_think_between_answer_and_request() {
    let think = Some(ThinkTime::Constant(90 * MILLISECOND));
    let mut world =
        World::new(Settings { think, ..timed(Duration::from_secs(1), 2) }, 1, |_| ok("x").after(10 * MILLISECOND));
    let outcome = world.finish();
    assert_eq!(outcome.requests.answered, 20, "one each 100 ms");
    let first: Vec<Instant> =
        world.requests.iter().filter(|request| request.connection == 0).map(|request| request.at).collect();
    assert!(first.windows(2).all(|pair| pair[1] - pair[0] == 100 * MILLISECOND), "{first:?}");
    assert_close(outcome.service_time.max_ns, 10 * MILLISECOND);
}

#[test]
fn thinking_is_kept_where_the_server_closes_after_each_answer() {
    let think = Some(ThinkTime::Uniform(100 * MILLISECOND, 200 * MILLISECOND));
    for announce in [false, true] {
        let reply = move |_: &Request| match announce {
            false => ok("x").then(Then::End),
            true => Reply {
                bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
                ..Reply::default()
            },
        };
        let outcome = World::new(Settings { think, ..timed(Duration::from_secs(10), 1) }, 1, reply).finish();
        assert!((50..=100).contains(&outcome.requests.answered), "{}", outcome.requests.answered);
        assert!(outcome.errors.is_empty());
        assert!(outcome.connections.reconnects >= 49);
    }
}

#[test]
fn a_ramp_spreads_the_connections() {
    let settings = Settings { ramp: Duration::from_secs(1), ..timed(Duration::from_secs(2), 10) };
    let mut world = World::new(settings, 2, |_| ok("x").after(MILLISECOND));
    world.finish();
    let starts: Vec<u64> =
        world.attempts.iter().map(|(instant, _)| (*instant - at(Duration::ZERO)).as_millis() as u64).collect();
    assert_eq!(starts, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

#[test]
fn a_refused_target_is_not_hammered_and_given_up() {
    let mut world =
        World::new(timed(Duration::from_secs(60), 20), 1, |_| ok("x")).door(|_, _| Err(ConnectError::Refused));
    let outcome = world.finish();
    assert!(!outcome.valid && outcome.invalid_reasons[0].contains("cannot connect to a"), "{outcome:?}");
    assert!(Duration::from_nanos(outcome.elapsed_ns) < 2 * CONNECT_GIVE_UP);
    assert!(world.attempts.len() < 20 * 8, "{}", world.attempts.len());
    let refused = error(&outcome, "refused");
    assert!((1..=20).contains(&(world.attempts.len() as u64 - refused)), "only the last ones were still under way");
    assert_eq!((outcome.requests.sent, outcome.requests.issued, outcome.requests.failed), (0, refused, refused));
}

#[test]
fn a_counted_run_against_a_refused_target_counts_each() {
    let outcome = World::new(counted(10, 10), 2, |_| ok("x")).door(|_, _| Err(ConnectError::Refused)).finish();
    assert_eq!((error(&outcome, "refused"), outcome.requests.issued, outcome.requests.sent), (10, 10, 0));
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let door = |_, now: Instant| {
        let is_down = now > at(Duration::from_secs(1)) && now < at(Duration::from_secs(3));
        if is_down { Err(ConnectError::Refused) } else { Ok(()) }
    };
    let server =
        |request: &Request| match request.at > at(Duration::from_secs(1)) && request.at < at(Duration::from_secs(3)) {
            true => Reply { then: Then::Reset, ..Reply::default() },
            false => ok("x").after(10 * MILLISECOND),
        };
    let outcome = World::new(timed(Duration::from_secs(6), 5), 1, server).door(door).finish();
    assert_eq!(error(&outcome, "reset"), 5);
    assert!((10..40).contains(&error(&outcome, "refused")), "{:?}", outcome.errors);
    assert!((1_400..2_000).contains(&outcome.requests.answered), "{}", outcome.requests.answered);
}

#[test]
fn the_first_address_that_answers_is_used() {
    let addresses = vec![address(1), address(2), address(3)];
    let mut world = World::with_addresses(counted(20, 2), 1, addresses, |_| ok("x"))
        .door(|address, _| if address.port() == 2 { Ok(()) } else { Err(ConnectError::Unreachable) });
    let outcome = world.finish();
    assert_eq!(outcome.requests.answered, 20);
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.settings.address.as_deref(), Some("127.0.0.1:2"));
    assert_eq!(
        world.attempts.iter().filter(|(_, address)| address.port() == 1).count(),
        2,
        "only until one has answered"
    );
}

#[test]
fn connections_are_not_opened_all_at_once() {
    let mut world = World::new(timed(Duration::from_secs(1), 1_000), 1, |_| ok("x").after(300 * MILLISECOND));
    let outcome = world.finish();
    let first = world.attempts[0].0;
    assert_eq!(world.attempts.iter().filter(|(at, _)| *at == first).count(), CONNECTING_MAX);
    assert_eq!(outcome.connections.opened, 1_000);
}

#[test]
fn an_idle_connection_that_the_server_closes_is_opened_again_silently() {
    // Every tenth response is the last of its connection, unannounced.
    let server = |request: &Request| if request.before == 9 { ok("x").then(Then::End) } else { ok("x") };
    let think = Some(ThinkTime::Exponential(MILLISECOND));
    let outcome = World::new(Settings { think, ..counted(100, 2) }, 1, server).finish();
    assert_eq!((outcome.requests.answered, outcome.errors.len()), (100, 0));
    assert!(outcome.connections.reconnects >= 8);
}

#[test]
fn requests_behind_an_announced_close_are_sent_again() {
    // As a server with a limit of requests per connection: the fifth response is the last.
    let server = |request: &Request| match request.before {
        0..4 => ok("x"),
        _ => Reply {
            bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_vec(),
            then: Then::End,
            ..Reply::default()
        },
    };
    let settings = Settings { pipeline_depth: 8, targets: vec![Target::url("http://a/{seq}")], ..counted(100, 3) };
    let mut world = World::new(settings, 2, server);
    let outcome = world.finish();
    assert_eq!((outcome.requests.issued, outcome.requests.sent, outcome.requests.answered), (100, 100, 100));
    assert!(outcome.errors.is_empty() && outcome.requests.resent > 0, "{outcome:?}");
    let targets: BTreeSet<&str> = world.requests.iter().map(Request::target).collect();
    assert_eq!((targets.len(), world.requests.len()), (100, 100), "the server has seen each once");
}

#[test]
fn without_keep_alive_each_request_has_its_connection_and_the_server_closes_first() {
    let reply = |_: &Request| Reply {
        bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_vec(),
        ..Reply::default()
    };
    let mut world = World::new(Settings { keep_alive: false, ..counted(50, 5) }, 1, reply);
    let outcome = world.finish();
    assert_eq!((outcome.requests.answered, outcome.connections.opened), (50, 50));
    assert!(world.requests.iter().all(|request| request.text.contains("Connection: close\r\n")));
    assert!(
        world.connections.iter().filter(|connection| connection.is_closed).count() < 50,
        "it is left to the server"
    );
}

#[test]
fn a_connection_is_not_reused_if_only_the_request_announced_its_end() {
    let close = vec![("connection".to_owned(), b"Upgrade, Close".to_vec())];
    let settings = counted(50, 5);
    for settings in [Settings { keep_alive: false, ..settings.clone() }, Settings { fields: close, ..settings }] {
        let mut world = World::new(settings, 1, |_| ok("x"));
        let outcome = world.finish();
        assert_eq!((outcome.requests.answered, outcome.connections.opened), (50, 50));
        assert!(outcome.errors.is_empty() && outcome.requests.resent == 0, "{outcome:?}");
    }
}

#[test]
fn whatever_the_server_does_each_request_is_accounted_for() {
    for seed in 0..150 {
        let (requests, depth) = (40 + seed, [1, 2, 5][seed as usize % 3]);
        let settings = Settings {
            pipeline_depth: depth,
            timeout: 20 * MILLISECOND,
            seed,
            ..counted(requests, 1 + seed as usize % 7)
        };
        let mut world = World::new(settings, 1 + seed as usize % 3, unruly(seed));
        world.bytewise = seed % 2 == 0;
        let outcome = world.finish();
        let counts = outcome.requests;
        assert_eq!(counts.issued, requests, "seed {seed}: never more, never fewer");
        assert_eq!(counts.issued, counts.answered + counts.failed + counts.unfinished, "seed {seed}");
        assert_eq!(counts.unfinished, 0, "seed {seed}: the run waits for all");
        assert_eq!(outcome.statuses.values().sum::<u64>(), counts.answered, "seed {seed}");
        let failed: u64 = outcome.errors.iter().filter(|(kind, _)| *kind != "status").map(|(_, count)| count).sum();
        assert_eq!(failed, counts.failed, "seed {seed}");
        assert_eq!(outcome.service_time.count, counts.answered + error(&outcome, "timeout"), "seed {seed}");
        assert!(counts.answered > 0 && counts.failed > 0, "seed {seed}: {outcome:?}");
        assert_eq!(outcome.series.iter().map(|row| row.answered).sum::<u64>(), counts.answered, "seed {seed}");
        assert_eq!(
            outcome.series.iter().map(|row| row.errors).sum::<u64>(),
            outcome.errors.values().sum::<u64>(),
            "seed {seed}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let settings = Settings {
            targets: vec![Target::url("http://a/{zipf:1000:0.9}/{random:8}")],
            timeout: 20 * MILLISECOND,
            seed,
            ..counted(200, 3)
        };
        let mut world = World::new(settings, 2, unruly(5));
        world.finish();
        world.requests.iter().map(|request| (request.at, request.text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn at_the_end_of_the_time_what_is_under_way_is_waited_for() {
    let mut world = World::new(timed(Duration::from_secs(1), 3), 1, |_| ok("x").after(400 * MILLISECOND));
    let outcome = world.finish();
    assert_eq!((outcome.requests.answered, outcome.requests.unfinished), (9, 0));
    assert_eq!(world.requests.len(), 9, "the server's own count");
    assert_eq!(outcome.elapsed_ns, 1_000_000_000, "the rate refers to the time that was asked for");
    assert_eq!(outcome.achieved_rate, 6.0, "answers after the end do not count for the rate");
    assert_eq!(outcome.series.len(), 1);
}

#[test]
fn the_waiting_at_the_end_is_bounded() {
    let mut world = World::new(timed(Duration::from_secs(1), 3), 1, |_| ok("x").after(Duration::from_secs(20)));
    let outcome = world.finish();
    assert_eq!((outcome.requests.sent, outcome.requests.answered, outcome.requests.unfinished), (3, 0, 3));
    assert_eq!(world.now, at(Duration::from_secs(1) + DRAIN_MAX));
    assert!(outcome.notes.iter().any(|note| note.contains("3 requests had no response")));
    assert!(!outcome.valid);
}

#[test]
fn an_interrupted_run_has_a_partial_result() {
    let mut world = World::new(timed(Duration::from_secs(60), 4), 2, |request| {
        ok("x").after(if request.connection == 0 { Duration::from_secs(30) } else { 10 * MILLISECOND })
    });
    world.stop_at = Some(at(2 * Duration::from_secs(1)));
    let outcome = world.finish();
    assert_eq!(world.now, at(2 * Duration::from_secs(1) + DRAIN_INTERRUPTED_MAX));
    assert!(outcome.interrupted && outcome.requests.answered > 500);
    assert_eq!(outcome.requests.unfinished, 1);
    assert_eq!(outcome.requests.issued, outcome.requests.answered + 1);
}

#[test]
fn a_run_until_it_is_stopped_ends_regularly_and_waits_for_what_is_under_way() {
    let settings = Settings { duration: None, until_stopped: true, connections: 4, ..Settings::new(URL) };
    let mut world = World::new(settings.clone(), 2, |request| {
        ok("x").after(if request.connection == 0 { Duration::from_secs(4) } else { 10 * MILLISECOND })
    });
    world.stop_at = Some(at(Duration::from_secs(2)));
    let outcome = world.finish();
    assert!(!outcome.interrupted && outcome.settings.until_stopped && outcome.notes.is_empty(), "{:?}", outcome.notes);
    assert_eq!(outcome.requests.issued, outcome.requests.answered);
    assert_eq!(outcome.elapsed_ns, 2_000_000_000, "the rate is that of the time until the stop");
    assert!(outcome.achieved_rate < outcome.requests.answered as f64 / 2.0);
    let contradiction = breme_load_plan::Plan::new(Settings { requests: Some(1), ..settings }).unwrap_err();
    assert!(contradiction.to_string().contains("remove the number of requests"));
}

#[test]
fn answers_are_checked() {
    let check = |expectations: Expectations, reply: fn(&Request) -> Reply, kind: Option<&str>| {
        for bytewise in [false, true] {
            let mut world = World::new(Settings { expectations: expectations.clone(), ..counted(4, 1) }, 1, reply);
            world.bytewise = bytewise;
            let outcome = world.finish();
            assert_eq!(outcome.requests.answered, 4);
            assert_eq!(outcome.requests.ok, if kind.is_some() { 0 } else { 4 }, "{expectations:?}");
            if let Some(kind) = kind {
                assert_eq!(error(&outcome, kind), 4, "{expectations:?}");
            }
        }
    };
    let none = Expectations::default;
    let missing =
        |_: &Request| Reply { bytes: b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::default() };
    check(none(), |_| ok("abc"), None);
    check(none(), missing, Some("status"));
    check(Expectations { status: StatusSet::parse("404").ok(), ..none() }, missing, None);
    check(Expectations { status: StatusSet::parse("404").ok(), ..none() }, |_| ok("abc"), Some("status"));
    check(Expectations { content_bytes: Some(3), ..none() }, |_| ok("abc"), None);
    check(Expectations { content_bytes: Some(4), ..none() }, |_| ok("abc"), Some("assertion"));
    check(Expectations { contains: Some(Needle::new(b"bc")), ..none() }, |_| ok("abc"), None);
    check(Expectations { contains: Some(Needle::new(b"bd")), ..none() }, |_| ok("abc"), Some("assertion"));
    let digest = breme_load_plan::parse_sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").ok();
    check(Expectations { content_sha256: digest, ..none() }, |_| ok("abc"), None);
    check(Expectations { content_sha256: digest, ..none() }, |_| ok("abd"), Some("assertion"));
}

#[test]
fn each_user_keeps_its_own_cookies() {
    let server = |request: &Request| {
        let cookie = format!("Set-Cookie: id={}; Path=/\r\n", request.connection);
        let set = if request.before == 0 { cookie.as_str() } else { "" };
        let bytes = format!("HTTP/1.1 200 OK\r\n{set}Content-Length: 0\r\n\r\n").into_bytes();
        Reply { bytes, ..Reply::default() }.after(MILLISECOND)
    };
    let mut world = World::new(Settings { cookies: true, ..counted(30, 3) }, 1, server);
    world.finish();
    for request in &world.requests {
        let expected = format!("Cookie: id={}\r\n", request.connection);
        assert_eq!(request.text.contains(&expected), request.before > 0, "{}", request.text);
    }
}

#[test]
fn targets_and_numbers_are_dealt_evenly() {
    let settings = Settings {
        targets: vec![
            Target::url("http://a/x/{seq}"),
            Target { method: Some("POST".into()), content: Some(b"n={seq}".to_vec()), ..Target::url("http://a/y") },
        ],
        ..counted(100, 4)
    };
    let mut world = World::new(settings, 2, |_| ok("x"));
    world.finish();
    let posts: BTreeSet<&str> =
        world.requests.iter().filter(|r| r.target() == "/y").map(|r| r.text.split("n=").last().unwrap()).collect();
    assert_eq!(posts.len(), 50);
    let numbers: BTreeSet<u64> =
        world.requests.iter().filter_map(|r| r.target().strip_prefix("/x/")?.parse().ok()).collect();
    assert!(numbers.iter().copied().eq((1..100).step_by(2)), "odd numbers go to the first target");
}

#[test]
fn unexpected_bytes_are_reported() {
    let server = |request: &Request| {
        let mut reply = ok("x");
        if request.before == 2 {
            reply.bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        reply.after(MILLISECOND)
    };
    let outcome = World::new(counted(9, 1), 1, server).finish();
    assert_eq!((outcome.requests.answered, outcome.connections.unexpected), (9, 3));
    assert!(outcome.notes.iter().any(|note| note.contains("belong to no request")));
}

#[test]
fn a_wrong_certificate_is_an_error_of_its_own_kind_and_named() {
    let expired = Err(ConnectError::Tls(TlsFailure::Expired));
    let outcome = World::new(counted(10, 2), 1, |_| ok("x")).door(move |_, _| expired).finish();
    assert_eq!(outcome.errors["tls-expired"], outcome.requests.failed);
    assert!(outcome.invalid_reasons[0].contains("the certificate has expired"), "{:?}", outcome.invalid_reasons);
}

#[test]
fn the_series_has_rows_of_the_configured_length() {
    let settings =
        Settings { connections: 3, duration: Some(Duration::from_millis(500)), ..Settings::new("http://a/") };
    let settings = Settings { interval: Duration::from_millis(20), ..settings };
    let mut world = World::new(settings, 2, |_| ok("x").after(Duration::from_millis(1)));
    let outcome = world.finish();
    let starts: Vec<f64> = outcome.series.iter().map(|row| (row.start_s * 1e3).round()).collect();
    assert_eq!(starts, (0..25).map(|row| f64::from(row) * 20.0).collect::<Vec<_>>());
    assert!(outcome.series.iter().all(|row| row.answered > 10), "{:?}", outcome.series);
    assert_eq!(outcome.series.iter().map(|row| row.answered).sum::<u64>(), outcome.requests.answered);
    assert_eq!(outcome.series.iter().map(|row| row.received_bytes).sum::<u64>(), outcome.bytes.received);
    for wrong in ["5ms", "2h", "10.5ms"] {
        let interval = breme_base::parse_duration(wrong).unwrap();
        let error = breme_load_plan::Plan::new(Settings { interval, ..Settings::new("http://a/") }).unwrap_err();
        assert!(error.to_string().contains("from 10ms to 1h"), "{error}");
    }
}

#[test]
fn variables_of_the_run_are_filled_in_urls_fields_and_contents() {
    let variables = [("page", "x y"), ("id", "{seq}"), ("text", "say \"hi\"")];
    let settings = Settings {
        targets: vec![Target::url("http://a/{page}?q={page:url}&n={id}")],
        fields: vec![("X-Page".to_owned(), b"{page} {{id}}".to_vec())],
        content: Some(br#"{{"text":"{text:json}"}}"#.to_vec()),
        variables: Variables::new(variables).unwrap(),
        ..counted(2, 1)
    };
    let mut world = World::new(settings.clone(), 1, |_| ok("x"));
    world.finish();
    let second = &world.requests[1];
    assert_eq!(second.target(), "/x%20y?q=x%20y&n=2");
    assert!(second.text.contains("X-Page: x y {id}\r\n"), "{}", second.text);
    assert!(second.text.ends_with(r#"{"text":"say \"hi\""}"#), "{}", second.text);

    let wrong = Settings { targets: vec![Target::url("http://a/{pgae}")], ..settings.clone() };
    let error = breme_load_plan::Plan::new(wrong).unwrap_err().to_string();
    assert!(error.contains("{pgae} is not a placeholder") && error.contains("--var"), "{error}");
    let broken = Settings { variables: Variables::new([("page", "a\r\nEvil: 1")]).unwrap(), ..settings };
    let broken = Settings { targets: vec![Target::url("http://a/")], content: None, ..broken };
    let error = breme_load_plan::Plan::new(broken).unwrap_err().to_string();
    assert!(error.contains("X-Page") && error.contains("line breaks"), "{error}");
}
