//! The result as text: golden files of a run in virtual time.

use std::time::Duration;

use breme_base::terminal::Style;
use breme_load::{render_text, write_csv};
use breme_load_plan::Settings;
use breme_load_result::LoadOutcome;
use breme_node::ConnectError;

use crate::world::{Reply, World, ok};

/// A second with every kind of error, deterministic.
fn outcome() -> LoadOutcome {
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
fn a_result_is_read_as_it_was_written() {
    let written = outcome();
    let read: LoadOutcome = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
    assert_eq!(render_text(&read, Style::default()), render_text(&written, Style::default()));
}

#[test]
fn a_result_that_is_invalid_says_so_first() {
    let settings = Settings { connections: 2, ..Settings::new("http://a/") };
    let outcome = World::new(settings, 1, |_| ok("x")).door(|_, _| Err(ConnectError::Refused)).finish();
    insta::assert_snapshot!(render_text(&outcome, Style::default()));
}

#[test]
fn colours_are_off_by_default() {
    let outcome = outcome();
    assert!(!render_text(&outcome, Style::default()).contains('\x1b'));
    let coloured = render_text(&outcome, Style { colours: true, ..Style::default() });
    assert!(coloured.contains("\x1b[1m") && coloured.matches("\x1b[").count().is_multiple_of(2));
}

#[test]
fn the_intervals_as_csv() {
    let mut csv = Vec::new();
    write_csv(&mut csv, &outcome()).unwrap();
    insta::assert_snapshot!(String::from_utf8(csv).unwrap());
}

#[test]
fn a_narrow_terminal_cuts_no_line() {
    let mut outcome = outcome();
    outcome.settings.url += &"/long".repeat(50);
    for (width, colours) in [(200, true), (80, false), (60, false), (60, true), (45, false), (10, false)] {
        let text = render_text(&outcome, Style { width: Some(width), colours });
        let plain = text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "");
        let plain = plain.replace("\x1b[31m", "").replace("\x1b[32m", "");
        let longest = plain.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width.max(40), "{longest} of {width}:\n{text}");
    }
}

#[test]
fn quantiles_that_few_samples_cannot_have_are_left_out() {
    let settings = Settings { requests: Some(55), duration: None, ..Settings::new("http://a/") };
    let outcome = World::new(settings, 1, |_| ok("x").after(Duration::from_millis(1))).finish();
    let text = render_text(&outcome, Style::default());
    assert!(text.contains("95 %") && !text.contains("99 %") && !text.contains("99.9 %"), "{text}");
    assert!(text.contains("the run is too short for reliable figures: 55 responses in"), "{text}");
    assert!(outcome.valid, "{:?}", outcome.invalid_reasons);
}

#[test]
fn a_run_in_which_all_checks_fail_says_so_first() {
    let settings = Settings { duration: Some(Duration::from_secs(1)), ..Settings::new("http://a/nothere") };
    let not_found = |_: &crate::world::Request| Reply {
        bytes: b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ..Reply::default().after(Duration::from_millis(1))
    };
    let text = render_text(&World::new(settings, 1, not_found).finish(), Style::default());
    let third = text.lines().nth(3).unwrap();
    assert!(
        third.starts_with("FAILED     every response failed its check") && third.ends_with("(status 404)"),
        "{text}"
    );
}

/// A closed loop whose thread was always busy: what matters is whether users waited for it.
#[test]
fn a_saturated_thread_makes_the_result_invalid_where_users_wait_for_it() {
    thread_local!(static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    // Each reading adds more CPU time than the run has.
    let busy: fn() -> Duration = || Duration::from_secs(10 * u64::from(CALLS.replace(CALLS.get() + 1)));
    let run = |cpu: fn() -> Duration, held: Duration| {
        let settings =
            || Settings { requests: Some(100), duration: None, connections: 1, ..Settings::new("http://a/") };
        let mut world = World::new(settings(), 1, |_| ok("x").after(Duration::from_millis(10)));
        let plan = breme_load_plan::Plan::new(settings()).unwrap();
        let wall = breme_base::WallClock::starting_at(breme_base::UnixSeconds(0));
        world.replace_run(
            breme_load::Run::new(plan, vec![vec![crate::world::address(80)]], 1, wall).with_thread_cpu(cpu),
        );
        world.called_late = held;
        world.finish()
    };
    let limit = run(busy, Duration::from_millis(12));
    assert!(!limit.valid && limit.invalid_reasons[0].contains("the generator was the limit"), "{limit:?}");
    assert!(run(busy, Duration::from_millis(2)).valid, "a busy thread at which few wait is no limit");
    let starved = run(|| Duration::ZERO, Duration::from_millis(12));
    assert!(starved.valid && starved.notes.iter().any(|note| note.contains("waited for the generator")), "{starved:?}");
}

/// An open loop whose thread is always busy, but on time: spinning and short sleeps cost CPU time and nothing else.
#[test]
fn an_open_loop_is_judged_by_lateness_and_not_by_processor_time() {
    thread_local!(static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    let busy: fn() -> Duration = || Duration::from_secs(10 * u64::from(CALLS.replace(CALLS.get() + 1)));
    let run = |stall: Duration| {
        let open_loop = Some(breme_load_plan::OpenLoop::constant(1_000.0));
        let settings = || Settings { open_loop: open_loop.clone(), connections: 20, ..Settings::new("http://a/") };
        let mut world = World::new(settings(), 1, |_| ok("x").after(Duration::from_millis(1)));
        let plan = breme_load_plan::Plan::new(settings()).unwrap();
        let wall = breme_base::WallClock::starting_at(breme_base::UnixSeconds(0));
        world.replace_run(
            breme_load::Run::new(plan, vec![vec![crate::world::address(80)]], 1, wall).with_thread_cpu(busy),
        );
        world.stalls = Some((Duration::from_millis(20), stall));
        world.finish()
    };
    let punctual = run(Duration::ZERO);
    assert!(punctual.valid && punctual.generator.busiest_thread() > 0.95, "{:?}", punctual.invalid_reasons);
    let late = run(Duration::from_millis(4)); // planted background load
    assert!(!late.valid && late.invalid_reasons[0].contains("the generator was late"), "{:?}", late.invalid_reasons);
}

/// Responses that had arrived but were not read keep connections busy: the backlog is the generator's.
#[test]
fn a_backlog_in_the_generator_makes_an_open_loop_invalid() {
    let run = |held: Duration| {
        let open_loop = Some(breme_load_plan::OpenLoop::constant(1_000.0));
        let settings = Settings {
            open_loop,
            connections: 1,
            duration: Some(Duration::from_secs(1)),
            ..Settings::new("http://a/")
        };
        let mut world = World::new(settings, 1, |_| ok("x").after(Duration::from_micros(500)));
        world.called_late = held;
        world.finish()
    };
    let backlog = run(Duration::from_micros(600));
    assert!(
        backlog.invalid_reasons.iter().any(|reason| reason.contains("had a backlog")),
        "{:?}",
        backlog.invalid_reasons
    );
    assert!(run(Duration::from_micros(100)).valid);
}
