//! The store of sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_cluster::engine::{EmbeddedEngine, Engine, EngineError, NatsEngine, NatsSettings};
use breme_command::failure::Failure;
use breme_session::NodeName;
use tokio::time::sleep;

use super::arguments::{EngineChoice, SessionArgs};

/// How long servers may take to become available when a node starts.
const START_TIME: Duration = Duration::from_secs(30);
const START_PAUSE: Duration = Duration::from_millis(500);

/// An engine, and the nodes that are known to have ended, with the nonces of their processes.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) ended: Vec<(NodeName, u64)>,
}

impl Opened {
    pub(super) async fn new(args: &SessionArgs) -> Result<Self, Failure> {
        match &args.engine {
            EngineChoice::Embedded(folder) => {
                let engine = EmbeddedEngine::open(folder, args.durability()).map_err(Failure::run)?;
                Ok(Self { ended: engine.ended().to_vec(), engine: Arc::new(engine) })
            }
            EngineChoice::Nats(servers) => {
                let engine = connect(&args.nats(servers)).await.map_err(Failure::run)?;
                Ok(Self { engine: Arc::new(engine), ended: Vec::new() })
            }
        }
    }
}

/// Connects, repeatedly while the servers start or elect a leader.
async fn connect(settings: &NatsSettings) -> Result<NatsEngine, EngineError> {
    let started = Instant::now();
    loop {
        match NatsEngine::connect(settings).await {
            Err(error) if error.is_temporary() && started.elapsed() < START_TIME => {
                breme_base::error_line!("breme session: {error}; retrying");
                sleep(START_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}
