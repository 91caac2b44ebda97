//! `--admin`: what a server tells those who run it, on an address of its own.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | metrics as Prometheus text, or as OpenMetrics if the request accepts that |
//! | `/health` | 200 while the process runs |
//! | `/ready` | 200 while it accepts requests, 503 while it shuts down or lacks its database |
//!
//! A role may add pages of its own ([`Api`]); those that change something need a token.
//!
//! It is a node on the `events` driver with one thread for itself, so that it answers when the server's own threads are
//! all busy, and costs them nothing: they count in places of their own, which are added up when somebody asks. It
//! outlives the server's drain.

mod api;
mod exposition;
mod maintenance;
mod metrics;
mod node;
mod readiness;

use std::net::SocketAddr;
use std::time::Duration;

pub use api::{Api, Call, Page, Token};
use breme_driver::{Clock, Counting, Kind, Listener, Running, Settings, StartError, start};
pub use maintenance::{CertificateExpiry, Maintenance, ReloadStatus};
use metrics::ConnectionMetrics;
pub use metrics::{Buckets, Families, Label, ProcessMetrics, refusal_name};
use node::Attendant;
use prometheus_client::collector::Collector;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
pub use readiness::Readiness;

use crate::failure::Failure;

/// Descriptors that it may need: its connections, listener, poll and waker.
pub const DESCRIPTORS: u64 = node::CONNECTIONS_MAX as u64 + 8;

/// What a server tells at `/metrics`: of its process and its connections, and what its role has counted.
pub fn registry(
    role: &str,
    kind: Kind,
    process: ProcessMetrics,
    counting: Counting,
    maintenance: Maintenance,
    own: Box<dyn Collector>,
) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process));
    let ours = registry.sub_registry_with_prefix("breme");
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let build = [("role", role.to_owned()), ("driver", kind.to_string()), ("version", version)];
    ours.register("build", "Role, driver and version of this program", Info::new(build.to_vec()));
    ours.register_collector(Box::new(maintenance));
    ours.register_collector(Box::new(ConnectionMetrics::new(counting)));
    ours.register_collector(own);
    registry
}

/// Its address, before anybody is served. Who connects waits.
#[derive(Debug)]
pub struct AdminListener(Listener);

impl AdminListener {
    /// Listens at the address that `--admin` names; port 0 chooses a free one.
    pub fn bind(address: SocketAddr) -> Result<Self, Failure> {
        let listener = Listener::bind(address, &settings(Vec::new()));
        listener.map(Self).map_err(|error| Failure::run(format!("--admin: {error}")))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Begins to answer, on one of `cpus` if there are any. What is in `registry` is told at `/metrics`.
    pub fn start(
        self,
        clock: Clock,
        cpus: Vec<usize>,
        registry: Registry,
        readiness: Readiness,
        api: Option<(Box<dyn Api>, Token)>,
    ) -> Result<Admin, StartError> {
        let mut attendant = Some(Attendant::new(clock.wall_clock(), registry, readiness, api));
        let node = |_| attendant.take().expect("there is one shard");
        start(Kind::Events, vec![self.0], &settings(cpus), clock, node).map(Admin)
    }
}

fn settings(cpus: Vec<usize>) -> Settings {
    Settings {
        threads: 1,
        cpus,
        connections_max: node::CONNECTIONS_MAX,
        closing_timeout: Duration::from_secs(1),
        closing_bytes_max: 64 * 1024,
        send_timeout: Duration::from_secs(10),
        backlog: 128,
        ..Settings::default()
    }
}

/// At work, until it is ended.
#[derive(Debug)]
pub struct Admin(Running<Attendant>);

impl Admin {
    /// Answers no more.
    pub fn end(self) {
        self.0.stopper().abort();
        // If it panicked, the server went on without it, and ends as if nothing had been.
        drop(self.0.join());
    }
}
