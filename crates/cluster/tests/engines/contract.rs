//! The test suite for every engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_base::UnixMillis;
use breme_cluster::engine::Engine;
use breme_session::{
    BODY_MAX, EngineRequest, EngineResponse, Incarnation, NAME_MAX, NodeName, OPERATIONS_MAX, OperationId, Owner,
    Register, Sequence, SessionKey, SessionRecord, SessionState,
};
use bytes::Bytes;

/// Time limit for delayed operations, on busy machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// The register of a new session.
pub(crate) fn session(number: u8) -> Register {
    Register::Session(SessionKey::from_bytes([number; 16]))
}

/// Retries until the response is definite: an engine may refuse at any time.
pub(crate) async fn execute(engine: &dyn Engine, request: EngineRequest) -> EngineResponse {
    let start = Instant::now();
    loop {
        match engine.execute(request.clone()).await {
            EngineResponse::Refused | EngineResponse::Unknown if start.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            response => return response,
        }
    }
}

pub(crate) fn set(register: Register, expected: Sequence, value: impl Into<Bytes>) -> EngineRequest {
    EngineRequest::CompareAndSet { register, expected, value: value.into(), time_to_live: None }
}

pub(crate) async fn committed(engine: &dyn Engine, request: EngineRequest) -> Sequence {
    match execute(engine, request).await {
        EngineResponse::Committed(sequence) => sequence,
        other => panic!("not committed: {other:?}"),
    }
}

pub(crate) async fn read(engine: &dyn Engine, register: Register) -> Option<(Sequence, Bytes)> {
    match execute(engine, EngineRequest::Read { register }).await {
        EngineResponse::Found(found) => found,
        other => panic!("not read: {other:?}"),
    }
}

/// Runs all parts, each on its own registers.
pub(crate) async fn passes(engine: Arc<dyn Engine>) {
    only_the_expected_sequence_is_replaced(&*engine).await;
    of_many_at_once_one_is_committed(Arc::clone(&engine)).await;
    registers_do_not_share_values(&*engine).await;
    the_largest_record_is_kept(&*engine).await;
    a_value_goes_after_its_time_and_its_sequence_is_not_used_again(&*engine).await;
    nodes_are_watched(&*engine).await;
}

async fn only_the_expected_sequence_is_replaced(engine: &dyn Engine) {
    let register = session(1);
    assert_eq!(read(engine, register).await, None);
    assert_eq!(execute(engine, set(register, Sequence(7), "x")).await, EngineResponse::Conflict);
    let first = committed(engine, set(register, Sequence::ABSENT, "a")).await;
    assert!(first > Sequence::ABSENT);
    assert_eq!(execute(engine, set(register, Sequence::ABSENT, "b")).await, EngineResponse::Conflict);
    let second = committed(engine, set(register, first, "b")).await;
    assert!(second > first);
    assert_eq!(execute(engine, set(register, first, "c")).await, EngineResponse::Conflict);
    assert_eq!(read(engine, register).await, Some((second, "b".into())));
}

/// Writers that all replace the same value: one per round is committed, and the last value is that of the last one.
async fn of_many_at_once_one_is_committed(engine: Arc<dyn Engine>) {
    let register = session(2);
    let mut expected = Sequence::ABSENT;
    for round in 0..20_u32 {
        let writers = (0..16_u32).map(|writer| {
            let engine = Arc::clone(&engine);
            let request = set(register, expected, format!("{round} {writer}"));
            tokio::spawn(async move { (writer, engine.execute(request).await) })
        });
        let mut winners = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            let (writer, response) = writer.await.unwrap();
            if let EngineResponse::Committed(sequence) = response {
                winners.push((writer, sequence));
            }
        }
        // All may have been refused or unknown, but two must not have won.
        assert!(winners.len() <= 1, "{winners:?}");
        let found = read(&*engine, register).await;
        if let Some((writer, sequence)) = winners.first() {
            assert_eq!(found, Some((*sequence, format!("{round} {writer}").into())));
        }
        expected = found.map_or(Sequence::ABSENT, |(sequence, _)| sequence);
    }
    assert!(expected > Sequence::ABSENT, "no writer ever won");
}

async fn registers_do_not_share_values(engine: &dyn Engine) {
    let node = Register::Node(NodeName::new("contract").unwrap());
    let mut written = Vec::new();
    for register in (16..48).map(session).chain([node]) {
        let value = Bytes::from(register.to_string());
        written.push((register, committed(engine, set(register, Sequence::ABSENT, value.clone())).await, value));
    }
    for (register, sequence, value) in written {
        assert_eq!(read(engine, register).await, Some((sequence, value)));
    }
}

async fn the_largest_record_is_kept(engine: &dyn Engine) {
    let node = NodeName::new(&"n".repeat(NAME_MAX)).unwrap();
    let record = SessionRecord {
        state: SessionState::Owned(Owner { node, incarnation: Incarnation { number: u64::MAX, nonce: u64::MAX } }),
        epoch: u64::MAX,
        version: u64::MAX,
        created: UnixMillis(u64::MAX),
        accessed: UnixMillis(u64::MAX),
        idle: Duration::from_secs(1 << 30),
        absolute: Duration::from_secs(1 << 30),
        operations: vec![OperationId { nonce: u64::MAX, number: u64::MAX }; OPERATIONS_MAX],
        body: vec![0xfe; BODY_MAX].into(),
    };
    let value = record.encode(&SessionKey::from_bytes([3; 16]));
    let time_to_live = Some(Duration::from_secs(1 << 20));
    let request = EngineRequest::CompareAndSet {
        register: session(3),
        expected: Sequence::ABSENT,
        value: value.clone(),
        time_to_live,
    };
    let first = committed(engine, request).await;
    let second = committed(engine, set(session(3), first, value.clone())).await;
    assert!(read(engine, session(3)).await == Some((second, value)));
}

async fn a_value_goes_after_its_time_and_its_sequence_is_not_used_again(engine: &dyn Engine) {
    let register = session(4);
    let time_to_live = Some(Duration::from_secs(1));
    let request =
        EngineRequest::CompareAndSet { register, expected: Sequence::ABSENT, value: "a".into(), time_to_live };
    let start = Instant::now();
    let first = committed(engine, request).await;
    while read(engine, register).await.is_some() {
        assert!(start.elapsed() < PATIENCE, "the value does not go");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "gone after {:?}", start.elapsed());
    // A late compare-and-set on the deleted value.
    assert_eq!(execute(engine, set(register, first, "b")).await, EngineResponse::Conflict);
    let second = committed(engine, set(register, Sequence::ABSENT, "c")).await;
    assert!(second > first);
}

async fn nodes_are_watched(engine: &dyn Engine) {
    let register = Register::Node(NodeName::new("watched").unwrap());
    let before = committed(engine, set(register, Sequence::ABSENT, "before")).await;
    let mut changes = engine.watch_nodes().await.unwrap();
    let mut next = async |value: &'static str, sequence: Sequence| {
        let found = tokio::time::timeout(PATIENCE, async {
            while let Some(change) = changes.recv().await {
                if change.register == register && change.sequence >= sequence {
                    return Some(change);
                }
            }
            None
        });
        let change = found.await.expect("a change in time").expect("an open watch");
        assert_eq!((change.sequence, change.value), (sequence, Bytes::from_static(value.as_bytes())));
    };
    next("before", before).await;
    let after = committed(engine, set(register, before, "after")).await;
    next("after", after).await;
}
