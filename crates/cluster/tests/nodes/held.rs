//! Responses that wait: redirects for their commits, logouts for requests that still run.

use std::sync::Arc;

use async_trait::async_trait;
use breme_cluster::engine::{EmbeddedEngine, Engine, EngineError, NodeChange};
use breme_session::{Durability, EngineRequest, EngineResponse, Register, Route};
use http::StatusCode;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, yield_now};

use crate::client::{Client, Response, tokens};
use crate::host::{Host, keys, name, on_this_machine, settings};
use crate::several::{Cluster, fence};

const FORWARD: Route = Route::Forward { pull_after: None };

/// An engine that holds the changes of sessions until the test opens it.
#[derive(Debug)]
struct Gate {
    engine: EmbeddedEngine,
    is_open: watch::Sender<bool>,
}

#[async_trait]
impl Engine for Gate {
    async fn execute(&self, request: EngineRequest) -> EngineResponse {
        if matches!(request, EngineRequest::CompareAndSet { register: Register::Session(_), .. }) {
            // The sender is this engine's own.
            let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        }
        self.engine.execute(request).await
    }

    async fn watch_nodes(&self) -> Result<mpsc::Receiver<NodeChange>, EngineError> {
        self.engine.watch_nodes().await
    }
}

type Sent = JoinHandle<Result<Response, String>>;

fn send(client: &Client, host: &Host, path: &'static str) -> Sent {
    let (client, address) = (client.clone(), host.address);
    tokio::spawn(async move { client.send(address, path).await })
}

async fn received(sent: Sent) -> Response {
    sent.await.unwrap().unwrap()
}

/// Waits until the node shows this, while the response has not left.
async fn while_waiting(sent: &Sent, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert!(!sent.is_finished(), "the response has left");
        yield_now().await;
    }
    assert!(!sent.is_finished(), "the response has left");
}

/// A client that follows a redirect sees on any node what its request has saved.
#[tokio::test]
async fn a_redirect_leaves_when_its_change_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate {
        engine: EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap(),
        is_open: watch::Sender::new(true),
    });
    let engine: Arc<dyn Engine> = gate.clone();
    let [owner, other] = ["n0", "n1"].map(|name| Host::start(name, &engine, settings(FORWARD), on_this_machine()));
    for host in [&owner, &other] {
        host.node.joined().await;
    }
    let client = Client::new();
    // A new session, then a change on its owner, then a forwarded one.
    for (count, to, path) in [(1, &owner, "save/0"), (2, &owner, "save/1"), (3, &other, "save/2")] {
        gate.is_open.send_replace(false);
        let saving = send(&client, to, path);
        while_waiting(&saving, || owner.node.stages().held == 1).await;
        gate.is_open.send_replace(true);
        let response = received(saving).await;
        assert_eq!((response.status, response.location.as_deref()), (StatusCode::SEE_OTHER, Some("/app/read")));
        for host in [&other, &owner] {
            let shown = client.send(host.address, "read").await.unwrap();
            assert_eq!(tokens(&shown.body), (0..count).collect::<Vec<_>>(), "{path}");
        }
    }
}

