//! The generator's own resource use: part of every result, since a busy generator measures itself.

use std::time::Duration;

use breme_base::nanos;
use breme_load_result::{GeneratorUse, TlsSummary};

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

pub(super) fn usage(shards: &[Load], generator: &Generator, elapsed: Duration, issued: u64) -> GeneratorUse {
    let share = |cpu: Duration, elapsed: Duration| {
        if elapsed.is_zero() { 0.0 } else { cpu.as_secs_f64() / elapsed.as_secs_f64() }
    };
    let spun = generator.spun.iter().copied().chain(std::iter::repeat(Duration::ZERO));
    let work = |(shard, spun): (&Load, Duration)| {
        Some(share(shard.span.cpu?.saturating_sub(spun), shard.span.ended.since(shard.span.started)))
    };
    let thread_shares = shards.iter().zip(spun).filter_map(work).collect();
    let spin_share = share(generator.spun.iter().sum(), elapsed);
    GeneratorUse {
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
