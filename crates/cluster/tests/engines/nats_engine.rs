//! The engine on the servers of a test, and the limits of its streams.

use std::fmt::Display;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream::Config};
use breme_cluster::engine::{NatsEngine, NatsSettings, SHARDS};
use breme_session::NodeName;
use tokio::time::sleep;

use crate::nats_servers::NatsServers;

/// Time limit for what servers do on a busy machine: elections, catching up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);
pub(crate) const CLUSTER: &str = "test";

/// The servers need some time to elect leaders.
pub(crate) async fn connect(servers: &NatsServers) -> NatsEngine {
    retry(async || NatsEngine::connect(&settings(servers)).await).await
}

pub(crate) fn settings(servers: &NatsServers) -> NatsSettings {
    NatsSettings { servers: servers.addresses(), cluster: NodeName::new(CLUSTER).unwrap(), replicas: 3 }
}

/// Repeats an attempt until it succeeds.
pub(crate) async fn retry<T, E: Display>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        sleep(PAUSE).await;
    }
}

/// Limits a stream of sessions to what it holds and this many bytes more; none removes the limit.
pub(crate) async fn limit_stream(servers: &NatsServers, shard: u8, room: Option<u64>) {
    retry(async || try_limit(servers, shard, room).await).await;
}

async fn try_limit(servers: &NatsServers, shard: u8, room: Option<u64>) -> Result<(), async_nats::Error> {
    let addresses = servers.addresses();
    let client = async_nats::connect(addresses.split(',').collect::<Vec<_>>()).await?;
    let context = jetstream::new(client);
    let stream = context.get_stream(format!("breme-{CLUSTER}-s{shard}of{SHARDS}")).await?;
    let info = stream.cached_info();
    let max_bytes = room.map_or(-1, |room| (info.state.bytes + room) as i64);
    context.update_stream(Config { max_bytes, ..info.config.clone() }).await?;
    Ok(())
}
