//! A proxy with a cache, byte for byte, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{EjectionSettings, GroupSettings};
use breme_base::Instant;
use breme_cache::{Cache, Purge, PurgeMode};
use breme_node::{Close, PRESSURE_TURN};
use breme_proxy::{ProxyCounts, RequestOutcome, Settings};
use breme_sim::{AmountRange, Network};
use breme_testkit::{Ending, Script};

use crate::support::{Acts, Play, error_response, failure, head, later, silent, text};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT";

fn cache() -> Arc<Cache> {
    let settings =
        breme_cache::CacheSettings { lifetime_spread_percent: 0, ..breme_cache::CacheSettings::new(4 << 20) };
    Cache::new(settings).unwrap()
}

fn play(clients: Vec<Script>, upstream: Vec<Acts>) -> ProxyCounts {
    play_with(cache(), silent(), clients, upstream)
}

fn play_with(cache: Arc<Cache>, settings: Settings, clients: Vec<Script>, upstream: Vec<Acts>) -> ProxyCounts {
    let known = cache.clone();
    let counts = Play { cache: Some(cache), settings, ..Play::new(clients, upstream) }.run();
    assert_eq!(known.statistics().fills, 0, "nothing is under way any more");
    counts
}

/// A response of the upstream.
fn origin(more: &str, content: &str) -> String {
    head(&["HTTP/1.1 200 OK", &format!("Content-Length: {}", content.len()), DATE, more]) + content
}

/// The upstream's response as relayed to a client.
fn relayed(more: &str, content: &str, said: &str) -> String {
    let length = format!("Content-Length: {}", content.len());
    head(&["HTTP/1.1 200 OK", &length, DATE, more, &format!("Cache-Status: breme; {said}")]) + content
}

/// The upstream's response as served from the store.
fn stored(more: &str, content: &str, age: u64, said: &str) -> String {
    let length = format!("Content-Length: {}", content.len());
    head(&["HTTP/1.1 200 OK", &length, DATE, more, &format!("Age: {age}"), &format!("Cache-Status: breme; {said}")])
        + content
}

const FRESH: &str = "Cache-Control: max-age=60";

/// The request `GET` with one more header line.
fn get_with(line: &str) -> String {
    GET.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn serves_stored_response_without_upstream() {
    let head_request = GET.replace("GET", "HEAD");
    let head_answer = stored(FRESH, "hello", 2, "hit; ttl=58").strip_suffix("hello").unwrap().to_owned();
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(FRESH, "hello", "fwd=uri-miss; stored")))
        .send(GET)
        .expect(text(stored(FRESH, "hello", 0, "hit; ttl=60")))
        .wait(seconds(2))
        .send(text(head_request))
        .expect(text(head_answer))
        .send(text(get_with("Range: bytes=1-2")))
        .expect(text(
            head(&[
                "HTTP/1.1 206 Partial Content",
                "Content-Length: 2",
                DATE,
                FRESH,
                "Content-Range: bytes 1-2/5",
                "Age: 2",
                "Cache-Status: breme; hit; ttl=58",
            ]) + "el",
        ))
        .part();
    let counts = play(vec![client], vec![Acts::new().expect(GET).send(origin(FRESH, "hello"))]);
    assert_eq!((counts.cache_hits, counts.cache_misses, counts.connects), (3, 1, 1));
    assert_eq!(counts.cache_bytes, 7);
}

/// It is an error response like any other: no Cache-Status, but a text, and no failure of an upstream.
#[test]
fn only_if_cached_without_stored_response_is_an_error_of_the_proxy() {
    let request = get_with("Cache-Control: only-if-cached");
    let reason = "Proxy error: the cache has no response for this request, which forbids asking the upstream.\n";
    let error = error_response(504, &[], reason);
    let without_text = error.strip_suffix(reason).unwrap().to_owned();
    let client = Script::new().connect().send(text(request.clone())).expect(text(error));
    let client = client.send(text(request.replace("GET", "HEAD"))).expect(text(without_text));
    let counts = play(vec![client.part()], Vec::new());
    assert_eq!((counts.cache_hits, counts.gateway_timeouts, counts.responses_of_class(5)), (0, 0, 2));
}

/// The last response to a client that must leave because others wait is not replayed.
#[test]
fn cached_clients_leave_after_a_turn_under_pressure() {
    let step = PRESSURE_TURN / 8;
    let hit = stored(FRESH, "hello", 0, "hit; ttl=60");
    let first = Script::new().connect().send(GET).expect(text(relayed(FRESH, "hello", "fwd=uri-miss; stored")));
    let repeated = (1..8).fold(first, |script, _| script.wait(step).send(GET).expect(text(hit.clone())));
    let last = hit.replacen("Date", "Connection: close\r\nDate", 1);
    let client = repeated.wait(step).send(text(GET.repeat(3))).expect(text([&*hit, &hit, &last].concat()));
    let pressure = Some(Duration::ZERO..seconds(60));
    let upstream = vec![Acts::new().expect(GET).send(origin(FRESH, "hello")).expect_end()];
    let clients = vec![client.part_after_end()];
    let counts = Play { cache: Some(cache()), pressure, ..Play::new(clients, upstream) }.run();
    assert_eq!((counts.cache_hits, counts.evicted), (10, 1));
    assert!(counts.requests_replayed > 0, "some of them were repeated");
}

