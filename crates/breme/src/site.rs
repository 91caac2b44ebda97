//! `breme site`: flags become the settings of an origin server, which a driver carries.
//!
//! What the pure crate may not do is done here: opening the folder, drawing keys from the operating system, descriptors,
//! listeners and signals.

mod arguments;
mod folder;
mod metrics;
mod secured;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

pub use arguments::Args;
use breme_driver::{Clock, Counting, Kind, Listener, ServerTls, Settings as DriverSettings, Stopper, start};
use breme_node::ListenerId;
use breme_origin::{FileCacheLimits, Root, SettingsError, Site, Visitors};
use folder::Folder;
use metrics::SiteMetrics;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use secured::{Place, Reloading};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::admin::{self, Admin, AdminListener, ConnectionMetrics, ProcessMetrics, Readiness};
use crate::failure::{Failure, exit};

/// What is open besides connections and kept files: standard streams, the folder, the driver's own.
const DESCRIPTORS_BESIDES: u64 = 64;
/// For each shard: its poll or ring, its bell, its copy of a listener.
const DESCRIPTORS_OF_SHARD: u64 = 4;
/// Fewer connections than that on a shard are not worth serving.
const CONNECTIONS_MIN: u64 = 16;
/// The longest key that is read from a file.
const KEY_BYTES_MAX: u64 = 4096;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Carries out the command.
#[expect(clippy::needless_pass_by_value, reason = "the command line is ours for good")]
pub fn run(args: Args) -> ExitCode {
    exit("site", serve(&args).map(|()| ExitCode::SUCCESS))
}

fn serve(args: &Args) -> Result<(), Failure> {
    if args.directory.is_none() && !args.lab {
        return Err(Failure::usage(
            "there is nothing to serve; name a folder, or --lab for the fixed answers, or both",
        ));
    }
    let process = ProcessMetrics::starting_now();
    let mut settings = args.settings()?;
    settings.seed = random_bits()? as u64;
    settings.secured_listeners = secured_listeners(&args.places()?);
    let root = open_root(args)?;
    let visitors = visitors(args)?;
    let files = root.is_some().then_some(settings.files);
    let clock = Clock::start();
    let site = Site::new(settings, root, visitors, clock.wall_clock()).map_err(|error| locate(&error))?;

    let mut driver = args.driver_settings();
    driver.connections_max = connections_max(args, &driver, files)?;
    let (tls, reloading) = secured::of(args)?.map_or((None, None), |(tls, reloading)| (Some(tls), reloading));
    let (listeners, bound) = listen(args, &driver, tls.as_ref())?;
    let admin = args.admin()?.map(AdminListener::bind).transpose().map_err(|error| Failure::run(error.to_string()))?;
    let readiness = Readiness::default();

    // Before anybody is told that we are ready: a signal that comes then must find us listening.
    let mut caught = vec![SIGINT, SIGTERM];
    caught.extend(reloading.is_some().then_some(SIGHUP));
    let signals = Signals::new(caught).map_err(|error| Failure::run(format!("cannot catch signals: {error}")))?;
    let kind = args.driver.resolve("site");
    let running = start(kind, listeners, &driver, clock, |shard| site.node(shard))
        .map_err(|error| Failure::run(error.to_string()))?;
    let counting = running.counters();
    obey(signals, running.stopper(), readiness.clone(), reloading)?;
    let admin_address = admin.as_ref().map(AdminListener::address);
    let registry = registry(kind, process, counting.clone(), site);
    let admin = admin.map(|admin| admin.start(clock, driver.cpus, registry, readiness)).transpose();
    let admin = admin.map_err(|error| Failure::run(error.to_string()))?;
    announce(admin_address, &bound);

    let panics: Vec<String> =
        running.join().into_iter().filter_map(|node| node.err().map(|panic| panic.to_string())).collect();
    admin.into_iter().for_each(Admin::end);
    if tls.is_some() {
        tell_handshakes(&counting);
    }
    if panics.is_empty() { Ok(()) } else { Err(Failure::run(panics.join("; "))) }
}

/// What is told at `/metrics`.
fn registry(kind: Kind, process: ProcessMetrics, counting: Counting, site: Site) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process));
    let ours = registry.sub_registry_with_prefix("breme");
    let build = [("role", "site".to_owned()), ("driver", kind.to_string()), ("version", VERSION.to_owned())];
    ours.register("build", "What runs here", Info::new(build.to_vec()));
    ours.register_collector(Box::new(ConnectionMetrics::new(counting)));
    ours.register_collector(Box::new(SiteMetrics(site)));
    registry
}

/// The flag that is at fault.
fn locate(error: &SettingsError) -> Failure {
    let flag = match error {
        SettingsError::CacheControl(_) => "--cache-control",
        SettingsError::IndexName(_) => "--index",
    };
    Failure::usage(format!("{flag}: {error}"))
}

