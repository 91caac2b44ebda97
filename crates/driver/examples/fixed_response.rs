//! The minimum cost of a server on this driver: responds to any request with the same 13 bytes.
//!
//! ```text
//! fixed_response [threads|events|uring] [THREADS] [CPU]     prints its address; exits at the end of standard input
//! ```

use std::env;
use std::error::Error;
use std::io::Read;
use std::net::SocketAddr;

use breme_base::Instant;
use breme_driver::{Clock, DriverKind, DriverSettings, Listener, start};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};

const HEAD_END: &[u8] = b"\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!";

struct FixedResponse;

impl Node for FixedResponse {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        let mut taken = 0;
        while let Some(length) = head_length(&input.bytes[taken..]) {
            actions.send(id).extend_from_slice(RESPONSE);
            taken += length;
        }
        if input.ended {
            actions.close(id, Close::Graceful);
        }
        taken
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}

    fn handle_stopping(&mut self, _: Instant, actions: &mut Actions) {
        actions.exit();
    }
}

fn head_length(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END)?;
    Some(start + HEAD_END.len())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let kind: DriverKind = arguments.next().map_or(Ok(DriverKind::Events), |kind| kind.parse())?;
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let cpus = arguments.next().map(|cpu| cpu.parse()).transpose()?.into_iter().collect();
    let settings = DriverSettings { threads, cpus, ..DriverSettings::default() };
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &settings)?;
    println!("{}", listener.address());
    let running = start(kind, vec![listener], &settings, Clock::start(), |_| FixedResponse)?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    running.stopper().drain();
    for outcome in running.join() {
        outcome?;
    }
    Ok(())
}
