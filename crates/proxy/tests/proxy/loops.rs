//! CDN-Loop (RFC 8586): appended for upstreams, recognised, and not removable by clients.

use breme_cache::Cache;
use breme_proxy::{Identity, Settings};
use breme_testkit::Script;

use crate::support::{Acts, Play, head, loop_detected, silent, text};

const OWN: &str = "CDN-Loop: edge.example; mark=cde2f3e1";
const OTHERS: [&str; 2] = ["CDN-Loop: first.example; x=\"y\", b", "cdn-loop: c; mark=12345678"];
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";

/// A proxy whose only identity header is CDN-Loop.
fn named() -> Settings {
    let identity = Identity { cdn_loop: Some("edge.example".to_owned()), ..silent().identity };
    Settings { identity, ..silent() }
}

fn get(lines: &[&str]) -> String {
    head(&[&["GET /a HTTP/1.1", "Host: a.example"], lines].concat())
}

#[test]
fn sends_via_and_cdn_loop() {
    for (sent, passed) in [
        (get(&[]), get(&[OWN])),
        (get(&OTHERS), get(&[&OTHERS[..], &[OWN]].concat())),
        (
            get(&[&OTHERS[..], &["Connection: X-One, CDN-Loop", "X-One: 1"]].concat()),
            get(&[&OTHERS[..], &[OWN]].concat()),
        ),
    ] {
        let client = (0..6).fold(Script::new().connect(), |client, _| client.send(text(&sent)).expect(HELLO));
        let upstream = (0..6).fold(Acts::new(), |acts, _| acts.expect(&passed).send(HELLO)).expect_end();
        let counts = Play { settings: named(), ..Play::new(vec![client.part()], vec![upstream]) }.run();
        assert!(sent.contains("Connection") || counts.requests_replayed >= 3, "{sent} {counts:?}");
    }
}

/// A loop is detected even if a response is stored.
#[test]
fn rejects_own_mark() {
    let all = [&OTHERS[..], &[OWN]].concat();
    let back = [&all[..], &[OWN, "Connection: CDN-Loop"], &["CDN-Loop: x, y;mark=cde2f3e1, z"]];
    for is_caching in [false, true] {
        let lines = [
            "Cache-Control: max-age=60\r\n\r\nhello",
            "Cache-Control: max-age=60\r\nCache-Status: breme; fwd=uri-miss; stored\r\n\r\nhello",
        ];
        let [sent, got] = lines.map(|lines| HELLO.replace("\r\nhello", lines));
        let first = Script::new().connect().send(text(get(&[]))).expect(text(if is_caching { &got } else { &sent }));
        let exchange = |client: Script, lines: &&[&str]| {
            (0..3).fold(client, |client, _| client.send(text(get(lines))).expect(text(loop_detected())))
        };
        let client = back.iter().fold(first, exchange).part();
        let upstream = Acts::new().expect(get(&[OWN])).send(&sent).expect_end();
        let cache = is_caching.then(|| Cache::new(breme_cache::CacheSettings::new(4 << 20)).unwrap());
        Play { settings: named(), cache, ..Play::new(vec![client], vec![upstream]) }.run();
    }
}

/// A proxy without an identity keeps the elements of others.
#[test]
fn relays_cdn_loop_without_own_name() {
    let sent = get(&[&OTHERS[..], &[OWN, "Connection: CDN-Loop"]].concat());
    let client = Script::new().connect().send(text(sent)).expect(HELLO).part();
    let upstream = Acts::new().expect(get(&[&OTHERS[..], &[OWN]].concat())).send(HELLO).expect_end();
    Play::new(vec![client], vec![upstream]).run();
}
