//! The activities of a closed loop's users: Little's law applied to the run itself.

use schemars::JsonSchema;
use serde::Serialize;

use crate::occupancy::Activity;
use crate::run::Run;
use crate::tally::Tally;

/// Average number of users in each activity of a closed loop. The activities add up to `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    pub(super) fn of(run: &Run, tally: &Tally, elapsed_ns: u64) -> Self {
        let settings = run.plan().settings();
        let count = (settings.connections * settings.pipeline_depth) as u64;
        let users = |activity| tally.occupancy.users(activity, elapsed_ns);
        let (server, connecting) = (users(Activity::Server), users(Activity::Connecting));
        let (generator, thinking) = (users(Activity::Generator), users(Activity::Thinking));
        let idle = (count as f64 - server - connecting - generator - thinking).max(0.0);
        Self { count, server, connecting, generator, thinking, idle }
    }

    /// Of the users who do not think, the share that waits for the generator.
    #[must_use]
    pub fn generator_share(&self) -> f64 {
        let busy = self.server + self.connecting + self.generator;
        if busy > 0.0 { self.generator / busy } else { 0.0 }
    }
}
