//! Session affinity: clients return to the upstream of their first response.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{
    Affinity, AffinityKey, EjectionSettings, Group, GroupSettings, Hints, Policy, StatusSet, UpstreamOutcome,
};
use breme_base::{Instant, Random, UnixSeconds, WallClock};
use breme_node::{Accepted, Action, CloseReason, ConnectionId, ListenerId, Node};
use breme_proxy::{Parts, Proxy};
use breme_sim::Network;
use breme_testkit::Script;

use crate::support::driven::Driven;
use crate::support::{Acts, Play, head, silent, text, upstream_at};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";

fn inserting() -> GroupSettings {
    let key = AffinityKey::new("a key of thirty-two bytes or so.").unwrap();
    let affinity = Affinity::Insert { cookie: "route".to_owned(), key, max_age: None };
    GroupSettings { affinity: Some(affinity), ..GroupSettings::default() }
}

/// The Set-Cookie value that names this upstream.
fn set_cookie(upstream: usize) -> String {
    set_cookie_of(&format!("up{upstream}.example:80"))
}

fn set_cookie_of(upstream: &str) -> String {
    let address = "127.0.0.1:1".parse().unwrap();
    let list = vec![upstream_at(upstream, address)];
    let group = Group::new(inserting(), list).unwrap();
    let choice = group.choose(Instant::ZERO, &Hints::default(), &mut Random::new(1)).unwrap();
    choice.set_affinity.unwrap().to_string()
}

fn get_with(upstream: usize) -> String {
    let cookie = set_cookie(upstream).split(';').next().unwrap().to_owned();
    head(&["GET /a HTTP/1.1", "Host: a.example", &format!("Cookie: lang=de; {cookie}")])
}

/// The request's cookies as the upstream gets them.
fn without_own() -> String {
    head(&["GET /a HTTP/1.1", "Host: a.example", "Cookie: lang=de"])
}

/// The first response to a client.
fn hello_with_cookie(upstream: usize) -> String {
    let fields = format!("Set-Cookie: {}\r\nCache-Control: private\r\n\r\nhello", set_cookie(upstream));
    HELLO.replace("\r\nhello", &fields)
}

#[test]
fn first_response_sets_affinity_cookie() {
    let again = get_with(0);
    let client = Script::new().connect().send(GET).expect(text(hello_with_cookie(0)));
    let client = (0..5).fold(client, |client, _| client.send(text(&again)).expect(HELLO)).part();
    let first =
        (0..5).fold(Acts::new().expect(GET).send(HELLO), |acts, _| acts.expect(without_own()).send(HELLO)).expect_end();
    let play = Play { group: inserting(), upstreams: vec![vec![first], vec![]], ..Play::new(vec![client], Vec::new()) };
    play.run();
}

/// RFC 9110, 4.2.3: the host in any case, and with or without the default port, is the same URL.
#[test]
fn equivalent_urls_have_the_same_upstream() {
    let upstreams = (1..=6).map(|last| upstream_at(&format!("up{last}"), ([10, 0, 0, last], 80).into())).collect();
    let settings = GroupSettings { policy: Policy::ConsistentHash, ..GroupSettings::default() };
    let group = Some(Arc::new(Group::new(settings, upstreams).unwrap()));
    let proxy = Proxy::new(Parts { group, ..Parts::new(silent(), WallClock::starting_at(UnixSeconds(0))) }).unwrap();
    let mut node = Driven::new(&proxy, 0);
    let mut count = 0;
    let mut endpoint = |host: &str, path: u32| {
        let client = ConnectionId::new(count, 0);
        count += 1;
        let accepted = Accepted { listener: ListenerId(0), peer: Some("127.0.0.1:9".parse().unwrap()) };
        node.0.handle_accepted(Instant::ZERO, client, accepted, &mut node.1);
        let actions = node.receive(client, &head(&[&format!("GET /{path} HTTP/1.1"), &format!("Host: {host}")]));
        node.0.handle_closed(Instant::ZERO, client, CloseReason::Reset, &mut node.1);
        node.actions();
        match actions[..] {
            [Action::Connect(_, endpoint)] => format!("{endpoint:?}"),
            _ => panic!("{actions:?}"),
        }
    };
    for path in 0..12 {
        let expected = endpoint("a.test", path);
        assert_eq!([endpoint("A.Test", path), endpoint("a.test:80", path)], [&*expected; 2], "{path}");
    }
    let all: std::collections::HashSet<String> = (0..12).map(|path| endpoint("a.test", path)).collect();
    assert!(all.len() > 1);
}

