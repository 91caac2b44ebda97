//! Scenarios of several steps against scripted servers, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use breme_load_plan::{OpenLoop, Scenarios, Settings, Target, Variables};
use breme_load_result::{LoadOutcome, StepSummary};

use crate::world::{Reply, Request, Then, World, ok, unruly};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn scenario(file: &str) -> Settings {
    scenario_with(file, &[])
}

fn scenario_with(file: &str, variables: &[(&str, &str)]) -> Settings {
    let variables = Variables::new(variables.iter().copied()).unwrap();
    let scenarios = Scenarios::parse(file, None, &variables).unwrap_or_else(|error| panic!("{error}"));
    Settings {
        targets: if scenarios.base().is_some() { Vec::new() } else { vec![Target::url("http://a/")] },
        scenarios: Some(scenarios),
        cookies: true,
        connections: 1,
        ..Settings::new("http://a/")
    }
}

fn counted(file: &str, sessions: u64) -> Settings {
    Settings { requests: Some(sessions), duration: None, ..scenario(file) }
}

fn error(outcome: &LoadOutcome, kind: &str) -> u64 {
    outcome.errors.get(kind).copied().unwrap_or(0)
}

fn answer(status: &str, fields: &str, content: &str) -> Reply {
    let text = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{content}", content.len());
    Reply { bytes: text.into_bytes(), ..Reply::default() }
}

/// Sums that must always hold.
fn assert_balanced(outcome: &LoadOutcome) {
    let counts = outcome.requests;
    assert_eq!(counts.issued, counts.answered + counts.failed + counts.unfinished, "{outcome:?}");
    let sum = |pick: fn(&StepSummary) -> u64| outcome.steps.iter().map(pick).sum::<u64>();
    assert_eq!((sum(|step| step.sent), sum(|step| step.answered)), (counts.sent, counts.answered), "{outcome:?}");
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in outcome.steps.iter().flat_map(|step| &step.errors) {
        *errors.entry(kind.clone()).or_default() += count;
    }
    let of_steps = outcome.errors.iter().filter(|(kind, _)| !matches!(kind.as_str(), "dropped" | "shed"));
    assert!(of_steps.eq(&errors), "{:?} {errors:?}", outcome.errors);
    let begun: u64 = outcome.scenarios.iter().map(|scenario| scenario.begun).sum();
    if let Some(arrivals) = outcome.open_loop {
        assert_eq!(arrivals.due, arrivals.begun + arrivals.dropped + arrivals.shed, "{outcome:?}");
        assert_eq!(arrivals.begun, begun, "{outcome:?}");
    }
}

const EDIT: &str = r#"
    base = "http://a/app"
    [variables]
    page = "{uniform:1:9}"
    [[scenario]]
    name = "edit"
    step = [
        { name = "form", request = "GET /edit/{page}", capture.token = { regex = 'value="(\w+)"' }, capture.etag = { header = "ETag" }, think = "100ms,constant" },
        { name = "save", request = "POST /edit/{page}", headers = { If-Match = "{etag}" }, body = '{"token":"{token}","text":"{random:30}"}', check = { status = 201, json = { "/ok" = true } } },
        { name = "view", request = "GET /page/{page}?v={session}", check = { contains = "saved" } },
    ]
"#;

