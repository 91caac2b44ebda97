//! The generator's own resource use: part of every result, since a busy generator measures itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resources used by the generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorUse {
    /// CPU time of the process, in user and kernel mode.
    pub cpu_ns: Option<u64>,
    /// CPU time per request.
    pub cpu_ns_per_request: Option<f64>,
    /// CPU time ÷ the time from the start of the threads to their end; 1 is one processor.
    pub cpu_share: Option<f64>,
    /// The same for each thread, without spinning.
    pub thread_shares: Vec<f64>,
    /// CPU time that the threads spent spinning before deadlines ÷ elapsed time; 1 is one processor.
    pub spin_share: f64,
    /// Number of processors available to the generator.
    pub processors: u64,
}

impl GeneratorUse {
    /// The CPU share of its busiest thread.
    #[must_use]
    pub fn busiest_thread(&self) -> f64 {
        self.thread_shares.iter().copied().fold(0.0, f64::max)
    }
}
