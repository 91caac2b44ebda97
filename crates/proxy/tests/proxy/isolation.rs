//! Many clients and upstream connections on a lossy network: each client gets the responses to its own requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, Random, UnixSeconds, WallClock};
use breme_http::{Framing, Limits, Method, Target};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage, Progress, ResponseBody, ServerConnection};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Node,
    Received,
};
use breme_proxy::{Parts, Proxy};
use breme_sim::{Network, Simulation, seeds};

use crate::support::{THEN, silent, upstream_at};

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";
const CLIENTS: u64 = 12;
const REQUESTS: u64 = 12;
const REPEATS_MAX: u64 = 3_000;
/// Connections that are silent for longer are closed.
const PATIENCE: Duration = Duration::from_secs(600);

/// The response body of a target: longer than a segment, and different in each byte from those of other targets.
fn content_of(target: &str, request_content: &[u8]) -> Vec<u8> {
    let repeats = 1 + target.bytes().map(u64::from).sum::<u64>() * 7919 % REPEATS_MAX;
    let mut content = target.repeat(repeats as usize).into_bytes();
    content.extend_from_slice(request_content);
    content
}

/// Responds to each request with its own target, in any framing, and sometimes not at all.
struct Mirror {
    lines: HashMap<ConnectionId, MirrorLine>,
    random: Random,
    breaks: f64,
}

#[derive(Default)]
struct MirrorLine {
    http: ServerConnection,
    target: String,
    content: Vec<u8>,
}

impl Mirror {
    #[expect(clippy::disallowed_methods, reason = "it is an origin, not the proxy")]
    fn answer(&mut self, id: ConnectionId, actions: &mut Actions) {
        let line = self.lines.get_mut(&id).unwrap();
        let content = content_of(&line.target, &line.content);
        let length = content.len();
        let until = if self.random.chance(self.breaks) { self.random.below(length as u64) as usize } else { length };
        let framing = match self.random.below(3) {
            0 => Framing::Length(length as u64),
            1 => Framing::Chunked,
            _ => Framing::UntilClose,
        };
        let out = actions.send(id);
        let expected = line.http.respond(200, framing, DATE, out).end();
        if expected == ResponseBody::Omitted {
            return;
        }
        match framing {
            Framing::Length(_) => out.extend_from_slice(&content[..until]),
            _ => content[..until].chunks(1_000).for_each(|chunk| line.http.chunk(chunk, out)),
        }
        if until < length {
            // Only a reset shows that a response without a length is incomplete.
            return actions.close(id, Close::Abort);
        }
        match framing {
            Framing::Length(_) => line.http.content_sent(),
            _ => line.http.end_chunks(out),
        }
    }
}

impl Node for Mirror {
    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {
        self.lines.insert(id, MirrorLine::default());
    }

    fn handle_received(
        &mut self,
        _now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let (limits, mut taken) = (Limits::default(), 0);
        loop {
            let Some(line) = self.lines.get_mut(&id) else { return received.bytes.len() };
            let mut storage = FieldStorage::new();
            match line.http.receive(&received.bytes[taken..], received.ended, &limits, &mut storage).unwrap() {
                Progress::Head { head, taken: count } => {
                    taken += count;
                    let Target::Origin { path, .. } = head.target else { panic!("{:?}", head.target) };
                    (line.target, line.content) = (path.to_owned(), Vec::new());
                    if !head.has_content() {
                        self.answer(id, actions);
                    }
                }
                Progress::Content { bytes, taken: count } => {
                    taken += count;
                    line.content.extend_from_slice(bytes);
                }
                Progress::End { taken: count } => {
                    taken += count;
                    self.answer(id, actions);
                }
                Progress::Trailer { taken: count, .. } => taken += count,
                Progress::NeedMore { taken: count } => return taken + count,
                Progress::Blocked => return taken,
                Progress::Over => {
                    self.lines.remove(&id);
                    actions.close(id, Close::Graceful);
                }
            }
        }
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.lines.remove(&id);
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        self.lines.drain().for_each(|(id, _)| actions.close(id, Close::Abort));
    }
}