/// Both responses are sent at the same time. The one to the change must not bring the old id back.
#[tokio::test]
async fn a_login_is_not_undone_by_the_response_to_another_request() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate {
        engine: EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap(),
        is_open: watch::Sender::new(true),
    });
    let engine: Arc<dyn Engine> = gate.clone();
    let host = Host::start("n0", &engine, settings(FORWARD), on_this_machine());
    host.node.joined().await;
    let client = Client::new();
    client.send(host.address, "begin/1").await.unwrap();
    let cookie = client.cookie().unwrap();
    let (id, _) = keys().check(cookie.strip_prefix("session=").unwrap().as_bytes()).unwrap();
    // The session was on another node when the client got its cookie.
    let old = Client::new();
    old.set_cookie(Some(format!("session={}", keys().sign(&id, &name("n9")))));
    let updated = old.fork().send(host.address, "append/2").await.unwrap();
    assert!(updated.set_cookie.unwrap().starts_with(&cookie), "usually the client learns where its session is");

    let login = client.fork();
    gate.is_open.send_replace(false);
    let changing = send(&old, &host, "append/3");
    while_waiting(&changing, || host.node.stages().held == 1).await;
    let logging_in = send(&login, &host, "renew");
    while_waiting(&logging_in, || host.node.stages().held == 2).await;
    gate.is_open.send_replace(true);
    let (changed, logged_in) = (received(changing).await, received(logging_in).await);
    assert_eq!((changed.status, changed.set_cookie), (StatusCode::OK, None));
    assert_eq!(logged_in.status, StatusCode::OK);
    assert_ne!(login.cookie(), Some(cookie));
    assert_eq!(tokens(&login.send(host.address, "read").await.unwrap().body), [1, 2, 3]);
}

/// What waits behind a logout begins anew: under another id, with nothing of the session.
#[tokio::test]
async fn a_logout_waits_for_a_long_request_and_ends_those_behind_it() {
    let mut cluster = Cluster::start(1, FORWARD, |_| on_this_machine()).await;
    let [host] = &mut cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(host.address, "begin/1").await.unwrap();
    let [leaver, late, reader] = [(); 3].map(|()| client.fork());
    let long = send(&client, host, "hold/2");
    host.hanging.recv().await.unwrap();
    let logout = send(&leaver, host, "logout");
    while_waiting(&logout, || host.node.stages().waiting == 1).await;
    let behind = send(&late, host, "begin/3");
    while_waiting(&behind, || host.node.stages().waiting == 2).await;

    host.permits.add_permits(1);
    let long = received(long).await;
    assert_eq!((long.status, tokens(&long.body)), (StatusCode::OK, vec![1, 2]));
    let logout = received(logout).await;
    assert_eq!((logout.status, leaver.cookie()), (StatusCode::OK, None));
    let behind = received(behind).await;
    assert_eq!((behind.status, tokens(&behind.body)), (StatusCode::OK, vec![3]));
    assert_eq!(tokens(&late.send(host.address, "read").await.unwrap().body), [3]);
    assert_eq!(reader.send(host.address, "read").await.unwrap().status, StatusCode::GONE);
}

/// The request runs on a node whose life ends meanwhile; the logout is served by either of them.
#[tokio::test]
async fn a_long_request_does_not_bring_its_session_back() {
    let mut cluster = Cluster::start(2, FORWARD, |_| on_this_machine()).await;
    let engine = Arc::clone(&cluster.engine);
    let [owner, other] = &mut cluster.hosts[..] else { panic!() };
    let client = Client::new();
    client.send(owner.address, "begin/1").await.unwrap();
    let [leaver, reader] = [(); 2].map(|()| client.fork());
    let long = send(&client, owner, "hold/2");
    owner.hanging.recv().await.unwrap();
    fence(&*engine, name("n0")).await;
    // Its outcome is unknown if the first node does not respond soon after its life has ended.
    let mut status = StatusCode::SERVICE_UNAVAILABLE;
    while status == StatusCode::SERVICE_UNAVAILABLE {
        status = leaver.send(other.address, "logout").await.unwrap().status;
    }
    assert!([StatusCode::OK, StatusCode::GONE].contains(&status), "{status}");
    assert!(!long.is_finished());
    owner.permits.add_permits(1);
    let long = received(long).await;
    assert_eq!(long.status, StatusCode::SERVICE_UNAVAILABLE);
    // "unknown" if the engine's refusal takes longer than a response may wait for it.
    assert!(["not-done", "unknown"].contains(&long.outcome.as_deref().unwrap()), "{:?}", long.outcome);
    for host in [owner, other] {
        assert_eq!(reader.send(host.address, "read").await.unwrap().status, StatusCode::GONE);
    }
}
