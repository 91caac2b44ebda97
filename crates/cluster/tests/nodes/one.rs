//! One node: the guarantees of a session to its clients.

use std::path::Path;
use std::sync::Arc;

use breme_cluster::engine::{EmbeddedEngine, Engine};
use breme_cluster::node::Membership;
use breme_session::history::{self, Action, OperationOutcome};
use breme_session::{BODY_MAX, Durability, Route, SessionId};
use http::StatusCode;
use tokio::task::JoinSet;

use crate::client::{Client, History, tokens};
use crate::host::{Host, keys, name, on_this_machine, settings};

fn engine(folder: &Path) -> Arc<dyn Engine> {
    Arc::new(EmbeddedEngine::open(folder, Durability::Quorum).unwrap())
}

fn start(engine: &Arc<dyn Engine>) -> Host {
    Host::start("n1", engine, settings(Route::Forward { pull_after: None }), on_this_machine())
}

/// Each session has several clients, which send concurrently.
#[tokio::test]
async fn many_clients_see_one_list_for_each_session() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let history = History::default();
    let mut clients = JoinSet::new();
    for session in 0..20 {
        let (history, address) = (history.clone(), host.address);
        clients.spawn(async move {
            let client = Client::new();
            let under = (session, session);
            history.send(&client, address, under, Action::Append(session * 1_000)).await;
            let mut sharing = JoinSet::new();
            for sharer in 0..3 {
                let (history, client) = (history.clone(), client.clone());
                sharing.spawn(async move {
                    for round in 1..=20 {
                        let token = session * 1_000 + sharer * 100 + round;
                        let action = if round % 4 == 0 { Action::Read } else { Action::Append(token) };
                        history.send(&client, address, under, action).await;
                    }
                });
            }
            sharing.join_all().await;
        });
    }
    clients.join_all().await;
    let history = history.take();
    let report = history::check(&history);
    assert!(report.problems.is_empty(), "{report}");
    assert_eq!(report.done, 20 + 20 * 3 * 20);
    let longest = history.iter().map(|operation| match &operation.outcome {
        OperationOutcome::Done(list) => list.len(),
        _ => 0,
    });
    assert_eq!(longest.max(), Some(1 + 3 * 15));
    let statistics = host.node.statistics();
    assert_eq!((statistics.done, statistics.unknown, statistics.refused), (1_220, 0, 0));
    assert_eq!(host.node.gauges().owned, 20);
    assert_eq!(host.node.gauges().requests, 0);
}

#[tokio::test]
async fn a_restart_keeps_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::new();
    let engine_of_first = engine(folder.path());
    let mut host = start(&engine_of_first);
    client.send(host.address, "begin/1").await.unwrap();
    client.send(host.address, "append/2").await.unwrap();
    host.kill();
    drop(engine_of_first);
    drop(host);

    let host = start(&open_again(folder.path()).await);
    let response = client.send(host.address, "append/3").await.unwrap();
    assert_eq!(tokens(&response.body), [1, 2, 3]);

    // An orderly exit: it releases them, and the next process need not wait.
    host.node.leave();
    host.node.membership().wait_for(|membership| *membership == Membership::Left).await.unwrap();
    assert_eq!(host.node.gauges().owned, 0);
}

