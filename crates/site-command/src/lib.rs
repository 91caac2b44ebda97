//! `breme site`: converts flags to the settings of an origin server, and runs it on a driver.
//!
//! It does what the pure crate cannot: opening the folder, generating keys, descriptors, listeners and signals.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

mod arguments;
mod folder;
mod metrics;

use std::process::ExitCode;
use std::sync::Arc;

pub use arguments::SiteArgs;
use breme_admin::{Admin, AdminListener, Maintenance, ProcessMetrics, Readiness, registry};
use breme_command::failure::{Failure, exit};
use breme_command::files::known;
use breme_command::server::{
    Descriptors, Reloading, SignalActions, Tls, announce, catch, listen, obey, panics, random_bits, report_handshakes,
    secured_listeners,
};
use breme_driver::{Clock, DriverSettings, start};
use breme_origin::{FileCacheLimits, Root, SettingsError, Site, Visitors};
use breme_sys::read_bounded;
use folder::Folder;
use metrics::SiteMetrics;

const KEY_BYTES_MAX: u64 = 4096;

pub fn run(args: &SiteArgs) -> ExitCode {
    exit("site", serve(args).map(|()| ExitCode::SUCCESS))
}

fn serve(args: &SiteArgs) -> Result<(), Failure> {
    if args.directory.is_none() && !args.lab {
        return Err(Failure::usage("nothing to serve; give a folder, or add --lab for generated responses, or both"));
    }
    let process = ProcessMetrics::starting_now();
    let mut settings = args.settings()?;
    settings.seed = random_bits()? as u64;
    let places = args.places()?;
    settings.secured_listeners = secured_listeners(&places);
    let root = open_root(args)?;
    let visitors = visitors(args)?;
    let files = root.is_some().then_some(settings.files);
    let clock = Clock::start();
    let site = Site::new(settings, root, visitors, clock.wall_clock()).map_err(|error| locate(&error))?;

    let mut driver = args.driver_settings();
    driver.connections_max = connections_max(args, &driver, files)?;
    let tls = Tls::from_flags("site", &args.tls, &places)?;
    let (listeners, bound) = listen(places, &driver, tls.as_ref().map(|tls| &tls.server))?;
    let admin = args.serving.process.admin()?.map(AdminListener::bind).transpose()?;
    let readiness = Readiness::default();

    // Before readiness is printed: a signal after that must be handled.
    let has_tls = tls.is_some();
    let certificates = tls.iter().map(|tls| ("clients", tls.expiry.clone())).collect();
    let maintenance = Maintenance { certificates, ..Maintenance::default() };
    let status = maintenance.reloads.clone();
    let mut reloading = tls.and_then(|tls| tls.reloading);
    let signals = catch(reloading.is_some())?;
    let kind = args.serving.driver.resolve("site");
    let running = start(kind, listeners, &driver, clock, |shard| site.node(shard)).map_err(Failure::run)?;
    let counting = running.counters();
    let actions = SignalActions {
        reload: Box::new(move || status.record(reloading.as_mut().is_none_or(Reloading::reload))),
        reopen_logs: Box::new(|| ()), // it has none
    };
    obey(signals, running.stopper(), readiness.clone(), actions)?;
    let registry =
        registry("site", running.kind(), process, counting.clone(), maintenance, Box::new(SiteMetrics(site)));
    let admin = admin.map(|admin| admin.start(clock, driver.cpus, registry, readiness, None)).transpose()?;
    announce(admin.as_ref(), &bound);

    let ended = running.join();
    admin.into_iter().for_each(Admin::end);
    if has_tls {
        report_handshakes("site", &counting);
    }
    panics(ended)
}

/// Names the flag of an invalid setting.
fn locate(error: &SettingsError) -> Failure {
    let flag = match error {
        SettingsError::CacheControl(_) => "--cache-control",
        SettingsError::IndexName(_) => "--index",
    };
    Failure::usage(format!("{flag}: {error}"))
}

impl SiteArgs {
    /// Checks its folder, key and certificate, as far as their names are known.
    pub fn check_files(&self) -> Result<(), Failure> {
        if known(self.directory.as_deref()).is_some() {
            open_root(self)?;
        }
        if known(self.visitor_key_file.as_deref()).is_some() {
            visitors(self)?;
        }
        self.tls.check_files()
    }
}

fn open_root(args: &SiteArgs) -> Result<Option<Arc<dyn Root>>, Failure> {
    let Some(directory) = &args.directory else { return Ok(None) };
    let folder = Folder::open(directory, args.follow_symlinks).map_err(|error| {
        Failure::run(format!("{}: cannot be read: {error}; give a folder that this user may read", directory.display()))
    })?;
    Ok(Some(Arc::new(folder)))
}

fn visitors(args: &SiteArgs) -> Result<Option<Visitors>, Failure> {
    if !args.visitors {
        return Ok(None);
    }
    let key = match &args.visitor_key_file {
        Some(path) => read_bounded(path, KEY_BYTES_MAX)
            .map_err(|error| Failure::run(format!("cannot read the key {}: {error}", path.display())))?,
        None => [random_bits()?.to_ne_bytes(), random_bits()?.to_ne_bytes()].concat(),
    };
    let random = || random_bits().ok();
    Visitors::new(&key, args.max_visitors, Box::new(random)).map(Some).map_err(Failure::usage)
}

/// The configured number of connections per shard, or else as many as the limit of descriptors permits.
fn connections_max(args: &SiteArgs, driver: &DriverSettings, files: Option<FileCacheLimits>) -> Result<usize, Failure> {
    let descriptors = Descriptors {
        shards: driver.threads,
        listeners: args.places()?.len(),
        has_admin: args.serving.process.has_admin(),
        kept: files.map_or(0, |files| files.descriptors_max),
        of_connection: 1,
    };
    descriptors.connections_max(args.connections_of_shard(), driver.connections_max)
}
