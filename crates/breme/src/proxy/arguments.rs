//! The flags, and what they mean to the proxy and to the driver. The keys of a configuration file are the same.

mod balancing;
mod belonging;
mod caching;
mod forward;
mod health;
mod upstreams;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use balancing::{BalancingFlags, locate_in_group};
pub use belonging::is_one_of;
use breme_cache::Settings as CacheSettings;
use breme_driver::Settings as DriverSettings;
use breme_http1::Limits;
use breme_proxy::{ClientLimits, Identity, Mode, Settings, Times};
pub use caching::CachingFlags;
use clap::{ArgMatches, Command, FromArgMatches};
pub use forward::ForwardFlags;
pub use upstreams::UpstreamFlags;

use super::access_log::Format;
use super::secrets::Secrets;
use crate::configuration;
use crate::failure::{Failure, in_a_line};
use crate::load::units;
use crate::serving::{ConnectionFlags, ListenFlags, Place, TlsFlags, at_least_one, parallelism_of};

/// What the command is called.
pub const ROLE: &str = "proxy";
/// Threads of `--driver threads` where nothing else is said: each serves one connection at a time.
const POOL_DEFAULT: usize = 128;

/// Stand between clients and servers: forward or reverse, with a cache, a balancer, an access log.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub upstreams: UpstreamFlags,

    #[command(flatten)]
    pub balancing: BalancingFlags,

    /// Go wherever clients ask (absolute-form requests and CONNECT), within the allow-lists
    #[arg(long, conflicts_with = "upstream")]
    pub forward: bool,

    /// Where to listen; repeatable; port 0 takes any that is free; with TLS, http://ADDR listens without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: Vec<String>,

    #[command(flatten)]
    pub serving: ListenFlags,

    /// Threads [default: the processors for uring and events, 128 for threads]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

    /// Whoever shows the token in this file may change things at --admin: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,

    /// Read these flags from a file too (TOML, the same names without dashes); flags win; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Say whether all of this can work, and end
    #[arg(long)]
    pub check_config: bool,

    /// Print what is in force, as a file for --config, and end
    #[arg(long)]
    pub print_config: bool,

    #[command(flatten)]
    pub caching: CachingFlags,

    #[command(flatten)]
    pub forwarding: ForwardFlags,

    /// The proxy's name in Via and Cache-Status
    #[arg(long, value_name = "NAME", default_value = "breme", help_heading = "What is told of the client")]
    pub via_name: String,

    /// Do not say Via
    #[arg(long, help_heading = "What is told of the client")]
    no_via: bool,

    /// Name this proxy to upstreams in CDN-Loop (RFC 8586), so that loops are known through proxies that drop Via: a
    /// host of yours, or a word [default: it is not named]
    #[arg(long, value_name = "NAME", help_heading = "What is told of the client")]
    cdn_loop: Option<String>,

    /// Do not tell upstreams of the client with Forwarded
    #[arg(long, help_heading = "What is told of the client")]
    no_forwarded: bool,

    /// … nor with X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto
    #[arg(long, help_heading = "What is told of the client")]
    no_x_forwarded: bool,

    /// Believe what clients of this network say of their own clients, and continue it; repeatable [default: nobody]
    #[arg(long, value_name = "NET", help_heading = "What is told of the client")]
    pub trusted: Vec<String>,

    /// Write a line for each exchange to this file, or to standard output (-); SIGHUP opens it anew
    #[arg(long, value_name = "FILE", help_heading = "Access log")]
    pub access_log: Option<PathBuf>,

    /// The form of a line
    #[arg(long, value_name = "FORM", default_value = "combined", value_enum, help_heading = "Access log")]
    pub log_format: Format,

    #[command(flatten)]
    pub tls: TlsFlags,

    /// How long a connection to an upstream may take to be made, with its handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = "Times")]
    connect_timeout: Duration,

    /// From the end of a request to the end of its answer's head; past it 504
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = "Times")]
    response_timeout: Duration,

    /// Longest silence of an upstream inside an answer, or in taking a request; past it the exchange is ended
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = "Times")]
    between_bytes_timeout: Duration,

    /// From the head of a request to the end of its answer; 0 = any
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "Times")]
    total_timeout: Duration,

    /// Longest silence of a tunnel
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::duration, help_heading = "Times")]
    tunnel_timeout: Duration,

    #[command(flatten)]
    connections: ConnectionFlags,

    /// Bytes of a request's content [default: any number, since they are passed on as they come]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    max_body: Option<u64>,

    /// Connections of one client (an address; of IPv6 the first 64 bits) at a time; 0 = any
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Limits")]
    client_connections: u32,

    /// Requests of one client a second (of those behind a trusted proxy too, by X-Forwarded-For or Forwarded); past it
    /// 429; 0 = any
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Limits")]
    client_rate: u32,

    /// … of which so many may come at once [default: as many as in a second]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    client_burst: Option<u32>,

    /// Bytes of one exchange that wait for a slower peer, in each direction; past it the faster one is held back
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = units::memory, help_heading = "Limits")]
    relay_memory: usize,
}

