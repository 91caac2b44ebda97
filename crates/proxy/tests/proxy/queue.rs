//! The queue for upstreams that are at their limit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{
    Accepted, Action, Actions, Close, CloseReason, Connected, ConnectionId, ListenerId, Node, Received, ShardId,
};
use breme_proxy::{ErrorPage, PageStatus, Parts, Proxy, QueueSettings, Settings};
use breme_sim::{Network, Simulation, seeds};
use breme_testkit::{Client, Script, Surroundings};

use crate::support::driven::Driven;
use crate::support::{Acts, Play, error_response, head, later, silent, text, upstream_at};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";
const SECOND: Duration = Duration::from_secs(1);

fn get(path: &str) -> String {
    head(&[&format!("GET /{path} HTTP/1.1"), "Host: a.example"])
}

fn one_at_a_time() -> GroupSettings {
    GroupSettings { outstanding_max: 1, ..GroupSettings::default() }
}

fn queueing(requests_max: usize, timeout: Duration) -> Settings {
    Settings { queue: QueueSettings { requests_max, timeout }, ..silent() }
}

/// The clients send their requests one after another.
fn client(number: u32) -> Script {
    let script = if number > 0 { Script::new().await_signal(number) } else { Script::new() };
    script.wait(Duration::from_millis(10)).connect().signal(number + 1).send(text(get(&number.to_string())))
}

fn full(second: u64) -> String {
    let lines = ["Retry-After: 1", "Proxy-Status: breme; error=destination_unavailable"];
    let content = "Proxy error: every upstream is at its limit of outstanding requests.\n";
    later(second - 37, error_response(503, &lines, content))
}

#[test]
fn queue_is_first_in_first_out() {
    let clients = (0..4).map(|number| client(number).expect(HELLO).part()).collect();
    let acts = |acts: Acts, number: u32| acts.expect(get(&number.to_string())).wait(SECOND / 2).send(HELLO);
    let upstream = (0..4).fold(Acts::new(), acts).expect_end();
    let play =
        Play { settings: queueing(10, SECOND * 9), group: one_at_a_time(), ..Play::new(clients, vec![upstream]) };
    let counts = play.run();
    assert_eq!((counts.requests_queued, counts.queue_length, counts.reuses), (3, 0, 3));
}

/// A client that half-closes may still read: it remains queued. With `abort_on_close`, it does not.
#[test]
fn half_closed_client_stays_queued_unless_abort_on_close() {
    let waits = |number: u32| client(number).wait(SECOND / 10).finish();
    let acts = |acts: Acts, number: u32| acts.expect(get(&number.to_string())).wait(SECOND).send(HELLO);
    let clients = vec![waits(0).expect(HELLO).part_after_end(), waits(1).expect(HELLO).part_after_end()];
    let upstream = (0..2).fold(Acts::new(), acts).expect_end();
    let keeps = || Play {
        settings: queueing(10, SECOND * 9),
        group: one_at_a_time(),
        ..Play::new(clients.clone(), vec![upstream.clone()])
    };
    assert_eq!(keeps().run().responses_of_class(2), 2);
    let leaves = vec![
        client(0).wait(SECOND).finish().expect_end().part_after_end(),
        waits(1).expect_end().part_after_end(),
        client(2).expect(HELLO).part(),
    ];
    let left = Acts::new().expect(get("0")).expect_end();
    let third = Acts::new().expect(get("2")).send(HELLO).expect_end();
    let settings = Settings { abort_on_close: true, ..queueing(10, SECOND * 9) };
    let play = Play { settings, group: one_at_a_time(), ..Play::new(leaves, vec![left, third]) };
    let counts = play.run();
    assert_eq!((counts.responses_of_class(2), counts.clients_gone, counts.queue_length), (1, 2, 0));
}

