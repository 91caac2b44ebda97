//! Several nodes: requests may be sent to any of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use breme_base::Random;
use breme_cluster::engine::{EmbeddedEngine, Engine};
use breme_cluster::node::Membership;
use breme_cluster::peers::Peers;
use breme_session::history::{self, Action, OperationOutcome};
use breme_session::{
    BODY_MAX, Durability, EngineRequest, EngineResponse, NodeName, NodeRecord, NodeState, Register, Route, Statistics,
};
use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::client::{Client, History, tokens};
use crate::host::{Host, name, on_this_machine, settings};

pub struct Cluster {
    pub hosts: Vec<Host>,
    pub engine: Arc<dyn Engine>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    pub async fn start(count: usize, route: Route, peers: impl Fn(usize) -> Peers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap());
        let start = |place| Host::start(&format!("n{place}"), &engine, settings(route), peers(place));
        let hosts: Vec<_> = (0..count).map(start).collect();
        for host in &hosts {
            host.node.joined().await;
        }
        Self { hosts, engine, _folder: folder }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.hosts.iter().map(|host| host.address).collect()
    }

    fn sum(&self, what: impl Fn(Statistics) -> u64) -> u64 {
        self.hosts.iter().map(|host| what(host.node.statistics())).sum()
    }
}

/// The tokens of each session, and of each of its clients.
const SESSION_TOKENS: u64 = 100_000_000;
const SHARER_TOKENS: u64 = 1_000_000;

/// Clients that send each request to a random node, until each has had `rounds` good responses.
struct RoamingClients {
    addresses: Vec<SocketAddr>,
    history: History,
    rounds: usize,
    /// Good responses so far.
    done: AtomicUsize,
    progress: Notify,
}

impl RoamingClients {
    fn new(cluster: &Cluster, rounds: usize) -> Arc<Self> {
        let (addresses, history) = (cluster.addresses(), History::default());
        Arc::new(Self { addresses, history, rounds, done: AtomicUsize::new(0), progress: Notify::new() })
    }

    fn start(self: &Arc<Self>, sessions: u64) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for session in 0..sessions {
            clients.spawn(Arc::clone(self).run(session));
        }
        clients
    }

    async fn run(self: Arc<Self>, session: u64) {
        self.share(Client::new(), session, 0).await;
    }

    /// Sends as one of the clients of a session.
    async fn share(self: Arc<Self>, client: Client, session: u64, sharer: u64) {
        let first = session * SESSION_TOKENS + sharer * SHARER_TOKENS;
        let mut random = Random::new(first);
        let mut good = 0;
        for token in first..first + SHARER_TOKENS {
            let to = self.addresses[random.below(self.addresses.len() as u64) as usize];
            let action = if good > 0 && random.below(4) == 0 { Action::Read } else { Action::Append(token) };
            let outcome = self.history.send(&client, to, (session, session), action).await;
            if matches!(outcome, OperationOutcome::Done(_)) {
                good += 1;
                self.done.fetch_add(1, Ordering::SeqCst);
                self.progress.notify_one();
            } else if client.cookie().is_none() {
                // An unknown session is absent; the next attempt begins another.
                self.history.forget(session);
            }
            assert_ne!(outcome, OperationOutcome::Absent);
            if good == self.rounds {
                return;
            }
        }
        panic!("no session after {SHARER_TOKENS} requests");
    }

    async fn wait_for(&self, done: usize) {
        while self.done.load(Ordering::SeqCst) < done {
            self.progress.notified().await;
        }
    }

    fn check(&self, done: usize) {
        let report = history::check(&self.history.take());
        assert!(report.problems.is_empty(), "{report}");
        assert_eq!(report.done, done, "{report}");
    }
}

