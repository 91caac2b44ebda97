use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use breme_cluster::engine::{Engine, EngineError, NatsEngine, NatsSettings, SHARDS};
use breme_session::{EngineRequest, EngineResponse, NodeName, Register, Sequence};
use bytes::Bytes;
use futures_util::future::join_all;

use crate::contract::{self, execute, read, session, set};
use crate::nats_engine::{CLUSTER, PATIENCE, connect, limit_stream, retry, settings};
use crate::nats_servers::{NatsServers, StorageLimit};

/// An election refuses changes for 4 to 9 s; what is refused for longer has reached a limit.
const ELECTION_MAX: Duration = Duration::from_secs(20);
/// Number of values of 128 KiB that fit within 1 MB on each server.
const FITTING: usize = 7;

/// Waits until the register has this value: a leader that thaws may show an older one. Returns its sequence.
async fn until_read(engine: &NatsEngine, register: Register, value: &Bytes) -> Sequence {
    retry(async || match read(engine, register).await {
        Some((sequence, found)) if found == value => Ok(sequence),
        found => Err(format!("{register} is at {:?}", found.map(|(sequence, _)| sequence))),
    })
    .await
}

/// Commits a value. An attempt whose outcome was unknown may have been the commit.
async fn write(engine: &NatsEngine, register: Register, expected: Sequence, value: impl Into<Bytes>) -> Sequence {
    let value = value.into();
    match execute(engine, set(register, expected, value.clone())).await {
        EngineResponse::Committed(sequence) => sequence,
        _ => until_read(engine, register, &value).await,
    }
}

/// Executes a request that cannot be stored, until this is certain.
async fn until_refused(engine: &NatsEngine, request: EngineRequest) {
    let begun = Instant::now();
    loop {
        match engine.execute(request.clone()).await {
            EngineResponse::Refused => return,
            EngineResponse::Unknown if begun.elapsed() < PATIENCE => {}
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_the_contract() {
    let servers = NatsServers::start();
    contract::passes(Arc::new(connect(&servers).await)).await;
}

/// Values survive the loss of each server in turn; the others continue meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_survive_the_loss_of_each_server() {
    let mut servers = NatsServers::start();
    let engine = connect(&servers).await;
    let mut sequences = [Sequence::ABSENT; 16];
    for round in 0..3 {
        servers.kill(round);
        for (number, sequence) in sequences.iter_mut().enumerate() {
            *sequence = write(&engine, session(number as u8), *sequence, format!("{round} {number}")).await;
        }
        servers.start_again(round);
        for (number, sequence) in sequences.iter().enumerate() {
            let value = format!("{round} {number}");
            assert_eq!(read(&engine, session(number as u8)).await, Some((*sequence, value.into())));
        }
    }
}

/// Each server in turn stops responding: the others replace it, and when it thaws, nothing has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_frozen_server_stops_nothing() {
    let servers = NatsServers::start();
    let engine = connect(&servers).await;
    let mut sequences = [Sequence::ABSENT; SHARDS as usize];
    for round in 0..3 {
        servers.freeze(round);
        for (number, sequence) in sequences.iter_mut().enumerate() {
            *sequence = write(&engine, session(number as u8), *sequence, format!("{round} {number}")).await;
        }
        servers.thaw(round);
        for (number, sequence) in sequences.iter().enumerate() {
            let value = Bytes::from(format!("{round} {number}"));
            assert_eq!(until_read(&engine, session(number as u8), &value).await, *sequence);
        }
    }
}

/// Without a majority nothing is stored. What was tried meanwhile may take effect later, but nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_frozen_servers_stop_changes_until_they_thaw() {
    let servers = NatsServers::start();
    let engine = connect(&servers).await;
    let registers: Vec<_> = (0..SHARDS).map(session).collect();
    let mut stored = Vec::new();
    for register in &registers {
        stored.push(write(&engine, *register, Sequence::ABSENT, "before").await);
    }
    servers.freeze(0);
    servers.freeze(1);
    let try_one = |(register, expected): (&Register, &Sequence)| engine.execute(set(*register, *expected, "tried"));
    for response in join_all(registers.iter().zip(&stored).map(try_one)).await {
        assert!(matches!(response, EngineResponse::Refused | EngineResponse::Unknown), "{response:?}");
    }
    servers.thaw(0);
    servers.thaw(1);
    for (register, before) in registers.into_iter().zip(stored) {
        let begun = Instant::now();
        loop {
            let (sequence, found) = read(&engine, register).await.expect("a value");
            if found == "after" {
                break;
            }
            let is_settled = if found == "before" { sequence == before } else { found == "tried" && sequence > before };
            assert!(is_settled, "{found:?} at {sequence:?}, after {before:?}");
            assert!(begun.elapsed() < PATIENCE, "{register} is not stored after the thaw");
            let _ = engine.execute(set(register, sequence, "after")).await;
        }
    }
}

