//! The open loop against scripted servers, in virtual time: when requests are due and sent, and how long users wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use breme_base::Instant;
use breme_load_plan::{Arrivals, OpenLoop, Pace, PaceStage, Settings, Shape, Target};
use breme_load_result::LoadOutcome;
use breme_node::ConnectError;

use crate::world::{Reply, Request, Then, World, ok, unruly};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn open(rate: f64, duration: Duration, connections: usize) -> Settings {
    paced(OpenLoop::constant(rate), duration, connections)
}

fn paced(open_loop: OpenLoop, duration: Duration, connections: usize) -> Settings {
    Settings { open_loop: Some(open_loop), duration: Some(duration), connections, ..Settings::new("http://a/{seq}") }
}

fn error(outcome: &LoadOutcome, kind: &str) -> u64 {
    outcome.errors.get(kind).copied().unwrap_or(0)
}

/// To three significant digits.
fn assert_close(nanos: u64, expected: Duration) {
    let expected = expected.as_nanos() as f64;
    assert!((nanos as f64 / expected - 1.0).abs() < 0.002, "{nanos} is not {expected}");
}

/// Sums that must always hold.
fn assert_balanced(outcome: &LoadOutcome) {
    let (counts, arrivals) = (outcome.requests, outcome.open_loop.unwrap());
    assert_eq!(counts.issued, counts.answered + counts.failed + counts.unfinished, "{outcome:?}");
    assert_eq!(arrivals.due, arrivals.begun + arrivals.dropped + arrivals.shed, "{outcome:?}");
    assert_eq!(arrivals.begun, counts.issued, "{outcome:?}");
    let in_rows: u64 = outcome.series.iter().map(|row| row.errors).sum();
    assert_eq!(in_rows, outcome.errors.values().sum::<u64>(), "{outcome:?}");
    assert_eq!(outcome.response_time.count, outcome.service_time.count, "{outcome:?}");
}