fn open_root(args: &Args) -> Result<Option<Arc<dyn Root>>, Failure> {
    let Some(directory) = &args.directory else { return Ok(None) };
    let folder = Folder::open(directory, args.follow_symlinks).map_err(|error| {
        Failure::run(format!(
            "cannot serve {}: {error}; it must be a folder that this user may read",
            directory.display()
        ))
    })?;
    Ok(Some(Arc::new(folder)))
}

fn visitors(args: &Args) -> Result<Option<Visitors>, Failure> {
    if !args.visitors {
        return Ok(None);
    }
    let key = match &args.visitor_key_file {
        Some(path) => folder::read_bounded(path, KEY_BYTES_MAX)
            .map_err(|error| Failure::run(format!("cannot read the key {}: {error}", path.display())))?,
        None => [random_bits()?.to_ne_bytes(), random_bits()?.to_ne_bytes()].concat(),
    };
    let random = || random_bits().ok();
    Visitors::new(&key, args.visitors_max, Box::new(random))
        .map(Some)
        .map_err(|error| Failure::usage(error.to_string()))
}

fn random_bits() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::run(format!("the operating system gives no random numbers: {error}")))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// As many connections on each shard as were asked for, or else as many as the limit of descriptors lets us have.
fn connections_max(args: &Args, driver: &DriverSettings, files: Option<FileCacheLimits>) -> Result<usize, Failure> {
    let shards = driver.threads as u64;
    let kept = files.map_or(0, |files| files.descriptors_max as u64);
    let listeners = args.listener_count() as u64;
    let admin = if args.has_admin() { admin::DESCRIPTORS } else { 0 };
    let besides = DESCRIPTORS_BESIDES + admin + kept + shards * (DESCRIPTORS_OF_SHARD + listeners);
    let needed = |connections: u64| besides + shards * connections;
    let allowed = breme_sys::raise_descriptor_limit().soft;
    let asked = args.connections_of_shard();
    let least = asked.map_or(CONNECTIONS_MIN, |asked| asked as u64);
    breme_sys::descriptors_needed(needed(least)).map_err(|error| Failure::run(error.to_string()))?;
    let room = usize::try_from((allowed - besides) / shards).unwrap_or(usize::MAX);
    Ok(asked.unwrap_or_else(|| driver.connections_max.min(room)))
}

/// The driver numbers listeners by their place.
fn secured_listeners(places: &[Place]) -> Vec<ListenerId> {
    let numbered = places.iter().enumerate().filter(|(_, place)| place.is_secured);
    numbered.map(|(index, _)| ListenerId(index)).collect()
}

fn listen(
    args: &Args,
    driver: &DriverSettings,
    tls: Option<&ServerTls>,
) -> Result<(Vec<Listener>, Vec<Place>), Failure> {
    let mut listeners = Vec::new();
    let mut bound = Vec::new();
    for place in args.places()? {
        let listener = Listener::bind(place.address, driver).map_err(|error| Failure::run(error.to_string()))?;
        bound.push(Place { address: listener.address(), ..place });
        listeners.push(match tls {
            Some(tls) if place.is_secured => listener.secured_by(tls.clone()),
            _ => listener,
        });
    }
    Ok((listeners, bound))
}

/// SIGHUP exchanges the certificate. The first other signal asks the driver to finish what was begun, a second one ends the program.
fn obey(
    mut signals: Signals,
    stopper: Stopper,
    readiness: Readiness,
    reloading: Option<Reloading>,
) -> Result<(), Failure> {
    let obey = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            match &reloading {
                Some(reloading) if signal == SIGHUP => reloading.reload(),
                _ if !is_stopping => {
                    is_stopping = true;
                    readiness.drain();
                    stopper.drain();
                }
                _ => {
                    stopper.abort();
                    std::process::exit(128 + signal);
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(obey);
    thread.map(drop).map_err(|error| Failure::run(format!("cannot start a thread: {error}")))
}

/// One line for each address, for people and for the programs that started us. Nobody needs to read it.
fn announce(admin: Option<SocketAddr>, bound: &[Place]) {
    let mut output = std::io::stdout().lock();
    if let Some(address) = admin {
        let _ = writeln!(output, "admin on http://{address}");
    }
    for place in bound {
        let _ = writeln!(output, "listening on {}://{}", place.scheme(), place.address);
    }
    let _ = output.flush();
}

/// What became of TLS, of which no request tells.
fn tell_handshakes(counting: &Counting) {
    let shards = counting.all();
    let sum = |count: fn(&breme_driver::ShardCounters) -> u64| shards.iter().map(count).sum::<u64>();
    eprintln!(
        "breme site: {} handshakes of TLS, {} of them resumed; {} failed",
        sum(|shard| shard.handshakes),
        sum(|shard| shard.handshakes_resumed),
        sum(|shard| shard.handshakes_failed)
    );
}