#[test]
fn repeated_and_pipelined_requests_hit_the_store() {
    let hit = stored(FRESH, "hello", 0, "hit; ttl=60");
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(FRESH, "hello", "fwd=uri-miss; stored")))
        .send(text(GET.repeat(20)))
        .expect(text(hit.repeat(20)))
        .wait(seconds(1))
        .send(text(GET.repeat(20)))
        .expect(text(stored(FRESH, "hello", 1, "hit; ttl=59").repeat(20)))
        .part();
    let counts = play(vec![client], vec![Acts::new().expect(GET).send(origin(FRESH, "hello"))]);
    assert_eq!((counts.cache_hits, counts.cache_misses, counts.cache_bytes), (40, 1, 200));
    assert!(counts.requests_replayed >= 38, "{counts:?}");
    assert_eq!(counts.responses_of_class(2), 41);
    let requests = |outcome| counts.requests(outcome);
    assert_eq!(RequestOutcome::ALL.map(requests), [40, 1, 0, 0], "hit, miss, relayed, error");
}

#[test]
fn replay_ends_with_the_stored_response() {
    let cache = cache();
    let first = "Cache-Control: max-age=10";
    let hit = |age| text(stored(first, "one", age, &format!("hit; ttl={}", 10 - age)).repeat(3));
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(first, "one", "fwd=uri-miss; stored")))
        .send(text(GET.repeat(3)))
        .expect(hit(0))
        .wait(seconds(9))
        .send(text(GET.repeat(3)))
        .expect(hit(9))
        .wait(seconds(1))
        .send(GET)
        .expect(text(later(10, relayed(FRESH, "two", "fwd=stale; stored"))))
        .send(text(GET.repeat(3)))
        .expect(text(later(10, stored(FRESH, "two", 0, "hit; ttl=60").repeat(3))))
        .send(text("PUT /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n"))
        .expect(text(relayed("X: y", "ok", "fwd=method")))
        .send(GET)
        .expect(text(relayed(FRESH, "three", "fwd=uri-miss; stored")))
        .part();
    let put = "PUT /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
    let upstream = |request: &str, answer: String| Acts::new().expect(request).send(answer).close(Close::Graceful);
    let upstream = vec![
        upstream(GET, origin(first, "one")),
        upstream(GET, later(10, origin(FRESH, "two"))),
        upstream(put, origin("X: y", "ok")),
        upstream(GET, origin(FRESH, "three")),
    ];
    let counts = play_with(cache, silent(), vec![client], upstream);
    assert_eq!((counts.cache_hits, counts.cache_misses), (9, 3));
    assert!(counts.requests_replayed >= 5, "{counts:?}");
}

#[test]
fn simultaneous_misses_collapse_into_one_request() {
    const CLIENTS: usize = 1000;
    let content = "x".repeat(10_000);
    let leader =
        Script::new().connect().send(GET).expect(text(relayed(FRESH, &content, "fwd=uri-miss; stored"))).part();
    let follower = Script::new()
        .connect()
        .wait(seconds(1))
        .send(GET)
        .expect(text(stored(FRESH, &content, 5, "fwd=uri-miss; collapsed")))
        .part();
    let clients = std::iter::once(leader).chain(std::iter::repeat_n(follower, CLIENTS - 1)).collect();
    let answer = origin(FRESH, &content);
    let (first, rest) = answer.split_at(answer.len() - 6_000);
    let upstream = Acts::new().expect(GET).wait(seconds(5)).send(first).wait(seconds(3)).send(rest);
    // The content arrives in two pieces, seconds apart. The age is that at the head, including the time in transit.
    let counts = play(clients, vec![upstream]);
    assert_eq!((counts.connects, counts.cache_misses, counts.cache_collapsed), (1, 1, CLIENTS as u64 - 1));
}