#[test]
fn requests_leave_at_their_instant_whatever_the_number_of_shards() {
    let sent = |shards, depth| {
        let settings = Settings { pipeline_depth: depth, ..open(1_000.0, SECOND, 12) };
        let mut world = World::new(settings, shards, |_| ok("x").after(5 * MILLISECOND));
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert_eq!((outcome.requests.answered, outcome.open_loop.unwrap().waited), (1_000, 0));
        assert_eq!(outcome.lateness.max_ns, 0);
        assert_close(outcome.response_time.max_ns, 5 * MILLISECOND);
        let first = world.requests[0].at;
        world.requests.iter().map(|request| (request.target().to_owned(), request.at - first)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..1_000).map(|number| (format!("/{}", number + 1), number * MILLISECOND)).collect();
    for (shards, depth) in [(1, 1), (2, 1), (3, 1), (5, 1), (1, 4), (3, 2)] {
        assert_eq!(sent(shards, depth), expected, "{shards} shards, {depth} deep");
    }
}

#[test]
fn poisson_arrivals_are_the_same_for_any_number_of_shards() {
    let sent = |shards, seed| {
        let pace = Pace::constant(500.0, Arrivals::Poisson);
        let settings = Settings { seed, ..paced(OpenLoop::new(pace), 2 * SECOND, 40) };
        let mut world = World::new(settings, shards, |_| ok("x").after(2 * MILLISECOND));
        assert_balanced(&world.finish());
        let first = world.requests[0].at;
        world.requests.iter().map(|request| (request.target().to_owned(), request.at - first)).collect::<Vec<_>>()
    };
    assert_eq!(sent(1, 1), sent(4, 1));
    assert_ne!(sent(1, 1), sent(1, 2));
}

#[test]
fn a_request_that_waits_for_a_connection_counts_from_its_due_instant() {
    // Ten per second for one connection that takes 0.3 s each: the k-th waits 0.2 k longer.
    let mut world = World::new(open(10.0, SECOND, 1), 1, |_| ok("x").after(300 * MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_close(outcome.service_time.max_ns, 300 * MILLISECOND);
    // Requests 1 to 4 begin within the second, and end at 0.3, 0.6, 0.9, 1.2 s.
    assert_eq!((outcome.requests.answered, outcome.open_loop.unwrap().waited), (4, 3));
    assert_close(outcome.response_time.max_ns, 900 * MILLISECOND);
    assert_eq!(error(&outcome, "dropped"), 6, "they were waiting when the run ended");
    assert_eq!(outcome.lateness.max_ns, 0, "waiting for the server is not the generator's lateness");
    assert_eq!(outcome.offered_rate, 10.0);
    assert_eq!(outcome.achieved_rate, 3.0);
    assert!(outcome.valid, "{:?}", outcome.invalid_reasons);
    assert!(outcome.notes.iter().any(|note| note.contains("6 of 10 requests that were due were never sent")));
}

#[test]
fn an_answer_counts_from_when_it_came_and_not_from_when_the_node_was_called() {
    // The only connection is free after 4 ms, but this is known only after 7, so that the second of two requests that
    // are due every 5 ms is late.
    let mut world = World::new(open(200.0, SECOND, 1), 1, |_| ok("x").after(4 * MILLISECOND));
    world.called_late = 3 * MILLISECOND;
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_close(outcome.service_time.max_ns, 4 * MILLISECOND);
    assert_close(outcome.first_byte_time.max_ns, 4 * MILLISECOND);
    assert_close(outcome.lateness.max_ns, 3 * MILLISECOND);
    assert!(outcome.response_time.max_ns > outcome.service_time.max_ns);
}

/// When a server that needs `work` for a request, and freezes for a second in every ten, has finished it.
fn thawed(begun: Duration, work: Duration) -> Duration {
    let mut now = begun;
    let mut left = work;
    loop {
        let phase = Duration::from_nanos((now.as_nanos() % 10_000_000_000) as u64);
        let (freezes, thaws) = (4 * SECOND, 5 * SECOND);
        if phase >= freezes && phase < thaws {
            now += thaws - phase;
        } else {
            let until_freeze = if phase < freezes { freezes - phase } else { 14 * SECOND - phase };
            if left <= until_freeze {
                return now + left;
            }
            now += until_freeze;
            left -= until_freeze;
        }
    }
}

/// Calculated: first come, first served, by `servers` of this kind.
fn response_times(rate: u64, seconds: u64, servers: usize, work: Duration) -> Vec<Duration> {
    let mut free_at: BinaryHeap<Reverse<Duration>> = vec![Reverse(Duration::ZERO); servers].into();
    let mut times = Vec::new();
    for number in 0..rate * seconds {
        let due = Duration::from_nanos(number * 1_000_000_000 / rate);
        let Reverse(free) = free_at.pop().unwrap();
        let done = thawed(due.max(free), work);
        free_at.push(Reverse(done));
        times.push(done - due);
    }
    times.sort();
    times
}

#[test]
fn a_frozen_server_is_shown_in_full() {
    let (rate, seconds, connections, work) = (2_000, 20, 10, MILLISECOND);
    for shards in [1, 2] {
        let mut first = None;
        let mut world = World::new(open(rate as f64, SECOND * seconds as u32, connections), shards, move |request| {
            let begun = request.at - *first.get_or_insert(request.at);
            ok("x").after(thawed(begun, work) - begun)
        });
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert!(outcome.valid, "{:?}", outcome.invalid_reasons);
        let expected = response_times(rate, seconds, connections, work);
        assert_eq!(outcome.requests.answered, expected.len() as u64);
        let quantile = |share: f64| expected[(expected.len() as f64 * share).ceil() as usize - 1];
        assert!(quantile(0.99) > 850 * MILLISECOND, "the freeze is in the tail: {:?}", quantile(0.99));
        let times = outcome.response_time;
        let pairs = [
            (times.p50_ns, 0.5),
            (times.p90_ns, 0.9),
            (times.p95_ns, 0.95),
            (times.p99_ns, 0.99),
            (times.p999_ns, 0.999),
        ];
        for (nanos, share) in pairs {
            assert_close(nanos, quantile(share));
        }
        assert_close(times.max_ns, quantile(1.0));
        // The service time alone hides it: only requests in flight were affected.
        assert_close(outcome.service_time.p99_ns, work);
        assert_close(outcome.service_time.max_ns, SECOND + work);
    }
}

#[test]
fn past_the_bound_of_what_may_wait_arrivals_are_dropped() {
    let open_loop = OpenLoop { waiting_max: 2, ..OpenLoop::constant(1_000.0) };
    // Two connections, half a second each: four wait at most, the rest of each half second is dropped.
    let mut world = World::new(paced(open_loop, SECOND, 2), 2, |_| ok("x").after(500 * MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_eq!(outcome.requests.answered, 4);
    assert_eq!(error(&outcome, "dropped"), 996);
    assert_close(outcome.response_time.max_ns, 998 * MILLISECOND);
    let none = OpenLoop { waiting_max: 0, ..OpenLoop::constant(1_000.0) };
    let mut world = World::new(paced(none, SECOND, 50), 3, |_| ok("x").after(100 * MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_close(outcome.response_time.max_ns, 100 * MILLISECOND);
    assert_eq!((outcome.requests.answered, outcome.open_loop.unwrap().waited), (500, 0), "50 at a time, ten times");
}

#[test]
fn requests_in_flight_are_bounded_for_all_shards_together() {
    let open_loop = OpenLoop { in_flight_max: Some(3), ..OpenLoop::constant(1_000.0) };
    for shards in [1, 4] {
        let mut world = World::new(paced(open_loop.clone(), SECOND, 20), shards, |_| ok("x").after(100 * MILLISECOND));
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert_eq!(outcome.requests.answered, 30, "three at a time, ten times");
        let under_way = |at: Instant| {
            world.requests.iter().filter(|request| request.at <= at && at < request.at + 100 * MILLISECOND).count()
        };
        assert!(world.requests.iter().all(|request| under_way(request.at) <= 3));
    }
}

#[test]
fn past_the_deadline_nothing_is_sent() {
    let open_loop = OpenLoop { deadline: Some(50 * MILLISECOND), ..OpenLoop::constant(1_000.0) };
    let mut world = World::new(paced(open_loop, SECOND, 1), 1, |_| ok("x").after(10 * MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_eq!(outcome.requests.answered, 100);
    assert!((840..=900).contains(&error(&outcome, "shed")), "{:?}", outcome.errors);
    assert!(outcome.response_time.max_ns <= 60_100_000, "{}", outcome.response_time.max_ns);
}

#[test]
fn the_rate_goes_by_stages() {
    let stage = |rate, shape| PaceStage { duration: SECOND, rate, shape };
    let stages = vec![stage(1_000.0, Shape::Ramp), stage(200.0, Shape::Step), stage(0.0, Shape::Ramp)];
    let pace = Pace { stages, ..Pace::constant(0.0, Arrivals::Even) };
    let mut world = World::new(paced(OpenLoop::new(pace), 3 * SECOND, 5), 2, |_| ok("x"));
    let outcome = world.finish();
    assert_balanced(&outcome);
    let seconds: Vec<u64> = outcome.series.iter().map(|row| row.answered).collect();
    assert_eq!(seconds, [500, 200, 100]);
}

#[test]
fn a_number_of_requests_ends_an_open_loop_too() {
    for shards in [1, 3] {
        let settings = Settings { duration: None, requests: Some(250), ..open(100.0, SECOND, 6) };
        let outcome = World::new(settings, shards, |_| ok("x").after(MILLISECOND)).finish();
        assert_balanced(&outcome);
        assert_eq!((outcome.requests.answered, outcome.open_loop.unwrap().due), (250, 250));
        assert_close(outcome.elapsed_ns, Duration::from_millis(2_491));
    }
}

#[test]
fn the_schedule_waits_for_the_connections_and_not_for_ever() {
    let mut world = World::new(open(100.0, SECOND, 300), 2, |_| ok("x"));
    let outcome = world.finish();
    assert_eq!((outcome.connections.opened, outcome.open_loop.unwrap().waited), (300, 0));
    assert_close(outcome.elapsed_ns, SECOND);
    // One connection hangs; the others begin after a second.
    let mut count = 0;
    let world = World::new(open(100.0, SECOND, 3), 1, |_| ok("x"));
    let outcome = world
        .door(move |_, _| {
            count += 1;
            if count == 1 { Err(ConnectError::Other(std::io::ErrorKind::Other)) } else { Ok(()) }
        })
        .finish();
    assert_balanced(&outcome);
    assert_eq!(outcome.requests.answered, 100);
}

#[test]
fn without_keep_alive_the_handshake_is_a_part_of_the_response_time() {
    let reply = |_: &Request| Reply {
        bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_vec(),
        ..Reply::default()
    };
    let settings = Settings { keep_alive: false, ..open(100.0, SECOND, 5) };
    let mut world = World::new(settings, 2, move |request| reply(request).after(MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_eq!((outcome.requests.answered, outcome.connections.opened), (100, 100));
    assert_close(outcome.service_time.max_ns, MILLISECOND);
    assert_close(outcome.response_time.max_ns, Duration::from_micros(1_100));
    assert_eq!(outcome.lateness.max_ns, 0);
}

#[test]
fn a_refused_target_fails_what_is_due_and_is_given_up() {
    let mut world = World::new(open(1_000.0, 10 * SECOND, 4), 2, |_| ok("x")).door(|_, _| Err(ConnectError::Refused));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert!(!outcome.valid && outcome.invalid_reasons[0].contains("cannot connect to a"), "{outcome:?}");
    assert!(error(&outcome, "refused") > 0 && error(&outcome, "dropped") > 1_000, "{:?}", outcome.errors);
}

#[test]
fn a_server_that_closes_idle_connections_costs_nothing() {
    // Every fifth response is the last of its connection, unannounced.
    let server = |request: &Request| if request.before == 4 { ok("x").then(Then::End) } else { ok("x") };
    let mut world = World::new(open(100.0, 2 * SECOND, 3), 1, server);
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_eq!((outcome.requests.answered, outcome.errors.len()), (200, 0));
    assert!(outcome.connections.reconnects >= 30);
}

#[test]
fn an_idle_connection_takes_the_next_request_before_a_busy_one() {
    // The first connection hangs on its first request; the others are fast.
    let server = |request: &Request| match (request.connection, request.before) {
        (0, 0) => ok("x").after(900 * MILLISECOND),
        _ => ok("x").after(MILLISECOND),
    };
    let settings = Settings { pipeline_depth: 4, ..open(500.0, SECOND, 3) };
    let mut world = World::new(settings, 1, server);
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert_eq!(outcome.requests.answered, 500);
    assert_close(outcome.response_time.p999_ns, 900 * MILLISECOND);
    assert!(world.requests.iter().filter(|request| request.connection == 0).all(|request| {
        let since = request.at - world.requests[0].at;
        since.is_zero() || since >= 900 * MILLISECOND
    }));
}

#[test]
fn an_interrupted_open_loop_counts_what_was_due_until_then() {
    let mut world = World::new(open(1_000.0, 60 * SECOND, 4), 2, |_| ok("x").after(MILLISECOND));
    world.stop_at = Some(Instant::from_nanos(1_000) + SECOND);
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert!((998..=1_001).contains(&outcome.open_loop.unwrap().due), "{:?}", outcome.open_loop);
    assert_eq!(error(&outcome, "dropped"), 0);
}

#[test]
fn whatever_the_server_does_each_arrival_is_accounted_for() {
    for seed in 0..120_u64 {
        let open_loop = OpenLoop {
            in_flight_max: (seed % 4 == 0).then_some(1),
            waiting_max: [0, 3, 1_000][seed as usize % 3],
            deadline: (seed % 5 == 0).then_some(10 * MILLISECOND),
            ..OpenLoop::new(Pace::constant(300.0, if seed % 2 == 0 { Arrivals::Even } else { Arrivals::Poisson }))
        };
        let settings = Settings {
            timeout: 20 * MILLISECOND,
            pipeline_depth: [1, 2, 5][seed as usize % 3],
            targets: vec![Target::url("http://a/{seq}/{random:3}")],
            keep_alive: seed % 7 != 0 || !seed.is_multiple_of(3),
            seed,
            ..paced(open_loop, SECOND, 1 + seed as usize % 7)
        };
        let settings = if settings.keep_alive { settings } else { Settings { pipeline_depth: 1, ..settings } };
        let mut world = World::new(settings, 1 + seed as usize % 3, unruly(seed));
        world.bytewise = seed % 2 == 0;
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert!(outcome.open_loop.unwrap().due >= 230, "seed {seed}: {:?}", outcome.open_loop);
        assert!(outcome.requests.answered > 0, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_open_loop() {
    let run = |seed| {
        let pace = Pace::constant(400.0, Arrivals::Poisson);
        let settings = Settings { seed, timeout: 20 * MILLISECOND, ..paced(OpenLoop::new(pace), SECOND, 3) };
        let mut world = World::new(settings, 2, unruly(5));
        world.finish();
        world.requests.iter().map(|request| (request.at, request.text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
