//! `breme proxy`: flags and a configuration file become the settings of a proxy, which a driver carries.
//!
//! | module | what it does |
//! |---|---|
//! | `arguments` | the flags |
//! | `upstream`, `upstreams` | an upstream as a flag names it; all of them while the proxy runs |
//! | `reloading` | what SIGHUP reads again |
//! | `secured` | TLS toward upstreams |
//! | `names` | addresses of hosts, for a forward proxy |
//! | `access_log` | a line for each exchange |
//! | `metrics`, `api` | what is told at `--admin`, and what can be done there |

mod access_log;
mod api;
mod arguments;
mod metrics;
mod names;
mod reloading;
mod secured;
mod upstream;
mod upstreams;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use access_log::{Destination, Writer};
use api::{Kept, ProxyApi};
pub use arguments::Args;
use arguments::locate_in_group;
use breme_cache::{Cache, SettingsError as CacheError};
use breme_driver::{Clock, Counting, Kind, Settings as DriverSettings, start};
use breme_node::ListenerId;
use breme_proxy::{AccessLog, Parts, Proxy, Resolver, SettingsError};
use clap::{ArgMatches, Command, FromArgMatches};
use metrics::ProxyMetrics;
use names::Names;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use reloading::Reloading;
use secured::Clients;
use upstreams::Upstreams;

use crate::admin::{Admin, AdminListener, Api, ConnectionMetrics, ProcessMetrics, Readiness, Token};
use crate::configuration;
use crate::failure::{Failure, exit};
use crate::serving::{
    Descriptors, Place, Tls, VERSION, announce, catch, listen, obey, panics, random_bits, secured_listeners,
    tell_handshakes,
};

const ROLE: &str = "proxy";
/// A client's connection, and one to an upstream for it.
const DESCRIPTORS_OF_CONNECTION: u64 = 2;

/// Carries out the command.
pub fn run(args: &Args) -> ExitCode {
    exit(ROLE, carry_out(args.config.as_deref()).map(|()| ExitCode::SUCCESS))
}

fn carry_out(config: Option<&Path>) -> Result<(), Failure> {
    let (matches, args) = in_force(config)?;
    if args.print_config {
        print!("{}", configuration::print(&command(), &matches));
        return Ok(());
    }
    serve(&args, matches)
}

/// The command by itself, as its file must know it.
pub fn command() -> Command {
    <Args as clap::Args>::augment_args(Command::new(ROLE))
}

/// What the command line says, and what the file says of the rest.
fn in_force(config: Option<&Path>) -> Result<(ArgMatches, Args), Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let matches = configuration::matches(&command(), &words, config)?;
    let args = Args::from_arg_matches(&matches).map_err(|error| Failure::usage(configuration::in_a_line(&error)))?;
    args.check()?;
    Ok((matches, args))
}

/// What is drawn at the start, and stays.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// For cookies of the proxy's own.
    key: Vec<u8>,
    seed: u64,
    secured_listeners: Vec<ListenerId>,
}

impl Secrets {
    fn draw(places: &[Place]) -> Result<Self, Failure> {
        let key = [random_bits()?.to_ne_bytes(), random_bits()?.to_ne_bytes()].concat();
        Ok(Self { key, seed: random_bits()? as u64, secured_listeners: secured_listeners(places) })
    }
}

