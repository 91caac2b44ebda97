//! Flags about the servers that a reverse proxy asks, and about the connections to servers of both kinds of proxy.

use std::path::PathBuf;
use std::time::Duration;

use breme_proxy::{HostRule, Pool};

use crate::load::units;
use crate::proxy::upstream::Upstream;
use crate::serving::at_least_one;

#[derive(Debug, clap::Args)]
pub struct UpstreamFlags {
    /// A server to ask: http://HOST:PORT or https://HOST:PORT; repeatable; ,weight=N behind it gives it a larger share,
    /// ,route=NAME is what --affinity follow calls it
    #[arg(long, value_name = "URL")]
    pub upstream: Vec<Upstream>,

    /// Host that upstreams are told: keep (what the client said), upstream (host and port of its URL), or a name
    #[arg(long, value_name = "RULE", default_value = "keep", help_heading = "Upstreams")]
    pub host: String,

    /// How often the names of upstreams are looked up again; 0 = never
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Upstreams")]
    pub resolve_interval: Duration,

    /// So often is a request sent again that may be, if its connection ended before any byte of an answer
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Upstreams")]
    pub retries: u8,

    /// Of a hundred requests so many may be sent again, or go to another upstream, since one failed (and 10 a second in
    /// any case); 0 = all
    #[arg(long, value_name = "PERCENT", default_value = "20", help_heading = "Upstreams")]
    pub retry_budget: u32,

    /// Do not pass on requests to speak another protocol on the connection (Upgrade, as for WebSocket)
    #[arg(long, help_heading = "Upstreams")]
    pub no_upgrades: bool,

    /// Give a request up when its client ends its side of the connection before the answer has begun (it may only have
    /// ended its sending)
    #[arg(long, help_heading = "Upstreams")]
    pub abort_on_close: bool,

    /// Idle connections to one upstream that each thread keeps
    #[arg(long, value_name = "N", default_value = "256", value_parser = units::size, help_heading = "Upstreams")]
    pool_idle: usize,

    /// Longer idle ones are closed: before the upstream does it
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = units::duration, help_heading = "Upstreams")]
    pool_timeout: Duration,

    /// Requests that one connection carries [default: any number]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Upstreams")]
    pool_requests: Option<usize>,

    /// Believe upstreams whose certificates these authorities (PEM) have signed; SIGHUP reads it again [default: those
    /// that this machine trusts]
    #[arg(long, value_name = "FILE", help_heading = "Upstreams")]
    pub upstream_ca: Option<PathBuf>,

    /// Believe every certificate of an upstream; for a laboratory
    #[arg(long, conflicts_with = "upstream_ca", help_heading = "Upstreams")]
    pub upstream_insecure: bool,

    /// Show upstreams that ask for one the certificate in this PEM file; SIGHUP reads it again
    #[arg(long, value_name = "FILE", help_heading = "Upstreams")]
    pub upstream_cert: Option<PathBuf>,

    /// Its key [default: it stands in the same file]
    #[arg(long, value_name = "FILE", requires = "upstream_cert", help_heading = "Upstreams")]
    pub upstream_key: Option<PathBuf>,
}

impl UpstreamFlags {
    /// Whether files say who is believed, or who the proxy is.
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

    pub(super) fn pool(&self) -> Pool {
        Pool {
            idle_max: self.pool_idle,
            idle_timeout: self.pool_timeout,
            requests_max: self.pool_requests.map_or(u64::MAX, |requests| requests as u64),
        }
    }
}
