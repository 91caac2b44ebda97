//! Upstreams that die, freeze and recover; slow peers; contents that are larger than the memory limit.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};

use breme_sys::uring::{Ring, RingSizes};
use breme_testkit::reserved_address;

use crate::faulty_origin::{FaultyOrigin, content_of};
use crate::harness::{DRIVERS, Signal, Site, connect, wait_until, with_longer_and_longer};
use crate::hostile::resident_kilobytes;

/// The proxy's limit of growth for one exchange of any length, including its allocator's buffers.
const GROWTH_KB_MAX: u64 = 16_000;
/// Far more than sockets and proxy may buffer.
const MUCH: u64 = 300_000_000;

#[test]
fn an_upstream_that_is_killed_gives_502_and_one_that_comes_again_is_used() {
    for driver in DRIVERS.iter().copied() {
        let upstream = reserved_address();
        let site = Site::lab_at(upstream);
        let proxy = Site::proxy(upstream, driver, &[]);
        assert_eq!(proxy.get("/bytes/3"), (200, b"012".to_vec()), "{driver}");
        drop(site);
        let (status, content) = proxy.get("/bytes/3");
        let text = String::from_utf8_lossy(&content);
        assert!(status == 502 && text.contains("refused the connection"), "{driver}: {status} {text}");
        let _site = Site::lab_at(upstream);
        wait_until(&format!("{driver}: the upstream is not found again"), || {
            proxy.get("/bytes/3") == (200, b"012".to_vec())
        });
    }
}

/// A frozen upstream's response after it thaws belongs to clients that gave up, and must not reach later ones.
#[test]
fn a_frozen_upstream_ends_in_504_and_its_late_answer_reaches_nobody() {
    for driver in DRIVERS.iter().copied() {
        with_longer_and_longer(driver, |time| freeze(driver, time));
    }
}

/// Fails if an upstream that is not frozen does not respond in time.
fn freeze(driver: &str, time: &str) -> Result<(), String> {
    let site = Site::lab("auto");
    let proxy = Site::proxy(site.address, driver, &["--response-timeout", time]);
    let require_own = |length: usize| match proxy.get(&format!("/bytes/{length}")) {
        (504, _) => Err(format!("{length} bytes were not there in time")),
        (status, content) => {
            assert_eq!((status, content.len()), (200, length), "{driver}");
            Ok(())
        }
    };
    require_own(3)?;
    site.freeze();
    for length in 4..8 {
        let (status, content) = proxy.get(&format!("/bytes/{length}"));
        let text = String::from_utf8_lossy(&content);
        assert!(status == 504 && text.contains("did not respond in time"), "{driver}: {status} {text}");
    }
    site.signal(Signal::CONT);
    (10..40).chain(10..40).try_for_each(require_own)
}

#[test]
fn a_client_that_reads_byte_by_byte_is_not_noticed_by_others() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("auto");
        let proxy = Site::proxy(site.address, driver, &[]);
        assert_eq!(proxy.get("/bytes/3").0, 200);
        let before = resident_kilobytes(&proxy);
        let slow: Vec<_> = (0..4)
            .map(|_| {
                let mut slow = proxy.connect();
                slow.write_all(format!("GET /bytes/{MUCH} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
                slow.read_exact(&mut [0]).unwrap();
                slow
            })
            .collect();
        for mut slow in slow.iter().cycle().take(200) {
            assert_eq!(proxy.get("/bytes/20000").1.len(), 20_000, "{driver}");
            slow.read_exact(&mut [0]).unwrap();
        }
        let grown = resident_kilobytes(&proxy).saturating_sub(before);
        // A ring has buffers of 4 MB for all connections of a shard. Before Linux 6.17 the start of a long response may
        // fill them all, and is queued, before the ring is stopped.
        let (rings, each) = match driver {
            "uring" => (cpus() * 4_500, if bounds_receiving() { 1_000 } else { 8_000 }),
            _ => (0, 1_000),
        };
        let max = slow.len() as u64 * each + rings + GROWTH_KB_MAX / 4;
        assert!(grown < max, "{driver}: {grown} kB for {} clients that hardly read", slow.len());
    }
}

/// The default number of shards of a proxy.
fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Whether this kernel supports a byte limit of a multishot receive.
fn bounds_receiving() -> bool {
    let sizes = RingSizes { submissions: 2, completions: 4, buffers: 2, buffer_bytes: 64, receive_bytes: 64 };
    Ring::new(sizes).is_ok_and(|ring| ring.bounds_receiving())
}

#[test]
fn long_contents_pass_through_little_memory() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("auto");
        let proxy = Site::proxy(site.address, driver, &[]);
        assert_eq!(proxy.get("/bytes/3").0, 200);
        let before = resident_kilobytes(&proxy);
        let mut stream = proxy.connect();
        let request = format!("GET /bytes/{MUCH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let (mut received, mut peak) = (0, before);
        loop {
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            received += count as u64;
            if received.is_multiple_of(16) {
                peak = peak.max(resident_kilobytes(&proxy));
            }
        }
        peak = peak.max(resident_kilobytes(&proxy));
        assert!(received > MUCH && received < MUCH + 1_000, "{driver}: {received} bytes came");
        assert!(peak - before < GROWTH_KB_MAX, "{driver}: {} kB for an answer of {MUCH} bytes", peak - before);
    }
}

#[test]
fn long_uploads_pass_through_little_memory() {
    for driver in DRIVERS.iter().copied() {
        let origin = FaultyOrigin::start();
        let proxy = Site::proxy(origin.address, driver, &[]);
        assert_eq!(proxy.get("/plain/1/13").0, 200);
        let before = resident_kilobytes(&proxy);
        let mut stream = proxy.connect();
        let head =
            format!("POST /plain/2/13 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {MUCH}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let piece = vec![b'x'; 1_000_000];
        for _ in 0..MUCH / piece.len() as u64 {
            stream.write_all(&piece).unwrap();
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&content_of(2, 13)), "{driver}");
        let grown = resident_kilobytes(&proxy).saturating_sub(before);
        assert!(grown < GROWTH_KB_MAX, "{driver}: {grown} kB for {MUCH} bytes");
    }
}

/// Accepts, and reads nothing.
fn deaf() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn an_upstream_that_does_not_read_holds_back_its_client_and_no_memory() {
    for driver in DRIVERS.iter().copied() {
        let (_listener, address) = deaf();
        let proxy = Site::proxy(address, driver, &[]);
        let before = resident_kilobytes(&proxy);
        let mut stream = connect(proxy.address);
        stream.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {MUCH}\r\n\r\n").as_bytes()).unwrap();
        stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        let piece = vec![b'x'; 100_000];
        let mut sent = 0;
        while sent < MUCH
            && let Ok(count) = stream.write(&piece)
        {
            sent += count as u64;
        }
        assert!(sent < MUCH / 3, "{driver}: {sent} bytes went nowhere");
        let grown = resident_kilobytes(&proxy).saturating_sub(before);
        assert!(grown < GROWTH_KB_MAX, "{driver}: {grown} kB for {sent} bytes that nobody read");
        let _ = stream.shutdown(Shutdown::Both);
    }
}
