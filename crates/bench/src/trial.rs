//! One arm, measured once: a fresh server, warmed up, loaded, ended. A server that is started anew each time lies
//! elsewhere in memory each time, and what that makes of its speed shows in the interval instead of hiding in one lucky
//! start.

use std::time::Instant;

use crate::generators::{self, Loaded};
use crate::idle;
use crate::kept;
use crate::questions::{Arm, Measure};
use crate::sample::{Pace, Sample};
use crate::servers::{CONNECTIONS_SPARE, DESCRIPTORS_PER_CONNECTION, Server};
use crate::workbench::Workbench;

/// Connections with which a server is made warm.
const WARM_UP_CONNECTIONS: usize = 100;

/// Starts the arm's server and checks its answers; tells what was agreed on for TLS.
pub(crate) fn check(arm: &Arm, workbench: &Workbench) -> Result<Option<String>, String> {
    Server::start(workbench, arm.subject, WARM_UP_CONNECTIONS)?.check(workbench, arm.path, arm.bytes)
}

/// Measures the arm. An error says that there are no figures, or none that compare anything.
pub(crate) fn run(arm: &Arm, measure: Measure, workbench: &Workbench, pace: Pace) -> Result<Sample, String> {
    match measure {
        Measure::ServerMemory => idle_memory(arm, workbench),
        Measure::GeneratorMemory => generator_memory(arm, workbench, pace),
        Measure::ServerCpu | Measure::GeneratorCpu => cpu_time(arm, measure, workbench, pace),
        Measure::ObjectMemory { objects } => kept::memory(arm, objects, workbench, pace),
        Measure::Misses { objects } => kept::misses(arm, objects, workbench, pace),
    }
}

fn cpu_time(arm: &Arm, measure: Measure, workbench: &Workbench, pace: Pace) -> Result<Sample, String> {
    let mut server = Server::start(workbench, arm.subject, arm.load.connections)?;
    generators::warm_up(workbench, &server, arm.path, WARM_UP_CONNECTIONS)?;
    if let Some(pattern) = arm.load.varied {
        generators::warm_up_varied(workbench, &server, pattern, WARM_UP_CONNECTIONS, arm.bytes)?;
    }
    if arm.subject.kind.keeps_answers() {
        server.end_origin();
    }
    let server = server;
    let spent = || match measure {
        Measure::ServerCpu => server.cpu_time(),
        // The generator is the only child that ends in between.
        _ => Ok(breme_sys::cpu_time_of_ended_children().total()),
    };
    let rate = pace.rate.filter(|_| arm.load.half_of_capacity);
    let (begun, before) = (Instant::now(), spent()?);
    let Loaded { reading, .. } = arm.load.run(workbench, &server.url(arm.path), pace.seconds, rate, false)?;
    let (elapsed, cpu_time) = (begun.elapsed(), spent()?.saturating_sub(before));
    Ok(Sample {
        cost: cpu_time.as_secs_f64() * 1e6 / reading.answered,
        beside: reading.rate,
        busy: Some(cpu_time.as_secs_f64() / elapsed.as_secs_f64()),
    })
}

fn idle_memory(arm: &Arm, workbench: &Workbench) -> Result<Sample, String> {
    let count = connections_allowed(arm.load.connections);
    let server = Server::start(workbench, arm.subject, count)?;
    let hold = |count| idle::hold(&workbench.processes, &server, arm.path, arm.bytes, count);
    drop(hold(1)?); // what the first request needs once and for all
    let before = server.memory()?;
    let connections = hold(count)?;
    let after = server.memory()?;
    idle::are_open(&connections)?;
    // A page is the least that can be seen.
    let growth = after.saturating_sub(before).max(rustix::param::page_size() as u64);
    Ok(Sample { cost: growth as f64 / 1e3 / count as f64, beside: after as f64 / 1e6, busy: None })
}

fn generator_memory(arm: &Arm, workbench: &Workbench, pace: Pace) -> Result<Sample, String> {
    let count = connections_allowed(arm.load.connections);
    let server = Server::start(workbench, arm.subject, count)?;
    generators::warm_up(workbench, &server, arm.path, WARM_UP_CONNECTIONS)?;
    let load = generators::Load { connections: count, ..arm.load };
    let loaded = load.run(workbench, &server.url(arm.path), pace.seconds, None, true)?;
    let bytes = loaded.peak_bytes as f64;
    Ok(Sample { cost: bytes / 1e3 / count as f64, beside: bytes / 1e6, busy: None })
}

/// As many of the wanted connections as there may be open files, so that every server can hold them.
fn connections_allowed(wanted: usize) -> usize {
    let descriptors = usize::try_from(breme_sys::descriptor_limit().soft).unwrap_or(usize::MAX);
    let allowed = (descriptors / DESCRIPTORS_PER_CONNECTION).saturating_sub(CONNECTIONS_SPARE);
    wanted.min(allowed).max(1)
}

/// Tells how many connections there really are, where it is not as many as wanted.
pub(crate) fn note_on_connections(arm: &Arm) -> Option<String> {
    let allowed = connections_allowed(arm.load.connections);
    (allowed < arm.load.connections)
        .then(|| format!("The descriptor limit allowed {allowed} connections instead of {}.", arm.load.connections))
}
