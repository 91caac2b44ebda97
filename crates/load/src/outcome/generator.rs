//! What the generator itself used: a part of every result, since a generator that is busy measures itself.

use std::time::Duration;

use breme_base::nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::counts::TlsSummary;
use crate::node::Load;

/// What only the outside of the node can know.
#[derive(Clone, Debug, Default)]
pub struct Generator {
    /// CPU time of the process during the run, setting up and taking down its threads included.
    pub process_cpu: Option<Duration>,
    /// The time in which the process used that.
    pub process_elapsed: Duration,
    /// Processors that it may use.
    pub processors: usize,
    /// CPU time that each thread spent on spinning before deadlines; empty: none did.
    pub spun: Vec<Duration>,
    /// The user ended the run.
    pub interrupted: bool,
    /// When the run began, on the calendar: the time since 1970-01-01 00:00:00 UTC.
    pub started_at: Duration,
    /// When the run began, by the machine's monotonic clock.
    pub started_at_monotonic: Duration,
    /// What was agreed on with the server, if TLS was spoken.
    pub tls: Option<TlsSummary>,
}

/// Resources used by the generator.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
    /// The share of the time for which its busiest thread worked.
    #[must_use]
    pub fn busiest_thread(&self) -> f64 {
        self.thread_shares.iter().copied().fold(0.0, f64::max)
    }

    pub(super) fn of(shards: &[Load], generator: &Generator, elapsed: Duration, issued: u64) -> Self {
        let share = |cpu: Duration, elapsed: Duration| {
            if elapsed.is_zero() { 0.0 } else { cpu.as_secs_f64() / elapsed.as_secs_f64() }
        };
        let spun = generator.spun.iter().copied().chain(std::iter::repeat(Duration::ZERO));
        let work = |(shard, spun): (&Load, Duration)| {
            Some(share(shard.span.cpu?.saturating_sub(spun), shard.span.ended.since(shard.span.started)))
        };
        let thread_shares = shards.iter().zip(spun).filter_map(work).collect();
        let spin_share = share(generator.spun.iter().sum(), elapsed);
        Self {
            cpu_ns: generator.process_cpu.map(nanos),
            cpu_ns_per_request: generator
                .process_cpu
                .filter(|_| issued > 0)
                .map(|cpu| cpu.as_nanos() as f64 / issued as f64),
            cpu_share: generator.process_cpu.map(|cpu| share(cpu, generator.process_elapsed.max(elapsed))),
            thread_shares,
            spin_share,
            processors: generator.processors as u64,
        }
    }
}