#[test]
fn a_form_is_fetched_and_sent_back() {
    let server = |request: &Request| match request.text.split(' ').next().unwrap() {
        "POST" => answer("201 Created", "", r#"{"ok": true}"#),
        _ if request.target().contains("/edit/") => {
            let token = format!("<input value=\"t{}\">", request.before);
            answer(
                "200 OK",
                &format!("ETag: \"e{}\"\r\nSet-Cookie: id=c{}\r\n", request.before, request.before),
                &token,
            )
        }
        _ => ok("it is saved"),
    };
    let mut world = World::new(counted(EDIT, 5), 1, move |request| server(request).after(10 * MILLISECOND));
    let outcome = world.finish();
    assert_balanced(&outcome);
    assert!(outcome.valid && outcome.errors.is_empty(), "{outcome:?}");
    let texts: Vec<&str> = world.requests.iter().map(|request| request.text.as_str()).collect();
    assert_eq!(texts.len(), 15);
    for (session, steps) in texts.chunks(3).enumerate() {
        let first = session * 3;
        let page = steps[0].split(' ').nth(1).unwrap().strip_prefix("/app/edit/").unwrap();
        assert!(!steps[0].contains("Cookie:"), "a new session is a new person: {}", steps[0]);
        assert!(steps[1].starts_with(&format!("POST /app/edit/{page} ")), "{}", steps[1]);
        assert!(steps[1].contains(&format!("\r\nIf-Match: \"e{first}\"\r\n")), "{}", steps[1]);
        assert!(steps[1].contains(&format!("\r\nCookie: id=c{first}\r\n")), "{}", steps[1]);
        let body = steps[1].split("\r\n\r\n").nth(1).unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["token"], format!("t{first}"));
        assert_eq!(body["text"].as_str().unwrap().len(), 30);
        assert!(steps[2].starts_with(&format!("GET /app/page/{page}?v={} ", session + 1)), "{}", steps[2]);
    }
    assert!(world.requests.chunks(3).all(|steps| steps[1].at - steps[0].at == 110 * MILLISECOND), "it thinks");
    let names: Vec<(&str, u64)> =
        outcome.steps.iter().map(|step| (step.name.as_str(), step.service_time.count)).collect();
    assert_eq!(names, [("form", 5), ("save", 5), ("view", 5)]);
    let edit = &outcome.scenarios[0];
    assert_eq!((edit.begun, edit.completed, edit.failed), (5, 5, 0));
    assert_eq!(
        (edit.session_time.mean_ns, outcome.settings.url.as_str()),
        (130.02e6, "http://a/app"),
        "the first connects"
    );
}

