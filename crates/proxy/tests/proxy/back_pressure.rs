//! Long bodies in both directions through little memory.

use std::time::Duration;

use breme_sim::{AmountRange, Network};
use breme_testkit::Script;
use bytes::Bytes;

use crate::support::{Acts, Play, head, silent, text};

const BYTES: usize = 3 << 20;

fn long() -> String {
    (0..BYTES / 16).map(|number| format!("{number:015x}\n")).collect()
}

/// A network with small windows, whose drivers report a queue of 64 kB as long.
fn narrow() -> Network {
    Network {
        window_bytes: AmountRange::always(16 << 10),
        long_queue_bytes: AmountRange::always(64 << 10),
        ..Network::calm()
    }
}

#[test]
fn slow_client_pauses_response() {
    let request = head(&["GET /a HTTP/1.1", "Host: a.example"]);
    let answer = head(&["HTTP/1.1 200 OK", &format!("Content-Length: {BYTES}"), "Date: x"]) + &long();
    let script = Script::new().connect().send(text(&request)).pause().wait(Duration::from_secs(50)).resume();
    let script = script.expect(text(&answer)).part();
    let mut play = Play::new(vec![script], vec![Acts::new().expect(&request).send(&answer).expect_end()]);
    // The driver closes clients that do not read; the timeout is for silent upstreams.
    let mut settings = silent();
    settings.times.between_bytes = Duration::from_secs(5);
    (play.settings, play.network) = (settings, narrow());
    let (counts, peak) = play.run_until(Duration::from_secs(49));
    assert_eq!(counts.bytes_downstream, BYTES as u64);
    assert!(peak < 400 << 10, "{peak} bytes waited in the proxy");
}

#[test]
fn slow_upstream_pauses_request() {
    let request = head(&["PUT /a HTTP/1.1", "Host: a.example", &format!("Content-Length: {BYTES}")]) + &long();
    let answer = head(&["HTTP/1.1 200 OK", "Content-Length: 0", "Date: x"]);
    let script = Script::new().connect().send(text(&request)).expect(text(&answer)).part();
    let late = Acts::new().pause().wait(Duration::from_secs(10)).resume().expect(&request).send(&answer);
    let mut play = Play::new(vec![script], vec![late.expect_end()]);
    play.network = narrow();
    let (counts, peak) = play.run_until(Duration::from_secs(9));
    assert_eq!(counts.bytes_upstream, BYTES as u64);
    assert!(peak < 400 << 10, "{peak} bytes waited in the proxy");
}

/// The response starts with the first byte of the request's content, and continues while that arrives.
#[test]
fn response_may_overlap_request() {
    let content = long();
    let framing = format!("Content-Length: {BYTES}");
    let request = head(&["PUT /a HTTP/1.1", "Host: a.example", &framing]);
    let answer = head(&["HTTP/1.1 200 OK", &framing, "Date: x"]);
    // When the head arrived, it was unknown whether the rest of the request would be needed.
    let response = head(&["HTTP/1.1 200 OK", &framing, "Connection: close", "Date: x"]);
    let both = |first: &str| Bytes::from(first.to_owned() + &content);
    for seed in 0..4 {
        let script = Script::new().connect().exchange(both(&request), both(&response)).part_after_end();
        let mut acts = Acts::new().expect(&request).send(&answer);
        for piece in content.as_bytes().chunks(50_000) {
            acts = acts.expect(piece).send(piece);
        }
        let mut play = Play::new(vec![script], vec![acts.expect_end()]);
        (play.network, play.seed) = (Network::rough(), seed);
        let counts = play.run();
        assert_eq!((counts.bytes_upstream, counts.bytes_downstream), (BYTES as u64, BYTES as u64));
    }
}
