//! Flags of a reverse proxy's upstreams, and of the connections to servers of both kinds of proxy.

use std::path::PathBuf;
use std::time::Duration;

use breme_command::server::{at_least_one, field_count, whole};
use breme_command::units;
use breme_http::Limits;
use breme_proxy::{HostRule, Pool};

use crate::upstream::Upstream;

#[derive(Debug, clap::Args)]
pub struct UpstreamFlags {
    /// Upstream server, http://HOST:PORT, https://HOST:PORT or unix:PATH; repeatable; append ,weight=N for a larger
    /// share of the requests and ,route=NAME for --affinity follow
    #[arg(long, value_name = "URL")]
    pub upstream: Vec<Upstream>,

    /// Host header sent to upstreams: keep (as the client sent it), upstream (host and port of the upstream's URL;
    /// localhost for a Unix socket), or a fixed name
    #[arg(long, value_name = "RULE", default_value = "keep", help_heading = "Upstreams")]
    pub host: String,

    /// Interval between DNS lookups of the upstreams' names; 0 = only at the start
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Upstreams")]
    pub resolve_interval: Duration,

    /// Maximum number of retries of an idempotent request without a body whose reused connection closed before the
    /// first response byte
    #[arg(long, value_name = "N", value_parser = whole::<u8>, default_value = "1", help_heading = "Upstreams")]
    pub retries: u8,

    /// Retries and failovers as a percentage of the requests sent to upstreams, plus 10 per second; 0 = unlimited
    #[arg(long, hide_short_help = true, value_name = "PERCENT", value_parser = whole::<u32>, default_value = "20", help_heading = "Upstreams")]
    pub retry_budget: u32,

    /// Do not forward Upgrade requests (WebSocket)
    #[arg(long, hide_short_help = true, help_heading = "Upstreams")]
    pub no_upgrades: bool,

    /// Abort a request when its client half-closes the connection before the response has begun
    #[arg(long, hide_short_help = true, help_heading = "Upstreams")]
    pub abort_on_close: bool,

    /// Maximum number of idle connections kept per upstream and thread
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "256", value_parser = units::size, help_heading = "Upstreams")]
    pool_idle: usize,

    /// Time after which an idle connection to an upstream is closed; choose it shorter than the upstream's own
    /// timeout
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "4s", value_parser = units::duration, help_heading = "Upstreams")]
    pool_timeout: Duration,

    /// Maximum number of requests on a connection to an upstream; then it is closed [default: unlimited]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = at_least_one, help_heading = "Upstreams")]
    pool_requests: Option<usize>,

    /// Size limit of a response's head (status line and headers), in bytes; larger ones get 502
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "65536", value_parser = at_least_one, help_heading = "Limits")]
    pub max_response_head: usize,

    /// Maximum number of headers in a response, at most 256; more get 502
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "256", value_parser = field_count, help_heading = "Limits")]
    max_response_headers: usize,

    /// PEM file of the certificate authorities that may sign upstream certificates; reloaded on SIGHUP [default:
    /// those of the system]
    #[arg(long, value_name = "FILE", help_heading = "Upstreams")]
    pub upstream_ca: Option<PathBuf>,

    /// Accept any certificate from upstreams; for testing only
    #[arg(long, hide_short_help = true, conflicts_with = "upstream_ca", help_heading = "Upstreams")]
    pub upstream_insecure: bool,

    /// PEM file of the client certificate for upstreams that request one; reloaded on SIGHUP
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = "Upstreams")]
    pub upstream_cert: Option<PathBuf>,

    /// Private key of --upstream-cert [default: read from the --upstream-cert file]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "upstream_cert", help_heading = "Upstreams")]
    pub upstream_key: Option<PathBuf>,
}

impl UpstreamFlags {
    /// Whether files define the trusted authorities, or the proxy's identity.
    pub fn has_tls_files(&self) -> bool {
        self.upstream_ca.is_some() || self.upstream_cert.is_some()
    }

    pub(super) fn host_rule(&self) -> HostRule {
        match self.host.as_str() {
            "keep" => HostRule::Keep,
            "upstream" => HostRule::Upstream,
            name => HostRule::Fixed(name.to_owned()),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            content_bytes_max: u64::MAX,
            head_bytes_max: self.max_response_head,
            field_count_max: self.max_response_headers,
            ..Limits::default()
        }
    }

    pub(super) fn pool(&self) -> Pool {
        Pool {
            idle_max: self.pool_idle,
            idle_timeout: self.pool_timeout,
            requests_max: self.pool_requests.map_or(u64::MAX, |requests| requests as u64),
        }
    }
}