#[test]
fn followers_stream_chunks() {
    let chunked =
        |more: &[&str]| head(&[&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", DATE, FRESH][..], more].concat());
    let leader = Script::new()
        .connect()
        .send(GET)
        .expect(text(chunked(&["Cache-Status: breme; fwd=uri-miss; stored"]) + "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"))
        .part();
    let follower = Script::new()
        .connect()
        .wait(seconds(2))
        .send(GET)
        .expect(text(chunked(&["Age: 2", "Cache-Status: breme; fwd=uri-miss; collapsed"]) + "3\r\nabc\r\n"))
        .expect(text("3\r\ndef\r\n0\r\n\r\n"))
        .part();
    let upstream = Acts::new()
        .expect(GET)
        .wait(seconds(1))
        .send(chunked(&[]) + "3\r\nabc\r\n")
        .wait(seconds(5))
        .send("3\r\ndef\r\n0\r\n\r\n");
    play(vec![leader, follower], vec![upstream]);
}

#[test]
fn private_response_releases_all_followers() {
    const CLIENTS: usize = 50;
    let more = "Cache-Control: private";
    let client = |said: &str, delay| {
        Script::new().connect().wait(delay).send(GET).expect(text(relayed(more, "mine", said))).part()
    };
    let clients: Vec<Script> =
        (0..CLIENTS).map(|number| client("fwd=uri-miss", Duration::from_millis(number as u64))).collect();
    let first = Acts::new().expect(GET).wait(seconds(2)).send(origin(more, "mine")).close(Close::Graceful);
    // The others are forwarded at the same time, each on its own connection.
    let others = Acts::new().expect(GET).wait(seconds(2)).send(origin(more, "mine")).expect_end();
    let upstream = std::iter::once(first).chain(std::iter::repeat_n(others, CLIENTS - 1)).collect();
    let counts = play(clients, upstream);
    assert_eq!((counts.cache_misses, counts.cache_collapsed), (CLIENTS as u64, 0));
    assert!(counts.connects >= CLIENTS as u64 - 1, "{counts:?}");
}

#[test]
fn a_purge_during_a_fill() {
    let cache = cache();
    let purging = cache.clone();
    let old = Script::new().connect().send(GET).expect(text(relayed(FRESH, "old", "fwd=uri-miss; stored"))).part();
    let new = Script::new()
        .connect()
        .wait(seconds(5))
        .send(text("POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n"))
        .expect(text(relayed("X: y", "ok", "fwd=method")))
        .send(GET)
        .expect(text(later(5, relayed(FRESH, "new", "fwd=uri-miss; stored"))))
        .wait(seconds(20))
        .send(GET)
        .expect(text(later(5, stored(FRESH, "new", 20, "hit; ttl=40"))))
        .part();
    let upstream = vec![
        Acts::new().expect(GET).wait(seconds(10)).send(origin(FRESH, "old")),
        Acts::new()
            .expect("POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n")
            .send(origin("X: y", "ok"))
            .expect(GET)
            .send(later(5, origin(FRESH, "new"))),
    ];
    play_with(cache, silent(), vec![old, new], upstream);
    assert_eq!(purging.purge(&Purge::All, PurgeMode::Hard, Instant::ZERO), Ok(1));
}

#[test]
fn serves_stale_during_one_refresh() {
    let more = "Cache-Control: max-age=2, stale-while-revalidate=60\r\nETag: \"1\"";
    let fresh = "Cache-Control: max-age=100\r\nETag: \"2\"";
    let stale = |said: &str| text(stored(more, "one", 5, said));
    let first = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(more, "one", "fwd=uri-miss; stored")))
        .wait(seconds(5))
        .send(text(GET.repeat(3)))
        .expect(stale("hit; ttl=-3"))
        .expect(stale("hit; ttl=-3"))
        .expect(stale("hit; ttl=-3"))
        .wait(seconds(6))
        .send(GET)
        .expect(text(later(7, stored(fresh, "two", 6, "hit; ttl=94"))))
        .part();
    let validate = get_with("If-None-Match: \"1\"");
    let upstream = Acts::new().expect(GET).send(origin(more, "one")).close(Close::Graceful);
    let refresh = Acts::new().expect(validate).wait(seconds(2)).send(later(7, origin(fresh, "two")));
    let counts = play(vec![first], vec![upstream, refresh]);
    assert_eq!((counts.cache_stale, counts.cache_hits, counts.connects), (3, 1, 2));
}

const STALE: &str = "Cache-Control: max-age=2\r\nETag: \"1\"";

/// A client whose next request finds a stale response with the content `one`.
fn client_of_stale_response() -> Script {
    Script::new().connect().send(GET).expect(text(relayed(STALE, "one", "fwd=uri-miss; stored"))).wait(seconds(3))
}

