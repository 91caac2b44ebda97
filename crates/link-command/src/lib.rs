//! `breme link`: converts flags to the properties of a network path, and runs it on a driver.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

mod arguments;
mod metrics;

use std::process::ExitCode;
use std::sync::Once;

pub use arguments::LinkArgs;
use breme_admin::{Admin, AdminListener, Maintenance, ProcessMetrics, Readiness, registry};
use breme_base::grouped;
use breme_command::failure::{Failure, exit};
use breme_command::server::{Descriptors, SignalActions, announce, catch, listen, obey, panics};
use breme_driver::{Clock, DriverKind, DriverSettings, start};
use breme_link::{Direction, Link};
use breme_node::ConnectError;
use metrics::LinkMetrics;

const ROLE: &str = "link";
/// The only driver with timers finer than a millisecond.
const DRIVER: DriverKind = DriverKind::Events;
/// The client's connection, and the one to the server.
const DESCRIPTORS_OF_CONNECTION: u64 = 2;

pub fn run(args: &LinkArgs) -> ExitCode {
    exit(ROLE, serve(args).map(|()| ExitCode::SUCCESS))
}

fn serve(args: &LinkArgs) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let clock = Clock::start();
    let link = args.link(report_unreachable)?;
    let mut driver = args.driver_settings();
    driver.connections_max = connections_max(args, &driver)?;
    let (listeners, bound) = listen(vec![args.place()?], &driver, None)?;
    args.refuse_circle(&bound)?;
    let admin = args.process.admin()?.map(AdminListener::bind).transpose()?;
    let readiness = Readiness::default();

    // Before the address is printed: a signal after that must be handled.
    let signals = catch(false)?;
    let running = start(DRIVER, listeners, &driver, clock, |_| link.node()).map_err(Failure::run)?;
    let counting = running.counters();
    let actions = SignalActions { reload: Box::new(|| ()), reopen_logs: Box::new(|| ()) };
    obey(signals, running.stopper(), readiness.clone(), actions)?;
    let metrics = LinkMetrics(link.clone());
    let registry = registry(ROLE, DRIVER, process, counting, Maintenance::default(), Box::new(metrics));
    let admin = admin.map(|admin| admin.start(clock, driver.cpus, registry, readiness, None)).transpose()?;
    announce(admin.as_ref(), &bound);

    let ended = running.join();
    admin.into_iter().for_each(Admin::end);
    breme_base::error_line!("breme {ROLE}: {}", summary(&link));
    panics(ended)
}

fn connections_max(args: &LinkArgs, driver: &DriverSettings) -> Result<usize, Failure> {
    let descriptors = Descriptors {
        shards: driver.threads,
        listeners: 1,
        has_admin: args.process.has_admin(),
        kept: 0,
        of_connection: DESCRIPTORS_OF_CONNECTION,
    };
    // Both connections count.
    descriptors.connections_max(None, driver.connections_max / 2).map(|connections| connections * 2)
}

/// Only the first failure is printed, not thousands of them.
fn report_unreachable(error: ConnectError) {
    static REPORTED: Once = Once::new();
    let why = match error {
        ConnectError::Refused => "connection refused".to_owned(),
        ConnectError::TimedOut => "timed out".to_owned(),
        ConnectError::Unreachable => "unreachable".to_owned(),
        ConnectError::NoResources => "no more file descriptors, ports or memory".to_owned(),
        ConnectError::Tls(failure) => failure.to_string(),
        ConnectError::Other(kind) => kind.to_string(),
    };
    REPORTED.call_once(|| {
        breme_base::error_line!(
            "breme {ROLE}: cannot connect to the server: {why}; the client's connection is reset (printed once)"
        );
    });
}

fn summary(link: &Link) -> String {
    let counts = link.counts();
    let bytes = |direction: Direction| grouped(counts.directions[direction as usize].bytes);
    let failed = match counts.connects_failed {
        0 => String::new(),
        failed => format!(" ({} without a server)", grouped(failed)),
    };
    format!(
        "{}{failed}; {} bytes to the server, {} to clients",
        breme_base::plural(counts.connections, "connection"),
        bytes(Direction::ToServer),
        bytes(Direction::ToClient)
    )
}