/// The command by itself, as its file must know it.
pub fn command() -> Command {
    <Args as clap::Args>::augment_args(Command::new(ROLE))
}

/// What the command line says, and what the file says of the rest.
pub(super) fn in_force(config: Option<&Path>) -> Result<(ArgMatches, Args), Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let command = command();
    let matches = configuration::matches(&command, &words, config)?;
    let args = Args::from_arg_matches(&matches).map_err(|error| Failure::usage(in_a_line(&error)))?;
    args.check(&command, &matches)?;
    Ok((matches, args))
}

impl Args {
    pub(super) fn settings(&self, secrets: &Secrets) -> Settings {
        let mode = if self.forward {
            Mode::Forward(self.forwarding.rules())
        } else {
            Mode::Reverse { host: self.upstreams.host_rule() }
        };
        let defaults = Settings::new(mode);
        Settings {
            limits: Limits { content_bytes_max: self.max_body.unwrap_or(u64::MAX), ..self.connections.limits() },
            times: Times {
                head: self.response_timeout,
                between_bytes: self.between_bytes_timeout,
                total: self.total_timeout,
                tunnel_idle: self.tunnel_timeout,
            },
            pool: self.upstreams.pool(),
            identity: Identity {
                pseudonym: self.via_name.clone(),
                via: !self.no_via,
                cdn_loop: self.cdn_loop.clone(),
                forwarded: !self.no_forwarded,
                x_forwarded: !self.no_x_forwarded,
                trusted: self.trusted.clone(),
            },
            retries_max: self.upstreams.retries,
            retry_percent_max: self.upstreams.retry_budget,
            upgrades: !self.upstreams.no_upgrades,
            abort_on_close: self.upstreams.abort_on_close,
            relay_bytes_max: self.relay_memory,
            clients: ClientLimits {
                connections_max: self.client_connections,
                requests_per_second: self.client_rate,
                burst: self.client_burst.unwrap_or(self.client_rate),
            },
            queue: self.balancing.queue(),
            cache_bypass_header: self.caching.cache_bypass_header.clone(),
            purge_from: self.caching.purge_from.clone(),
            secured_listeners: secrets.secured_listeners.clone(),
            seed: secrets.seed,
            ..defaults
        }
    }

    /// Of the cache, if there is to be one.
    pub(super) fn cache_settings(&self, secrets: &Secrets) -> Option<CacheSettings> {
        let settings = self.caching.settings(&self.via_name, secrets.seed)?;
        // The balancer's cookie is between the proxy and its clients: no answer depends on it.
        let ignored = self.balancing.own_cookie().into_iter().chain(self.caching.cache_ignore_cookie.iter().cloned());
        Some(CacheSettings { ignored_cookies: ignored.collect(), ..settings })
    }

    pub(super) fn max_head(&self) -> usize {
        self.connections.limits().head_bytes_max
    }

    /// For the driver, but for the number of connections and the clients of TLS.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        let threads = parallelism_of(self.threads, &self.serving, POOL_DEFAULT);
        DriverSettings {
            connect_timeout: self.connect_timeout,
            // What an exchange may have waiting, the driver holds.
            send_queue_high_bytes: self.relay_memory as u64,
            ..self.connections.driver_settings(&self.serving, threads)
        }
    }

    /// Connections that a shard must be able to hold; none if that is left to us.
    pub(super) fn connections_of_shard(&self) -> Option<usize> {
        self.connections.connections_of_shard(&self.serving)
    }

    /// Where to listen, and how.
    pub(super) fn places(&self) -> Result<Vec<Place>, Failure> {
        Place::all(&self.listen, self.tls.has_tls())
    }

    /// What can be found wrong by looking at the flags alone.
    fn check(&self, command: &Command, given: &ArgMatches) -> Result<(), Failure> {
        if !self.forward && self.upstreams.upstream.is_empty() {
            return Err(Failure::usage(
                "there is nobody to ask; name a server with --upstream http://HOST:PORT, or add --forward for a proxy that goes where its clients ask",
            ));
        }
        belonging::check(command, given)
    }
}
