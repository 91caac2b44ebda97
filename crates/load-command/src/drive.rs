//! Runs a load on a driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_command::failure::Failure;
use breme_driver::{ClientTls, Clock, DriverSettings, UnixSockets, start};
use breme_load::{Generator, Load, Run};
use breme_load_plan::Plan;
use breme_load_result::TlsSummary;

use super::arguments::LoadArgs;
use super::attendant::{Attendant, Interruption, Watched};

/// Descriptors other than connections: standard streams, the driver's own, output files.
const DESCRIPTORS_BESIDES: u64 = 64;
/// The driver's last resort after an interruption; the shards end well before.
pub(super) const STOPPING_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn check_descriptors(plan: &Plan, args: &LoadArgs) -> Result<(), Failure> {
    let of_admin = if args.export.has_admin() { breme_admin::DESCRIPTORS } else { 0 };
    breme_sys::ensure_descriptor_limit(descriptors(plan) + of_admin).map_err(Failure::run)
}

/// Maximum number of open descriptors of a load.
pub(super) fn descriptors(plan: &Plan) -> u64 {
    let settings = plan.settings();
    // A connection that the server is to close is still open when the next one is opened.
    let each = if settings.keep_alive { 1 } else { 2 } * plan.peers().len() as u64;
    settings.connections as u64 * each + DESCRIPTORS_BESIDES
}

/// Runs the shards until they end or are interrupted.
pub(super) fn drive(
    run: &Arc<Run>,
    args: &LoadArgs,
    clock: Clock,
    (tls, unix_sockets): (&[Arc<ClientTls>], UnixSockets),
    watched: Watched,
) -> Result<(Vec<Load>, Generator, Option<Interruption>), Failure> {
    let settings = DriverSettings {
        threads: run.shard_count(),
        spin_before_deadline: args.spin(run.plan()),
        connect_timeout: run.plan().settings().timeout,
        stopping_timeout: STOPPING_TIMEOUT,
        tls_clients: tls.to_vec().into(),
        unix_sockets,
        events_fallback: args.driver.events_fallback(),
        ..DriverSettings::default()
    };
    let (cpu_before, begun) = (breme_sys::cpu_time_of_process(), Instant::now());
    let running =
        start(args.driver.resolve("load"), Vec::new(), &settings, clock, |shard| Load::new(Arc::clone(run), shard))
            .map_err(Failure::run)?;
    let counting = running.counters();
    let stopper = running.stopper();
    let attendant = Attendant::start(Arc::clone(run), stopper, watched, args.watches_stdin())?;
    let ended = running.join();
    let (cpu, elapsed) = (breme_sys::cpu_time_of_process().since(cpu_before).total(), begun.elapsed());
    let interruption = attendant.finish();
    let shards = ended
        .into_iter()
        .collect::<Result<Vec<Load>, _>>()
        .map_err(|panic| Failure::run(format!("internal error, please report it: {panic}")))?;
    let began = run.started().unwrap_or_default();
    let generator = Generator {
        process_cpu: Some(cpu),
        process_elapsed: elapsed,
        processors: breme_sys::parallelism(),
        spun: counting.all().iter().map(|shard| Duration::from_nanos(shard.spun_ns)).collect(),
        interrupted: interruption.is_some(),
        started_at: clock.unix_time(began),
        started_at_monotonic: clock.monotonic(began),
        tls: tls.iter().find_map(|client| client.negotiated()).map(|agreed| TlsSummary {
            version: agreed.version.to_owned(),
            cipher_suite: agreed.cipher_suite.to_owned(),
        }),
    };
    Ok((shards, generator, interruption))
}