#[test]
fn revalidation_304_is_not_relayed() {
    // The 304 has no Date, so the proxy's clock counts, and the response is fresh again.
    let refreshed = |start: &str, said: &str| {
        let status = format!("Cache-Status: breme; {said}");
        later(3, head(&[start, "ETag: \"1\"", "Cache-Control: max-age=100", DATE, "Age: 0", &status]))
    };
    let validate = get_with("If-None-Match: \"1\"");
    let not_modified = head(&["HTTP/1.1 304 Not Modified", "ETag: \"1\"", "Cache-Control: max-age=100"]);
    let client = client_of_stale_response()
        .send(GET)
        .expect(text(
            refreshed("HTTP/1.1 200 OK\r\nContent-Length: 3", "fwd=stale; fwd-status=304; ttl=100; stored") + "one",
        ))
        .send(text(validate.clone()))
        .expect(text(refreshed("HTTP/1.1 304 Not Modified", "hit; ttl=100")))
        .send("GET /b HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .expect(text(relayed(FRESH, "b", "fwd=uri-miss; stored")))
        .part();
    let upstream = Acts::new()
        .expect(GET)
        .send(origin(STALE, "one"))
        .expect(validate)
        .send(not_modified)
        .expect("GET /b HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .send(origin(FRESH, "b"));
    let counts = play(vec![client], vec![upstream]);
    assert_eq!((counts.cache_revalidated, counts.connects, counts.reuses), (1, 1, 2));
}

/// A 304 whose validator is not that of the stored response: the request is sent again without conditions.
#[test]
fn revalidation_304_with_other_validator_fetches_response() {
    let fresh = "Cache-Control: max-age=100\r\nETag: \"2\"";
    let validate = get_with("If-None-Match: \"1\"");
    let client = client_of_stale_response()
        .send(text(get_with("If-None-Match: \"0\"")))
        .expect(text(later(3, relayed(fresh, "two", "fwd=stale; stored"))))
        .send(GET)
        .expect(text(later(3, stored(fresh, "two", 0, "hit; ttl=100"))))
        .part();
    let not_modified = head(&["HTTP/1.1 304 Not Modified", fresh]);
    let upstream = vec![
        Acts::new().expect(GET).send(origin(STALE, "one")).expect(validate).send(not_modified).expect_end(),
        Acts::new().expect(GET).send(later(3, origin(fresh, "two"))),
    ];
    let counts = play(vec![client], upstream);
    assert_eq!((counts.cache_revalidated, counts.connects, counts.reuses, counts.retries), (0, 2, 1, 1));
}

#[test]
fn serves_stale_if_error() {
    let more = "Cache-Control: max-age=2, stale-if-error=100";
    let bad = head(&["HTTP/1.1 500 Internal Server Error", "Content-Length: 5"]) + "sorry";
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(more, "one", "fwd=uri-miss; stored")))
        .wait(seconds(3))
        .send(GET)
        .expect(text(stored(more, "one", 3, "fwd=stale; fwd-status=500; ttl=-1; detail=upstream-failed")))
        .send(GET)
        .expect(text(stored(more, "one", 3, "fwd=stale; ttl=-1; detail=upstream-failed")))
        .part();
    let upstream = vec![
        Acts::new().expect(GET).send(origin(more, "one")).expect(GET).send(bad).expect_end(),
        Acts::new().expect(GET).send("HTTP/1.1 200 OK\r\nContent-").close(Close::Graceful),
    ];
    let counts = play(vec![client], upstream);
    assert_eq!((counts.cache_stale, counts.bad_gateway), (2, 0));
}

/// The balancer counts what the upstream said, not what the client got.
#[test]
fn failure_status_behind_a_stale_response_counts_against_the_upstream() {
    let more = "Cache-Control: max-age=2, stale-if-error=100";
    let bad = |content: &str| {
        head(&["HTTP/1.1 503 Service Unavailable", &format!("Content-Length: {}", content.len())]) + content
    };
    let stale = text(stored(more, "one", 3, "fwd=stale; fwd-status=503; ttl=-1; detail=upstream-failed"));
    let client = Script::new().connect().send(GET).expect(text(relayed(more, "one", "fwd=uri-miss; stored")));
    let client = client.wait(seconds(3)).send(GET).expect(stale.clone()).send(GET).expect(stale).part();
    let upstream = Acts::new().expect(GET).send(origin(more, "one")).expect(GET).send(bad("")).expect(GET);
    let group = GroupSettings { ejection: Some(EjectionSettings::default()), ..GroupSettings::default() };
    let play = Play { cache: Some(cache()), group, ..Play::new(vec![client], vec![upstream.send(bad("sorry"))]) };
    let (counts, group) = play.run_balanced();
    let totals = group.states(Instant::ZERO)[0].totals;
    assert_eq!((counts.cache_stale, totals.responded, totals.failure_statuses), (2, 3, 2));
}

/// Such an Upgrade is not forwarded, so the cache may take part: it responds, and it is invalidated.
#[test]
fn request_that_offers_http2_uses_the_cache() {
    const H2C: &str = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk";
    let delete = GET.replace("GET", "DELETE");
    let miss = text(relayed(FRESH, "hello", "fwd=uri-miss; stored"));
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(miss.clone())
        .send(text(get_with(H2C)))
        .expect(text(stored(FRESH, "hello", 0, "hit; ttl=60")))
        .send(text(get_with(H2C).replace("GET", "DELETE")))
        .expect(text(relayed("X: y", "gone", "fwd=method")))
        .send(GET)
        .expect(miss)
        .part();
    let upstream = Acts::new().expect(GET).send(origin(FRESH, "hello")).expect(delete).send(origin("X: y", "gone"));
    play(vec![client], vec![upstream.expect(GET).send(origin(FRESH, "hello"))]);
}

#[test]
fn forwarded_upgrade_bypasses_the_cache() {
    const CHAT: &str = "Connection: upgrade\r\nUpgrade: websocket";
    let (upgrade, bypassed) = (get_with(CHAT), text(relayed(FRESH, "two", "fwd=bypass")));
    let miss = text(relayed(FRESH, "one", "fwd=uri-miss; stored"));
    let client = Script::new().connect().send(GET).expect(miss).send(text(upgrade.clone())).expect(bypassed);
    let acts = Acts::new().expect(GET).send(origin(FRESH, "one")).expect(&upgrade).send(origin(FRESH, "two"));
    let switched = head(&["HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket"]);
    let acts = acts.expect(&upgrade).send(&switched).expect("ping").send("pong").finish().expect_end();
    let client = client.send(text(upgrade.clone())).expect(text(switched)).send("ping").expect("pong");
    play(vec![client.finish().part_after_end()], vec![acts]);
    // Without upgrades, the field is of no effect.
    let hit = text(stored(FRESH, "one", 0, "hit; ttl=60"));
    let miss = text(relayed(FRESH, "one", "fwd=uri-miss; stored"));
    let client = Script::new().connect().send(GET).expect(miss).send(text(upgrade)).expect(hit).part();
    let settings = Settings { upgrades: false, ..silent() };
    play_with(cache(), settings, vec![client], vec![Acts::new().expect(GET).send(origin(FRESH, "one"))]);
}