/// Sends pipelined requests, and reconnects when a connection is lost.
struct Client {
    server: Endpoint,
    name: u64,
    /// Send the same requests again, as other clients do.
    repeats: bool,
    sent: u64,
    line: Option<ClientLine>,
    random: Random,
    right: u64,
    failed: u64,
    wrong: Vec<String>,
    gives_up_at: Instant,
}

struct ClientLine {
    id: ConnectionId,
    http: ClientConnection,
    due: std::collections::VecDeque<Vec<u8>>,
    status: u16,
    content: Vec<u8>,
}

impl Client {
    fn send_requests(&mut self, actions: &mut Actions) {
        let Some(line) = &mut self.line else { return };
        let ahead = 1 + self.random.below(3);
        while self.sent < REQUESTS && (line.due.len() as u64) < ahead {
            let target = match self.repeats {
                true => format!("/{}/{}/", self.name % 3, self.sent % 4),
                false => format!("/{}/{}/", self.name, self.sent),
            };
            self.sent += 1;
            let content =
                if self.random.chance(0.3) { "c".repeat(self.random.below(5_000) as usize) } else { String::new() };
            let (method, framing) = match content.len() {
                0 => ("GET", String::new()),
                length => ("POST", format!("Content-Length: {length}\r\n")),
            };
            let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{framing}\r\n{content}");
            actions.send(line.id).extend_from_slice(request.as_bytes());
            line.http.sent(Method::Get);
            line.due.push_back(content_of(&target, content.as_bytes()));
        }
    }

    /// Compares what arrived with the expected bytes.
    fn check(&mut self, is_complete: bool) {
        let Some(line) = &mut self.line else { return };
        let Some(expected) = line.due.front() else { return };
        let is_right = if is_complete { line.content == *expected } else { expected.starts_with(&line.content) };
        match (line.status, is_right) {
            (200, false) => {
                let start = String::from_utf8_lossy(&line.content[..line.content.len().min(40)]).into_owned();
                self.wrong.push(format!("{}: complete {is_complete}: {start}", self.name));
            }
            (200, true) if is_complete => self.right += 1,
            _ => self.failed += 1,
        }
        if is_complete {
            line.due.pop_front();
            line.content.clear();
        }
    }

    fn lose(&mut self, actions: &mut Actions) {
        if self.line.as_ref().is_some_and(|line| !line.content.is_empty()) {
            self.check(false);
        }
        self.line = None;
        if self.sent >= REQUESTS {
            return actions.exit();
        }
        actions.connect(ConnectTicket(0), self.server);
    }
}