fn serve(args: &Args, matches: ArgMatches) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let clock = Clock::start();
    let places = args.places()?;
    let secrets = Secrets::draw(&places)?;
    let clients = Clients::of(&args.upstreams)?;
    let tls = Tls::of(ROLE, &args.tls, &places)?;
    let token = Token::of_file("--admin-token-file", args.admin_token_file.as_deref()).map_err(Failure::usage)?;
    let upstreams = if args.forward { None } else { Some(upstreams(args, &secrets, clock)?) };
    let cache = cache(args, &secrets)?;
    let names = args.forward.then(Names::start).transpose();
    let names = names.map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    let log = if args.check_config { None } else { access_log(args)? };
    let proxy = Proxy::new(Parts {
        group: upstreams.as_ref().map(Upstreams::group),
        cache: cache.clone(),
        tls_clients: clients.by_name,
        resolver: names.clone().map(|names| Arc::new(names) as Arc<dyn Resolver>),
        access_log: log.as_ref().map(|writer| writer.log() as Arc<dyn AccessLog>),
        ..Parts::new(args.settings(&secrets), clock.wall_clock())
    });
    let proxy = proxy.map_err(|error| locate(&error))?;
    if args.check_config {
        println!("breme proxy: this can work");
        return Ok(());
    }

    let mut driver = args.driver_settings();
    driver.tls_clients = clients.list;
    driver.connections_max = connections_max(args, &driver, places.len())?;
    let (listeners, bound) = listen(places, &driver, tls.as_ref().map(|tls| &tls.server))?;
    let admin = args.serving.admin()?.map(AdminListener::bind).transpose();
    let admin = admin.map_err(|error| Failure::run(error.to_string()))?;
    let readiness = Readiness::default();

    // Before anybody is told that we are ready: a signal that comes then must find us listening.
    let signals = catch(true)?;
    let kind = args.serving.driver.resolve(ROLE);
    let running = start(kind, listeners, &driver, clock, |shard| proxy.node(shard))
        .map_err(|error| Failure::run(error.to_string()))?;
    names.iter().for_each(|names| names.tell_by(running.waker()));
    if let Some(upstreams) = &upstreams {
        upstreams.follow().map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    }
    let counting = running.counters();
    let has_tls = tls.is_some();
    let lines = log.as_ref().map(Writer::log);
    let mut reloading = Reloading {
        config: args.config.clone(),
        matches,
        secrets,
        proxy: proxy.clone(),
        waker: running.waker(),
        shard_count: driver.threads,
        head_bytes_max: args.max_head(),
        upstreams: upstreams.clone(),
        certificate: tls.and_then(|tls| tls.reloading),
        log: lines.clone(),
    };
    obey(signals, running.stopper(), readiness.clone(), move || reloading.reload())?;
    let admin_address = admin.as_ref().map(AdminListener::address);
    let registry = registry(
        kind,
        process,
        counting.clone(),
        ProxyMetrics { proxy, upstreams: upstreams.clone(), cache: cache.clone(), log: lines },
    );
    let api = (
        Box::new(ProxyApi { upstreams: upstreams.clone(), cache: cache.map(|cache| Kept { cache, clock }) })
            as Box<dyn Api>,
        token,
    );
    let admin = admin.map(|admin| admin.start(clock, driver.cpus, registry, readiness, Some(api))).transpose();
    let admin = admin.map_err(|error| Failure::run(error.to_string()))?;
    announce(admin_address, &bound);

    let ended = running.join();
    admin.into_iter().for_each(Admin::end);
    log.into_iter().for_each(Writer::finish);
    upstreams.iter().for_each(Upstreams::end);
    if has_tls {
        tell_handshakes(ROLE, &counting);
    }
    panics(ended)
}

fn access_log(args: &Args) -> Result<Option<Writer>, Failure> {
    let start = |path| Writer::start(Destination::of(path), args.log_format).map_err(Failure::run);
    args.access_log.as_deref().map(start).transpose()
}

/// As many connections on each shard as were asked for, or else as many as the limit of descriptors lets us have.
fn connections_max(args: &Args, driver: &DriverSettings, listeners: usize) -> Result<usize, Failure> {
    let descriptors = Descriptors {
        shards: driver.threads,
        listeners,
        has_admin: args.serving.has_admin(),
        kept: 0,
        of_connection: DESCRIPTORS_OF_CONNECTION,
    };
    descriptors.connections_max(args.connections_of_shard(), driver.connections_max)
}

fn upstreams(args: &Args, secrets: &Secrets, clock: Clock) -> Result<Upstreams, Failure> {
    let rules = args.balancing.settings(secrets)?;
    let flags = &args.upstreams;
    Upstreams::new(rules, flags.upstream.clone(), flags.resolve_interval, clock)
        .map_err(|error| locate_in_group(&error))
}

fn cache(args: &Args, secrets: &Secrets) -> Result<Option<Arc<Cache>>, Failure> {
    let settings = args.caching.settings(&args.via_name, secrets.seed);
    settings.map(Cache::new).transpose().map_err(|error| {
        let flag = if matches!(error, CacheError::Name(_)) { "--via-name" } else { "--cache-memory" };
        Failure::usage(format!("{flag}: {error}"))
    })
}

/// What is told at `/metrics`.
fn registry(kind: Kind, process: ProcessMetrics, counting: Counting, metrics: ProxyMetrics) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process));
    let ours = registry.sub_registry_with_prefix("breme");
    let build = [("role", ROLE.to_owned()), ("driver", kind.to_string()), ("version", VERSION.to_owned())];
    ours.register("build", "What runs here", Info::new(build.to_vec()));
    ours.register_collector(Box::new(ConnectionMetrics::new(counting)));
    ours.register_collector(Box::new(metrics));
    registry
}

/// The flag that is at fault.
fn locate(error: &SettingsError) -> Failure {
    let flag = match error {
        SettingsError::NoUpstreams => "--upstream",
        SettingsError::Pseudonym(_) => "--via-name",
        SettingsError::Host(_) => "--host",
        SettingsError::Network(_) => "--trusted",
        SettingsError::PurgeFrom(_) => "--purge-from",
        SettingsError::AllowedHost(_) => "--allow-host",
        SettingsError::RelayBytes => "--relay-memory",
        _ => return Failure::run(error.to_string()),
    };
    Failure::usage(format!("{flag}: {error}"))
}
