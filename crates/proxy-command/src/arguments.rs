//! The flags, and their conversion to settings of the proxy and the driver. A configuration file has the same keys.

mod balancer;
mod cache;
mod dependencies;
mod forward;
mod health;
mod upstreams;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use balancer::{BalancingFlags, group_failure};
use breme_cache::CacheSettings;
use breme_command::configuration;
use breme_command::failure::Failure;
use breme_command::server::{
    ConnectionFlags, ListenFlags, ListenPlace, ResponseFlags, TlsFlags, at_least_one, parallelism_of, whole,
};
use breme_command::units;
use breme_driver::{DriverSettings, RECEIVE_CHUNK_BYTES_MAX};
use breme_http::Limits;
use breme_proxy::{ClientLimits, Identity, Mode, Settings, Timeouts};
pub use cache::CachingFlags;
use clap::{ArgMatches, Command};
pub use dependencies::is_one_of;
pub use forward::ForwardFlags;
pub use upstreams::UpstreamFlags;

use super::access_log::LogFormat;
use super::error_pages;
use super::secrets::Secrets;

const EXAMPLES: &str = "Examples:
  breme proxy --upstream http://127.0.0.1:8080
  breme proxy --upstream http://10.0.0.11:8080 --upstream http://10.0.0.12:8080 \\
    --policy two-choices --health-path /health --cache-memory 256MiB --listen :80
  breme proxy --listen unix:/run/edge.sock --upstream unix:/run/app.sock
  breme proxy --forward --allow-host '*.example.org' --listen 127.0.0.1:3128
  breme proxy --config proxy.toml --check-config

SIGHUP reloads the configuration and certificates, SIGUSR1 reopens the access log, SIGTERM shuts
down gracefully.
Exit status: 0 after a shutdown or a valid --check-config, 1 if the proxy cannot run, 2 for a wrong
configuration.";

/// The name of the command.
pub const ROLE: &str = "proxy";
/// Default number of threads of `--driver threads`: each serves one connection at a time.
const POOL_DEFAULT: usize = 128;
const TIMEOUTS: &str = "Timeouts";
const ERRORS: &str = "Error responses";
const IDENTITY: &str = "Identity and forwarding headers";