#[test]
fn fill_continues_for_followers_after_client_leaves() {
    let answer = origin(FRESH, "abcdef");
    let (first, rest) = answer.split_at(answer.len() - 3);
    let leader = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(FRESH, "abcdef", "fwd=uri-miss; stored").strip_suffix("def").unwrap().to_owned()))
        .wait(seconds(2))
        .close(Close::Abort)
        .expect_closed(Ending::Any);
    let follower = Script::new()
        .connect()
        .wait(seconds(1))
        .send(GET)
        .expect(text(stored(FRESH, "abcdef", 1, "fwd=uri-miss; collapsed")))
        .part();
    let upstream = Acts::new().expect(GET).send(first).wait(seconds(10)).send(rest);
    let counts = play(vec![leader, follower], vec![upstream]);
    assert_eq!((counts.clients_gone, counts.connects), (1, 1));
}

const OTHER: &str = "GET /b HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn chunked(more: &[&str]) -> String {
    head(&[&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", DATE][..], more].concat())
}

/// The upstream has one place, which the last client needs.
fn play_with_one_place(clients: Vec<Script>, mut upstream: Vec<Acts>) -> ProxyCounts {
    let cache = cache();
    upstream.push(Acts::new().expect(OTHER).send(origin(FRESH, "b")));
    let group = GroupSettings { outstanding_max: 1, ..GroupSettings::default() };
    let counts = Play { cache: Some(cache.clone()), group, ..Play::new(clients, upstream) }.run();
    assert_eq!(cache.statistics().fills, 0);
    counts
}

fn needs_the_place(script: Script) -> Script {
    script.send(OTHER).expect(text(relayed(FRESH, "b", "fwd=uri-miss; stored"))).part()
}

#[test]
fn endless_refresh_ends_if_it_is_not_stored() {
    let more = "Cache-Control: max-age=2, stale-while-revalidate=60\r\nETag: \"1\"";
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(more, "one", "fwd=uri-miss; stored")))
        .wait(seconds(5))
        .send(GET)
        .expect(text(stored(more, "one", 5, "hit; ttl=-3")))
        .wait(seconds(1));
    let endless = chunked(&["Cache-Control: no-store"]) + "3\r\nabc\r\n";
    let first = Acts::new().expect(GET).send(origin(more, "one")).close(Close::Graceful);
    let refresh = Acts::new().expect(get_with("If-None-Match: \"1\"")).send(endless).expect_end();
    play_with_one_place(vec![needs_the_place(client)], vec![first, refresh]);
}

#[test]
fn endless_fetch_ends_after_the_last_follower() {
    let fetched = Acts::new()
        .expect(GET)
        .send(chunked(&[FRESH]) + "3\r\nabc\r\n")
        .wait(seconds(3))
        .send("3\r\ndef\r\n")
        .wait(seconds(3))
        .send("3\r\nghi\r\n")
        .expect_end();
    let leader = Script::new()
        .connect()
        .send(GET)
        .expect(text(chunked(&[FRESH, "Cache-Status: breme; fwd=uri-miss; stored"]) + "3\r\nabc\r\n"))
        .wait(seconds(2))
        .close(Close::Abort)
        .expect_closed(Ending::Any);
    let follower = Script::new()
        .connect()
        .wait(seconds(1))
        .send(GET)
        .expect(text(chunked(&[FRESH, "Age: 1", "Cache-Status: breme; fwd=uri-miss; collapsed"]) + "3\r\nabc\r\n"))
        .expect(text("3\r\ndef\r\n"))
        .close(Close::Abort)
        .expect_closed(Ending::Any);
    let last = needs_the_place(Script::new().connect().wait(seconds(7)));
    assert_eq!(play_with_one_place(vec![leader, follower, last], vec![fetched]).clients_gone, 2);
}

#[test]
fn endless_fetch_ends_if_all_left_before_its_head() {
    let leaves = |script: Script, after| {
        let script = script.connect().send(GET).wait(seconds(after));
        script.close(Close::Abort).expect_closed(Ending::Any)
    };
    // The second client follows the first one.
    let first = leaves(Script::new(), 1);
    let second = leaves(Script::new().wait(Duration::from_millis(500)), 2);
    let fetched = Acts::new().expect(GET).wait(seconds(4)).send(chunked(&[FRESH]) + "3\r\nabc\r\n");
    let last = needs_the_place(Script::new().connect().wait(seconds(5)));
    play_with_one_place(vec![first, second, last], vec![fetched.expect_end()]);
}

