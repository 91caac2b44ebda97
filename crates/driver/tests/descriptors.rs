//! Running out of file descriptors. The limit is per process, so this binary has one test.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use breme_driver::{Clock, Listener, start};
use breme_node::Close;
use common::{Event, Scripted, connect, drain, kinds, read_all, settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Free descriptors when the server starts to accept.
const FREE: usize = 5;
const CLIENTS: usize = 40;

#[test]
fn descriptor_shortage_delays_accepting() {
    let limit = getrlimit(Resource::Nofile);
    for kind in kinds() {
        let settings = settings(1);
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &settings).unwrap();
        let address = listener.address().tcp().unwrap();
        // In the backlog, not accepted yet.
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
        let running = start(kind, vec![listener], &settings, Clock::start(), |shard| {
            leave_free_descriptors();
            Scripted::new(shard, |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                context.actions.send(id).extend_from_slice(received.bytes);
                if received.ended {
                    context.actions.close(id, Close::Graceful);
                }
                received.bytes.len()
            })
        });
        let running = running.unwrap();
        let accepts_failed = || running.counters().all().iter().map(|shard| shard.accepts_failed).sum::<u64>();
        while accepts_failed() == 0 {
            std::thread::yield_now();
        }
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
    }
}

/// Lowers the limit to a few descriptors above those in use.
fn leave_free_descriptors() {
    let next = std::fs::File::open("/").unwrap();
    let in_use = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(in_use + FREE as u64), maximum: limit.maximum }).unwrap();
}
