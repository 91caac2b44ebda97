use std::fs;
use std::path::Path;
use std::sync::Arc;

use breme_cluster::engine::{EmbeddedEngine, Engine};
use breme_session::{Durability, EngineResponse, Sequence};

use crate::contract::{self, committed, execute, read, session, set};

fn open(folder: &Path) -> EmbeddedEngine {
    EmbeddedEngine::open(folder, Durability::QuorumFsync).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_the_contract() {
    for durability in [Durability::Quorum, Durability::QuorumFsync] {
        let folder = tempfile::tempdir().unwrap();
        contract::passes(Arc::new(EmbeddedEngine::open(&folder.path().join("new"), durability).unwrap())).await;
    }
}

/// Sequences continue after a restart, even if the last register has expired: none is reused.
#[tokio::test]
async fn a_restart_keeps_values_and_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let first = committed(&engine, set(session(1), Sequence::ABSENT, "a")).await;
    drop(engine);
    let engine = open(folder.path());
    assert_eq!(read(&engine, session(1)).await, Some((first, "a".into())));
    assert!(committed(&engine, set(session(2), Sequence::ABSENT, "b")).await > first);
    assert_eq!(execute(&engine, set(session(1), Sequence::ABSENT, "c")).await, EngineResponse::Conflict);
}

/// Requests committed together are committed in order: each sees the effects of those before it.
#[tokio::test]
async fn a_batch_is_executed_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let first = committed(&engine, set(session(9), Sequence::ABSENT, "x")).await;
    let ours = |number| set(session(1), Sequence(number), "y");
    let (one, two, three, four) = tokio::join!(
        engine.execute(ours(0)),
        engine.execute(ours(first.0 + 1)),
        engine.execute(ours(0)),
        engine.execute(ours(first.0 + 2)),
    );
    let committed = |more| EngineResponse::Committed(Sequence(first.0 + more));
    assert_eq!([one, two, three, four], [committed(1), committed(2), EngineResponse::Conflict, committed(3)]);
}

#[test]
fn a_file_in_use_or_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |folder: &Path| EmbeddedEngine::open(folder, Durability::QuorumFsync).unwrap_err().to_string();
    let engine = open(folder.path());
    assert!(refused(folder.path()).contains("another process uses it"));
    drop(engine);
    drop(open(folder.path()));

    fs::write(folder.path().join("sessions.db"), "no database at all, but longer than its header would be".repeat(9))
        .unwrap();
    assert!(refused(folder.path()).contains("choose another folder"));
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(refused(&folder.path().join("file")).contains("cannot create the folder"));
}