impl Node for Client {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.gives_up_at = now + PATIENCE;
        actions.connect(ConnectTicket(0), self.server);
    }

    fn handle_accepted(&mut self, _now: Instant, _id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {}

    fn handle_connected(
        &mut self,
        _now: Instant,
        _ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        let Ok(connected) = outcome else {
            self.sent += 1; // so that this ends
            return self.lose(actions);
        };
        let http = ClientConnection::new();
        let due = std::collections::VecDeque::new();
        self.line = Some(ClientLine { id: connected.connection, http, due, status: 0, content: Vec::new() });
        self.send_requests(actions);
    }

    fn handle_received(
        &mut self,
        _now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let (limits, mut taken) = (Limits::default(), 0);
        while let Some(line) = self.line.as_mut().filter(|line| line.id == id) {
            let mut storage = FieldStorage::new();
            match line.http.receive(&received.bytes[taken..], received.ended, &limits, &mut storage) {
                Ok(ClientProgress::Head { head, taken: count }) => {
                    line.status = head.status;
                    taken += count;
                }
                Ok(ClientProgress::Content { bytes, taken: count }) => {
                    line.content.extend_from_slice(bytes);
                    taken += count;
                }
                Ok(ClientProgress::End { taken: count, keep_alive }) => {
                    taken += count;
                    self.check(true);
                    let is_done = self.sent >= REQUESTS && self.line.as_ref().is_some_and(|line| line.due.is_empty());
                    if !keep_alive || is_done {
                        actions.close(id, Close::Graceful);
                        self.lose(actions);
                        return received.bytes.len();
                    }
                    self.send_requests(actions);
                }
                Ok(ClientProgress::NeedMore { taken: count }) => return taken + count,
                Ok(
                    ClientProgress::Interim { .. } | ClientProgress::Switched { .. } | ClientProgress::Trailer { .. },
                ) => panic!("nobody asked for it"),
                Ok(ClientProgress::Over) | Err(_) => {
                    actions.close(id, Close::Abort);
                    self.lose(actions);
                    return received.bytes.len();
                }
            }
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, actions: &mut Actions) {
        if self.line.as_ref().is_some_and(|line| line.id == id) {
            self.lose(actions);
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if now < self.gives_up_at {
            return;
        }
        // A silent connection is not reported.
        self.gives_up_at = now + PATIENCE;
        if let Some(line) = &self.line {
            actions.close(line.id, Close::Abort);
            self.lose(actions);
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.gives_up_at)
    }
}

/// Runs one simulation. Returns how many requests had a correct response, and how many had none.
fn world(seed: u64, network: Network, breaks: f64, repeats: bool) -> (u64, u64) {
    let mut simulation = Simulation::new(seed, network);
    let mirrors: Vec<_> = (0..2)
        .map(|index| {
            simulation.serve(&format!("upstream {index}"), 1, |_| Mirror {
                lines: HashMap::new(),
                random: Random::stream(seed, 100 + index),
                breaks,
            })
        })
        .collect();
    let list = mirrors.iter().enumerate();
    let list = list.map(|(index, &host)| upstream_at(&format!("up{index}:80"), simulation.address(host))).collect();
    let parts = Parts::new(silent(), WallClock::starting_at(UnixSeconds(THEN)));
    let group = Group::new(GroupSettings { ejection: None, ..GroupSettings::default() }, list).unwrap();
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
    let node = proxy.clone();
    let server = simulation.serve("proxy", 2, |shard| node.node(shard));
    let address: Endpoint = simulation.address(server).into();
    let clients = simulation.client("client", CLIENTS as usize, |shard| Client {
        server: address,
        name: shard.id.0 as u64,
        repeats,
        sent: 0,
        line: None,
        random: Random::stream(seed, shard.id.0 as u64),
        right: 0,
        failed: 0,
        wrong: Vec::new(),
        gives_up_at: Instant::FAR,
    });
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    let clients = simulation.take(clients);
    let wrong: Vec<_> = clients.iter().flat_map(|client| client.wrong.clone()).collect();
    assert_eq!(wrong, [""; 0], "seed {seed}");
    let counts = proxy.counts();
    assert_eq!((counts.exchanges_open, counts.pool_idle, counts.pool_busy), (0, 0, 0), "seed {seed}: {counts:?}");
    (clients.iter().map(|client| client.right).sum(), clients.iter().map(|client| client.failed).sum())
}

#[test]
fn every_request_gets_its_response_without_losses() {
    seeds(3, |seed| {
        for repeats in [false, true] {
            let (right, failed) = world(seed, Network::rough(), 0.0, repeats);
            assert_eq!((right, failed), (CLIENTS * REQUESTS, 0), "seed {seed}");
        }
    });
}

#[test]
fn no_request_gets_anothers_response_under_losses() {
    let (mut all_right, mut worlds) = (0, 0);
    seeds(8, |seed| {
        all_right += world(seed, Network::nasty(), 0.1, seed % 2 == 0).0;
        worlds += 1;
    });
    assert!(all_right > worlds * CLIENTS * REQUESTS / 4, "{all_right} say too little");
}
