//! An origin that responds when the test permits it, and counts its requests.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::harness::{PATIENCE, read_head, serve_each};

/// How many bytes an answer's content has.
pub(crate) const CONTENT_BYTES: usize = 100_000;

/// The state of the gate, and the requests received.
#[derive(Debug, Default)]
struct State {
    requests: u64,
    /// Requests up to this number get a response.
    released: u64,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// Listens until the end of the test process. `/whole/…` has a response when the gate opens; for `/half/…` the head and
/// half of the content are sent at once, and the connection is reset when the gate opens; `/none/…` is closed without a
/// response when it opens.
pub(crate) struct GatedOrigin {
    pub(crate) address: SocketAddr,
    gate: Arc<Gate>,
}

impl GatedOrigin {
    pub(crate) fn start() -> Self {
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        let address = serve_each(move |stream| serve(stream, &shared));
        Self { address, gate }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.gate.state.lock().unwrap().requests
    }

    /// Waits for this many requests in total.
    pub(crate) fn wait_for_requests(&self, requests: u64) {
        let state = self.gate.state.lock().unwrap();
        let waited = self.gate.changed.wait_timeout_while(state, PATIENCE, |state| state.requests < requests).unwrap();
        assert!(!waited.1.timed_out(), "{} requests came instead of {requests}", waited.0.requests);
    }

    /// Releases the responses to requests up to this one.
    pub(crate) fn release(&self, until: u64) {
        self.gate.state.lock().unwrap().released = until;
        self.gate.changed.notify_all();
    }
}

/// The content of the response to the request with this number, from 1.
pub(crate) fn content_of(request: u64) -> Vec<u8> {
    format!("<{request:06}>").bytes().cycle().take(CONTENT_BYTES).collect()
}

fn serve(mut stream: TcpStream, gate: &Gate) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    while let Some(head) = read_head(&mut input)? {
        let number = count(gate);
        let content = content_of(number);
        let answer = [head_of_answer(&content).as_bytes(), &content].concat();
        let kind = head.split('/').nth(1).unwrap_or_default();
        if kind == "half" {
            stream.write_all(&answer[..answer.len() - CONTENT_BYTES / 2])?;
        }
        wait_released(gate, number);
        match kind {
            "whole" => stream.write_all(&answer)?,
            "half" => {
                return rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO))
                    .map_err(Into::into);
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn head_of_answer(content: &[u8]) -> String {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", content.len())
}

/// The number of the new request.
fn count(gate: &Gate) -> u64 {
    let mut state = gate.state.lock().unwrap();
    state.requests += 1;
    gate.changed.notify_all();
    state.requests
}

fn wait_released(gate: &Gate, number: u64) {
    let state = gate.state.lock().unwrap();
    drop(gate.changed.wait_while(state, |state| state.released < number).unwrap());
}
