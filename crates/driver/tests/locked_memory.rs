//! Too little locked memory for the rings of all shards. The limit is per process, so this binary has one test.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::SocketAddr;

use breme_driver::{Clock, DriverHandle, DriverKind, DriverSettings, Listener, StartError, UringUnavailable, start};
use common::{Scripted, connect, drain, echo, kinds, settings};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Enough for the probe and one ring, which takes about 110 kB.
const LOCKED_BYTES_MAX: u64 = 200 * 1024;
const SHARDS: usize = 3;

#[test]
fn uring_falls_back_if_locked_memory_is_short() {
    if !kinds().any(|kind| kind == DriverKind::Uring) {
        return;
    }
    limit_locked_memory();
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &settings(SHARDS)).unwrap();
    let address = listener.address().tcp().unwrap();
    // In the backlog: the failed attempt must not lose it.
    let mut client = connect(address);
    let falling_back = DriverSettings {
        events_fallback: Some(|reason| assert_eq!(*reason, UringUnavailable::Memory)),
        ..settings(SHARDS)
    };
    let node_count = Cell::new(0);
    let running = start(DriverKind::Uring, vec![listener], &falling_back, Clock::start(), |shard| {
        node_count.set(node_count.get() + 1);
        Scripted::new(shard, echo)
    });
    let running = running.unwrap();
    if running.kind() == DriverKind::Uring {
        eprintln!("not tested: this kernel does not count the memory of rings as locked");
        return;
    }
    assert_eq!((running.kind(), node_count.get()), (DriverKind::Events, SHARDS));
    client.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    drop(client);
    drain(running);

    let named =
        start(DriverKind::Uring, Vec::new(), &settings(SHARDS), Clock::start(), |shard| Scripted::new(shard, echo));
    let error = named.map(|_: DriverHandle<_>| ()).unwrap_err();
    assert!(matches!(error, StartError::Uring(UringUnavailable::Memory)), "{error}");
    assert!(error.to_string().contains("ulimit -l"), "{error}");
}

/// Also for the threads that this one starts.
fn limit_locked_memory() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
    let limit = Some(LOCKED_BYTES_MAX);
    setrlimit(Resource::Memlock, Rlimit { current: limit, maximum: limit }).unwrap();
}
