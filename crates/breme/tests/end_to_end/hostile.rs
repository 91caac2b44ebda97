//! Malicious clients, and those that behave as if they were.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::{DRIVERS, Site, many_per_thread};

pub(crate) fn resident_kilobytes(site: &Site) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", site.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}

#[test]
fn a_head_that_never_ends_is_answered_408() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&["--lab", "--driver", driver, "--threads", "4", "--head-timeout", "1s"]);
        let answer = site.exchange(b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nX-Slow: ");
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{driver}: {:?}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn content_that_never_comes_is_answered_408() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&["--lab", "--driver", driver, "--threads", "4", "--body-timeout", "1s"]);
        let answer = site.exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        let text = String::from_utf8_lossy(&answer).into_owned();
        // Either nothing of the response was sent yet, or it must be truncated.
        assert!(text.starts_with("HTTP/1.1 408 ") || !text.contains("abc\r\n"), "{driver}: {text:?}");
    }
}

#[test]
fn an_idle_connection_is_closed_without_an_answer() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&["--lab", "--driver", driver, "--threads", "4", "--idle-timeout", "1s"]);
        assert_eq!(site.exchange(b""), b"", "{driver}");
    }
}

#[test]
fn half_a_request_and_the_end_is_refused() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        let mut stream = site.connect();
        stream.write_all(b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{driver}: {answer:?}");
    }
}

#[test]
fn thousands_of_idle_connections_cost_little_and_others_are_served() {
    for driver in many_per_thread() {
        let site = Site::lab(driver);
        site.get("/bytes/1");
        let before = resident_kilobytes(&site);
        let mut held: Vec<TcpStream> = Vec::new();
        for _ in 0..3_000 {
            match TcpStream::connect(site.address) {
                Ok(mut stream) => {
                    stream.write_all(b"GET /bytes/1 HTTP/1.1\r\nHo").unwrap();
                    held.push(stream);
                }
                Err(error) => panic!("after {} connections: {error}", held.len()),
            }
            if held.len().is_multiple_of(100) {
                assert_eq!(site.get("/bytes/3").0, 200);
            }
        }
        let each = (resident_kilobytes(&site).saturating_sub(before)) * 1024 / held.len() as u64;
        assert!(each < 2_000, "{each} bytes for a connection with half a head, on {driver}");
    }
}

#[test]
fn a_client_that_never_reads_holds_no_memory() {
    for driver in many_per_thread() {
        let site = Site::lab(driver);
        let before = resident_kilobytes(&site);
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut stream = site.connect();
            stream.write_all(&b"GET /bytes/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50)).unwrap();
            held.push(stream);
        }
        for _ in 0..20 {
            assert_eq!(site.get("/bytes/3").0, 200);
        }
        let grown = resident_kilobytes(&site).saturating_sub(before);
        assert!(grown < 20_000, "{grown} kB for 20 clients that do not read, on {driver}");
    }
}

#[test]
fn an_early_answer_is_not_destroyed_by_what_the_client_still_sends() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&["--lab", "--driver", driver, "--threads", "4", "--max-body", "1k"]);
        for _ in 0..20 {
            let mut stream = site.connect();
            stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n").unwrap();
            let _ = stream.write_all(&[b'x'; 200_000]);
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 413 "), "{driver}: {:?}", String::from_utf8_lossy(&answer));
        }
    }
}