/// Run a reverse or forward proxy with load balancing, a cache and an access log.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProxyArgs {
    #[command(flatten)]
    pub(super) upstreams: UpstreamFlags,

    #[command(flatten)]
    pub(super) balancing: BalancingFlags,

    /// Run as a forward proxy: clients name the target (absolute URLs, CONNECT), within the --allow lists
    #[arg(long, conflicts_with = "upstream")]
    pub(super) forward: bool,

    /// Listen address, HOST:PORT, :PORT or unix:PATH; repeatable; port 0 picks a free port; with TLS, http://ADDR and
    /// Unix sockets listen without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: Vec<String>,

    #[command(flatten)]
    pub(super) serving: ListenFlags,

    /// Number of threads [default: one per processor for uring and events, 128 for threads]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

    /// File with the bearer token that authorises changes through --admin [default: changes are disabled]
    #[arg(long, value_name = "FILE")]
    pub(super) admin_token_file: Option<PathBuf>,

    /// Also read flags from this TOML file (the same names without the leading dashes); flags override it; SIGHUP
    /// reloads it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Check the configuration and exit: status 0 if it is valid
    #[arg(long)]
    pub(super) check_config: bool,

    /// Print the configuration in effect as a file for --config and exit
    #[arg(long)]
    pub(super) print_config: bool,

    /// Print the JSON schema of the --config file, for editors, and exit
    #[arg(long)]
    pub(super) print_schema: bool,

    /// Bodies of the proxy's own error responses: a folder of files named by status or class (503.html, 4xx.html,
    /// 5xx.html), or one file for all
    ///
    /// Each file has at most 256 KiB. Its extension determines the Content-Type. SIGHUP reads the files again. Without
    /// a page the body is one sentence of plain text.
    #[arg(long, value_name = "PATH", help_heading = ERRORS)]
    pub(super) error_pages: Option<PathBuf>,

    /// Show the upstream's address in error responses: in the body and as next-hop in Proxy-Status; for testing only
    #[arg(long, hide_short_help = true, help_heading = ERRORS)]
    show_upstreams: bool,

    #[command(flatten)]
    caching: CachingFlags,

    #[command(flatten)]
    forwarding: ForwardFlags,

    /// Name of the proxy in Via, Cache-Status and Proxy-Status
    #[arg(long, hide_short_help = true, value_name = "NAME", default_value = "breme", help_heading = IDENTITY)]
    via_name: String,

    /// Do not add Via to requests and responses
    #[arg(long, hide_short_help = true, help_heading = IDENTITY)]
    no_via: bool,

    /// Name of the proxy in CDN-Loop (RFC 8586), which detects forwarding loops through proxies that remove Via: a
    /// host name or a word [default: do not send it]
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = IDENTITY)]
    cdn_loop: Option<String>,

    /// Do not send Forwarded to upstreams
    #[arg(long, hide_short_help = true, help_heading = IDENTITY)]
    no_forwarded: bool,

    /// Do not send X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto to upstreams
    #[arg(long, hide_short_help = true, help_heading = IDENTITY)]
    no_x_forwarded: bool,

    /// Network (10.0.0.0/8) of trusted proxies, whose Forwarded and X-Forwarded headers are kept and extended, or
    /// unix: for clients of Unix sockets; repeatable [default: none, these headers are replaced]
    #[arg(long, value_name = "NET", help_heading = IDENTITY)]
    trusted: Vec<String>,

    /// Write an access log line per request to this file, or to standard output (-); SIGUSR1 and SIGHUP reopen the
    /// file [default: no log]
    #[arg(long, value_name = "FILE", help_heading = "Access log")]
    pub(super) access_log: Option<PathBuf>,

    /// Format of the access log
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_enum, help_heading = "Access log")]
    pub(super) log_format: LogFormat,

    #[command(flatten)]
    responses: ResponseFlags,

    #[command(flatten)]
    pub(super) tls: TlsFlags,

    /// Time limit for connecting to an upstream, including the TLS handshake; when it expires, another upstream is
    /// tried, then 504
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = TIMEOUTS)]
    connect_timeout: Duration,

    /// Time limit from the end of a request to the end of the response head; when it expires, 504
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = TIMEOUTS)]
    response_timeout: Duration,

    /// Longest pause of an upstream while it sends a response or reads a request; after that the exchange is aborted
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = TIMEOUTS)]
    between_bytes_timeout: Duration,

    /// Time limit from the head of a request to the end of its response; 0 disables it
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = TIMEOUTS)]
    total_timeout: Duration,

    /// Time without traffic in either direction after which a tunnel is closed
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5m", value_parser = units::duration, help_heading = TIMEOUTS)]
    tunnel_timeout: Duration,

    #[command(flatten)]
    connections: ConnectionFlags,

    /// Size limit of request bodies, in bytes; larger ones get 413 [default: unlimited, since bodies are streamed]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    max_body: Option<u64>,

    /// Maximum number of concurrent connections per client (IPv4 address or IPv6 /64 network; all clients of Unix
    /// sockets count as one); further ones are closed at once; 0 = unlimited
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value = "0", help_heading = "Limits")]
    client_connections: u32,

    /// Maximum rate of requests per client, per second; more get 429; clients behind a --trusted proxy are counted
    /// separately; 0 = unlimited
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value = "0", help_heading = "Limits")]
    client_rate: u32,

    /// Requests that a client may send at once before --client-rate applies [default: the rate of one second]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<u32>, help_heading = "Limits")]
    client_burst: Option<u32>,

    /// Maximum number of bytes buffered per exchange and direction; beyond that the faster side is paused
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "64KiB", value_parser = units::memory, help_heading = "Limits")]
    relay_memory: usize,
}

/// The command alone, for its configuration file.
pub fn command() -> Command {
    <ProxyArgs as clap::Args>::augment_args(Command::new(ROLE))
}

/// The flags of the command line, with defaults from the file.
pub(super) fn in_force(config: Option<&Path>) -> Result<(ArgMatches, ProxyArgs), Failure> {
    let command = command();
    let (matches, args): (_, ProxyArgs) = configuration::in_force(&command, config)?;
    args.check(&command, &matches)?;
    Ok((matches, args))
}

