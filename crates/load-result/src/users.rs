//! The activities of a closed loop's users: Little's law applied to the run itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Average number of users in each activity of a closed loop. The activities add up to `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsersSummary {
    /// Number of users: connections × pipeline depth.
    pub count: u64,
    /// Waiting for the server and the network: from sending a request to the last byte of its response.
    pub server: f64,
    /// Waiting for a connection, including the TLS handshake.
    pub connecting: f64,
    /// Waiting for the generator: to send a request that it could send, or to read a response that the kernel had
    /// received.
    pub generator: f64,
    /// Thinking.
    pub thinking: f64,
    /// Idle: not started (`--ramp`), finished (`-n`), or pausing after a failed connection.
    pub idle: f64,
}

impl UsersSummary {
    /// Of the users who do not think, the share that waits for the generator.
    #[must_use]
    pub fn generator_share(&self) -> f64 {
        let busy = self.server + self.connecting + self.generator;
        if busy > 0.0 { self.generator / busy } else { 0.0 }
    }
}
