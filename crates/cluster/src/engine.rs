//! What keeps the registers of sessions and nodes.

mod embedded;
mod nats;

use std::fmt;

use async_trait::async_trait;
use breme_session::{EngineRequest, EngineResponse, Register, Sequence};
use bytes::Bytes;
use tokio::sync::mpsc;

pub use embedded::{BATCH_MAX, EmbeddedEngine, QUEUE_MAX};
pub use nats::{IN_FLIGHT_MAX, NatsEngine, NatsSettings, RESPONSE_TIMEOUT, SHARDS};

/// Changes of nodes that wait for a slow watcher. Further ones are lost, which a watch allows.
pub const WATCH_MAX: usize = 1024;

/// An engine, as `breme_session` expects it (see its messages for the promises).
#[async_trait]
pub trait Engine: Send + Sync + fmt::Debug {
    /// Executes a request. If the future is dropped, a compare-and-set may still take effect.
    async fn execute(&self, request: EngineRequest) -> EngineResponse;

    /// The registers of nodes: those that exist, then their changes. It is a hint: a change may come late, several
    /// times or not at all.
    async fn watch_nodes(&self) -> Result<mpsc::Receiver<NodeChange>, EngineError>;
}

/// A change of a node's register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node's register.
    pub register: Register,
    /// Of the value.
    pub sequence: Sequence,
    /// The encoded [`NodeRecord`](breme_session::NodeRecord).
    pub value: Bytes,
}

/// An engine that cannot be opened, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError {
    message: String,
    is_temporary: bool,
}

impl EngineError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_temporary: false }
    }

    /// One that may pass: servers that start, or elect a leader.
    fn temporary(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_temporary: true }
    }

    /// Whether another try may succeed soon.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for EngineError {}