#[test]
fn follower_wait_is_bounded() {
    let slow = Script::new().connect().send(GET).expect(text(relayed(FRESH, "slow", "fwd=uri-miss; stored"))).part();
    let impatient = Script::new()
        .connect()
        .wait(seconds(1))
        .send(GET)
        .expect(text(relayed(FRESH, "fast", "fwd=uri-miss; stored")))
        .part();
    let upstream = vec![
        Acts::new().expect(GET).wait(seconds(30)).send(origin(FRESH, "slow")),
        Acts::new().expect(GET).send(origin(FRESH, "fast")),
    ];
    play(vec![slow, impatient], upstream);
}

#[test]
fn slow_follower_does_not_delay_others() {
    let content = "0123456789".repeat(40_000);
    let leader =
        Script::new().connect().send(GET).expect(text(relayed(FRESH, &content, "fwd=uri-miss; stored"))).part();
    let reads = |delay| {
        Script::new()
            .connect()
            .wait(seconds(1))
            .send(GET)
            .pause()
            .wait(delay)
            .resume()
            .expect(text(stored(FRESH, &content, 2, "fwd=uri-miss; collapsed")))
            .part()
    };
    let answer = origin(FRESH, &content);
    let (first, rest) = answer.split_at(answer.len() / 2);
    let upstream = Acts::new().expect(GET).wait(seconds(2)).send(first).wait(seconds(2)).send(rest);
    play(vec![leader, reads(seconds(0)), reads(seconds(50))], vec![upstream]);
}

/// The content fills every buffer on its way to a client that does not read.
fn parted(clients: Vec<Script>, upstream: Acts, by: u64) -> (Arc<Cache>, ProxyCounts) {
    let network = Network {
        window_bytes: AmountRange::always(16 << 10),
        long_queue_bytes: AmountRange::always(64 << 10),
        ..Network::calm()
    };
    let cache = cache();
    let play = Play { network, cache: Some(cache.clone()), ..Play::new(clients, vec![upstream]) };
    let (counts, peak) = play.run_until(seconds(by));
    assert!(peak < 400 << 10, "{peak} bytes wait for who does not read");
    assert_eq!(cache.statistics().fills, 0);
    (cache, counts)
}

/// The client that caused the fetch reads at its own pace.
#[test]
fn slow_first_client_does_not_delay_others() {
    let content = "0123456789".repeat(50_000);
    let first = Script::new().connect().send(GET).pause().wait(seconds(50)).resume();
    let first = first.expect(text(relayed(FRESH, &content, "fwd=uri-miss; stored")));
    let first = first.send(GET).expect(text(stored(FRESH, &content, 50, "hit; ttl=10"))).part();
    let other = |after, said: &str| {
        let script = Script::new().connect().wait(seconds(after) + Duration::from_millis(100)).send(GET);
        script.expect(text(stored(FRESH, &content, after, said))).part()
    };
    let clients = vec![first, other(1, "hit; ttl=59"), other(2, "hit; ttl=58")];
    let (_, counts) = parted(clients, Acts::new().expect(GET).send(origin(FRESH, &content)).expect_end(), 49);
    assert_eq!((counts.connects, counts.cache_misses, counts.cache_hits), (1, 1, 3));
}

/// If the upstream truncates the response, the slow client gets a truncated one, too.
#[test]
fn slow_first_client_detects_truncation() {
    let content = "0123456789".repeat(50_000);
    let answer = origin(FRESH, &content);
    let half = &answer[..answer.len() / 2];
    let relayed = relayed(FRESH, &content, "fwd=uri-miss; stored");
    let first = Script::new().connect().send(GET).pause().wait(seconds(3)).resume();
    let first = first.expect_gone(text(&relayed[..relayed.len() - 1]));
    let upstream = Acts::new().expect(GET).send(half).wait(seconds(1)).close(Close::Abort);
    let (cache, counts) = parted(vec![first], upstream, 2);
    assert_eq!((cache.statistics().objects, counts.responses_of_class(2)), (0, 0));
}

/// The response is stored nevertheless: the upstream sends it anyway.
#[test]
fn slow_first_client_may_leave() {
    let content = "0123456789".repeat(50_000);
    let first = Script::new().connect().send(GET).pause().wait(seconds(5)).close(Close::Abort);
    let other = Script::new().connect().wait(Duration::from_millis(9_100)).send(GET);
    let other = other.expect(text(stored(FRESH, &content, 9, "hit; ttl=51"))).part();
    let clients = vec![first.expect_closed(Ending::Any), other];
    let (_, counts) = parted(clients, Acts::new().expect(GET).send(origin(FRESH, &content)).expect_end(), 4);
    assert_eq!((counts.clients_gone, counts.responses_of_class(2)), (1, 1));
}

#[test]
fn upstream_authority_matches_cache_key() {
    let request = |host: &str| format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let client = Script::new()
        .connect()
        .send(text(request("A.Example.:80")))
        .expect(text(relayed(FRESH, "one", "fwd=uri-miss; stored")))
        .send(text(request("a.example")))
        .expect(text(stored(FRESH, "one", 0, "hit; ttl=60")))
        .part();
    play(vec![client], vec![Acts::new().expect(GET).send(origin(FRESH, "one"))]);
}

