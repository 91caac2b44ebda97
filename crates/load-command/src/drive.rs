//! Runs a load with its flags, and attends it.

use std::sync::Arc;

use breme_command::failure::Failure;
use breme_driver::{ClientTls, Clock, DriverKind, ShardPanic, StartError, UnixSockets};
use breme_generator::{GeneratorSettings, RunningLoad};
use breme_load::{Generator, Load, Run};
use breme_load_plan::Plan;

use super::arguments::LoadArgs;
use super::attendant::{Attendant, Interruption, Watched};

/// Descriptors other than connections: standard streams, the driver's own, output files.
const DESCRIPTORS_BESIDES: u64 = 64;

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

/// Starts the run on this driver, as the flags specify.
pub(super) fn start(
    run: &Arc<Run>,
    args: &LoadArgs,
    driver: DriverKind,
    (tls_clients, unix_sockets): (&[Arc<ClientTls>], UnixSockets),
    clock: Clock,
) -> Result<RunningLoad, StartError> {
    let settings = GeneratorSettings {
        driver,
        events_fallback: args.driver.events_fallback(),
        spin_before_deadline: args.spin(run.plan()),
        tls_clients: tls_clients.to_vec(),
        unix_sockets,
    };
    breme_generator::start(run, settings, clock)
}

pub(super) fn internal_error(panic: &ShardPanic) -> String {
    format!("internal error, please report it: {panic}")
}

/// Runs the load until it ends or is interrupted.
pub(super) fn drive(
    run: &Arc<Run>,
    args: &LoadArgs,
    peers: (&[Arc<ClientTls>], UnixSockets),
    clock: Clock,
    watched: Watched,
) -> Result<(Vec<Load>, Generator, Option<Interruption>), Failure> {
    let running = start(run, args, args.driver.resolve("load"), peers, clock).map_err(Failure::run)?;
    let attendant = Attendant::start(Arc::clone(run), running.stopper(), watched, args.watches_stdin())?;
    let ended = running.join();
    let interruption = attendant.finish();
    let (shards, generator) = ended.map_err(|panic| Failure::run(internal_error(&panic)))?;
    Ok((shards, Generator { interrupted: interruption.is_some(), ..generator }, interruption))
}