/// Pending requests keep the engine open until they are answered.
async fn open_again(folder: &Path) -> Arc<dyn Engine> {
    loop {
        match EmbeddedEngine::open(folder, Durability::Quorum) {
            Ok(engine) => return Arc::new(engine),
            Err(error) => assert!(error.to_string().contains("another process uses it"), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handler_that_panics_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let client = Client::new();
    client.send(host.address, "begin/1").await.unwrap();
    assert_eq!(client.send(host.address, "panic/2").await.unwrap().status, StatusCode::INTERNAL_SERVER_ERROR);
    let response = client.send(host.address, "append/3").await.unwrap();
    assert_eq!(tokens(&response.body), [1, 3]);
}

#[tokio::test]
async fn a_client_that_goes_leaves_the_session_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = start(&engine(folder.path()));
    let client = Client::new();
    client.send(host.address, "begin/1").await.unwrap();
    let (hanging, address) = (client.clone(), host.address);
    let hanging = tokio::spawn(async move { hanging.send(address, "hang/2").await.map(drop) });
    host.hanging.recv().await.unwrap();
    // This one waits for its turn, which does not come until the other has disconnected.
    let (waiting, address) = (client.clone(), host.address);
    let waiting = tokio::spawn(async move { waiting.send(address, "append/3").await });
    hanging.abort();
    assert_eq!(tokens(&waiting.await.unwrap().unwrap().body), [1, 3]);
    assert_eq!(host.node.statistics().unknown, 0);
}

#[tokio::test]
async fn ids_are_never_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let client = Client::new();

    // A request that only reads stores nothing and sets no cookie.
    let response = client.send(host.address, "echo").await.unwrap();
    assert_eq!((response.text(), &response.set_cookie), ("0 0", &None));

    let unknown = SessionId::generate().unwrap();
    let signed = keys().sign(&unknown, &name("n1"));
    for planted in [format!("session={signed}"), "session=planted".into(), "session=".into()] {
        client.set_cookie(Some(planted));
        let response = client.send(host.address, "begin/1").await.unwrap();
        let set = response.set_cookie.unwrap();
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
        let value = set.strip_prefix("session=").and_then(|rest| rest.split(';').next()).unwrap();
        let (id, route) = keys().check(value.as_bytes()).unwrap();
        assert!(id != unknown && route == name("n1"));
    }
    // Twice, to cover what the first attempt left behind.
    for _ in 0..2 {
        client.set_cookie(Some(format!("session={signed}")));
        assert_eq!(client.send(host.address, "read").await.unwrap().status, StatusCode::GONE);
    }
}

#[tokio::test]
async fn login_changes_the_id_and_logout_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let client = Client::new();
    client.send(host.address, "begin/1").await.unwrap();
    let before = client.cookie();
    assert_eq!(tokens(&client.send(host.address, "renew").await.unwrap().body), [1]);
    let after = client.cookie();
    assert_ne!(before, after);
    assert_eq!(tokens(&client.send(host.address, "append/2").await.unwrap().body), [1, 2]);

    let thief = Client::new();
    thief.set_cookie(before);
    assert_eq!(thief.send(host.address, "read").await.unwrap().status, StatusCode::GONE);

    let response = client.send(host.address, "logout").await.unwrap();
    assert!(response.set_cookie.unwrap().contains("Max-Age=0"));
    assert_eq!(client.cookie(), None);
    thief.set_cookie(after);
    assert_eq!(thief.send(host.address, "append/3").await.unwrap().status, StatusCode::GONE);
}

#[tokio::test]
async fn a_session_holds_a_megabyte_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let client = Client::new();
    let fill = format!("fill/{BODY_MAX}");
    assert_eq!(client.send(host.address, &fill).await.unwrap().status, StatusCode::OK);
    let too_large = client.send(host.address, &format!("fill/{}", BODY_MAX + 1)).await.unwrap();
    assert_eq!(too_large.status, StatusCode::PAYLOAD_TOO_LARGE);
    let response = client.send(host.address, "echo").await.unwrap();
    assert_eq!(response.text(), format!("0 {BODY_MAX}"));

    let client = Client::new();
    assert_eq!(client.send(host.address, &format!("fill/{}", 2 * BODY_MAX)).await.unwrap().status, too_large.status);
    assert_eq!(client.cookie(), None);
}

#[tokio::test]
async fn typed_values_last() {
    let folder = tempfile::tempdir().unwrap();
    let host = start(&engine(folder.path()));
    let client = Client::new();
    for count in 1..=3 {
        assert_eq!(client.send(host.address, "count").await.unwrap().text(), count.to_string());
    }
    assert_eq!(client.send(host.address, "echo").await.unwrap().text(), format!("0 {}", r#"{"count":3}"#.len()));
}