/// Caches downstream must not store the cookie, whatever Cache-Control the response had.
#[test]
fn affinity_response_is_private() {
    let end = "\r\nhello";
    let extended = "CDN-Cache-Control: max-age=60\r\nsurrogate-control: max-age=60\r\nX-Cache: y\r\n\r\nhello";
    let (first, later) = (HELLO.replace(end, extended), HELLO.replace(end, extended));
    let got = hello_with_cookie(0).replace("Set-Cookie", "X-Cache: y\r\nSet-Cookie");
    let client = Script::new().connect().send(GET).expect(text(got)).send(text(get_with(0))).expect(text(&later));
    let upstream = Acts::new().expect(GET).send(first).expect(without_own()).send(&later).expect_end();
    Play { group: inserting(), ..Play::new(vec![client.part()], vec![upstream]) }.run();
}

#[test]
fn cookie_of_unreachable_upstream_is_replaced() {
    let dead = set_cookie_of("dead.example:80").split(';').next().unwrap().to_owned();
    let request = head(&["GET /a HTTP/1.1", "Host: a.example", &format!("Cookie: {dead}")]);
    let exchange = |client: Script, _| client.send(text(&request)).expect(text(hello_with_cookie(0)));
    let client = (0..5).fold(Script::new().connect(), exchange).part();
    let upstream = (0..5).fold(Acts::new(), |acts, _| acts.expect(GET).send(HELLO)).expect_end();
    let play = Play { group: inserting(), has_dead_upstream: true, ..Play::new(vec![client], vec![upstream]) };
    let (counts, group) = play.run_balanced();
    assert_eq!((counts.connects_failed, counts.second_choices, counts.responses_of_class(2)), (5, 5, 5));
    assert!(counts.requests_replayed >= 3 && counts.responses_replayed >= 2, "{counts:?}");
    assert!(group.states(Instant::ZERO).iter().all(|state| state.outstanding == 0));
}

/// The cookie is the application's; the proxy only chooses another upstream.
#[test]
fn route_to_unreachable_upstream_is_abandoned() {
    let affinity = Affinity::Follow { cookie: "sid".to_owned(), separator: '!' };
    let group = GroupSettings { affinity: Some(affinity), ..GroupSettings::default() };
    let request = head(&["GET /a HTTP/1.1", "Host: a.example", "Cookie: sid=0A1B!dead.example:80"]);
    let client = (0..5).fold(Script::new().connect(), |client, _| client.send(text(&request)).expect(HELLO)).part();
    let upstream = (0..5).fold(Acts::new(), |acts, _| acts.expect(&request).send(HELLO)).expect_end();
    let counts = Play { group, has_dead_upstream: true, ..Play::new(vec![client], vec![upstream]) }.run();
    assert_eq!((counts.connects_failed, counts.second_choices), (5, 5));
    assert!(counts.responses_replayed >= 2, "{counts:?}");
}

/// The upstream is full and has not failed: the client keeps its session if another upstream fails meanwhile.
#[test]
fn full_upstream_keeps_cookie_when_fallback_fails() {
    let group = GroupSettings { outstanding_max: 1, ..inserting() };
    let again = get_with(0);
    let first = Script::new().connect().send(text(&again)).expect(HELLO).part();
    let exchange = |client: Script, _| client.send(text(&again)).expect(HELLO);
    let second = (0..5).fold(Script::new().wait(Duration::from_millis(100)).connect(), exchange);
    let second = exchange(second.wait(Duration::from_secs(2)), 0).part();
    let full = Acts::new().expect(without_own()).wait(Duration::from_secs(1)).send(HELLO);
    let upstreams = vec![
        vec![full.expect(without_own()).send(HELLO).expect_end()],
        vec![(0..5).fold(Acts::new(), |acts, _| acts.expect(without_own()).send(HELLO)).expect_end()],
    ];
    let play = Play { group, upstreams, has_dead_upstream: true, ..Play::new(vec![first, second], Vec::new()) };
    let counts = play.run();
    assert!(counts.connects_failed >= 1 && counts.requests_replayed >= 3, "{counts:?}");
    assert_eq!(counts.second_choices, counts.connects_failed);
}