#[test]
fn bypass_header_skips_the_cache() {
    let settings = Settings { cache_bypass_header: Some("X-Bypass".to_owned()), ..silent() };
    let past = "GET /a HTTP/1.1\r\nHost: a.example\r\nx-bypass: 1\r\n\r\n";
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(FRESH, "one", "fwd=uri-miss; stored")))
        .send(past)
        .expect(text(relayed(FRESH, "two", "fwd=bypass")))
        .send(GET)
        .expect(text(stored(FRESH, "one", 0, "hit; ttl=60")))
        .part();
    let upstream = Acts::new().expect(GET).send(origin(FRESH, "one")).expect(past).send(origin(FRESH, "two"));
    let counts = play_with(cache(), settings, vec![client], vec![upstream]);
    assert_eq!(counts.cache_bypassed, 1);
}

/// The content of a request whose response is early or from memory is drained, or the connection is closed: it is never
/// parsed as a request (CVE-2025-4366).
#[test]
fn request_body_is_never_parsed_as_request() {
    let smuggled = "GET /admin HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let fat = format!("GET /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len());
    let client = Script::new()
        .connect()
        .send(GET)
        .expect(text(relayed(FRESH, "one", "fwd=uri-miss; stored")))
        .send(text(format!("{fat}{GET}")))
        .expect(text(relayed(FRESH, "fat", "fwd=bypass")))
        .expect(text(stored(FRESH, "one", 0, "hit; ttl=60")))
        .part();
    let upstream = Acts::new().expect(GET).send(origin(FRESH, "one")).expect(fat).send(origin(FRESH, "fat"));
    play(vec![client], vec![upstream]);
}

/// The response to a POST whose Content-Location is the target is reused for GET, independent of the POST's content;
/// and a response requested before a change is not stored (RFC 9110, 9.3.3; RFC 9111, 4.4).
#[test]
fn stores_post_response_unless_invalidated_meanwhile() {
    let post = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nGET /";
    let put = "PUT /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
    let itself = "Cache-Control: max-age=60\r\nContent-Location: /a";
    let first = Script::new()
        .connect()
        .send(text(format!("{post}{GET}")))
        .expect(text(relayed(itself, "made", "fwd=method; stored")))
        .expect(text(stored(itself, "made", 0, "hit; ttl=60")))
        .send(post)
        .expect(text(later(5, relayed(itself, "late", "fwd=method; stored"))))
        .send(GET)
        .expect(text(later(5, relayed(FRESH, "new", "fwd=uri-miss; stored"))))
        .part();
    let second =
        Script::new().connect().wait(seconds(2)).send(put).expect(text(relayed("X: y", "", "fwd=method"))).part();
    let upstream = vec![
        // After a request with content the connection is not reused, since its next response may be stored for others.
        Acts::new().expect(post).send(origin(itself, "made")).expect_end(),
        Acts::new().expect(post).wait(seconds(5)).send(later(5, origin(itself, "late"))).expect_end(),
        Acts::new().expect(put).send(origin("X: y", "")).expect(GET).send(later(5, origin(FRESH, "new"))),
    ];
    play(vec![first, second], upstream);
}

#[test]
fn stores_and_joins_partial_responses() {
    let range = |bytes: &str| get_with(&format!("Range: bytes={bytes}"));
    let more = |place: &str| format!("{FRESH}\r\nETag: \"1\"\r\nContent-Range: bytes {place}/10");
    let as_part = |answer: String| answer.replace("200 OK", "206 Partial Content");
    let hit = |place: &str, content: &str| {
        let length = format!("Content-Length: {}", content.len());
        let lines = [FRESH, "ETag: \"1\"", &format!("Content-Range: bytes {place}/10"), "Age: 0"].join("\r\n");
        as_part(head(&["HTTP/1.1 200 OK", &length, DATE, &lines, "Cache-Status: breme; hit; ttl=60"])) + content
    };
    let client = Script::new()
        .connect()
        .send(text(range("0-5")))
        .expect(text(as_part(relayed(&more("0-5"), "012345", "fwd=uri-miss; stored"))))
        .send(text(range("2-3").repeat(3)))
        .expect(text(hit("2-3", "23").repeat(3)))
        .send(text(range("6-9")))
        .expect(text(as_part(relayed(&more("6-9"), "6789", "fwd=partial; stored"))))
        .send(GET)
        .expect(text(stored(&format!("{FRESH}\r\nETag: \"1\""), "0123456789", 0, "hit; ttl=60")))
        .part();
    let upstream = Acts::new()
        .expect(range("0-5"))
        .send(as_part(origin(&more("0-5"), "012345")))
        .expect(range("6-9"))
        .send(as_part(origin(&more("6-9"), "6789")));
    let counts = play(vec![client], vec![upstream]);
    assert_eq!((counts.cache_hits, counts.cache_misses, counts.cache_bytes), (4, 2, 16));
}

/// Nothing listens at the upstream: for many concurrent requests there is one attempt, and all get the error.
#[test]
fn followers_of_failed_fetch_fail_at_once() {
    let got = failure(502, "connection_refused", "the upstream refused the connection");
    let clients = (0..20).map(|_| Script::new().connect().send(GET).expect(text(&got)).part()).collect();
    let play =
        Play { cache: Some(cache()), has_dead_upstream: true, upstreams: Vec::new(), ..Play::new(clients, Vec::new()) };
    let counts = play.run();
    assert_eq!((counts.connects_failed, counts.responses_of_class(5)), (1, 20));
}

