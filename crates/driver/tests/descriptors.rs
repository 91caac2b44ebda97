//! Running out of file descriptors. The limit is per process, so the tests of this binary run one after the other.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use breme_driver::{Clock, CounterReader, DriverKind, DriverSettings, Listener, start};
use common::{Scripted, connect, drain, echo, kinds, read_all, settings};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Free descriptors when the server starts to accept.
const FREE: usize = 5;
const CLIENTS: usize = 40;

static LIMIT: Mutex<()> = Mutex::new(());

#[test]
fn descriptor_shortage_delays_accepting() {
    for kind in kinds() {
        serve_backlog(kind, &settings(1), |counters| {
            while accepts_failed(counters) == 0 {
                std::thread::yield_now();
            }
        });
    }
}

/// A burst waits in the backlog and takes no descriptors. Pool threads have a limit of their own.
#[test]
fn connection_limit_holds_in_a_burst() {
    for kind in kinds().filter(|&kind| kind != DriverKind::Threads) {
        let bounded = DriverSettings { connections_max: 2, ..settings(1) };
        let counters = serve_backlog(kind, &bounded, |_| ());
        assert_eq!(accepts_failed(&counters), 0, "{kind}");
    }
}

/// Serves clients that waited in the backlog, with few free descriptors; they send when `wait` returns.
fn serve_backlog(kind: DriverKind, settings: &DriverSettings, wait: impl Fn(&CounterReader)) -> CounterReader {
    let _alone = LIMIT.lock();
    let limit = getrlimit(Resource::Nofile);
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), settings).unwrap();
    let address = listener.address().tcp().unwrap();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
    let running = start(kind, vec![listener], settings, Clock::start(), |shard| {
        leave_free_descriptors();
        Scripted::new(shard, echo)
    });
    let running = running.unwrap();
    let counters = running.counters();
    wait(&counters);
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for client in &mut clients {
        assert_eq!(read_all(client), b"hello", "{kind}");
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    drop(clients);
    drain(running);
    counters
}

fn accepts_failed(counters: &CounterReader) -> u64 {
    counters.all().iter().map(|shard| shard.accepts_failed).sum()
}

/// Lowers the limit to a few descriptors above those in use.
fn leave_free_descriptors() {
    let next = std::fs::File::open("/").unwrap();
    let in_use = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(in_use + FREE as u64), maximum: limit.maximum }).unwrap();
}