#[test]
fn follows_application_route_cookie() {
    let affinity = Affinity::Follow { cookie: "JSESSIONID".to_owned(), separator: '!' };
    let group = GroupSettings { affinity: Some(affinity), ..GroupSettings::default() };
    let request = head(&["GET /a HTTP/1.1", "Host: a.example", "Cookie: JSESSIONID=0A1B!up1.example:80"]);
    let client = Script::new().connect();
    let client = (0..3).fold(client, |client, _| client.send(text(&request)).expect(HELLO)).part();
    let second = (0..3).fold(Acts::new(), |acts, _| acts.expect(&request).send(HELLO)).expect_end();
    Play { group, upstreams: vec![vec![], vec![second]], ..Play::new(vec![client], Vec::new()) }.run();
}

/// Cookies of a client, and the Cookie lines that the upstream gets.
type Cookies = (Vec<String>, Vec<String>);

/// Repeats random requests and responses. Replayed ones must equal parsed ones, and go where a second balancer sends
/// the same requests.
fn play_again_and_again(settings: &GroupSettings, cookies: &[Cookies], seed: u64, network: Network) -> [u64; 2] {
    let addresses = "127.0.0.1:1".parse().unwrap();
    let list = (0..2).map(|number| upstream_at(&format!("up{number}.example:80"), addresses)).collect();
    let balancer = Group::new(settings.clone(), list).unwrap();
    let other_fields = "CDN-Cache-Control: max-age=60\r\n";
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    let answers = [
        HELLO.to_owned(),
        HELLO.replace("hello", "olleh"),
        HELLO.replace("Date", &format!("{other_fields}Date")),
        head(&["HTTP/1.1 304 Not Modified", date]),
        head(&["HTTP/1.1 404 Not Found", "Content-Length: 0", date]),
    ];
    let mut random = Random::new(seed);
    let (mut script, mut upstreams) = (Script::new().connect(), [Acts::new(), Acts::new()]);
    for _ in 0..120 {
        let (own, seen) = &cookies[random.below(cookies.len() as u64) as usize];
        let answer = &answers[random.below(answers.len() as u64) as usize];
        let lines: Vec<&[u8]> = own.iter().map(String::as_bytes).collect();
        let hints = Hints { cookies: &lines, ..Hints::default() };
        let choice = balancer.choose(Instant::ZERO, &hints, &mut Random::new(1)).unwrap();
        balancer.finished(Instant::ZERO, choice.upstream, UpstreamOutcome::Abandoned);
        let request = |cookies: &[String]| {
            let cookies: Vec<String> = cookies.iter().map(|line| format!("Cookie: {line}")).collect();
            let cookies = cookies.iter().map(String::as_str);
            head(&["GET /a HTTP/1.1", "Host: a.example"].into_iter().chain(cookies).collect::<Vec<_>>())
        };
        let got = match &choice.set_affinity {
            Some(cookie) => answer
                .replace(other_fields, "")
                .replace("\r\n\r\n", &format!("\r\nSet-Cookie: {cookie}\r\nCache-Control: private\r\n\r\n")),
            None => answer.clone(),
        };
        let upstream = &mut upstreams[usize::from(*choice.name == *"up1.example:80")];
        // Fields keep their order, except that Cookie comes last if a part of it was removed.
        *upstream = std::mem::take(upstream).expect(request(seen)).send(answer);
        script = script.send(text(request(own))).expect(text(got));
    }
    let upstreams = upstreams.into_iter().map(|acts| vec![acts.expect_end()]).collect();
    let play = Play { group: settings.clone(), upstreams, network, seed, ..Play::new(vec![script.part()], Vec::new()) };
    let counts = play.run();
    [counts.requests_replayed, counts.responses_replayed]
}