/// A stream at its `max_bytes` refuses what does not fit; it stores smaller changes, and the other streams do all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_refuses_and_loses_nothing() {
    let servers = NatsServers::start();
    let engine = connect(&servers).await;
    // The last one is in another stream.
    let [kept, changed, new, other] = [0, SHARDS, 2 * SHARDS, 1].map(session);
    let kept_at = write(&engine, kept, Sequence::ABSENT, "kept").await;
    let first = write(&engine, changed, Sequence::ABSENT, "first").await;
    limit_stream(&servers, 0, Some(2_048)).await;
    let large = Bytes::from(vec![b'x'; 65_536]);
    until_refused(&engine, set(changed, first, large.clone())).await;
    until_refused(&engine, set(new, Sequence::ABSENT, large.clone())).await;
    assert_eq!(read(&engine, changed).await, Some((first, "first".into())));
    assert_eq!(read(&engine, new).await, None);
    let second = write(&engine, changed, first, "second").await;
    write(&engine, other, Sequence::ABSENT, large.clone()).await;
    limit_stream(&servers, 0, None).await;
    let third = write(&engine, changed, second, large.clone()).await;
    assert!(third > second);
    write(&engine, new, Sequence::ABSENT, large).await;
    assert_eq!(read(&engine, kept).await, Some((kept_at, "kept".into())));
}

/// Fills one stream until a limit refuses the next value. Returns what was stored, and the register of that value.
async fn fill(engine: &NatsEngine, value: &Bytes) -> (Vec<(Register, Sequence)>, Register) {
    let mut stored = Vec::new();
    for register in (0..=u8::MAX).step_by(usize::from(SHARDS)).map(session) {
        let begun = Instant::now();
        let sequence = loop {
            match engine.execute(set(register, Sequence::ABSENT, value.clone())).await {
                EngineResponse::Committed(sequence) => break sequence,
                // An attempt whose outcome was unknown was the commit.
                EngineResponse::Conflict => break until_read(engine, register, value).await,
                _ if begun.elapsed() > ELECTION_MAX => return (stored, register),
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        stored.push((register, sequence));
    }
    panic!("{} values of {} bytes have not reached the limit", stored.len(), value.len());
}

/// What was acknowledged before the limit of an account is readable; when there is room again, all goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_account_refuses_and_loses_nothing() {
    let mut servers = NatsServers::start_within(StorageLimit::Account(3_000));
    let engine = connect(&servers).await;
    let value = Bytes::from(vec![b'x'; 131_072]);
    let (stored, refused) = fill(&engine, &value).await;
    assert!(stored.len() >= FITTING, "{} values", stored.len());
    until_refused(&engine, set(refused, Sequence::ABSENT, value.clone())).await;
    for (register, sequence) in &stored {
        assert_eq!(until_read(&engine, *register, &value).await, *sequence);
    }
    servers.restart_within(StorageLimit::Account(300_000));
    for (register, sequence) in stored {
        assert_eq!(until_read(&engine, register, &value).await, sequence);
    }
    write(&engine, refused, Sequence::ABSENT, value).await;
}

/// A server at its `max_file_store` stores nothing, and gives up the lead of each stream at the next change. If a
/// majority is full, it is as if they were killed: nothing can be read until there is room again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_servers_lose_nothing() {
    let mut servers = NatsServers::start_within(StorageLimit::Server(1_000));
    let engine = connect(&servers).await;
    let value = Bytes::from(vec![b'x'; 131_072]);
    let (stored, refused) = fill(&engine, &value).await;
    assert!(stored.len() >= FITTING, "{} values", stored.len());
    servers.restart_within(StorageLimit::Ample);
    for (register, sequence) in stored {
        assert_eq!(until_read(&engine, register, &value).await, sequence);
    }
    write(&engine, refused, Sequence::ABSENT, value).await;
}

/// Creates a stream of sessions before an engine does.
async fn create_stream(servers: &NatsServers, shard: u8, config: Config) {
    let name = format!("breme-{CLUSTER}-s{shard}of{SHARDS}");
    let subjects = vec![format!("breme.{CLUSTER}.of{SHARDS}.s.{shard}.*")];
    let config = Config { name, subjects, ..config };
    retry(async || {
        let addresses = servers.addresses();
        let client = async_nats::connect(addresses.split(',').collect::<Vec<_>>()).await?;
        jetstream::new(client).create_stream(config.clone()).await?;
        Ok::<_, async_nats::Error>(())
    })
    .await;
}

/// As another program has created it, or a cluster with other flags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_on_fewer_servers_is_refused() {
    let servers = NatsServers::start();
    let one_server = Config {
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        allow_message_ttl: true,
        num_replicas: 1,
        ..Config::default()
    };
    create_stream(&servers, 0, one_server).await;
    let begun = Instant::now();
    let refusal = loop {
        match NatsEngine::connect(&settings(&servers)).await {
            Err(error) if error.is_temporary() && begun.elapsed() < PATIENCE => {}
            outcome => break outcome.unwrap_err().to_string(),
        }
    };
    assert!(refusal.contains("exists, and has 1 replicas instead of 3: run `nats stream edit"), "{refusal}");
}

#[tokio::test]
async fn errors_name_the_remedy() {
    let refused = |servers: &str| {
        let settings = NatsSettings { servers: servers.into(), cluster: NodeName::new("test").unwrap(), replicas: 3 };
        async move { NatsEngine::connect(&settings).await.unwrap_err() }
    };
    let said = |error: EngineError| error.to_string();
    assert!(said(refused("nats://127.0.0.1:1").await).contains("cannot connect to NATS at nats://127.0.0.1:1"));
    assert!(said(refused("://x").await).contains("use nats://HOST:PORT"));
}
