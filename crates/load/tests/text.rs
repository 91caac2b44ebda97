//! The result as people see it: golden text of a run in virtual time.

mod world;

use std::time::Duration;

use breme_load::{Outcome, Settings, Style, render_text, write_csv};
use breme_node::ConnectError;
use world::{Reply, World, ok};

/// A second with every kind of trouble, the same each time.
fn outcome() -> Outcome {
    let settings = Settings { timeout: Duration::from_millis(40), ..Settings::new("http://a:8080/page?x=1") };
    let settings = Settings { connections: 3, duration: Some(Duration::from_secs(2)), seed: 7, ..settings };
    let mut world = World::new(settings, 2, |request| {
        let after = Duration::from_micros(200 + (request.at.as_nanos() / 7_919) % 5_000);
        match request.before {
            150 => Reply::default().after(Duration::from_secs(9)),
            100 => Reply { bytes: b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::default() },
            _ => ok("hello"),
        }
        .after(after)
    });
    let mut outcome = world.finish();
    outcome.generator.cpu_ns = Some(400_000_000);
    outcome.generator.cpu_share = Some(0.2);
    outcome.generator.cpu_ns_per_request = Some(7_770.0);
    outcome.generator.thread_shares = vec![0.11, 0.09];
    outcome
}

#[test]
fn a_result_reads_well() {
    insta::assert_snapshot!(render_text(&outcome(), Style::default()));
}

#[test]
fn a_result_that_is_invalid_says_so_first() {
    let settings = Settings { connections: 2, ..Settings::new("http://a/") };
    let outcome = World::new(settings, 1, |_| ok("x")).door(|_, _| Err(ConnectError::Refused)).finish();
    insta::assert_snapshot!(render_text(&outcome, Style::default()));
}

#[test]
fn colours_are_asked_for() {
    let outcome = outcome();
    assert!(!render_text(&outcome, Style::default()).contains('\x1b'));
    let coloured = render_text(&outcome, Style { colours: true });
    assert!(coloured.contains("\x1b[1m") && coloured.matches("\x1b[").count().is_multiple_of(2));
}

#[test]
fn the_intervals_as_csv() {
    let mut csv = Vec::new();
    write_csv(&mut csv, &outcome()).unwrap();
    insta::assert_snapshot!(String::from_utf8(csv).unwrap());
}

#[test]
fn a_thread_that_was_busy_all_the_time_makes_the_result_invalid() {
    let run = |cpu: fn() -> Duration| {
        let settings = Settings { requests: Some(100), duration: None, connections: 1, ..Settings::new("http://a/") };
        let plan = breme_load::Plan::new(settings).unwrap();
        let wall = breme_base::WallClock::starting_at(breme_base::UnixSeconds(0));
        let mut world = World::new(Settings::new("http://a/"), 1, |_| ok("x").after(Duration::from_millis(10)));
        let run = breme_load::Run::new(plan, vec![world::address(80)], 1, wall).with_thread_cpu(cpu);
        world.replace_run(run);
        world.finish()
    };
    thread_local!(static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    // About a second of the run for each reading after the first: 10 ms × 100.
    let busy = run(|| Duration::from_millis(990 * u64::from(CALLS.replace(CALLS.get() + 1))));
    assert!(!busy.valid && busy.invalid_reasons[0].contains("the generator was the limit"), "{busy:?}");
    let idle = run(|| Duration::ZERO);
    assert!(idle.valid, "{:?}", idle.invalid_reasons);
}