#[test]
fn replayed_requests_follow_cookies() {
    let own = |number| set_cookie(number).split(';').next().unwrap().to_owned();
    let same = |line: &str| (vec![line.to_owned()], vec![line.to_owned()]);
    let inserted: [Cookies; 7] = [
        (vec![], vec![]),
        (vec![own(0)], vec![]),
        (vec![own(1)], vec![]),
        (vec![format!("lang=de; {}", own(1))], vec!["lang=de".to_owned()]),
        (vec!["lang=de".to_owned(), own(0), "x=y".to_owned()], vec!["lang=de".to_owned(), "x=y".to_owned()]),
        (vec!["route=00112233445566778899aabbccddeeff; a=b".to_owned()], vec!["a=b".to_owned()]),
        same("a=b"),
    ];
    let follow = Affinity::Follow { cookie: "sid".to_owned(), separator: '!' };
    let following = GroupSettings { affinity: Some(follow), ..GroupSettings::default() };
    let followed: [Cookies; 4] =
        [(vec![], vec![]), same("sid=1!up0.example:80"), same("a=b; sid=2!up1.example:80"), same("sid=3!elsewhere")];
    for seed in 0..10 {
        for (settings, cookies) in [(inserting(), &inserted[..]), (following.clone(), &followed[..])] {
            let network = if seed % 2 == 0 { Network::calm() } else { Network::rough() };
            let [requests, answers] = play_again_and_again(&settings, cookies, seed, network);
            // On a rough network little arrives in one piece.
            assert!(seed % 2 == 1 || (requests > 60 && answers > 5), "{requests} {answers}");
        }
    }
}

/// Replay does not keep a request at a failed upstream.
#[test]
fn replayed_request_avoids_failed_upstream() {
    let failed = head(&["HTTP/1.1 500 Internal Server Error", "Content-Length: 0", "Date: x"]);
    let again = get_with(0);
    let client = (0..4).fold(Script::new().connect(), |client, _| client.send(text(&again)).expect(HELLO));
    let client = client.send(text(&again)).expect(text(&failed));
    let client = (0..4).fold(client, |client, _| client.send(text(&again)).expect(text(hello_with_cookie(1))));
    let first = (0..4).fold(Acts::new(), |acts, _| acts.expect(without_own()).send(HELLO));
    let first = first.expect(without_own()).send(&failed).expect_end();
    let second = (0..4).fold(Acts::new(), |acts, _| acts.expect(without_own()).send(HELLO)).expect_end();
    let ejection = EjectionSettings {
        failures_in_row: 1,
        statuses: "500".parse::<StatusSet>().unwrap(),
        ..EjectionSettings::default()
    };
    let group = GroupSettings { ejection: Some(ejection), ..inserting() };
    let upstreams = vec![vec![first], vec![second]];
    let counts = Play { group, upstreams, ..Play::new(vec![client.part()], Vec::new()) }.run();
    assert_eq!((counts.requests_replayed, counts.responses_replayed), (7, 5));
}

/// A follower that cannot use the response goes to the upstream of its own cookie.
#[test]
fn released_follower_keeps_its_upstream() {
    let cache = breme_cache::Cache::new(breme_cache::CacheSettings::new(4 << 20)).unwrap();
    let private = HELLO.replace("Date", "Cache-Control: private\r\nDate");
    let got = |said: &str| text(private.replace("\r\n\r\n", &format!("\r\nCache-Status: breme; {said}\r\n\r\n")));
    let first = Script::new().connect().send(text(get_with(0))).expect(got("fwd=uri-miss")).part();
    let second =
        Script::new().connect().wait(Duration::from_millis(100)).send(text(get_with(1))).expect(got("fwd=uri-miss"));
    let at_first = Acts::new().expect(without_own()).wait(Duration::from_secs(1)).send(&private).expect_end();
    let at_second = Acts::new().expect(without_own()).send(&private).expect_end();
    Play {
        group: inserting(),
        upstreams: vec![vec![at_first], vec![at_second]],
        cache: Some(cache),
        settings: silent(),
        ..Play::new(vec![first, second.part()], Vec::new())
    }
    .run();
}