#[tokio::test]
async fn requests_are_forwarded_to_the_owner() {
    let cluster = Cluster::start(3, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let roaming_clients = RoamingClients::new(&cluster, 40);
    roaming_clients.start(12).join_all().await;
    roaming_clients.check(12 * 40);
    assert!(cluster.sum(|statistics| statistics.forwarded) > 100);
    assert_eq!(cluster.sum(|statistics| statistics.given), 0);
}

#[tokio::test]
async fn sessions_follow_the_requests() {
    let cluster = Cluster::start(3, Route::Pull, |_| on_this_machine()).await;
    let roaming_clients = RoamingClients::new(&cluster, 40);
    roaming_clients.start(12).join_all().await;
    roaming_clients.check(12 * 40);
    assert!(cluster.sum(|statistics| statistics.taken) > 100);
    assert!(cluster.sum(|statistics| statistics.given) >= cluster.sum(|statistics| statistics.taken));
}

/// Requests in flight at the killed node fail; no acknowledged change is lost.
#[tokio::test]
async fn others_take_over_from_a_node_that_is_killed() {
    for route in [Route::Forward { pull_after: Some(3) }, Route::Pull] {
        let mut cluster = Cluster::start(3, route, |_| on_this_machine()).await;
        let roaming_clients = RoamingClients::new(&cluster, 40);
        let clients = roaming_clients.start(12);
        roaming_clients.wait_for(12 * 15).await;
        // No request goes to another node for this one's session while it is alive.
        let quiet = Client::new();
        assert_eq!(quiet.send(roaming_clients.addresses[1], "begin/1").await.unwrap().status, StatusCode::OK);
        drop(cluster.hosts.remove(1));
        clients.join_all().await;
        roaming_clients.check(12 * 40);
        assert_eq!(tokens(&quiet.send(roaming_clients.addresses[2], "append/2").await.unwrap().body), [1, 2]);
        assert!(cluster.sum(|statistics| statistics.fenced_others) >= 1);
        assert!(cluster.sum(|statistics| statistics.claimed) >= 1);
    }
}

/// Each list that any of them gets is a state of the same session.
#[tokio::test]
async fn ten_clients_share_a_session_whose_owner_is_killed() {
    for route in [Route::Forward { pull_after: Some(3) }, Route::Pull] {
        let mut cluster = Cluster::start(3, route, |_| on_this_machine()).await;
        let roaming_clients = RoamingClients::new(&cluster, 30);
        let client = Client::new();
        let begun = Action::Append(SESSION_TOKENS - 1);
        roaming_clients.history.send(&client, roaming_clients.addresses[1], (0, 0), begun).await;
        let mut clients = JoinSet::new();
        for sharer in 0..10 {
            clients.spawn(Arc::clone(&roaming_clients).share(client.clone(), 0, sharer));
        }
        roaming_clients.wait_for(10 * 10).await;
        drop(cluster.hosts.remove(1));
        clients.join_all().await;
        roaming_clients.check(1 + 10 * 30);
    }
}

/// The sessions of a node that leaves in an orderly way are served at once, without waiting for a lease.
#[tokio::test]
async fn a_node_that_leaves_gives_its_sessions_away() {
    let cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [leaving, staying] = &cluster.hosts[..] else { panic!() };
    let clients: Vec<_> = (0..10).map(|_| Client::new()).collect();
    for client in &clients {
        client.send(leaving.address, "begin/1").await.unwrap();
    }
    assert_eq!(leaving.node.gauges().owned, 10);
    leaving.node.leave();
    leaving.node.membership().wait_for(|membership| *membership == Membership::Left).await.unwrap();
    for client in &clients {
        let response = client.send(staying.address, "append/2").await.unwrap();
        assert_eq!(tokens(&response.body), [1, 2]);
        assert!(response.set_cookie.unwrap().contains(".n1;"), "the cookie's route follows the session");
        // A node that has left still forwards.
        assert_eq!(tokens(&client.send(leaving.address, "append/3").await.unwrap().body), [1, 2, 3]);
    }
    assert_eq!(staying.node.statistics().fenced_others, 0);
}

/// While it leaves, and when it has left, another node creates the sessions of its new clients.
#[tokio::test]
async fn a_node_that_leaves_begins_no_sessions() {
    let mut cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [leaving, staying] = &mut cluster.hosts[..] else { panic!() };
    let (hanging, address) = (Client::new(), leaving.address);
    hanging.send(address, "begin/1").await.unwrap();
    let hanging = tokio::spawn(async move { hanging.send(address, "hang/2").await.map(drop) });
    leaving.hanging.recv().await.unwrap();
    leaving.node.leave();
    for step in 0..2 {
        let client = Client::new();
        let response = client.send(leaving.address, "begin/3").await.unwrap();
        assert_eq!((response.status, tokens(&response.body)), (StatusCode::OK, vec![3]));
        assert!(response.set_cookie.unwrap().contains(".n1;"), "the session of the node that stays");
        assert_eq!(staying.node.gauges().owned, step + 1);
        if step == 0 {
            assert!(matches!(*leaving.node.membership().borrow(), Membership::Member(_)), "a request still runs");
            hanging.abort();
            leaving.node.membership().wait_for(|membership| *membership == Membership::Left).await.unwrap();
        }
    }
}

/// The owner is reported to the forwarding node, never to a client.
#[tokio::test]
async fn requests_follow_a_session_that_has_moved() {
    let cluster = Cluster::start(3, Route::Forward { pull_after: Some(3) }, |_| on_this_machine()).await;
    let [first, second, third] = &cluster.hosts[..] else { panic!() };
    let client = Client::new();
    let mut count = 0;
    let mut send = async |host: &Host| {
        let path = if count == 0 { "begin/0".to_owned() } else { format!("append/{count}") };
        count += 1;
        let response = client.send(host.address, &path).await.unwrap();
        assert_eq!(tokens(&response.body), (0..count).collect::<Vec<_>>());
        assert!(!response.names_node, "of a node's own header");
    };
    send(first).await;
    send(third).await;
    for _ in 0..4 {
        send(second).await;
    }
    assert_eq!(second.node.statistics().taken, 1);
    let forwarded = |host: &Host| host.node.statistics().forwarded;
    send(third).await;
    assert_eq!((forwarded(first), forwarded(third)), (1, 2), "by the first node, which has given it away");
    send(third).await;
    assert_eq!((forwarded(first), forwarded(third)), (1, 3), "at once");
}

/// If all nodes get requests of a session, moving it would cost commits and save nothing.
#[tokio::test]
async fn a_session_that_is_used_everywhere_stays_where_it_is() {
    let cluster = Cluster::start(3, Route::Forward { pull_after: Some(3) }, |_| on_this_machine()).await;
    let client = Client::new();
    client.send(cluster.hosts[0].address, "begin/0").await.unwrap();
    for token in 1..20_usize {
        let host = &cluster.hosts[[1, 2, 1, 0][token % 4]];
        let response = client.send(host.address, &format!("append/{token}")).await.unwrap();
        assert_eq!(response.status, StatusCode::OK);
    }
    assert_eq!(cluster.sum(|statistics| statistics.given), 0);
    assert_eq!(cluster.sum(|statistics| statistics.forwarded), 14);
}

/// The only node has no other to create its sessions.
#[tokio::test]
async fn the_last_node_begins_sessions_until_it_has_left() {
    let mut cluster = Cluster::start(1, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [leaving] = &mut cluster.hosts[..] else { panic!() };
    let (hanging, address) = (Client::new(), leaving.address);
    hanging.send(address, "begin/1").await.unwrap();
    let hanging = tokio::spawn(async move { hanging.send(address, "hang/2").await.map(drop) });
    leaving.hanging.recv().await.unwrap();
    leaving.node.leave();
    let response = Client::new().send(address, "begin/3").await.unwrap();
    assert_eq!((response.status, tokens(&response.body)), (StatusCode::OK, vec![3]));
    hanging.abort();
    leaving.node.membership().wait_for(|membership| *membership == Membership::Left).await.unwrap();
    assert_eq!(Client::new().send(address, "begin/4").await.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
}

/// The node that runs a forwarded request sees what a server behind a proxy sees.
#[tokio::test]
async fn the_client_of_a_forwarded_request_is_named() {
    let cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [owner, other] = &cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(owner.address, "begin/1").await.unwrap();
    assert_eq!(client.send(owner.address, "client").await.unwrap().text(), "- -", "of a request that is not forwarded");
    assert_eq!(client.send(other.address, "client").await.unwrap().text(), "127.0.0.1 http");
    let named = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "198.51.100.2"), ("x-forwarded-proto", "https")];
    let response = client.send_headers(other.address, "client", &named).await.unwrap();
    assert_eq!(response.text(), "192.0.2.1, 198.51.100.2, 127.0.0.1 https", "a proxy in front has named it");
}

#[tokio::test]
async fn bodies_are_forwarded_up_to_a_bound() {
    let cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [owner, other] = &cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(owner.address, &format!("fill/{BODY_MAX}")).await.unwrap();
    let most = Bytes::from(vec![b'y'; 1 << 20]);
    let response = client.send_body(other.address, "echo", most.clone()).await.unwrap();
    assert_eq!(response.text(), format!("{} {BODY_MAX}", 1 << 20));
    let more = [&most[..], b"y"].concat().into();
    let response = client.send_body(other.address, "echo", more).await.unwrap();
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(owner.node.statistics().run, 1 + 1);
}

/// A session of a megabyte is handed over completely.
#[tokio::test]
async fn large_sessions_are_handed_over() {
    let cluster = Cluster::start(2, Route::Pull, |_| on_this_machine()).await;
    let client = Client::new();
    client.send(cluster.hosts[0].address, &format!("fill/{BODY_MAX}")).await.unwrap();
    for place in [1, 0, 1] {
        let host = &cluster.hosts[place];
        let response = client.send(host.address, "echo").await.unwrap();
        assert_eq!(response.text(), format!("0 {BODY_MAX}"));
        assert!(response.set_cookie.unwrap().contains(&format!(".{};", name(&format!("n{place}")))));
        assert_eq!(host.node.gauges().owned, 1);
    }
}

/// A handler that fails on another node, and a client that disconnects while it runs there.
#[tokio::test]
async fn failures_are_forwarded_too() {
    let mut cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [owner, other] = &mut cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(owner.address, "begin/1").await.unwrap();
    let response = client.send(other.address, "panic/2").await.unwrap();
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);

    let (hanging, address) = (client.clone(), other.address);
    let hanging = tokio::spawn(async move { hanging.send(address, "hang/3").await.map(drop) });
    owner.hanging.recv().await.unwrap();
    hanging.abort();
    assert_eq!(tokens(&client.send(owner.address, "append/4").await.unwrap().body), [1, 4]);
}

