//! `--max-outstanding` and its queue: requests that wait until an upstream has room, on every driver.

use std::io::Write;
use std::net::SocketAddr;

use crate::admin::metrics;
use crate::gated_origin::{GatedOrigin, content_of};
use crate::harness::{DRIVERS, Site, get, wait_until};

fn when_queued(admin: SocketAddr, count: f64) {
    wait_until(&format!("{count} requests should wait"), || metrics(admin)["breme_queue_length"] == count);
}

#[test]
fn a_request_to_a_full_upstream_waits_or_fails_at_once() {
    for driver in DRIVERS.iter().copied() {
        let origin = GatedOrigin::start();
        let one = ["--max-outstanding", "1", "--admin", "127.0.0.1:0", "--queue-timeout", "60s", "--queue"];
        let proxy = Site::proxy(origin.address, driver, &[&one[..], &["9"]].concat());
        let admin = proxy.admin.unwrap();
        let send_request = || {
            std::thread::spawn({
                let address = proxy.address;
                move || get(address, "/whole/a")
            })
        };
        let first = send_request();
        origin.wait_for_requests(1);
        let second = send_request();
        when_queued(admin, 1.0);
        assert_eq!(origin.requests(), 1, "{driver}: the second one waits here, not there");
        origin.release(2);
        for (running, number) in [(first, 1), (second, 2)] {
            let answer = running.join().unwrap();
            assert!(answer.status == 200 && answer.content == content_of(number), "{driver}: {number}");
        }
        let counted = metrics(admin);
        assert_eq!([counted["breme_requests_queued_total"], counted["breme_queue_length"]], [1.0, 0.0], "{driver}");

        let strict = Site::proxy(origin.address, driver, &[&one[..], &["0"]].concat());
        let mut held = strict.connect();
        held.write_all(b"GET /whole/b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        origin.wait_for_requests(3);
        let refused = get(strict.address, "/whole/c");
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{driver}: without a queue");
        origin.release(3);
    }
}