/// A silent upstream gets two requests, not one per waiting client.
#[test]
fn silent_upstream_gets_two_requests() {
    let reason = "the upstream closed the connection before it sent a response";
    let got = failure(502, "connection_terminated", reason);
    let client_at = |seconds: u64| Script::new().connect().send(GET).expect(text(later(seconds, &got))).part();
    let clients = std::iter::once(client_at(1)).chain((0..19).map(|_| client_at(2))).collect();
    let gives_up = || Acts::new().expect(GET).wait(seconds(1)).close(Close::Graceful);
    let counts = play(clients, vec![gives_up(), gives_up()]);
    assert_eq!((counts.connects, counts.responses_of_class(5)), (2, 20));
    // If the second request gets a response, all clients get it.
    let first = client_at(1);
    let second = Script::new().connect().wait(Duration::from_millis(10)).send(GET);
    let second = second.expect(text(later(2, relayed(FRESH, "hello", "fwd=uri-miss; stored")))).part();
    let others = (0..18).map(|_| {
        let waiting = Script::new().connect().wait(Duration::from_millis(20)).send(GET);
        waiting.expect(text(later(2, stored(FRESH, "hello", 1, "fwd=uri-miss; ttl=59; collapsed")))).part()
    });
    let answers = Acts::new().expect(GET).wait(seconds(1)).send(later(2, origin(FRESH, "hello"))).expect_end();
    let counts = play([first, second].into_iter().chain(others).collect(), vec![gives_up(), answers]);
    assert_eq!((counts.connects, counts.responses_of_class(2)), (2, 19));
}

/// Followers may leave, by a reset or (if configured) by a half-close; the others get the response.
#[test]
fn followers_may_leave() {
    for (seed, abort_on_close) in (0..8).map(|seed| (seed, seed % 2 == 0)) {
        let follower = || Script::new().connect().wait(seconds(1)).send(GET).wait(seconds(1));
        let leaves = match abort_on_close {
            true => follower().finish().expect_end().part_after_end(),
            false => follower().close(Close::Abort).expect_closed(Ending::Any),
        };
        let leader = Script::new().connect().send(GET).expect(text(relayed(FRESH, "hello", "fwd=uri-miss; stored")));
        let stays = follower().expect(text(stored(FRESH, "hello", 4, "fwd=uri-miss; ttl=56; collapsed")));
        let upstream = Acts::new().expect(GET).wait(seconds(4)).send(origin(FRESH, "hello")).expect_end();
        let cache = cache();
        let settings = Settings { abort_on_close, ..silent() };
        let clients = vec![leader.part(), leaves.clone(), stays.part(), leaves];
        let play = Play { cache: Some(cache.clone()), settings, seed, ..Play::new(clients, vec![upstream]) };
        let counts = play.run();
        assert_eq!((counts.clients_gone, counts.responses_of_class(2), cache.statistics().fills), (2, 2, 0));
    }
}

/// Nor with hits, parts, 304 and collapsed responses; purges by these keys work nevertheless.
#[test]
fn surrogate_keys_are_not_relayed() {
    let settings = breme_cache::CacheSettings {
        hides_keys: true,
        lifetime_spread_percent: 0,
        ..breme_cache::CacheSettings::new(4 << 20)
    };
    let cache = Cache::new(settings).unwrap();
    let fields = "Cache-Control: max-age=60\r\nETag: \"e\"";
    let keyed = "Surrogate-Key: one two\r\nCache-Control: max-age=60\r\nXKEY: three\r\nETag: \"e\"";
    let with = |line: &str| text(get_with(line));
    let hit = ["Age: 2", "Cache-Status: breme; hit; ttl=58"];
    let part = [
        "HTTP/1.1 206 Partial Content",
        "Content-Length: 2",
        DATE,
        fields,
        "Content-Range: bytes 1-2/5",
        hit[0],
        hit[1],
    ];
    let unchanged = ["HTTP/1.1 304 Not Modified", DATE, fields, hit[0], hit[1]];
    let first = Script::new().connect().send(GET).expect(text(relayed(fields, "hello", "fwd=uri-miss; stored")));
    let first = (0..4).fold(first, |first, _| first.send(GET).expect(text(stored(fields, "hello", 2, "hit; ttl=58"))));
    let first = first.send(with("Range: bytes=1-2")).expect(text(head(&part) + "el"));
    let first = first.send(with("If-None-Match: \"e\"")).expect(text(head(&unchanged))).part();
    let follower = Script::new().connect().wait(Duration::from_millis(500)).send(GET);
    let follower = follower.expect(text(stored(fields, "hello", 1, "fwd=uri-miss; collapsed"))).part();
    let answer = origin(keyed, "hello");
    let (begun, rest) = answer.split_at(answer.len() - 3);
    let upstream = Acts::new().expect(GET).wait(seconds(1)).send(begun).wait(seconds(1)).send(rest).expect_end();
    play_with(cache.clone(), silent(), vec![first, follower], vec![upstream]);
    assert_eq!(cache.purge(&Purge::Key("three".to_owned()), PurgeMode::Hard, Instant::ZERO).unwrap(), 1);
}
