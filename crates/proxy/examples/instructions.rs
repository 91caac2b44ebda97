//! Requests through a node alone, without a driver, for `cargo xtask instructions`, which counts what they execute:
//! `instructions CASE COUNT`.
//!
//! Everything that does not depend on COUNT cancels out when two runs with different counts are subtracted.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a program of the workshop")]

use std::process::ExitCode;
use std::sync::Arc;

use breme_balance::{Group, GroupSettings, UpstreamSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::{Cache, CacheSettings};
use breme_load::{Load, Run};
use breme_load_plan::Plan;
use breme_node::{
    Accepted, Action, Actions, ConnectTicket, Connected, ConnectionId, ListenerId, Node, Received, Shard, ShardId,
};
use breme_origin::Site;
use breme_proxy::{HostRule, Mode, Parts, Proxy, Settings};

/// No run needs more different heads.
const HEAD_COUNT: usize = 5_000;
const MEMORY_BYTES: u64 = 64 << 20;
/// Sun, 06 Nov 1994 08:49:37 GMT.
const THEN: UnixSeconds = UnixSeconds(784_111_777);
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nCache-Control: max-age=600\r\nContent-Length: 13\r\n\r\nHello, World!";

const CLIENT: ConnectionId = ConnectionId::new(0, 0);
const UPSTREAM: ConnectionId = ConnectionId::new(1, 0);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [case, count] = arguments.as_slice() else {
        eprintln!("usage: instructions CASE COUNT");
        return ExitCode::from(2);
    };
    let Some(count) = count.parse().ok().filter(|count| (1..=HEAD_COUNT).contains(count)) else {
        eprintln!("COUNT is 1 to {HEAD_COUNT}");
        return ExitCode::from(2);
    };
    let (identical, varied) = (vec![head(0)], (0..HEAD_COUNT).map(head).collect::<Vec<_>>());
    let served = match case.as_str() {
        "origin-identical" => serve(origin(), &identical, count),
        "origin-varied" => serve(origin(), &varied, count),
        "relay-identical" => serve(proxy(None), &identical, count),
        "relay-varied" => serve(proxy(None), &varied, count),
        "hit-identical" => serve(proxy(Some(cache())), &identical, count),
        "hit-varied" => serve(proxy(Some(cache())), &varied, count),
        "load" => load(count),
        _ => {
            eprintln!("there is no case {case:?}");
            return ExitCode::from(2);
        }
    };
    if served == count {
        ExitCode::SUCCESS
    } else {
        eprintln!("{served} of {count} requests were served");
        ExitCode::FAILURE
    }
}

/// A request of about 380 bytes. Its number varies a cookie and the user agent; there are 100 targets.
fn head(number: usize) -> Vec<u8> {
    format!(
        "GET /bytes/{} HTTP/1.1\r\nHost: www.example.org\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/140.0\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
         Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
         Cookie: theme=dark; visitor={number:032x}\r\n\r\n",
        number % 100,
        number % 37
    )
    .into_bytes()
}

fn origin() -> impl Node {
    let settings = breme_origin::Settings { lab: true, ..breme_origin::Settings::default() };
    Site::new(settings, None, None, WallClock::starting_at(THEN)).unwrap().node(shard())
}

fn cache() -> Arc<Cache> {
    Cache::new(CacheSettings::new(MEMORY_BYTES)).unwrap()
}

fn proxy(cache: Option<Arc<Cache>>) -> impl Node {
    let upstream = UpstreamSettings {
        name: String::from("origin.example:80"),
        tls: false,
        addresses: vec!["192.0.2.2:80".parse().unwrap()],
        weight: 1,
        route: None,
    };
    let group = Group::new(GroupSettings::default(), vec![upstream]).unwrap();
    let settings = Settings::new(Mode::Reverse { host: HostRule::Keep });
    let parts = Parts::new(settings, WallClock::starting_at(THEN));
    Proxy::new(Parts { group: Some(Arc::new(group)), cache, ..parts }).unwrap().node(shard())
}

const fn shard() -> Shard {
    Shard { id: ShardId(0), count: 1 }
}

#[derive(Default)]
struct Settled {
    upstream_requests: usize,
    /// Whether the client got bytes.
    has_response: bool,
}

/// A node with one accepted and one opened connection at most.
struct Driven<N> {
    node: N,
    actions: Actions,
    now: Instant,
}

impl<N: Node> Driven<N> {
    fn new(node: N) -> Self {
        Self { node, actions: Actions::new(), now: Instant::ZERO }
    }

    /// Lends bytes, all of which the node must take.
    fn lend(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let received = Received { bytes, ended: false, arrived_at: self.now };
        assert_eq!(self.node.handle_received(self.now, connection, received, &mut self.actions), bytes.len());
    }

    fn connect(&mut self, ticket: ConnectTicket) {
        self.node.handle_connected(self.now, ticket, Ok(Connected::plain(UPSTREAM)), &mut self.actions);
    }

    /// Plays the other side of each connection until the node does nothing more: `RESPONSE` for each request that it
    /// sends upstream.
    fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        loop {
            let (mut ticket, mut is_request) = (None, false);
            for index in 0..self.actions.len() {
                match self.actions.get(index) {
                    Some(Action::Connect(new, _)) => ticket = Some(*new),
                    Some(Action::Send(to, _) | Action::SendShared(to, _)) => {
                        is_request |= *to == UPSTREAM;
                        settled.has_response |= *to == CLIENT;
                    }
                    _ => {}
                }
            }
            self.actions.clear(usize::MAX);
            match (ticket, is_request) {
                (Some(ticket), _) => self.connect(ticket),
                (None, true) => {
                    settled.upstream_requests += 1;
                    self.lend(UPSTREAM, RESPONSE);
                }
                (None, false) => return settled,
            }
        }
    }
}

/// Sends `count` requests to a server. Returns the number of responses.
fn serve(node: impl Node, heads: &[Vec<u8>], count: usize) -> usize {
    let mut server = Driven::new(node);
    let accepted = Accepted { listener: ListenerId(0), peer: "192.0.2.1:1".parse().ok() };
    server.node.handle_started(server.now, &mut server.actions);
    server.node.handle_accepted(server.now, CLIENT, accepted, &mut server.actions);
    server.settle();
    let requests = heads.iter().cycle().take(count);
    requests
        .filter(|head| {
            server.lend(CLIENT, head);
            server.settle().has_response
        })
        .count()
}

/// Lets a generator send `count` requests on one connection. Returns how many it sent.
fn load(count: usize) -> usize {
    let settings = breme_load_plan::Settings {
        connections: 1,
        requests: Some(count as u64),
        duration: None,
        ..breme_load_plan::Settings::new("http://www.example.org/bytes/13")
    };
    let addresses = vec![vec!["192.0.2.2:80".parse().unwrap()]];
    let run = Arc::new(Run::new(Plan::new(settings).unwrap(), addresses, 1, WallClock::starting_at(THEN)));
    let mut generator = Driven::new(Load::new(run, shard()));
    generator.node.handle_started(generator.now, &mut generator.actions);
    generator.settle().upstream_requests
}
