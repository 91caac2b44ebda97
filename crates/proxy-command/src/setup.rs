//! Creates a proxy and its parts from the flags. Nothing is bound here, so that it also serves to check flags.

use std::sync::Arc;

use breme_admin::AdminToken;
use breme_cache::{Cache, CacheSettingsError};
use breme_command::failure::Failure;
use breme_command::server::{ListenPlace, Tls};
use breme_driver::{Clock, DriverSettings, UnixSockets};
use breme_proxy::{AccessLog, Parts as ProxyParts, Proxy, Resolver, SettingsError};

use super::access_log::{AccessLogWriter, Destination};
use super::arguments::{ProxyArgs, ROLE, group_failure};
use super::name_resolver::NameResolver;
use super::secrets::Secrets;
use super::upstream_tls::Clients;
use super::upstreams::{ListError, Upstreams};

/// A proxy ready to start.
pub struct Setup {
    pub proxy: Proxy,
    pub parts: Parts,
    /// Except the number of connections.
    pub driver: DriverSettings,
}

/// What is needed while the proxy runs.
pub struct Parts {
    pub secrets: Secrets,
    pub places: Vec<ListenPlace>,
    pub tls: Option<Tls>,
    pub token: AdminToken,
    pub upstreams: Option<Upstreams>,
    pub cache: Option<Arc<Cache>>,
    pub resolver: Option<NameResolver>,
    pub clients: Clients,
    /// None while flags are only checked: a check writes nothing.
    pub log: Option<AccessLogWriter>,
}

impl Setup {
    pub fn from_args(args: &ProxyArgs, clock: Clock) -> Result<Self, Failure> {
        let clients = Clients::from_flags(&args.upstreams)?;
        let unix_sockets = UnixSockets::default();
        let parts = Parts::from_args(args, clock, &clients, &unix_sockets)?;
        let proxy = Proxy::new(ProxyParts {
            group: parts.upstreams.as_ref().map(Upstreams::group),
            cache: parts.cache.clone(),
            tls_clients: clients.ids,
            resolver: parts.resolver.clone().map(|resolver| Arc::new(resolver) as Arc<dyn Resolver>),
            access_log: parts.log.as_ref().map(|writer| writer.log() as Arc<dyn AccessLog>),
            ..ProxyParts::new(args.settings(&parts.secrets)?, clock.wall_clock())
        });
        let proxy = proxy.map_err(|error| settings_failure(&error))?;
        let driver = DriverSettings { tls_clients: clients.list, unix_sockets, ..args.driver_settings() };
        Ok(Self { proxy, parts, driver })
    }
}

impl Parts {
    fn from_args(args: &ProxyArgs, clock: Clock, clients: &Clients, sockets: &UnixSockets) -> Result<Self, Failure> {
        let places = args.places()?;
        let secrets = Secrets::draw(&places)?;
        let resolver = args.forward.then(NameResolver::start).transpose();
        Ok(Self {
            tls: Tls::from_flags(ROLE, &args.tls, &places)?,
            token: AdminToken::from_file("--admin-token-file", args.admin_token_file.as_deref())
                .map_err(Failure::usage)?,
            upstreams: if args.forward { None } else { Some(upstreams(args, &secrets, clock, clients, sockets)?) },
            cache: cache(args, &secrets)?,
            resolver: resolver.map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?,
            log: if args.check_config { None } else { access_log(args)? },
            places,
            clients: clients.clone(),
            secrets,
        })
    }
}

fn access_log(args: &ProxyArgs) -> Result<Option<AccessLogWriter>, Failure> {
    let start = |path| AccessLogWriter::start(Destination::from_path(path), args.log_format).map_err(Failure::run);
    args.access_log.as_deref().map(start).transpose()
}

fn upstreams(
    args: &ProxyArgs,
    secrets: &Secrets,
    clock: Clock,
    clients: &Clients,
    sockets: &UnixSockets,
) -> Result<Upstreams, Failure> {
    let rules = args.balancing.settings(secrets)?;
    let flags = &args.upstreams;
    Upstreams::new(rules, flags.upstream.clone(), flags.resolve_interval, clock, clients.clone(), sockets.clone())
        .map_err(list_failure)
}

pub fn list_failure(error: ListError) -> Failure {
    match error {
        ListError::Group(error) => group_failure(&error),
        ListError::Tls(problem) => Failure::usage(problem),
        ListError::Socket(_) | ListError::Own(_) => Failure::usage(format!("--upstream: {error}")),
    }
}

fn cache(args: &ProxyArgs, secrets: &Secrets) -> Result<Option<Arc<Cache>>, Failure> {
    args.cache_settings(secrets).map(Cache::new).transpose().map_err(|error| cache_failure(&error))
}

pub fn cache_failure(error: &CacheSettingsError) -> Failure {
    let flag = if matches!(error, CacheSettingsError::Name(_)) { "--via-name" } else { "--cache-memory" };
    Failure::usage(format!("{flag}: {error}"))
}

/// Names the flag of an invalid setting.
pub fn settings_failure(error: &SettingsError) -> Failure {
    let flag = match error {
        SettingsError::NoUpstreams => "--upstream",
        SettingsError::Pseudonym(_) => "--via-name",
        SettingsError::CdnLoop(_) => "--cdn-loop",
        SettingsError::Host(_) => "--host",
        SettingsError::Network(_) => "--trusted",
        SettingsError::PurgeFrom(_) => "--purge-from",
        SettingsError::AllowedHost(_) => "--allow-host",
        SettingsError::RelayBytes => "--relay-memory",
        _ => return Failure::run(error),
    };
    Failure::usage(format!("{flag}: {error}"))
}
