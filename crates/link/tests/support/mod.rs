//! A client and a server that record their events with the time, on a network in which only the path takes time.

use std::net::SocketAddr;
use std::time::Duration;

use breme_base::Instant;
use breme_link::{Link, LinkNode, Settings};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectResult, ConnectTicket, ConnectionId, Endpoint, Node, Received,
};
use breme_sim::{AmountRange, DurationRange, Host, Network, Simulation};
use breme_testkit::ContractChecker;

pub const MS: Duration = Duration::from_millis(1);

/// What a peer does, at a time after its connection was opened or accepted.
#[derive(Clone, Debug)]
pub enum Act {
    Send(usize),
    Finish,
    Reset,
}

/// The events of a peer.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub began: Option<Instant>,
    /// Times of receipts, with the total number of bytes.
    pub received: Vec<(Instant, usize)>,
    pub content: Vec<u8>,
    pub ended: Option<Instant>,
    pub closed: Option<(Instant, CloseReason)>,
}

impl Story {
    /// When this many bytes had been received.
    pub fn at(&self, bytes: usize) -> Instant {
        let reached = self.received.iter().find(|(_, total)| *total >= bytes);
        reached.unwrap_or_else(|| panic!("{bytes} bytes never came: {self:?}")).0
    }
}

/// Performs acts on one connection, responds to what it receives if configured, and consumes everything.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub acts: Vec<(Duration, Act)>,
    /// Bytes sent back for each of this many bytes received.
    pub answers: Option<(usize, usize)>,
    /// Receives nothing before this time.
    pub reads_from: Duration,
    pub story: Story,
    pub connection: Option<ConnectionId>,
    pub due: Vec<(Instant, Act)>,
    pub answered: usize,
    pub sent: usize,
    pub paused_until: Option<Instant>,
}

impl Peer {
    pub fn new(acts: impl IntoIterator<Item = (Duration, Act)>) -> Self {
        Self { acts: acts.into_iter().collect(), ..Self::default() }
    }

    fn begin(&mut self, now: Instant, connection: ConnectionId, actions: &mut Actions) {
        self.connection = Some(connection);
        self.story.began = Some(now);
        self.due = self.acts.drain(..).map(|(after, act)| (now + after, act)).collect();
        if !self.reads_from.is_zero() {
            actions.pause(connection);
            self.paused_until = Some(now + self.reads_from);
        }
        self.act(now, actions);
    }

    fn act(&mut self, now: Instant, actions: &mut Actions) {
        let Some(connection) = self.connection else { return };
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            actions.resume(connection);
        }
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            match self.due.remove(0).1 {
                Act::Send(count) => self.send(count, actions),
                Act::Finish => actions.finish(connection),
                Act::Reset => actions.close(connection, Close::Abort),
            }
        }
    }

    /// Every byte depends on its position.
    fn send(&mut self, count: usize, actions: &mut Actions) {
        let Some(connection) = self.connection else { return };
        let bytes = (self.sent..self.sent + count).map(byte_at);
        actions.send(connection).extend(bytes);
        self.sent += count;
    }

    fn receive(&mut self, now: Instant, received: Received<'_>, actions: &mut Actions) {
        self.story.content.extend_from_slice(received.bytes);
        if !received.bytes.is_empty() {
            self.story.received.push((now, self.story.content.len()));
        }
        if received.ended {
            self.story.ended.get_or_insert(now);
        }
        if let Some((every, count)) = self.answers {
            while (self.answered + 1) * every <= self.story.content.len() {
                self.answered += 1;
                self.send(count, actions);
            }
        }
        let is_done = self.due.is_empty() && self.acts.is_empty();
        if let Some(connection) = self.connection
            && received.ended
            && is_done
        {
            actions.close(connection, Close::Graceful);
        }
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at).into_iter().chain(self.paused_until).min()
    }
}

pub fn byte_at(place: usize) -> u8 {
    (place.wrapping_mul(0x9E37_79B9) >> 13) as u8
}

pub fn assert_content(content: &[u8]) {
    assert!(content.iter().enumerate().all(|(place, &byte)| byte == byte_at(place)), "bytes were lost or mixed up");
}

/// A client with one connection; it exits when that is closed, or after its time limit.
#[derive(Debug)]
pub struct Client {
    pub peer: Peer,
    server: SocketAddr,
    begins: Duration,
    exits: Instant,
}

impl Node for Client {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.handle_deadline(now, actions);
    }

    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_connected(&mut self, now: Instant, _ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        match result {
            Ok(connected) => self.peer.begin(now, connected.connection, actions),
            Err(_) => actions.exit(),
        }
    }

    fn handle_received(&mut self, now: Instant, _: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.peer.receive(now, input, actions);
        input.bytes.len()
    }

    fn handle_closed(&mut self, now: Instant, _id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.peer.story.closed = Some((now, reason));
        actions.exit();
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.peer.connection.is_none() && self.peer.story.began.is_none() && now >= Instant::ZERO + self.begins {
            self.peer.story.began = Some(now);
            actions.connect(ConnectTicket(0), Endpoint::tcp(self.server));
        }
        self.peer.act(now, actions);
        if now >= self.exits {
            actions.exit();
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let begins = self.peer.story.began.is_none().then_some(Instant::ZERO + self.begins);
        self.peer.next().into_iter().chain(begins).chain([self.exits]).min()
    }
}