#[test]
fn new_requests_do_not_overtake_queue() {
    let peer = "127.0.0.1:9".parse().unwrap();
    let list = vec![upstream_at("up0.example:80", peer)];
    let group = Arc::new(Group::new(one_at_a_time(), list).unwrap());
    let parts = Parts::new(queueing(9, SECOND), WallClock::starting_at(UnixSeconds(0)));
    let proxy = Proxy::new(Parts { group: Some(group), ..parts }).unwrap();
    let [mut here, mut there] = [0, 1].map(|id| Driven::new(&proxy, id));
    let [client, server] = [0, 1].map(|index| ConnectionId::new(index, 0));
    for shard in [&mut here, &mut there] {
        shard.0.handle_accepted(
            Instant::ZERO,
            client,
            Accepted { listener: ListenerId(0), peer: Some(peer) },
            &mut shard.1,
        );
    }
    let [Action::Connect(ticket, _)] = here.receive(client, &get("0"))[..] else { panic!("the first one has a place") };
    here.0.handle_connected(Instant::ZERO, ticket, Ok(Connected::plain(server)), &mut here.1);
    here.actions();
    let actions = there.receive(client, &get("1"));
    let [Action::Wake(ShardId(1), message)] = actions[..] else { panic!("it waits, but looks once more: {actions:?}") };
    there.0.handle_woken(Instant::ZERO, message, &mut there.1);
    assert!(there.actions().is_empty(), "there is no room");
    let actions = here.receive(server, HELLO);
    assert!(
        actions.iter().any(|action| matches!(action, Action::Wake(ShardId(1), same) if *same == message)),
        "{actions:?}"
    );
    assert!(here.receive(client, &get("0b")).is_empty(), "there is room, but not for this one");
    there.0.handle_woken(Instant::ZERO, message, &mut there.1);
    let actions = there.actions();
    assert!(actions.iter().any(|action| matches!(action, Action::Connect(..))), "{actions:?}");
}

/// Changes of the balancer wake nobody, so the first queued request looks for capacity.
#[test]
fn queued_request_notices_new_capacity() {
    let peer = "127.0.0.1:9".parse().unwrap();
    let upstreams = |count: u32| (0..count).map(|index| upstream_at(&format!("up{index}.example:80"), peer)).collect();
    let adds_upstream = |group: &Group, now| group.replace(now, upstreams(2));
    let raises_limit = |group: &Group, now| group.reconfigure(now, GroupSettings::default(), upstreams(1));
    for change in [&adds_upstream as &dyn Fn(&Group, Instant) -> _, &raises_limit] {
        let group = Arc::new(Group::new(one_at_a_time(), upstreams(1)).unwrap());
        let parts = Parts::new(queueing(9, SECOND * 9), WallClock::starting_at(UnixSeconds(0)));
        let proxy = Proxy::new(Parts { group: Some(group.clone()), ..parts }).unwrap();
        let mut node = Driven::new(&proxy, 0);
        let clients = [0, 1, 2].map(|index| ConnectionId::new(index, 0));
        let [first, second, third] = clients.map(|client| {
            let accepted = Accepted { listener: ListenerId(0), peer: Some(peer) };
            node.0.handle_accepted(Instant::ZERO, client, accepted, &mut node.1);
            node.receive(client, &get("x"))
        });
        let ([Action::Connect(..)], [Action::Wake(_, message)], []) = (&first[..], &second[..], &third[..]) else {
            panic!("{first:?}, {second:?}, {third:?}")
        };
        node.0.handle_woken(Instant::ZERO, *message, &mut node.1);
        let looks = |node: &mut Driven| {
            let due = node.0.next_deadline().unwrap();
            node.0.handle_deadline(due, &mut node.1);
            (due, node.actions())
        };
        let (due, actions) = looks(&mut node);
        assert!(actions.is_empty() && due <= Instant::ZERO + SECOND / 5, "nothing has changed: {actions:?}");
        change(&group, due).unwrap();
        let (due, actions) = looks(&mut node);
        let [Action::Wake(_, message), Action::Connect(..)] = actions[..] else { panic!("{actions:?}") };
        assert!(due <= Instant::ZERO + SECOND * 2 / 5);
        node.0.handle_woken(due, message, &mut node.1);
        let found = node.actions().iter().any(|action| matches!(action, Action::Connect(..)));
        assert_eq!(found, group.states(due).len() == 1, "the third one has room only without a limit");
    }
}

#[test]
fn queue_times_out_and_is_bounded() {
    let clients = vec![
        client(0).expect(HELLO).part(),
        client(1).expect(text(full(38))).part(),
        client(2).expect(text(full(37))).part(),
    ];
    let upstream = Acts::new().expect(get("0")).wait(SECOND * 5).send(HELLO).expect_end();
    let play = Play { settings: queueing(1, SECOND), group: one_at_a_time(), ..Play::new(clients, vec![upstream]) };
    let counts = play.run();
    assert_eq!((counts.requests_queued, counts.queue_length, counts.unavailable), (1, 0, 2));
}

