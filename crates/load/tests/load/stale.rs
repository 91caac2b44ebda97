//! Stale responses and cache hits, counted in virtual time against scripted servers: some that return old versions at
//! known times, and some that never do.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::terminal::Style;
use breme_base::{Instant, Random};
use breme_load::render_text;
use breme_load_plan::{Scenarios, Settings, Target, Variables};
use breme_load_result::{LoadOutcome, StalePageSummary};

use crate::world::{Reply, Request, World, ok};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn sessions(file: &str, count: u64, connections: usize) -> Settings {
    let scenarios = Scenarios::parse(file, None, &Variables::default()).unwrap_or_else(|error| panic!("{error}"));
    Settings {
        targets: vec![Target::url("http://a/")],
        scenarios: Some(scenarios),
        requests: Some(count),
        duration: None,
        connections,
        run_number: 77,
        ..Settings::new("http://a/")
    }
}

fn content(request: &Request) -> String {
    request.text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A page as in a wiki.
fn page(content: &str) -> Reply {
    ok(&format!("<!doctype html><title>a</title><p>{content}</p>"))
}

fn of_cache(said: &str, content: &str) -> Reply {
    let text = format!("HTTP/1.1 200 OK\r\nCache-Status: {said}\r\nContent-Length: {}\r\n\r\n{content}", content.len());
    Reply { bytes: text.into_bytes(), ..Reply::default() }
}

/// The content of a server: all versions of each page.
#[derive(Default)]
struct Pages(BTreeMap<String, Vec<String>>);

impl Pages {
    /// Stores the content of a POST.
    fn take(&mut self, request: &Request) -> bool {
        let is_write = request.text.starts_with("POST ");
        if is_write {
            self.0.entry(request.target().to_owned()).or_default().push(content(request));
        }
        is_write
    }

    fn back(&self, request: &Request, versions: usize) -> Option<&String> {
        let all = self.0.get(request.target())?;
        all.get(all.len().checked_sub(versions + 1)?)
    }
}

const WRITE_AND_READ: &str = r#"
    [[scenario]]
    name = "edit"
    step = [
        { name = "write", request = "POST /wiki/A", body = "text={page_version}", think = "1s,constant" },
        { name = "read", request = "GET /wiki/A", think = "1s,constant" },
    ]
"#;

#[test]
fn planted_old_versions_are_counted_with_their_exact_age() {
    let mut pages = Pages::default();
    let mut reads = 0;
    // Session n writes version n and reads 1 s later: the third and the fifth reader get the version before theirs,
    // the sixth one the first version, which was replaced 8 s before.
    let mut world = World::new(sessions(WRITE_AND_READ, 6, 1), 1, move |request| {
        if pages.take(request) {
            return ok("saved");
        }
        reads += 1;
        let old = [0, 0, 1, 0, 1, 5][reads - 1];
        page(pages.back(request, old).unwrap())
    });
    let outcome = world.finish();
    let stale = outcome.stale.clone().unwrap();
    assert_eq!((stale.count, stale.judged, stale.unversioned, stale.writes), (3, 6, 0, 6));
    // The server of this world takes no time: a read comes 1 s after its session's write, and a session lasts 2 s.
    let oldest = 4 * 2 * SECOND + SECOND;
    let oldest_ns = oldest.as_nanos() as u64;
    // A histogram has three digits.
    let is_near = |age_ns: u64, exactly: u64| age_ns.abs_diff(exactly) <= exactly / 1_000;
    assert_eq!(stale.age.count, 3);
    assert!(is_near(stale.age.min_ns, 1_000_000_000) && is_near(stale.age.max_ns, oldest_ns), "{stale:?}");
    assert_eq!(stale.pages, [StalePageSummary { path: "/wiki/A".to_owned(), count: 3, age_max_ns: oldest_ns }]);
    let text = render_text(&outcome, Style::default());
    assert!(text.contains("versions   3 stale of 6 responses (age 50 % 1.00 s"), "{text}");
    assert!(text.contains("/wiki/A: 3 stale, age up to 9.0"), "{text}");
}

const WRITERS_AND_READERS: &str = r#"
    [[scenario]]
    name = "write"
    weight = 1
    step = [{ request = "POST /wiki/{uniform:1:5}", body = "{random:50} {page_version} {random:50}", think = "20ms" }]
    [[scenario]]
    name = "read"
    weight = 4
    step = [{ request = "GET /wiki/{uniform:1:5}", repeat = 5, think = "5ms" }]
"#;

#[test]
fn a_server_that_always_has_the_last_version_has_no_stale_response() {
    for seed in 0..8 {
        let mut pages = Pages::default();
        let mut random = Random::new(seed);
        // A write takes effect when it arrives, and is acknowledged up to 30 ms later; a read takes as long.
        let server = move |request: &Request| {
            let after = Duration::from_micros(random.below(30_000));
            match (pages.take(request), pages.back(request, 0)) {
                (true, _) => ok("saved"),
                (false, None) => {
                    Reply { bytes: b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::default() }
                }
                (false, Some(content)) => page(content),
            }
            .after(after)
        };
        let mut world = World::new(Settings { seed, ..sessions(WRITERS_AND_READERS, 250, 30) }, 3, server);
        world.bytewise = seed % 4 == 0;
        let stale = world.finish().stale.unwrap();
        assert_eq!((stale.count, stale.unversioned, stale.not_followed), (0, 0, 0), "seed {seed}");
        assert!(stale.judged > 100 && stale.writes > 10, "{stale:?}");
    }
}

#[test]
fn a_cache_that_is_never_purged_gives_versions_as_old_as_its_lifetime() {
    let lifetime = 500 * MILLISECOND;
    let mut pages = Pages::default();
    let mut cached: BTreeMap<String, (Instant, String)> = BTreeMap::new();
    let mut counts = [0_u64; 2];
    let server = move |request: &Request| {
        if pages.take(request) {
            return ok("saved");
        }
        let Some(newest) = pages.back(request, 0).cloned() else { return of_cache("edge; fwd=uri-miss", "none") };
        let kept = cached.get(request.target()).filter(|(since, _)| request.at.since(*since) < lifetime);
        counts[usize::from(kept.is_some())] += 1;
        match kept {
            Some((_, content)) => of_cache("edge; hit", content),
            None => {
                cached.insert(request.target().to_owned(), (request.at, newest.clone()));
                of_cache("edge; fwd=stale; stored", &newest)
            }
        }
    };
    let mut world = World::new(sessions(WRITERS_AND_READERS, 800, 20), 2, server);
    let outcome = world.finish();
    let stale = outcome.stale.unwrap();
    assert!(stale.count > 50 && stale.count < stale.judged, "{stale:?}");
    assert!(stale.age.max_ns <= lifetime.as_nanos() as u64, "{stale:?}");
    assert!(stale.age.max_ns > lifetime.as_nanos() as u64 / 2, "{stale:?}");
    assert_eq!(stale.pages.len(), 5);
    assert_eq!(stale.pages.iter().map(|page| page.count).sum::<u64>(), stale.count);
    let cache = outcome.cache.unwrap();
    let gets = world.requests.iter().filter(|request| request.text.starts_with("GET ")).count() as u64;
    assert_eq!((cache.hits + cache.misses, cache.unsaid), (gets, 0), "writes are not counted");
    assert!(cache.hit_ratio.unwrap() > 0.5, "{cache:?}");
}

#[test]
fn a_write_that_timed_out_is_never_the_reason_for_a_stale_response() {
    // Every second write is answered too late to be acknowledged. It took effect at once, 300 ms later or never: in
    // each case no version shown is certainly stale.
    for effect in [Some(Duration::ZERO), Some(300 * MILLISECOND), None] {
        let mut writes = 0;
        let mut versions: Vec<(Instant, String)> = Vec::new();
        let settings = Settings { timeout: 100 * MILLISECOND, ..sessions(WRITE_AND_READ, 1, 1) };
        let file = r#"
            scenario = [
                { name = "write", step = [{ request = "POST /p", body = "{page_version}", think = "30ms,constant" }] },
                { name = "read", step = [{ request = "GET /p", repeat = 10, think = "30ms,constant" }] },
            ]
        "#;
        let scenarios = Scenarios::parse(file, None, &Variables::default()).unwrap();
        let settings = Settings { scenarios: Some(scenarios), requests: Some(60), connections: 1, ..settings };
        let mut world = World::new(settings, 1, move |request| {
            if request.text.starts_with("POST ") {
                writes += 1;
                let is_late = writes % 2 == 0;
                if let Some(delay) = if is_late { effect } else { Some(Duration::ZERO) } {
                    versions.push((request.at + delay, content(request)));
                }
                return ok("saved").after(if is_late { SECOND } else { MILLISECOND });
            }
            let newest = versions.iter().filter(|(at, _)| *at <= request.at).max_by_key(|(at, _)| *at);
            page(newest.map_or("", |(_, content)| content))
        });
        let outcome = world.finish();
        let stale = outcome.stale.unwrap();
        assert_eq!(stale.count, 0, "{effect:?} {stale:?}");
        assert!(outcome.errors["timeout"] > 5 && stale.judged > 50, "{stale:?}");
    }
}

#[test]
fn pages_that_show_no_version_or_that_of_another_run_are_counted_apart() {
    let mut reads = 0;
    let mut world = World::new(sessions(WRITE_AND_READ, 4, 1), 1, move |request| {
        if request.text.starts_with("POST ") {
            return ok("saved");
        }
        reads += 1;
        match reads {
            1 => page("nothing"),
            2 => page("breme-version-0000000000000078-0000000-000000001-end"),
            3 => Reply { bytes: b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::default() },
            _ => page("breme-version-000000000000004d-0000000-000000004-end"),
        }
    });
    let stale = world.finish().stale.unwrap();
    assert_eq!((stale.count, stale.judged, stale.unversioned), (0, 1, 2));
}

#[test]
fn hits_are_counted_without_versions_where_they_are_wanted() {
    let run = |cache_status| -> LoadOutcome {
        let settings = Settings { requests: Some(1_000), duration: None, cache_status, ..Settings::new("http://a/p") };
        let mut served = 0;
        let mut world = World::new(settings, 2, move |_| {
            served += 1;
            of_cache(if served % 10 == 1 { "edge; fwd=uri-miss; stored" } else { "edge; hit" }, "page")
        });
        world.finish()
    };
    let mut outcome = run(true);
    outcome.count_origin(101);
    let cache = outcome.cache.unwrap();
    assert_eq!((cache.hits, cache.misses, cache.unsaid, cache.hit_ratio), (900, 100, 0, Some(0.9)));
    assert!(outcome.stale.is_none());
    let text = render_text(&outcome, Style::default());
    assert_eq!((cache.origin_requests, cache.origin_hit_ratio), (Some(101), Some(0.899)));
    let expected = "cache      900 hits of 1,000 responses (90 %); 101 requests reached the origin by its own count (hit ratio 90 %)";
    assert!(text.contains(expected), "{text}");
    assert!(run(false).cache.is_none());
}
