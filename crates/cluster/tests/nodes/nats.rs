//! A node on NATS servers that are frozen or full.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_cluster::engine::{Engine, SHARDS};
use breme_session::history::{self, Action, OperationOutcome};
use breme_session::{Route, Settings};
use http::StatusCode;

use crate::client::{Client, History, Response};
use crate::host::{Host, on_this_machine, settings};
use crate::nats_engine::{PATIENCE, connect, limit_stream};
use crate::nats_servers::NatsServers;

/// A node whose requests wait this long at most.
async fn start(servers: &NatsServers, wait_max: Duration) -> Host {
    let engine: Arc<dyn Engine> = Arc::new(connect(servers).await);
    let settings = Settings { wait_max, ..settings(Route::Forward { pull_after: None }) };
    let host = Host::start("n1", &engine, settings, on_this_machine());
    host.node.joined().await;
    host
}

/// The only client of a session, which appends to its list.
struct Writer {
    client: Client,
    history: History,
    to: SocketAddr,
    next: u64,
}

impl Writer {
    async fn append(&mut self) -> OperationOutcome {
        self.next += 1;
        let outcome = self.history.send(&self.client, self.to, (1, 1), Action::Append(self.next)).await;
        if self.client.cookie().is_none() {
            // The next attempt begins another session.
            self.history.forget(1);
        }
        outcome
    }

    async fn append_until_done(&mut self) {
        let begun = Instant::now();
        loop {
            match self.append().await {
                OperationOutcome::Done(_) => return,
                outcome => assert!(begun.elapsed() < PATIENCE, "{outcome:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_servers_lose_nothing() {
    let servers = NatsServers::start();
    let host = start(&servers, Duration::from_secs(5)).await;
    let mut writer = Writer { client: Client::new(), history: History::default(), to: host.address, next: 0 };
    writer.append_until_done().await;
    servers.freeze(0);
    writer.append_until_done().await;

    servers.freeze(1);
    let outcome = writer.append().await;
    assert!(matches!(outcome, OperationOutcome::Unknown | OperationOutcome::Failed), "{outcome:?}");
    // It would show a change of unknown outcome.
    let read = writer.client.send(host.address, "read").await.unwrap();
    assert_eq!(read.status, StatusCode::SERVICE_UNAVAILABLE);

    servers.thaw(0);
    servers.thaw(1);
    writer.append_until_done().await;
    let report = history::check(&writer.history.take());
    assert!(report.problems.is_empty(), "{report}");
}

/// Repeats a request that is refused now and then on a busy machine.
async fn until_good(client: &Client, to: SocketAddr, path: &str) -> Response {
    let begun = Instant::now();
    loop {
        let response = client.send(to, path).await.unwrap();
        if response.status == StatusCode::OK {
            return response;
        }
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(begun.elapsed() < PATIENCE, "{path}: {:?}", response.outcome);
    }
}

/// Sessions as large as the test says, in streams that take small changes alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_streams_refuse_and_lose_nothing() {
    let servers = NatsServers::start();
    let host = start(&servers, Duration::from_secs(2)).await;
    let [growing, other, new] = [(); 3].map(|()| Client::new());
    for client in [&growing, &other] {
        until_good(client, host.address, "fill/100").await;
    }
    for shard in 0..SHARDS {
        limit_stream(&servers, shard, Some(4_096)).await;
    }
    let refused = growing.send(host.address, "fill/65536").await.unwrap();
    assert_eq!((refused.status, refused.outcome.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("unknown")));
    // Until the change is stored or given up, no state of this session is certain.
    let read = growing.send(host.address, "echo").await.unwrap();
    assert_eq!((read.status, read.outcome.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("not-done")));
    // Other sessions can be read and, within the limit, changed.
    assert_eq!(until_good(&other, host.address, "echo").await.text(), "0 100");
    until_good(&other, host.address, "fill/200").await;
    let begun = new.send(host.address, "fill/65536").await.unwrap();
    assert_eq!((begun.status, new.cookie()), (StatusCode::SERVICE_UNAVAILABLE, None));

    for shard in 0..SHARDS {
        limit_stream(&servers, shard, None).await;
    }
    let found = until_good(&growing, host.address, "echo").await;
    assert!(["0 100", "0 65536"].contains(&found.text()), "{}", found.text());
    until_good(&growing, host.address, "fill/70000").await;
    assert_eq!(until_good(&growing, host.address, "echo").await.text(), "0 70000");
    assert_eq!(until_good(&other, host.address, "echo").await.text(), "0 200");
    until_good(&new, host.address, "fill/65536").await;
}
