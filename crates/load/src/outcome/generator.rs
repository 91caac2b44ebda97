//! The generator's own resource use: part of every result, since a busy generator measures itself.

use std::time::Duration;

use breme_base::nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::counts::TlsSummary;
use crate::node::Load;

/// Measurements that the node cannot take.
#[derive(Clone, Debug, Default)]
pub struct Generator {
    /// CPU time of the process during the run, including setup and teardown of its threads.
    pub process_cpu: Option<Duration>,
    /// The elapsed time of that measurement.
    pub process_elapsed: Duration,
    /// CPUs available to it.
    pub processors: usize,
    /// CPU time that each thread spent on spinning before deadlines; empty: none did.
    pub spun: Vec<Duration>,
    /// The user ended the run.
    pub interrupted: bool,
    /// Start of the run in calendar time, since 1970-01-01 00:00:00 UTC.
    pub started_at: Duration,
    /// Start of the run on the monotonic clock.
    pub started_at_monotonic: Duration,
    /// The negotiated TLS parameters, if TLS was used.
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
    /// The CPU share of its busiest thread.
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
