//! What a cache keeps: the memory that an object takes, and how often what is asked for is not there.

use crate::generators;
use crate::questions::{Arm, Measure, ZIPF_EXPONENT};
use crate::sample::{Pace, Sample};
use crate::servers::{OBJECT_BYTES, Server};
use crate::workbench::Workbench;

/// Connections that ask: enough to keep the proxy and its origin busy, few enough that the order of requests is nearly
/// that of the sequence.
const CONNECTIONS: usize = 16;
/// Requests for each object until the cache is full and has turned over.
const FILLING: u64 = 2;
/// Requests for each object that count.
const COUNTING: u64 = 1;

/// Requests of one trial, where their number is what ends it.
pub(crate) const fn requests(measure: Measure) -> Option<u64> {
    match measure {
        Measure::Misses { objects } => Some(objects * (FILLING + COUNTING)),
        Measure::ObjectMemory { objects } => Some(2 * objects),
        _ => None,
    }
}

/// Memory for each object, beyond its content.
pub(crate) fn memory(arm: &Arm, objects: u64, workbench: &Workbench, pace: Pace) -> Result<Sample, String> {
    let mut server = Server::start(workbench, arm.subject, CONNECTIONS)?;
    let ask = |server: &Server, name: &str, count| {
        let url = server.url(&format!("{}{name}", arm.path));
        generators::ask(workbench, &url, CONNECTIONS, count, pace.seed, OBJECT_BYTES)
    };
    // Connections and buffers that stay, and an index that grows in steps: they are there already with a few objects.
    ask(&server, "first-{seq}", 1_000)?;
    let before = server.memory()?;
    ask(&server, "{seq}", objects)?;
    let after = server.memory()?;
    server.end_origin();
    ask(&server, "{seq}", objects).map_err(|error| format!("not every object is in the cache: {error}"))?;
    let each = after.saturating_sub(before) as f64 / objects as f64 - OBJECT_BYTES as f64;
    // A byte is the least that a ratio can be made of.
    Ok(Sample { cost: each.max(1.0) / 1e3, beside: after as f64 / 1e6, busy: None })
}

/// Requests that reach the origin, of a hundred.
pub(crate) fn misses(arm: &Arm, objects: u64, workbench: &Workbench, pace: Pace) -> Result<Sample, String> {
    let server = Server::start(workbench, arm.subject, CONNECTIONS)?;
    let url = server.url(&format!("{}{{zipf:{objects}:{ZIPF_EXPONENT}}}", arm.path));
    let ask = |count, seed| generators::ask(workbench, &url, CONNECTIONS, count, seed, OBJECT_BYTES);
    ask(objects * FILLING, pace.seed)?;
    let before = server.requests_at_origin()?;
    let counted = objects * COUNTING;
    ask(counted, pace.seed + 1)?;
    // The look at the count is a request too.
    let reached = server.requests_at_origin()?.saturating_sub(before + 1);
    let misses = reached.max(1) as f64 * 100.0 / counted as f64;
    Ok(Sample { cost: misses, beside: server.memory()? as f64 / 1e6, busy: None })
}