#[test]
fn a_failed_capture_ends_the_session_and_a_failed_check_does_not() {
    let server = |request: &Request| match request.text.split(' ').next().unwrap() {
        "POST" => answer("201 Created", "", r#"{"ok": false}"#),
        // Every other form has no token.
        _ if request.target().contains("/edit/") && request.at.as_nanos().is_multiple_of(2) => ok("nothing here"),
        _ if request.target().contains("/edit/") => answer("200 OK", "ETag: \"e\"\r\n", "value=\"t\""),
        _ => answer("500 Broken", "", "saved"),
    };
    let mut odd = 0;
    let mut world = World::new(counted(EDIT, 20), 1, move |request| {
        odd += 1;
        server(request).after(Duration::from_nanos(1_000_001 + odd))
    });
    let outcome = world.finish();
    assert_balanced(&outcome);
    let edit = &outcome.scenarios[0];
    let missing = error(&outcome, "capture");
    assert!((1..20).contains(&missing), "{:?}", outcome.errors);
    assert_eq!((edit.begun, edit.completed, edit.failed), (20, 0, 20));
    // The others met a wrong JSON and a wrong status.
    assert_eq!((error(&outcome, "assertion"), error(&outcome, "status")), (20 - missing, 20 - missing));
    assert_eq!(outcome.requests.answered, 20 + 2 * (20 - missing));
    assert!(world.run.expectations_failed(&outcome));
}

#[test]
fn scenarios_are_mixed_by_weight_and_steps_repeated() {
    let file = r#"
        [[scenario]]
        name = "read"
        weight = 3
        step = [{ request = "/r", repeat = 4 }]
        [[scenario]]
        name = "write"
        step = [{ repeat = 2, step = [{ request = "/a" }, { request = "/b" }] }]
    "#;
    for shards in [1, 3] {
        let settings = Settings { connections: 6, ..counted(file, 2_000) };
        let mut world = World::new(settings, shards, |_| ok("x"));
        let outcome = world.finish();
        assert_balanced(&outcome);
        let (read, write) = (&outcome.scenarios[0], &outcome.scenarios[1]);
        assert_eq!(read.completed + write.completed, 2_000);
        assert!((430..570).contains(&write.completed), "{}", write.completed);
        let answered: Vec<u64> = outcome.steps.iter().map(|step| step.answered).collect();
        assert_eq!(answered, [4 * read.completed, 2 * write.completed, 2 * write.completed]);
    }
}

#[test]
fn the_requests_of_a_session_follow_from_its_number() {
    let sent = |shards, seed| {
        let settings = Settings { connections: 5, seed, ..counted(EDIT, 40) };
        let mut world = World::new(settings, shards, |request| match request.text.split(' ').next().unwrap() {
            "POST" => answer("201 Created", "", r#"{"ok": true}"#),
            _ => answer("200 OK", "ETag: \"e\"\r\n", "value=\"t\" saved"),
        });
        world.finish();
        // {seq} is not used, so the requests of a session do not depend on the shard that runs it.
        world.requests.iter().map(|request| request.text.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(sent(1, 1), sent(4, 1));
    assert_ne!(sent(1, 1), sent(1, 2));
}

#[test]
fn sessions_arrive_by_a_schedule() {
    let file = r#"
        [[scenario]]
        name = "visit"
        think = "200ms,constant"
        step = [{ name = "first", request = "/1" }, { name = "second", request = "/2" }]
    "#;
    for shards in [1, 2] {
        let settings = Settings {
            open_loop: Some(OpenLoop::constant(10.0)),
            duration: Some(2 * SECOND),
            connections: 4,
            ..scenario(file)
        };
        let mut world = World::new(settings, shards, |_| ok("x").after(50 * MILLISECOND));
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert_eq!(outcome.open_loop.unwrap().due, 20);
        assert_eq!(outcome.open_loop.unwrap().waited, 0, "a session takes 300 ms, so three are under way");
        let firsts: Vec<Duration> = world
            .requests
            .iter()
            .filter(|request| request.target() == "/1")
            .map(|request| request.at - world.requests[0].at)
            .collect();
        assert!(firsts.iter().enumerate().all(|(number, &at)| at == number as u32 * 100 * MILLISECOND), "{firsts:?}");
        // Those that began at 1.8 and 1.9 s are thinking at the end of the run.
        assert_eq!((outcome.scenarios[0].completed, outcome.scenarios[0].unfinished), (18, 2));
    }
}

#[test]
fn a_session_that_waits_for_a_user_counts_from_its_due_instant() {
    let file = r#"
        [[scenario]]
        name = "slow"
        step = [{ name = "a", request = "/a" }, { name = "b", request = "/b" }]
    "#;
    let settings = Settings { open_loop: Some(OpenLoop::constant(10.0)), duration: Some(SECOND), ..scenario(file) };
    let outcome = World::new(settings, 1, |_| ok("x").after(100 * MILLISECOND)).finish();
    assert_balanced(&outcome);
    // The k-th is due at 0.1 k and begins at 0.2 k.
    assert_eq!((outcome.scenarios[0].begun, outcome.open_loop.unwrap().dropped), (5, 5));
    assert_eq!(outcome.steps[0].response_time.mean_ns, 300e6);
    assert_eq!(outcome.steps[1].response_time.mean_ns, 100e6, "within a session the loop is closed");
    assert_eq!(outcome.scenarios[0].session_time.mean_ns, 400e6);
}

#[test]
fn a_connection_that_ends_between_steps_is_opened_again() {
    let file = r#"
        [[scenario]]
        name = "x"
        think = "10ms,constant"
        step = [{ request = "/a", repeat = 5 }]
    "#;
    for announce in [false, true] {
        let server = move |_: &Request| match announce {
            true => answer("200 OK", "Connection: close\r\n", "x"),
            false => ok("x").then(Then::End),
        };
        let outcome = World::new(counted(file, 10), 1, server).finish();
        assert_balanced(&outcome);
        assert_eq!((outcome.requests.answered, outcome.scenarios[0].completed), (50, 10), "{outcome:?}");
    }
}

#[test]
fn whatever_the_server_does_each_session_is_accounted_for() {
    let file = r#"
        [[scenario]]
        name = "x"
        step = [
            { name = "a", request = "/a/{seq}", capture.length = { header = "Content-Length" } },
            { name = "b", request = "POST /b", body = "{length} {random:5}", check = { contains = "abc" }, think = "1ms..3ms" },
            { name = "a", request = "/c", repeat = 2 },
        ]
    "#;
    for seed in 0..120_u64 {
        let open_loop = (seed % 2 == 0).then(|| OpenLoop {
            waiting_max: 20,
            in_flight_max: (seed % 4 == 0).then_some(1),
            ..OpenLoop::constant(100.0)
        });
        let is_open = open_loop.is_some();
        let file = if seed % 5 == 1 { format!("connection = \"new\"\n{file}") } else { file.to_owned() };
        let settings = Settings {
            timeout: 20 * MILLISECOND,
            connections: 1 + seed as usize % 5,
            keep_alive: seed % 3 != 0,
            open_loop,
            requests: (!is_open).then_some(100),
            duration: is_open.then_some(SECOND),
            seed,
            interval: if seed % 7 == 0 { 10 * MILLISECOND } else { SECOND },
            ..scenario(&file)
        };
        let mut world = World::new(settings, 1 + seed as usize % 3, unruly(seed));
        world.bytewise = seed % 2 == 1;
        let outcome = world.finish();
        assert_balanced(&outcome);
        let sessions = &outcome.scenarios[0];
        if !is_open {
            assert_eq!((sessions.begun, sessions.unfinished), (100, 0), "seed {seed}");
        }
        assert!(sessions.begun > 5 && outcome.requests.answered > 0, "seed {seed}: {outcome:?}");
    }
}

const TWO_STEPS: &str = r#"
    connection = "new"
    [[scenario]]
    name = "visit"
    think = "10ms,constant"
    [[scenario.step]]
    request = "GET /a"
    [[scenario.step]]
    request = "GET /b"
"#;

#[test]
fn each_session_has_a_connection_of_its_own_where_the_file_says_so() {
    for open in [false, true] {
        let settings = counted(TWO_STEPS, 30);
        let open_loop = open.then(|| OpenLoop::constant(200.0));
        let mut world =
            World::new(Settings { connections: 4, open_loop, ..settings }, 2, |_| ok("x").after(MILLISECOND));
        let outcome = world.finish();
        assert_balanced(&outcome);
        assert_eq!((outcome.scenarios[0].completed, outcome.connections.opened), (30, 30), "{outcome:?}");
        let mut by_connection: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        world
            .requests
            .iter()
            .for_each(|request| by_connection.entry(request.connection).or_default().push(request.target()));
        assert!(by_connection.values().all(|targets| targets == &["/a", "/b"]), "{by_connection:?}");
        let closed = world.connections.iter().filter(|connection| connection.is_closed).count();
        assert!(closed >= 28, "{closed}: the last one of a shard is left to the driver");
    }
    let kept = TWO_STEPS.replace("\"new\"", "\"kept\"");
    let outcome = World::new(Settings { connections: 4, ..counted(&kept, 30) }, 1, |_| ok("x")).finish();
    assert_eq!(outcome.connections.opened, 4);
}

#[test]
fn a_new_connection_does_not_leave_an_open_loop_with_fewer_users() {
    // The think time after the last step does not count: the user takes the next arrival at once.
    let file = TWO_STEPS.replace("10ms", "50s").replacen("[[scenario.step]]\n    request = \"GET /b\"", "", 1);
    let settings = Settings { connections: 1, open_loop: Some(OpenLoop::constant(10.0)), ..scenario(&file) };
    let settings = Settings { duration: Some(SECOND), ..settings };
    let outcome = World::new(settings, 1, |_| ok("x").after(MILLISECOND)).finish();
    assert_eq!((outcome.scenarios[0].completed, outcome.errors.len()), (10, 0), "{outcome:?}");
}

#[test]
fn variables_of_the_run_take_the_place_of_the_files() {
    let file = r#"
        [variables]
        page = "home"
        size = "1"
        [[scenario]]
        name = "x"
        step = [{ request = "GET /{page}/{size}/{more}" }]
    "#;
    let variables = [("page", "a b"), ("more", "{uniform:3:4}")];
    let settings = Settings { requests: Some(20), duration: None, ..scenario_with(file, &variables) };
    let mut world = World::new(settings, 1, |_| ok("x"));
    assert_balanced(&world.finish());
    let targets: BTreeSet<&str> = world.requests.iter().map(Request::target).collect();
    assert_eq!(targets, BTreeSet::from(["/a%20b/1/3", "/a%20b/1/4"]));
}
