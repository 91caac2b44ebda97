//! A driver in memory: one connection to one node, whole or byte by byte, in virtual time.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{
    Accepted, Action, Actions, Close, CloseReason, ConnectionId, ListenerId, Node, Received, Shard, ShardId,
};
use breme_origin::{MemoryRoot, Origin, Settings, Site, Visitors};

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub const THEN: u64 = 784_111_777;
pub const THEN_NS: i128 = THEN as i128 * 1_000_000_000;
/// When the tests run: a day later.
pub const TODAY: u64 = THEN + 86_400;

pub fn lab() -> Settings {
    Settings { lab: true, ..Settings::default() }
}

pub fn site(settings: Settings, root: Option<MemoryRoot>, visitors: Option<Visitors>) -> Site {
    let root = root.map(|root| Arc::new(root) as Arc<dyn breme_origin::Root>);
    Site::new(settings, root, visitors, WallClock::starting_at(UnixSeconds(TODAY))).unwrap()
}

pub fn node(site: &Site) -> Origin {
    site.node(Shard { id: ShardId(0), count: 1 })
}

/// A client of a node of its own.
pub struct Peer {
    pub node: Origin,
    pub now: Instant,
    id: ConnectionId,
    unread: Vec<u8>,
    ended: bool,
    pub output: Vec<u8>,
    pub closed: Option<Close>,
    /// Shared segments and file ranges among what was sent.
    pub uncopied_count: usize,
    /// The queue length from which the node is notified that it is long; then nothing is lent until `read_all`.
    pub queue_max: usize,
    queued: usize,
    is_long: bool,
}

impl Peer {
    pub fn new(site: &Site) -> Self {
        Self::from_node(node(site))
    }

    pub fn from_node(node: Origin) -> Self {
        Self::from_node_at(node, Instant::ZERO)
    }

    /// A client that connects at `now`.
    pub fn from_node_at(node: Origin, now: Instant) -> Self {
        let id = ConnectionId::new(3, 1);
        let mut peer = Self {
            node,
            now,
            id,
            unread: Vec::new(),
            ended: false,
            output: Vec::new(),
            closed: None,
            uncopied_count: 0,
            queue_max: usize::MAX,
            queued: 0,
            is_long: false,
        };
        let accepted = Accepted { listener: ListenerId(0), peer: None };
        peer.act(|node, now, actions| node.handle_accepted(now, id, accepted, actions));
        peer
    }

    /// Lends bytes, repeatedly as long as the node takes some.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.unread.extend_from_slice(bytes.as_ref());
        self.lend();
    }

    pub fn end(&mut self) {
        self.ended = true;
        self.lend();
    }

    /// The client has read everything: the send queue is empty.
    pub fn read_all(&mut self) {
        self.queued = 0;
        self.is_long = false;
        let id = self.id;
        self.act(|node, now, actions| node.handle_sent(now, id, 0, actions));
        self.lend();
    }

    pub fn stop(&mut self) {
        self.act(|node, now, actions| node.handle_stopping(now, actions));
    }

    /// Connections begin to wait for that of this peer, or no longer do.
    pub fn pressure(&mut self, is_under_pressure: bool) {
        self.act(|node, now, actions| node.handle_pressure(now, is_under_pressure, actions));
    }

    /// Advances the clock, and handles every deadline on the way.
    pub fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(at) = self.node.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.act(|node, now, actions| node.handle_deadline(now, actions));
        }
        self.now = end;
    }

    pub fn drop_connection(&mut self, reason: CloseReason) {
        let id = self.id;
        self.act(|node, now, actions| node.handle_closed(now, id, reason, actions));
    }

    fn lend(&mut self) {
        if self.closed.is_some() || self.queued > self.queue_max {
            return;
        }
        let mut actions = Actions::new();
        let received = Received { bytes: &self.unread, ended: self.ended, arrived_at: self.now };
        let taken = self.node.handle_received(self.now, self.id, received, &mut actions);
        self.unread.drain(..taken);
        self.carry_out(&actions);
    }

    fn act(&mut self, call: impl FnOnce(&mut Origin, Instant, &mut Actions)) {
        let mut actions = Actions::new();
        call(&mut self.node, self.now, &mut actions);
        self.carry_out(&actions);
    }

    fn carry_out(&mut self, actions: &Actions) {
        let (mut resumed, before) = (false, self.output.len());
        for index in 0..actions.len() {
            match actions.get(index).unwrap() {
                Action::Send(..) => self.output.extend_from_slice(actions.bytes(index)),
                Action::SendShared(_, bytes) => {
                    self.uncopied_count += 1;
                    self.output.extend_from_slice(bytes);
                }
                Action::SendFile(_, range) => {
                    self.uncopied_count += 1;
                    let mut bytes = vec![0; range.length as usize];
                    range.file.read_exact_at(&mut bytes, range.offset).unwrap();
                    self.output.extend_from_slice(&bytes);
                }
                Action::Close(_, how) => {
                    assert_eq!(self.closed.replace(*how), None, "closed twice");
                }
                Action::Resume(_) => resumed = true,
                other => panic!("an origin has no use for {other:?}"),
            }
        }
        self.queued += self.output.len() - before;
        if self.queued > self.queue_max {
            let (id, queued) = (self.id, self.queued as u64);
            if !std::mem::replace(&mut self.is_long, true) {
                self.act(|node, now, actions| node.handle_sent(now, id, queued, actions));
            }
        } else {
            self.queued = 0;
            if resumed {
                self.lend();
            }
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The responses so far, split by their lengths.
    pub fn responses(&self) -> Vec<Response> {
        let mut rest = &self.output[..];
        let mut responses = Vec::new();
        while !rest.is_empty() {
            let (response, taken) = Response::parse(rest);
            responses.push(response);
            rest = &rest[taken..];
        }
        responses
    }
}

/// A response as a client parses it. (One to HEAD has no body here only if nothing follows it.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    fn parse(bytes: &[u8]) -> (Self, usize) {
        let head_len = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a complete head") + 4;
        let head = std::str::from_utf8(&bytes[..head_len]).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let fields: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).expect(line))
            .collect();
        let mut response = Self { status, fields, body: Vec::new() };
        let length = response.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        let end = bytes.len().min(head_len + length);
        response.body = bytes[head_len..end].to_vec();
        (response, end)
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = values.next();
        assert!(values.next().is_none(), "{name} comes twice in {self:?}");
        value.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A request without content.
pub fn request(method: &str, target: &str, fields: &[&str]) -> String {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: site.example\r\n{fields}\r\n")
}

/// The response to one request on a connection of its own.
pub fn fetch(site: &Site, method: &str, target: &str, fields: &[&str]) -> Response {
    let mut peer = Peer::new(site);
    peer.send(request(method, target, fields));
    let mut responses = peer.responses();
    assert_eq!(responses.len(), 1, "{method} {target}: {responses:?}");
    responses.remove(0)
}
