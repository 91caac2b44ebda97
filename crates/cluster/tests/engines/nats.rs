use std::sync::Arc;
use std::time::Duration;

use breme_cluster::engine::{EngineError, NatsEngine, NatsSettings};
use breme_session::{EngineResponse, NodeName, Sequence};

use crate::contract::{self, execute, read, session, set};
use crate::nats_servers::NatsServers;

fn settings(servers: &NatsServers) -> NatsSettings {
    NatsSettings { servers: servers.addresses(), cluster: NodeName::new("test").unwrap(), replicas: 3 }
}

/// The servers need some time to elect leaders.
async fn connect(servers: &NatsServers) -> NatsEngine {
    for _ in 0..600 {
        match NatsEngine::connect(&settings(servers)).await {
            Ok(engine) => return engine,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    NatsEngine::connect(&settings(servers)).await.unwrap()
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
            // An unknown outcome may have been a commit: then the value is the written one.
            let register = session(number as u8);
            let value = format!("{round} {number}");
            *sequence = match execute(&engine, set(register, *sequence, value.clone())).await {
                EngineResponse::Committed(sequence) => sequence,
                _ => read(&engine, register).await.filter(|(_, found)| *found == value).expect("the value").0,
            };
        }
        servers.start_again(round);
        for (number, sequence) in sequences.iter().enumerate() {
            let value = format!("{round} {number}");
            assert_eq!(read(&engine, session(number as u8)).await, Some((*sequence, value.into())));
        }
    }
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
