//! A scripted server and a driver without sockets: the node's actions are carried out in virtual time, so that every
//! instant of a test is known in advance.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, UnixSeconds, WallClock};
use breme_load::{Generator, Load, Run};
use breme_load_plan::{Plan, Settings};
use breme_load_result::LoadOutcome;
use breme_node::{
    Action, Actions, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Handshake, Node,
    Received, Shard, ShardId,
};

/// The server's response to a request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Its delay.
    pub after: Duration,
    pub bytes: Vec<u8>,
    pub then: Then,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    #[default]
    Keep,
    End,
    Reset,
}

pub fn ok(content: &str) -> Reply {
    Reply {
        bytes: format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len()).into_bytes(),
        ..Reply::default()
    }
}

impl Reply {
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// A request as received by the server.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection's index, in the order of opening.
    pub connection: usize,
    /// How many requests the connection had before.
    pub before: usize,
    /// The whole request.
    pub text: String,
    pub at: Instant,
}

impl Request {
    pub fn target(&self) -> &str {
        self.text.split(' ').nth(1).unwrap()
    }
}

type Server = Box<dyn FnMut(&Request) -> Reply>;
type Door = Box<dyn FnMut(SocketAddr, Instant) -> Result<(), ConnectError>>;

pub struct World {
    pub run: Arc<Run>,
    pub nodes: Vec<Load>,
    pub now: Instant,
    /// Every request that reached the server.
    pub requests: Vec<Request>,
    /// Every attempt to connect.
    pub attempts: Vec<(Instant, SocketAddr)>,
    /// Responses arrive one byte at a time.
    pub bytewise: bool,
    /// Delay of the node's call after a response has arrived.
    pub called_late: Duration,
    /// In each period of the first length nothing runs for the second: another program has the CPU.
    pub stalls: Option<(Duration, Duration)>,
    /// Each connection has a TLS handshake of this duration.
    pub handshake: Option<Duration>,
    /// When the node is stopped.
    pub stop_at: Option<Instant>,
    pub connections: Vec<Connection>,
    server: Server,
    door: Door,
    exited: BTreeSet<usize>,
    events: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
}

pub struct Connection {
    shard: usize,
    id: ConnectionId,
    /// The client's bytes that are no whole request yet.
    inbox: Vec<u8>,
    /// The server's bytes that the node has not taken.
    untaken: Vec<u8>,
    answered: usize,
    /// Replies leave one after another.
    busy_until: Instant,
    server_is_done: bool,
    pub is_closed: bool,
}

enum Event {
    Connected(usize, ConnectTicket, SocketAddr),
    Secured(usize, ConnectTicket, ConnectionId),
    Bytes(usize, Vec<u8>),
    End(usize),
    Closed(usize, CloseReason),
}

pub fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

const LATENCY: Duration = Duration::from_micros(100);

impl World {
    pub fn new(settings: Settings, shard_count: usize, server: impl FnMut(&Request) -> Reply + 'static) -> Self {
        Self::with_addresses(settings, shard_count, vec![address(80)], server)
    }

    pub fn with_addresses(
        settings: Settings,
        shard_count: usize,
        addresses: Vec<SocketAddr>,
        server: impl FnMut(&Request) -> Reply + 'static,
    ) -> Self {
        Self::with_hosts(settings, shard_count, vec![addresses], server)
    }

    /// A world with a server for each host; requests are distinguished by Host.
    pub fn with_hosts(
        settings: Settings,
        shard_count: usize,
        addresses: Vec<Vec<SocketAddr>>,
        server: impl FnMut(&Request) -> Reply + 'static,
    ) -> Self {
        let plan = Plan::new(settings).unwrap();
        let wall = WallClock::starting_at(UnixSeconds(1_700_000_000));
        let run = Arc::new(Run::new(plan, addresses, shard_count, wall));
        let shard = |index| Shard { id: ShardId(index), count: shard_count };
        let nodes = (0..shard_count).map(|index| Load::new(Arc::clone(&run), shard(index))).collect();
        Self {
            run,
            nodes,
            now: Instant::from_nanos(1_000),
            requests: Vec::new(),
            attempts: Vec::new(),
            bytewise: false,
            called_late: Duration::ZERO,
            stalls: None,
            handshake: None,
            stop_at: None,
            connections: Vec::new(),
            server: Box::new(server),
            door: Box::new(|_, _| Ok(())),
            exited: BTreeSet::new(),
            events: BTreeMap::new(),
            event_count: 0,
        }
    }

    /// Another run against the same server.
    pub fn replace_run(&mut self, run: Run) {
        self.run = Arc::new(run);
        let count = self.nodes.len();
        let shard = |index| Shard { id: ShardId(index), count };
        self.nodes = (0..count).map(|index| Load::new(Arc::clone(&self.run), shard(index))).collect();
    }

    pub fn handshakes(mut self, duration: Duration) -> Self {
        self.handshake = Some(duration);
        self
    }

