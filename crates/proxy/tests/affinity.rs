//! Clients that come back to the upstream that served them.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod support;

use breme_balance::{Affinity, AffinityKey, Group, GroupSettings, Hints};
use breme_base::{Instant, Random};
use breme_testkit::Script;
use support::{Acts, Play, head, text, upstream_at};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";

fn inserting() -> GroupSettings {
    let key = AffinityKey::new("a key of thirty-two bytes or so.").unwrap();
    let affinity = Affinity::Insert { cookie: "route".to_owned(), key, max_age: None };
    GroupSettings { affinity: Some(affinity), ..GroupSettings::default() }
}

/// The Set-Cookie value of the upstream of this number.
fn set_cookie(upstream: usize) -> String {
    let address = "127.0.0.1:1".parse().unwrap();
    let list = vec![upstream_at(&format!("up{upstream}.example:80"), address)];
    let group = Group::new(inserting(), list).unwrap();
    let choice = group.choose(Instant::ZERO, &Hints::default(), &mut Random::new(1)).unwrap();
    choice.set_affinity.unwrap().to_string()
}

fn get_with(upstream: usize) -> String {
    let cookie = set_cookie(upstream).split(';').next().unwrap().to_owned();
    head(&["GET /a HTTP/1.1", "Host: a.example", &format!("Cookie: lang=de; {cookie}")])
}

/// The same as the upstream sees it.
fn without_own() -> String {
    head(&["GET /a HTTP/1.1", "Host: a.example", "Cookie: lang=de"])
}

/// The answer as the client gets it the first time.
fn hello_with_cookie(upstream: usize) -> String {
    let fields = format!("Set-Cookie: {}\r\nCache-Control: private\r\n\r\nhello", set_cookie(upstream));
    HELLO.replace("\r\nhello", &fields)
}

#[test]
fn the_first_answer_brings_a_cookie_that_leads_back() {
    let again = get_with(0);
    let client = Script::new().connect().send(GET).expect(text(hello_with_cookie(0)));
    let client = (0..5).fold(client, |client, _| client.send(text(&again)).expect(HELLO)).part();
    let first =
        (0..5).fold(Acts::new().expect(GET).send(HELLO), |acts, _| acts.expect(without_own()).send(HELLO)).expect_end();
    let play = Play { group: inserting(), upstreams: vec![vec![first], vec![]], ..Play::new(vec![client], Vec::new()) };
    play.run();
}

/// No cache in front may give the cookie to others, whatever it was told besides.
#[test]
fn an_answer_with_the_cookie_is_private_to_all_caches() {
    let end = "\r\nhello";
    let told = "CDN-Cache-Control: max-age=60\r\nsurrogate-control: max-age=60\r\nX-Cache: y\r\n\r\nhello";
    let (first, later) = (HELLO.replace(end, told), HELLO.replace(end, told));
    let got = hello_with_cookie(0).replace("Set-Cookie", "X-Cache: y\r\nSet-Cookie");
    let client = Script::new().connect().send(GET).expect(text(got)).send(text(get_with(0))).expect(text(&later));
    let upstream = Acts::new().expect(GET).send(first).expect(without_own()).send(&later).expect_end();
    Play { group: inserting(), ..Play::new(vec![client.part()], vec![upstream]) }.run();
}

#[test]
fn the_cookie_of_an_upstream_that_cannot_be_reached_is_replaced() {
    let dead = {
        let address = "127.0.0.1:1".parse().unwrap();
        let group = Group::new(inserting(), vec![upstream_at("dead.example:80", address)]).unwrap();
        let choice = group.choose(Instant::ZERO, &Hints::default(), &mut Random::new(1)).unwrap();
        choice.set_affinity.unwrap().split(';').next().unwrap().to_owned()
    };
    let request = head(&["GET /a HTTP/1.1", "Host: a.example", &format!("Cookie: {dead}")]);
    let client = Script::new().connect().send(text(&request)).expect(text(hello_with_cookie(0))).part();
    let upstream = Acts::new().expect(GET).send(HELLO).expect_end();
    let play = Play { group: inserting(), has_dead_upstream: true, ..Play::new(vec![client], vec![upstream]) };
    let (counts, group) = play.run_balanced();
    assert_eq!((counts.connects_failed, counts.answers[1].count), (1, 1));
    assert!(group.states(Instant::ZERO).iter().all(|state| state.outstanding == 0));
}

#[test]
fn the_route_of_an_applications_cookie_is_followed() {
    let affinity = Affinity::Follow { cookie: "JSESSIONID".to_owned(), separator: '!' };
    let group = GroupSettings { affinity: Some(affinity), ..GroupSettings::default() };
    let request = head(&["GET /a HTTP/1.1", "Host: a.example", "Cookie: JSESSIONID=0A1B!up1.example:80"]);
    let client = Script::new().connect();
    let client = (0..3).fold(client, |client, _| client.send(text(&request)).expect(HELLO)).part();
    let second = (0..3).fold(Acts::new(), |acts, _| acts.expect(&request).send(HELLO)).expect_end();
    Play { group, upstreams: vec![vec![], vec![second]], ..Play::new(vec![client], Vec::new()) }.run();
}
