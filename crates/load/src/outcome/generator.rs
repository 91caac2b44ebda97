//! What the generator itself used: a part of every result, since a generator that is busy measures itself.

use std::time::Duration;

use breme_base::nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::counts::TlsSummary;
use crate::node::Load;

/// What only the outside of the node can know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generator {
    /// CPU time of the process during the run.
    pub process_cpu: Option<Duration>,
    /// Processors that it may use.
    pub processors: usize,
    /// Its threads were told to stay awake: how busy they were says nothing.
    pub stays_awake: bool,
    /// The user ended the run.
    pub interrupted: bool,
    /// When the run began, on the calendar: the time since 1970-01-01 00:00:00 UTC.
    pub started_at: Duration,
    /// When the run began, by the machine's monotonic clock.
    pub started_at_monotonic: Duration,
    /// What was agreed on with the server, if TLS was spoken.
    pub tls: Option<TlsSummary>,
}

/// What the generator itself used.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GeneratorUse {
    /// CPU time of the whole process, in user and system mode.
    pub cpu_ns: Option<u64>,
    /// CPU time per request.
    pub cpu_ns_per_request: Option<f64>,
    /// The CPU time's share of the elapsed time; 1 is one processor.
    pub cpu_share: Option<f64>,
    /// The same for each of its threads.
    pub thread_shares: Vec<f64>,
    /// Processors that it may use.
    pub processors: u64,
}

impl GeneratorUse {
    pub(super) fn of(shards: &[Load], generator: Generator, elapsed: Duration, issued: u64) -> Self {
        let share = |cpu: Duration, elapsed: Duration| {
            if elapsed.is_zero() { 0.0 } else { cpu.as_secs_f64() / elapsed.as_secs_f64() }
        };
        let thread_shares = shards
            .iter()
            .filter_map(|shard| Some(share(shard.span.cpu?, shard.span.ended.since(shard.span.started))))
            .collect();
        Self {
            cpu_ns: generator.process_cpu.map(nanos),
            cpu_ns_per_request: generator
                .process_cpu
                .filter(|_| issued > 0)
                .map(|cpu| cpu.as_nanos() as f64 / issued as f64),
            cpu_share: generator.process_cpu.map(|cpu| share(cpu, elapsed)),
            thread_shares,
            processors: generator.processors as u64,
        }
    }
}
