//! The memory cost of slow readers, and its release after they have left.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::harness::{DRIVERS, Site, read_head, serve_each, wait_until};

const READERS: u64 = 200;
/// Memory of the proxy per reader, including both connections: `--relay-memory` allows 64 kB, of which a receive buffer
/// of 32 kB is in use.
const READER_BYTES_MAX: u64 = 48 * 1024;
/// … that remains when they have left.
const REMAINDER_BYTES_MAX: u64 = 12 * 1024;
/// Nothing has moved if this many consecutive readings are equal.
const LOOKS: usize = 2_000;

/// An endless origin, as fast as it is read. It counts the bytes sent.
fn endless(sent: &Arc<AtomicU64>) -> SocketAddr {
    let sent = Arc::clone(sent);
    serve_each(move |mut stream: TcpStream| {
        sockopt::set_socket_send_buffer_size(&stream, 16 * 1024)?;
        read_head(&mut std::io::BufReader::new(stream.try_clone()?))?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")?;
        loop {
            sent.fetch_add(stream.write(&[b'x'; 16 * 1024])? as u64, Ordering::Relaxed);
        }
        #[allow(unreachable_code, reason = "it says what the loop may return")]
        std::io::Result::Ok(())
    })
}

/// Fixed memory of a driver's threads once they have served connections: the buffers of two rings; the stacks and
/// tables of a pool.
fn once(driver: &str) -> u64 {
    match driver {
        "uring" => 2 * 65 * 64 * 1024,
        "threads" => READERS * 44 * 1024,
        _ => 512 * 1024,
    }
}

/// A client that reads the first byte of a response, and then nothing.
fn begin_reading(proxy: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 4 * 1024).unwrap();
    connect(&socket, &proxy).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

/// The private memory of a process.
fn memory_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Waits until nothing moves. The assertions hold before, too: on a busy machine it may return early.
fn wait_for_rest(sent: &AtomicU64) {
    let (mut before, mut looks) = (0, 0);
    while looks < LOOKS {
        std::thread::yield_now();
        let now = sent.load(Ordering::Relaxed);
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
    }
}

#[test]
fn slow_readers_cost_little_and_leave_nothing_behind() {
    for driver in DRIVERS.iter().copied() {
        let sent = Arc::new(AtomicU64::new(0));
        let upstream = format!("--upstream=http://{}", endless(&sent));
        let threads = if driver == "threads" { (READERS + 10).to_string() } else { "2".to_owned() };
        let arguments = [upstream.as_str(), "--driver", driver, "--threads", &threads];
        let proxy = Site::start_role("proxy", &arguments, Stdio::inherit());
        let before = memory_of(proxy.pid()) + once(driver);
        let readers: Vec<_> = (0..READERS).map(|_| begin_reading(proxy.address)).collect();
        wait_for_rest(&sent);
        let each = || memory_of(proxy.pid()).saturating_sub(before) / READERS;
        let at_first = each();
        // A pool thread has buffers temporarily.
        wait_until(&format!("{driver}: a slow reader costs {at_first} bytes"), || each() <= READER_BYTES_MAX);
        let last = each();
        drop(readers);
        wait_until(&format!("{driver}: memory stays behind"), || each() <= REMAINDER_BYTES_MAX);
        eprintln!("{driver}: {at_first}, then {last} bytes for each reader, {} when they have left", each());
    }
}