/// Otherwise it would be woken in place of the next one.
#[test]
fn failed_request_leaves_the_queue() {
    let peer = "127.0.0.1:9".parse().unwrap();
    let mut settings = queueing(9, SECOND * 9);
    settings.times.total = SECOND;
    let page = ErrorPage { media_type: "text/html".to_owned(), content: "sorry".into() };
    settings.error_pages.insert(PageStatus::Any, page);
    let group = Group::new(one_at_a_time(), vec![upstream_at("up0.example:80", peer)]).unwrap();
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(0)));
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
    let mut node = Driven::new(&proxy, 0);
    for client in [0, 1].map(|index| ConnectionId::new(index, 0)) {
        let accepted = Accepted { listener: ListenerId(0), peer: Some(peer) };
        node.0.handle_accepted(Instant::ZERO, client, accepted, &mut node.1);
        node.receive(client, &get("x"));
    }
    assert_eq!(proxy.counts().queue_length, 1);
    node.0.handle_deadline(Instant::ZERO + SECOND * 2, &mut node.1);
    assert_eq!(node.sent().matches("HTTP/1.1 504 ").count(), 2);
    assert_eq!((proxy.counts().queue_length, proxy.counts().bytes_downstream), (0, 10));
}

#[test]
fn left_clients_leave_the_queue() {
    let clients = vec![
        client(0).expect(HELLO).part(),
        client(1).wait(SECOND / 10).close(Close::Abort),
        client(2).expect(HELLO).part(),
    ];
    let upstream = Acts::new().expect(get("0")).wait(SECOND).send(HELLO).expect(get("2")).send(HELLO).expect_end();
    let play = Play { settings: queueing(9, SECOND * 9), group: one_at_a_time(), ..Play::new(clients, vec![upstream]) };
    let counts = play.run();
    assert_eq!((counts.requests_queued, counts.queue_length, counts.clients_gone), (2, 0, 1));
}

/// An upstream that responds after a delay, and records how many requests were concurrent at most.
#[derive(Default)]
struct Slow {
    pending: VecDeque<(Instant, ConnectionId)>,
    most: usize,
    count: usize,
}

impl Slow {
    const TIME: Duration = Duration::from_millis(20);
}

impl Node for Slow {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        if received.ended {
            actions.close(id, Close::Graceful);
        }
        if !received.bytes.ends_with(b"\r\n\r\n") {
            return 0;
        }
        self.pending.push_back((now + Self::TIME, id));
        self.count += 1;
        self.most = self.most.max(self.pending.len());
        received.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, id: ConnectionId, _: CloseReason, _: &mut Actions) {
        self.pending.retain(|(_, pending)| *pending != id);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        while let Some((_, id)) = self.pending.pop_front_if(|(due, _)| *due <= now) {
            actions.send(id).extend_from_slice(HELLO.as_bytes());
        }
    }

    fn handle_stopping(&mut self, _: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.pending.front().map(|(due, _)| *due)
    }
}

#[test]
fn shards_share_the_queue() {
    const CLIENTS: usize = 24;
    seeds(40, |seed| {
        let mut simulation = Simulation::new(seed, Network::rough());
        let slow = simulation.serve("upstream", 1, |_| Slow::default());
        let settings = GroupSettings { outstanding_max: 3, ..GroupSettings::default() };
        let list = vec![upstream_at("up0.example:80", simulation.address(slow))];
        let group = Arc::new(Group::new(settings, list).unwrap());
        let parts =
            Parts::new(queueing(CLIENTS, SECOND * 600), WallClock::starting_at(UnixSeconds(crate::support::THEN)));
        let proxy = Proxy::new(Parts { group: Some(group), ..parts }).unwrap();
        let node = proxy.clone();
        let server = simulation.serve("proxy", 3, |shard| node.node(shard));
        let stopper = simulation.stopper(server);
        let surroundings = Surroundings {
            server: simulation.address(server).into(),
            nobody: Simulation::nobody(),
            stop_server: Arc::new(move || stopper.stop()),
        };
        let script =
            || Script::new().connect().send(text(get("x"))).expect(HELLO).send(text(get("y"))).expect(HELLO).part();
        let scripts: Vec<Script> = (0..CLIENTS).map(|_| script()).collect();
        let client = simulation.client("client", 1, |_| Client::new(&surroundings, SECOND * 3600, scripts.clone()));
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(simulation.take(client)[0].failures(), [""; 0], "{}", simulation.trace());
        let slow = simulation.take(slow).remove(0);
        assert_eq!((slow.most, slow.count), (3, 2 * CLIENTS));
        let counts = proxy.counts();
        assert!(counts.requests_queued > 0);
        assert_eq!((counts.queue_length, counts.unavailable, counts.exchanges_open), (0, 0, 0));
    });
}
