//! The store of the registers of sessions and nodes.

mod embedded;
mod nats;

use std::fmt;

use async_trait::async_trait;
use breme_session::{EngineRequest, EngineResponse, Register, Sequence};
use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;

pub use embedded::{BATCH_MAX, EmbeddedEngine, QUEUE_MAX};
pub use nats::{IN_FLIGHT_MAX, NatsEngine, NatsSettings, RESPONSE_TIMEOUT, SHARDS};

/// Limit of the changes of nodes queued for a slow watcher. Further ones are lost, which a watch allows.
pub const WATCH_MAX: usize = 1024;

/// An engine, as `breme_session` expects it (see its messages for the promises).
#[async_trait]
pub trait Engine: Send + Sync + fmt::Debug {
    /// Executes a request. If the future is dropped, a compare-and-set may still take effect.
    async fn execute(&self, request: EngineRequest) -> EngineResponse;

    /// The registers of nodes: the existing ones, then their changes. Only a hint: a change may come late, several
    /// times or not at all.
    async fn watch_nodes(&self) -> Result<mpsc::Receiver<NodeChange>, EngineError>;
}

/// A change of a node's register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    pub register: Register,
    pub sequence: Sequence,
    /// An encoded [`NodeRecord`](breme_session::NodeRecord).
    pub value: Bytes,
}

/// Why an engine cannot be opened, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct EngineError {
    message: String,
    is_temporary: bool,
}

impl EngineError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_temporary: false }
    }

    /// A temporary error: servers that are starting, or electing a leader.
    fn temporary(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_temporary: true }
    }

    /// Whether a retry may succeed soon.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}
