//! `breme proxy`: converts flags and a configuration file to the settings of a proxy, and runs it on a driver
//! ([`run`]).
//!
//! | module | content |
//! |---|---|
//! | `arguments` | the flags |
//! | `setup` | creates a proxy and its parts from the flags |
//! | `upstream`, `upstreams` | an upstream in a flag; all of them while the proxy runs |
//! | `reload` | what SIGHUP reads again |
//! | `error_pages` | bodies of error responses, from files |
//! | `secrets` | keys and seeds, generated at the start |
//! | `upstream_tls` | TLS toward upstreams |
//! | `name_resolver` | addresses of hosts |
//! | `access_log` | a line for each exchange |
//! | `metrics`, `api` | metrics and pages at `--admin` |

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

mod access_log;
mod api;
mod arguments;
#[cfg(test)]
mod configuration_file;
mod error_pages;
mod metrics;
mod name_resolver;
mod reload;
mod secrets;
mod setup;
mod upstream;
mod upstream_tls;
mod upstreams;

use std::process::ExitCode;

use access_log::AccessLogWriter;
use api::{CacheApi, ProxyApi};
pub use arguments::ProxyArgs;
use arguments::{ROLE, command, in_force};
use breme_admin::{Admin, AdminListener, AdminToken, Api, Maintenance, ProcessMetrics, Readiness, registry};
use breme_command::configuration;
use breme_command::failure::{Failure, exit};
use breme_command::file_check::FileCheck;
use breme_command::output;
use breme_command::server::{
    Descriptors, ListenPlace, SignalActions, announce, catch, listen, obey, panics, report_handshakes,
};
use breme_driver::{Clock, DriverSettings, check, start};
use clap::ArgMatches;
use metrics::ProxyMetrics;
use reload::{Files, Reloader};
use setup::{Parts, Setup, list_failure};
use upstreams::Upstreams;

/// The client's connection, and one to an upstream for it.
const DESCRIPTORS_OF_CONNECTION: u64 = 2;

pub fn run(args: &ProxyArgs) -> ExitCode {
    exit(ROLE, carry_out(args).map(|()| ExitCode::SUCCESS))
}

fn carry_out(args: &ProxyArgs) -> Result<(), Failure> {
    if args.print_schema {
        return output::print(&configuration::schema(&command()));
    }
    let (matches, args) = in_force(args.config.as_deref())?;
    if args.print_config {
        return output::print(&configuration::print(&command(), &matches));
    }
    serve(args, matches)
}

fn serve(args: ProxyArgs, matches: ArgMatches) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let clock = Clock::start();
    let Setup { proxy, parts, mut driver } = Setup::from_args(&args, clock)?;
    driver.connections_max = connections_max(&args, &driver, parts.places.len())?;
    if args.check_config {
        check_start(&args, &driver, &parts)?;
        return output::print("breme proxy: the configuration is valid\n");
    }
    let (listeners, bound) = listen(parts.places, &driver, parts.tls.as_ref().map(|tls| &tls.server))?;
    reject_loops(parts.upstreams.as_ref(), &bound)?;
    let admin = args.serving.process.admin()?.map(AdminListener::bind).transpose()?;
    let readiness = Readiness::default();

    // Before readiness is printed: a signal after that must be handled.
    let signals = catch(true)?;
    let kind = args.serving.driver.resolve(ROLE);
    let running = start(kind, listeners, &driver, clock, |shard| proxy.node(shard)).map_err(Failure::run)?;
    parts.resolver.iter().for_each(|resolver| resolver.wake_by(running.waker()));
    if let Some(upstreams) = &parts.upstreams {
        upstreams.follow().map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    }
    let (counting, has_tls) = (running.counters(), parts.tls.is_some());
    let mut maintenance = Maintenance::default();
    let certificates =
        [("clients", parts.tls.as_ref().map(|tls| &tls.expiry)), ("upstreams", Some(&parts.clients.expiry))];
    maintenance.certificates =
        certificates.into_iter().filter_map(|(side, expiry)| Some((side, expiry?.clone()))).collect();
    let (upstreams, cache, log) = (parts.upstreams, parts.cache, parts.log);
    let lines = log.as_ref().map(AccessLogWriter::log);
    let mut reloader = Reloader {
        config: args.config.clone(),
        started: matches.clone(),
        matches,
        secrets: parts.secrets,
        proxy: proxy.clone(),
        waker: running.waker(),
        shard_count: driver.threads,
        upstreams: upstreams.clone(),
        cache: cache.clone(),
        files: Files {
            args,
            certificate: parts.tls.and_then(|tls| tls.reloading),
            clients: parts.clients,
            token: parts.token.clone(),
        },
        log: lines.clone(),
        file_check: FileCheck::default(),
        status: maintenance.reloads.clone(),
    };
    let rotated = lines.clone();
    let actions = SignalActions {
        reload: Box::new(move || reloader.reload()),
        reopen_logs: Box::new(move || rotated.iter().for_each(|log| log.reopen())),
    };
    obey(signals, running.stopper(), readiness.clone(), actions)?;
    let metrics = ProxyMetrics { proxy: proxy.clone(), upstreams: upstreams.clone(), cache: cache.clone(), log: lines };
    let registry = registry(ROLE, running.kind(), process, counting.clone(), maintenance, Box::new(metrics));
    let api = ProxyApi { upstreams: upstreams.clone(), cache: cache.map(|cache| CacheApi { cache, proxy, clock }) };
    let api: (Box<dyn Api>, AdminToken) = (Box::new(api), parts.token);
    let admin = admin.map(|admin| admin.start(clock, driver.cpus, registry, readiness, Some(api))).transpose()?;
    announce(admin.as_ref(), &bound);

    let ended = running.join();
    admin.into_iter().for_each(Admin::end);
    log.into_iter().for_each(AccessLogWriter::finish);
    upstreams.iter().for_each(Upstreams::end);
    if has_tls {
        report_handshakes(ROLE, &counting);
    }
    panics(ended)
}

impl ProxyArgs {
    /// Checks its certificates, toward clients and upstreams, as far as their names are known.
    pub fn check_files(&self) -> Result<(), Failure> {
        upstream_tls::client_flags(&self.upstreams).check()?;
        self.tls.check_files()
    }
}

/// Performs the checks of a start, without listening.
fn check_start(args: &ProxyArgs, driver: &DriverSettings, parts: &Parts) -> Result<(), Failure> {
    args.serving.process.admin()?;
    reject_loops(parts.upstreams.as_ref(), &parts.places)?;
    check(args.serving.driver.resolve(ROLE), driver).map_err(Failure::run)
}

fn reject_loops(upstreams: Option<&Upstreams>, bound: &[ListenPlace]) -> Result<(), Failure> {
    let addresses = bound.iter().map(|place| &place.address);
    upstreams.map_or(Ok(()), |upstreams| upstreams.reject_own(addresses)).map_err(list_failure)
}

/// The configured number of connections per shard, or else as many as the limit of descriptors permits.
fn connections_max(args: &ProxyArgs, driver: &DriverSettings, listeners: usize) -> Result<usize, Failure> {
    let descriptors = Descriptors {
        shards: driver.threads,
        listeners,
        has_admin: args.serving.process.has_admin(),
        kept: 0,
        of_connection: DESCRIPTORS_OF_CONNECTION,
    };
    descriptors.connections_max(args.connections_of_shard(), driver.connections_max)
}