/// Acts like another node when the lease has expired.
pub async fn fence(engine: &dyn Engine, node: NodeName) {
    let register = Register::Node(node);
    loop {
        let read = engine.execute(EngineRequest::Read { register }).await;
        let EngineResponse::Found(Some((expected, value))) = read else { panic!("{read:?}") };
        let record = NodeRecord { state: NodeState::Over, ..NodeRecord::decode(&node, &value).unwrap() };
        let value = record.encode(&node);
        let request = EngineRequest::CompareAndSet { register, expected, value, time_to_live: None };
        if matches!(engine.execute(request).await, EngineResponse::Committed(_)) {
            return;
        }
    }
}

/// A request forwarded to a node that does not respond ends with that node's life.
#[tokio::test]
async fn nobody_waits_for_a_node_that_was_fenced() {
    let mut cluster = Cluster::start(2, Route::Forward { pull_after: None }, |_| on_this_machine()).await;
    let [owner, other] = &mut cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(owner.address, "begin/1").await.unwrap();
    let (hanging, address) = (client.clone(), other.address);
    let hanging = tokio::spawn(async move { hanging.send(address, "hang/2").await });
    owner.hanging.recv().await.unwrap();
    fence(&*cluster.engine, name("n0")).await;
    let response = hanging.await.unwrap().unwrap();
    assert_eq!((response.status, response.outcome.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("unknown")));
    assert_eq!(tokens(&client.send(other.address, "append/3").await.unwrap().body), [1, 3]);
}