    pub fn door(mut self, door: impl FnMut(SocketAddr, Instant) -> Result<(), ConnectError> + 'static) -> Self {
        self.door = Box::new(door);
        self
    }

    /// Runs until every shard has ended. Returns the result.
    pub fn finish(&mut self) -> LoadOutcome {
        for shard in 0..self.nodes.len() {
            self.call(shard, |node, now, actions| node.handle_started(now, actions));
        }
        let mut steps = 0_u64;
        while self.exited.len() < self.nodes.len() {
            self.step();
            steps += 1;
            assert!(steps < 3_000_000, "no end in sight at {:?}", self.now);
        }
        let interrupted = self.stop_at.is_some() && !self.run.plan().settings().until_stopped;
        let generator = Generator { interrupted, processors: 2, ..Generator::default() };
        self.run.outcome(&mut self.nodes, &generator)
    }

    fn step(&mut self) {
        let event_at = self.events.keys().next().map_or(Instant::FAR, |(at, _)| *at);
        let live = (0..self.nodes.len()).filter(|shard| !self.exited.contains(shard));
        let (deadline, shard) =
            live.map(|shard| (self.nodes[shard].next_deadline().unwrap_or(Instant::FAR), shard)).min().unwrap();
        let stop_at = self.stop_at.filter(|&at| at >= self.now).unwrap_or(Instant::FAR);
        let next = event_at.min(deadline).min(stop_at);
        assert!(next < Instant::FAR, "nothing will ever happen again");
        self.now = self.now.max(next);
        if let Some((period, stall)) = self.stalls {
            let into = self.now.as_nanos() % period.as_nanos() as u64;
            self.now = self.now + stall.saturating_sub(Duration::from_nanos(into));
        }
        if stop_at == next {
            self.stop_at = Some(Instant::ZERO);
            for shard in 0..self.nodes.len() {
                self.call(shard, |node, now, actions| node.handle_stopping(now, actions));
            }
        } else if event_at <= deadline {
            let (_, event) = self.events.pop_first().unwrap();
            self.happen(event);
        } else {
            self.call(shard, |node, now, actions| node.handle_deadline(now, actions));
        }
    }

    fn call(&mut self, shard: usize, call: impl FnOnce(&mut Load, Instant, &mut Actions)) {
        if self.exited.contains(&shard) {
            return;
        }
        let mut actions = Actions::new();
        call(&mut self.nodes[shard], self.now, &mut actions);
        for index in 0..actions.len() {
            let action = actions.get(index).unwrap().clone();
            let bytes = actions.with_received(&[]).memory(index).to_vec();
            self.act(shard, action, &bytes);
        }
    }

    fn act(&mut self, shard: usize, action: Action, bytes: &[u8]) {
        match action {
            Action::Connect(ticket, Endpoint { address, .. }) => {
                self.attempts.push((self.now, address));
                let handshake = self.handshake.unwrap_or_default();
                self.later(LATENCY + handshake, Event::Connected(shard, ticket, address));
            }
            Action::Send(id, _) | Action::SendShared(id, _) => self.deliver(shard, id, bytes),
            Action::Close(id, _) => {
                let connection = self.index_of(shard, id);
                self.connections[connection].server_is_done = true;
                self.later(Duration::ZERO, Event::Closed(connection, CloseReason::Requested));
            }
            Action::StartTls(id, ticket, _) => self.later(LATENCY, Event::Secured(shard, ticket, id)),
            Action::Wake(shard, message) => {
                self.call(shard.0, |node, now, actions| node.handle_woken(now, message, actions));
            }
            Action::Exit => {
                self.exited.insert(shard);
            }
            other => panic!("a generator does not do this: {other:?}"),
        }
    }

