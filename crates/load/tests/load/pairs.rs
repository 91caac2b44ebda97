//! Pairs of sessions, checked in virtual time against scripted servers: one that is correct, and some that are not.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::terminal::Style;
use breme_load::render_text;
use breme_load_plan::{OpenLoop, Scenarios, Settings, Target, Variables};
use breme_load_result::{LoadOutcome, PairsSummary};

use crate::world::{Reply, Request, Then, World};

const MILLISECOND: Duration = Duration::from_millis(1);

const ADD: &str = r#"
    [[scenario]]
    name = "pairs"
    step = [{ request = "GET /session?name={random:8}&value={random:20}", check = { pairs = true }, repeat = 10 }]
"#;

/// Sessions of ten requests.
fn sessions(count: u64, connections: usize) -> Settings {
    let scenarios = Scenarios::parse(ADD, None, &Variables::default()).unwrap_or_else(|error| panic!("{error}"));
    Settings {
        targets: vec![Target::url("http://a/")],
        scenarios: Some(scenarios),
        cookies: true,
        requests: Some(count),
        duration: None,
        connections,
        ..Settings::new("http://a/")
    }
}

/// The session application.
#[derive(Default)]
struct Application {
    sessions: BTreeMap<String, Vec<String>>,
    begun: usize,
}

impl Application {
    /// The session of the request's cookie, and a new cookie.
    fn session(&mut self, request: &Request) -> (&mut Vec<String>, String) {
        let known = request.text.split_once("Cookie: id=").map(|(_, rest)| rest.lines().next().unwrap().to_owned());
        let (id, field) = match known {
            Some(id) => (id, String::new()),
            None => {
                self.begun += 1;
                let id = format!("{:032x}", self.begun);
                let field = format!("Set-Cookie: id={id}; Path=/\r\n");
                (id, field)
            }
        };
        (self.sessions.entry(id).or_default(), field)
    }
}

fn pair(request: &Request) -> String {
    let query = request.target().split_once("name=").unwrap().1;
    query.replacen("&value=", "=", 1)
}

fn shown(pairs: &[String], field: &str) -> Reply {
    let content: String = pairs.iter().map(|pair| format!("{pair}\n")).collect();
    let text = format!("HTTP/1.1 200 OK\r\n{field}Content-Length: {}\r\n\r\n{content}", content.len());
    Reply { bytes: text.into_bytes(), ..Reply::default() }.after(MILLISECOND)
}

fn status(line: &str) -> Reply {
    let text = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n");
    Reply { bytes: text.into_bytes(), ..Reply::default() }
}

/// A server that is correct except for what `spoil` does with the request number (from 0) of each session and its
/// pairs, which include that of the request.
fn run(settings: Settings, mut spoil: impl FnMut(usize, &mut Vec<String>) -> Option<Reply> + 'static) -> LoadOutcome {
    let mut application = Application::default();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let server = move |request: &Request| {
        let (pairs, field) = application.session(request);
        pairs.push(pair(request));
        let count = counts.entry(pairs[0].clone()).or_default();
        *count += 1;
        spoil(*count - 1, pairs).unwrap_or_else(|| shown(pairs, &field))
    };
    World::new(settings, 2, server).finish()
}

const RIGHT: PairsSummary = PairsSummary {
    responses: 0,
    inconsistent: 0,
    stale: 0,
    lost: 0,
    foreign: 0,
    shared_ids: 0,
    unknown: 0,
    status_500: 0,
    status_503: 0,
};

#[test]
fn a_right_server_is_right() {
    let outcome = run(sessions(30, 4), |_, _| None);
    assert_eq!(outcome.pairs, Some(PairsSummary { responses: 300, ..RIGHT }));
    assert!(outcome.errors.is_empty(), "{outcome:?}");
    let open = Settings { open_loop: Some(OpenLoop::constant(100.0)), ..sessions(30, 40) };
    assert_eq!(run(open, |_, _| None).pairs, Some(PairsSummary { responses: 300, ..RIGHT }));
}

#[test]
fn a_server_that_loses_a_pair() {
    let outcome = run(sessions(5, 2), |number, pairs| {
        if number == 4 {
            pairs.remove(2);
        }
        None
    });
    let expected = PairsSummary { responses: 50, inconsistent: 30, lost: 5, ..RIGHT };
    assert_eq!(outcome.pairs, Some(expected), "each response from the fifth on lacks it");
    assert_eq!(outcome.errors, BTreeMap::from([("assertion".to_owned(), 30)]));
    assert_eq!((outcome.scenarios[0].completed, outcome.scenarios[0].failed), (0, 5));
    let text = render_text(&outcome, Style { colours: false, width: None });
    assert!(text.contains("pairs      30 inconsistent of 50 responses; 0 stale; 5 lost\n"), "{text}");
}

#[test]
fn a_server_that_shows_an_old_state() {
    let outcome = run(sessions(5, 2), |number, pairs| (number == 6).then(|| shown(&pairs[..4], "")));
    assert_eq!(outcome.pairs, Some(PairsSummary { responses: 50, inconsistent: 5, stale: 5, ..RIGHT }));
}

#[test]
fn a_server_that_mixes_sessions() {
    let outcome = run(sessions(5, 2), |number, pairs| {
        let foreign = ["other=pair".to_owned()];
        (number == 3).then(|| shown(&[pairs, &foreign[..]].concat(), ""))
    });
    assert_eq!(outcome.pairs, Some(PairsSummary { responses: 50, foreign: 5, ..RIGHT }));
    assert_eq!(outcome.errors, BTreeMap::from([("assertion".to_owned(), 5)]));
}

#[test]
fn a_server_that_gives_an_id_twice() {
    let field = "Set-Cookie: id=00000000000000000000000000000000; Path=/\r\n";
    let server = |request: &Request| shown(&[pair(request)], field);
    let outcome = World::new(Settings { requests: Some(3), ..sessions(3, 1) }, 1, server).finish();
    let found = outcome.pairs.unwrap();
    assert_eq!((found.shared_ids, found.inconsistent), (20, 27), "of the second session and the third");
}

#[test]
fn a_pair_without_a_response_may_be_there_or_not_and_the_session_goes_on() {
    for is_stored in [false, true] {
        let outcome = run(sessions(5, 2), move |number, pairs| {
            if number == 5 && !is_stored {
                pairs.pop();
            }
            (number == 5).then(|| Reply { then: Then::Reset, ..Reply::default() })
        });
        assert_eq!(outcome.pairs, Some(PairsSummary { responses: 45, unknown: 5, ..RIGHT }), "{is_stored}");
        assert_eq!(outcome.errors, BTreeMap::from([("reset".to_owned(), 5)]));
        assert_eq!(outcome.steps[0].sent, 50);
    }
}

#[test]
fn a_refusal_acknowledges_nothing() {
    for (line, expected) in [
        ("500 Internal Server Error", PairsSummary { responses: 45, status_500: 5, ..RIGHT }),
        ("503 Service Unavailable", PairsSummary { responses: 45, status_503: 5, ..RIGHT }),
    ] {
        let outcome = run(sessions(5, 2), move |number, pairs| {
            if number == 5 {
                pairs.pop();
            }
            (number == 5).then(|| status(line))
        });
        assert_eq!(outcome.pairs, Some(expected));
        assert_eq!(outcome.errors, BTreeMap::from([("status".to_owned(), 5)]));
    }
}