impl ProxyArgs {
    pub(super) fn settings(&self, secrets: &Secrets) -> Result<Settings, Failure> {
        let mode = if self.forward {
            Mode::Forward(self.forwarding.rules())
        } else {
            Mode::Reverse { host: self.upstreams.host_rule() }
        };
        let defaults = Settings::new(mode);
        Ok(Settings {
            limits: Limits { content_bytes_max: self.max_body.unwrap_or(u64::MAX), ..self.connections.limits() },
            upstream_limits: self.upstreams.limits(),
            times: Timeouts {
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
            stopping_linger: self.connections.drain_linger,
            cache_bypass_header: self.caching.cache_bypass_header.clone(),
            purge_from: self.caching.purge_from.clone(),
            shows_upstreams: self.show_upstreams,
            response_fields: self.responses.fields()?,
            error_pages: error_pages::read(self.error_pages.as_deref())?,
            secured_listeners: secrets.secured_listeners.clone(),
            seed: secrets.seed,
            ..defaults
        })
    }

    /// The settings of the cache, if enabled.
    pub(super) fn cache_settings(&self, secrets: &Secrets) -> Option<CacheSettings> {
        let settings = self.caching.settings(&self.via_name, secrets.seed)?;
        // The balancer's cookie is between the proxy and its clients: no response depends on it.
        let ignored = self.balancing.own_cookie().into_iter().chain(self.caching.cache_ignore_cookie.iter().cloned());
        Some(CacheSettings { ignored_cookies: ignored.collect(), ..settings })
    }

    /// Sets the limits on which the size of the driver's buffers depends.
    pub(super) fn set_head_limits(&self, settings: &mut Settings) {
        settings.limits.head_bytes_max = self.connections.limits().head_bytes_max;
        settings.upstream_limits.head_bytes_max = self.upstreams.max_response_head;
    }

    /// The settings of the driver, except the number of connections and the TLS clients.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        let threads = parallelism_of(self.threads, &self.serving, POOL_DEFAULT);
        let defaults = self.connections.driver_settings(&self.serving, threads);
        DriverSettings {
            // The head of a response must fit into the buffer, too.
            receive_bytes_max: defaults.receive_bytes_max.max(self.upstreams.max_response_head.saturating_mul(2)),
            connect_timeout: self.connect_timeout,
            // The driver holds the buffered part of an exchange: its queue when it stops receiving, and what it has
            // received by then.
            send_queue_high_bytes: self.relay_memory.saturating_sub(RECEIVE_CHUNK_BYTES_MAX) as u64,
            ..defaults
        }
    }

    /// The configured connections per shard; none: automatic.
    pub(super) fn connections_of_shard(&self) -> Option<usize> {
        self.connections.connections_of_shard(&self.serving)
    }

    /// Where to listen, and how.
    pub(super) fn places(&self) -> Result<Vec<ListenPlace>, Failure> {
        ListenPlace::all(&self.listen, self.tls.has_tls())
    }

    /// Checks that depend on the flags alone.
    fn check(&self, command: &Command, given: &ArgMatches) -> Result<(), Failure> {
        if !self.forward && self.upstreams.upstream.is_empty() {
            return Err(Failure::usage(
                "no upstream; add --upstream http://HOST:PORT or unix:PATH, or --forward for a forward proxy",
            ));
        }
        dependencies::check(command, given)
    }
}

#[cfg(test)]
mod tests {
    use breme_proxy::HostRule;
    use clap::FromArgMatches;

    use super::*;

    fn args(flags: &str) -> ProxyArgs {
        let matches = command().try_get_matches_from(format!("proxy --upstream http://127.0.0.1:9{flags}").split(' '));
        ProxyArgs::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn heads_of_responses_are_limited_and_fit_into_the_buffer() {
        let of = |limits: &Limits| (limits.head_bytes_max, limits.field_count_max, limits.content_bytes_max);
        let mut settings = Settings::new(Mode::Reverse { host: HostRule::Keep });
        assert_eq!(of(&args("").upstreams.limits()), of(&settings.upstream_limits));
        let wide = args(" --max-response-head 1000000 --max-response-headers 7");
        assert_eq!(of(&wide.upstreams.limits()), (1_000_000, 7, u64::MAX));
        assert!(wide.driver_settings().receive_bytes_max >= 2_000_000);
        wide.set_head_limits(&mut settings);
        assert_eq!([settings.limits.head_bytes_max, settings.upstream_limits.head_bytes_max], [16_384, 1_000_000]);
    }
}