    fn index_of(&self, shard: usize, id: ConnectionId) -> usize {
        self.connections.iter().rposition(|c| c.shard == shard && c.id == id).unwrap()
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.at(self.now + after, event);
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    /// The server takes whole requests and responds to each, one after another.
    fn deliver(&mut self, shard: usize, id: ConnectionId, bytes: &[u8]) {
        let index = self.index_of(shard, id);
        assert!(!self.connections[index].is_closed, "sent on a closed connection");
        self.connections[index].inbox.extend_from_slice(bytes);
        while let Some(text) = take_request(&mut self.connections[index].inbox) {
            if self.connections[index].server_is_done {
                continue;
            }
            let request = Request { connection: index, before: self.connections[index].answered, text, at: self.now };
            self.connections[index].answered += 1;
            let reply = (self.server)(&request);
            self.requests.push(request);
            self.reply(index, reply);
        }
    }

    fn reply(&mut self, index: usize, reply: Reply) {
        let connection = &mut self.connections[index];
        let at = connection.busy_until.max(self.now) + reply.after;
        connection.busy_until = at;
        connection.server_is_done = reply.then != Then::Keep;
        let called = at + self.called_late;
        if self.bytewise {
            reply.bytes.iter().for_each(|&byte| self.at(called, Event::Bytes(index, vec![byte])));
        } else if !reply.bytes.is_empty() {
            self.at(called, Event::Bytes(index, reply.bytes));
        }
        match reply.then {
            Then::Keep => {}
            Then::End => self.at(called, Event::End(index)),
            Then::Reset => self.at(at, Event::Closed(index, CloseReason::Reset)),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connected(shard, ticket, address) => match (self.door)(address, self.now) {
                Ok(()) => {
                    let id = self.new_connection(shard);
                    let handshake = self.handshake.map(|duration| Handshake { duration, is_resumed: false });
                    let connected = Connected { connection: id, handshake };
                    self.call(shard, |node, now, actions| node.handle_connected(now, ticket, Ok(connected), actions));
                }
                Err(error) => {
                    self.call(shard, |node, now, actions| node.handle_connected(now, ticket, Err(error), actions));
                }
            },
            Event::Secured(shard, ticket, connection) => {
                let handshake = Some(Handshake { duration: LATENCY, is_resumed: false });
                let connected = Connected { connection, handshake };
                self.call(shard, |node, now, actions| node.handle_connected(now, ticket, Ok(connected), actions));
            }
            Event::Bytes(index, bytes) => self.lend(index, &bytes, false),
            Event::End(index) => self.lend(index, b"", true),
            Event::Closed(index, reason) => {
                let connection = &mut self.connections[index];
                if !std::mem::replace(&mut connection.is_closed, true) {
                    connection.server_is_done = true;
                    let (shard, id) = (connection.shard, connection.id);
                    self.call(shard, |node, now, actions| node.handle_closed(now, id, reason, actions));
                }
            }
        }
    }

    /// Indexes are reused, as in drivers.
    fn new_connection(&mut self, shard: usize) -> ConnectionId {
        let mine = || self.connections.iter().filter(|connection| connection.shard == shard);
        let busy: BTreeSet<usize> = mine().filter(|c| !c.is_closed).map(|c| c.id.index()).collect();
        let index = (0..).find(|index| !busy.contains(index)).unwrap();
        let generation = mine().filter(|c| c.id.index() == index).count();
        let id = ConnectionId::new(index as u32, generation as u32);
        self.connections.push(Connection {
            shard,
            id,
            inbox: Vec::new(),
            untaken: Vec::new(),
            answered: 0,
            busy_until: Instant::ZERO,
            server_is_done: false,
            is_closed: false,
        });
        id
    }

    fn lend(&mut self, index: usize, bytes: &[u8], ended: bool) {
        let connection = &mut self.connections[index];
        if connection.is_closed {
            return;
        }
        connection.untaken.extend_from_slice(bytes);
        let (shard, id) = (connection.shard, connection.id);
        let input = std::mem::take(&mut connection.untaken);
        let mut taken = input.len();
        let arrived_at = Instant::ZERO + self.now.since(Instant::ZERO + self.called_late);
        self.call(shard, |node, now, actions| {
            taken = node.handle_received(now, id, Received { bytes: &input, ended, arrived_at }, actions);
        });
        assert!(taken <= input.len());
        self.connections[index].untaken = input[taken..].to_vec();
    }
}

/// Removes a whole request from the front, including its content.
fn take_request(inbox: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8(inbox.clone()).unwrap();
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let end = head + length.map_or(0, |length| length.parse::<usize>().unwrap());
    if inbox.len() < end {
        return None;
    }
    inbox.drain(..end);
    Some(text[..end].to_owned())
}

/// A seeded server that sometimes misbehaves, in every way.
pub fn unruly(seed: u64) -> impl FnMut(&Request) -> Reply {
    let mut random = Random::new(seed);
    move |_| {
        let after = Duration::from_micros(random.below(3_000));
        let reply = match random.below(14) {
            0 => Reply { then: Then::Reset, ..Reply::default() },
            1 => Reply { then: Then::End, ..Reply::default() },
            2 => Reply {
                bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab".to_vec(),
                then: Then::End,
                ..Reply::default()
            },
            3 => Reply { bytes: b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), then: Then::Reset, ..Reply::default() },
            4 => Reply { bytes: b"\x16\x03\x01 this is no HTTP".to_vec(), ..Reply::default() },
            5 => Reply {
                bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end".to_vec(),
                then: Then::End,
                ..Reply::default()
            },
            6 => Reply {
                bytes: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab".to_vec(),
                then: if random.chance(0.5) { Then::End } else { Then::Keep },
                ..Reply::default()
            },
            7 => Reply::default().after(Duration::from_secs(100)),
            8 => ok("then the end").then(Then::End),
            9 => Reply { bytes: b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::default() },
            10 => {
                Reply { bytes: b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 Nothing\r\n\r\n".to_vec(), ..Reply::default() }
            }
            _ => ok("abc"),
        };
        Reply { after: reply.after + after, ..reply }
    }
}