/// A server whose connections all play the same acts.
#[derive(Debug)]
pub struct Server {
    pattern: Peer,
    pub peers: Vec<(ConnectionId, Peer)>,
}

impl Server {
    fn peer(&mut self, connection: ConnectionId) -> &mut Peer {
        let found = self.peers.iter_mut().find(|(id, _)| *id == connection);
        &mut found.expect("it was accepted").1
    }

    pub fn story(&self) -> &Story {
        &self.peers[0].1.story
    }
}

impl Node for Server {
    /// Only the path may limit senders.
    fn is_full_duplex(&self) -> bool {
        true
    }

    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        let mut peer = self.pattern.clone();
        peer.begin(now, id, actions);
        self.peers.push((id, peer));
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.peer(id).receive(now, input, actions);
        input.bytes.len()
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, _actions: &mut Actions) {
        let peer = self.peer(id);
        peer.story.closed = Some((now, reason));
        peer.due.clear();
        peer.paused_until = None;
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.peers.iter_mut().for_each(|(_, peer)| peer.act(now, actions));
    }

    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}

    fn next_deadline(&self) -> Option<Instant> {
        self.peers.iter().filter_map(|(_, peer)| peer.next()).min()
    }
}

/// A network without delay and limits: what remains is the path.
pub fn instant_network() -> Network {
    let much = 64 << 20;
    Network {
        delay: DurationRange::always(Duration::ZERO),
        window_bytes: AmountRange::always(much),
        long_queue_bytes: AmountRange::always(much),
        lent_bytes_max: much as usize,
        ..Network::calm()
    }
}

pub struct World {
    pub simulation: Simulation,
    pub link: Link,
    relay: Host<ContractChecker<LinkNode>>,
    server: Host<Server>,
    clients: Vec<Host<Client>>,
}

pub struct Outcome {
    pub clients: Vec<Story>,
    pub server: Server,
    pub link: Link,
}

impl World {
    /// A server that plays `pattern`, behind a path.
    pub fn new(network: Network, seed: u64, pattern: Peer, properties: impl FnOnce(&mut Settings)) -> Self {
        let lent_bytes_max = network.lent_bytes_max;
        let mut simulation = Simulation::new(seed, network);
        let server = simulation.serve("server", 1, |_| Server { pattern: pattern.clone(), peers: Vec::new() });
        let mut settings = Settings::to(vec![simulation.address(server)]);
        settings.seed = seed;
        properties(&mut settings);
        let link = Link::new(settings).unwrap();
        let relay = simulation.serve("link", 1, |_| ContractChecker::new(link.node(), lent_bytes_max));
        Self { simulation, link, relay, server, clients: Vec::new() }
    }

    /// A client that connects after `begins`.
    #[must_use]
    pub fn client(mut self, begins: Duration, peer: Peer) -> Self {
        let server = self.simulation.address(self.relay);
        let exits = Instant::ZERO + Duration::from_secs(3_600);
        let client = |_| Client { peer: peer.clone(), server, begins, exits };
        self.clients.push(self.simulation.client("client", 1, client));
        self
    }

    pub fn run(mut self) -> Outcome {
        self.simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        let relay = self.simulation.take(self.relay).remove(0);
        assert_eq!(relay.final_violations(), [""; 0]);
        let server = self.simulation.take(self.server).remove(0);
        let clients: Vec<Client> = self.clients.iter().map(|&host| self.simulation.take(host).remove(0)).collect();
        let clients: Vec<Story> = clients.into_iter().map(|client| client.peer.story).collect();
        Outcome { clients, server, link: self.link }
    }
}

/// Within the few nanoseconds by which the simulated network separates segments.
#[track_caller]
pub fn assert_at(actual: Instant, expected: Duration) {
    let expected = Instant::ZERO + expected;
    let difference = actual.since(expected).max(expected.since(actual));
    assert!(difference < Duration::from_micros(10), "{actual:?}, not {expected:?}");
}

/// A client that only observes, at regular times.
pub struct Observer {
    every: Duration,
    left: u32,
    next: Instant,
    look: Box<dyn FnMut() + Send>,
}

impl Observer {
    pub fn new(every: Duration, times: u32, look: impl FnMut() + Send + 'static) -> Self {
        Self { every, left: times, next: Instant::ZERO + every, look: Box::new(look) }
    }
}

impl Node for Observer {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(&mut self, _: Instant, _: ConnectionId, input: Received<'_>, _: &mut Actions) -> usize {
        input.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        (self.look)();
        self.left -= 1;
        self.next = now + self.every;
        if self.left == 0 {
            actions.exit();
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.next)
    }
}
