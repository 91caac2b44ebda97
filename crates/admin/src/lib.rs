//! What a running command tells other programs: `--admin`, operational endpoints on an address of their own, and
//! messages that it pushes (`push`).
//!
//! | path | response |
//! |---|---|
//! | `/metrics` | metrics as Prometheus text, or as OpenMetrics if the request accepts that |
//! | `/health` | 200 while the process runs |
//! | `/ready` | 200 while it accepts requests, 503 while it shuts down or lacks something, such as its database |
//!
//! A role may add pages of its own ([`Api`]); those that change something require a token. Begin with
//! [`AdminListener`].
//!
//! It is a node on the `events` driver with a thread of its own, so that it responds when all threads of the server are
//! busy, and costs them nothing: each counts separately, and a request adds the counts up. It outlives the server's
//! drain.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]

mod api;
mod exposition;
mod maintenance;
mod metrics;
mod node;
#[cfg(target_os = "linux")]
pub mod push;
mod readiness;

use std::time::Duration;

pub use api::{AdminPage, AdminToken, Api, Call};
use breme_driver::{
    Address, BindError, Clock, CounterReader, DriverHandle, DriverKind, DriverSettings, Listener, StartError, start,
};
pub use maintenance::{CertificateExpiry, Maintenance, ReloadStatus};
use metrics::ConnectionMetrics;
pub use metrics::{Buckets, Families, Label, ProcessMetrics, exposition_of, metric_names, refusal_name};
use node::AdminNode;
use prometheus_client::collector::Collector;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
pub use readiness::Readiness;

/// Descriptors that it may need: its connections, listener, poll and waker.
pub const DESCRIPTORS: u64 = node::CONNECTIONS_MAX as u64 + 8;

/// The metrics of a server: of its process, its connections, and its role.
pub fn registry(
    role: &str,
    kind: DriverKind,
    process: ProcessMetrics,
    counting: CounterReader,
    maintenance: Maintenance,
    own: Box<dyn Collector>,
) -> Registry {
    let build = [("role", role.to_owned()), ("driver", kind.to_string()), version()];
    let collectors: [Box<dyn Collector>; 3] = [Box::new(maintenance), Box::new(ConnectionMetrics::new(counting)), own];
    registry_of(process, "Role, driver and version of this program", build.to_vec(), collectors)
}

/// The same for a server without a driver.
pub fn application_registry<const N: usize>(
    role: &str,
    process: ProcessMetrics,
    own: [Box<dyn Collector>; N],
) -> Registry {
    let build = [("role", role.to_owned()), version()];
    registry_of(process, "Role and version of this program", build.to_vec(), own)
}

fn version() -> (&'static str, String) {
    ("version", env!("CARGO_PKG_VERSION").to_owned())
}

fn registry_of<const N: usize>(
    process: ProcessMetrics,
    help: &str,
    build: Vec<(&'static str, String)>,
    own: [Box<dyn Collector>; N],
) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process));
    let ours = registry.sub_registry_with_prefix("breme");
    ours.register("build", help, Info::new(build));
    own.into_iter().for_each(|collector| ours.register_collector(collector));
    registry
}

/// Why the admin server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("--admin: {0}")]
    Bind(#[source] BindError),
    #[error("{0}")]
    Start(#[source] StartError),
}

/// Bound, but not accepting yet: clients wait in the backlog.
#[derive(Debug)]
pub struct AdminListener(Listener);

impl AdminListener {
    /// Listens at the address of `--admin`; port 0 selects a free one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: Address) -> Result<Self, AdminError> {
        Listener::bind(address, &settings(Vec::new())).map(Self).map_err(AdminError::Bind)
    }

    /// The bound address.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Starts to serve, on one of `cpus` if there are any. `/metrics` has the contents of `registry`.
    ///
    /// # Errors
    /// The driver cannot start.
    pub fn start(
        self,
        clock: Clock,
        cpus: Vec<usize>,
        registry: Registry,
        readiness: Readiness,
        api: Option<(Box<dyn Api>, AdminToken)>,
    ) -> Result<Admin, AdminError> {
        let address = self.address().clone();
        let mut admin_node = Some(AdminNode::new(clock.wall_clock(), registry, readiness, api));
        let node = |_| admin_node.take().expect("there is one shard");
        let driver =
            start(DriverKind::Events, vec![self.0], &settings(cpus), clock, node).map_err(AdminError::Start)?;
        Ok(Admin { driver, address })
    }
}

fn settings(cpus: Vec<usize>) -> DriverSettings {
    DriverSettings {
        threads: 1,
        cpus,
        connections_max: node::CONNECTIONS_MAX,
        // A client that still sends a body that is too large must be able to read the 413.
        closing_bytes_max: 4 * node::CONTENT_BYTES_MAX,
        send_timeout: Duration::from_secs(10),
        backlog: 128,
        ..DriverSettings::default()
    }
}

/// The running admin server.
#[derive(Debug)]
pub struct Admin {
    driver: DriverHandle<AdminNode>,
    address: Address,
}

impl Admin {
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Stops serving.
    pub fn end(self) {
        self.driver.stopper().abort();
        // If it panicked, the server continued without it, and stops normally.
        drop(self.driver.join());
    }
}
