//! `--nodes`: a whole cluster on this machine, with a director in front.
//!
//! The director is a process of `breme proxy` that follows the route part of the session's cookie. With an engine in a
//! folder, which only one process may open, the nodes are in this process. Otherwise each is a process of its own
//! (`supervised`): when one exits, the others are notified at once, and it is restarted at its address.

mod director;
mod processes;
mod program;

use std::io::Write;
use std::net::SocketAddr;

use breme_admin::{Admin, AdminListener, ProcessMetrics, Readiness};
use breme_command::failure::Failure;
use breme_command::serving::application::ending;
use breme_command::serving::{ListenPlace, Tls, announce};
use breme_driver::Clock;
use breme_session::NodeName;
use director::Director;
use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::arguments::{ROLE, SessionArgs};
use super::engine::Opened;
use super::host::{Ending, Host, NodeProperties, maintain};
use super::metrics::registry;
use super::secrets::{self, Secrets};

pub(super) use processes::serve_processes;

pub(super) struct NodePlace {
    pub(super) name: NodeName,
    pub(super) place: ListenPlace,
    /// Of a node that is a process of its own.
    pub(super) process: Option<u32>,
    pub(super) admin: Option<SocketAddr>,
}

impl NodePlace {
    /// Of a node of this process, which has one address.
    fn from_host(host: &Host) -> Option<Self> {
        let place = host.places().first()?.clone();
        Some(Self { name: host.node().name(), place, process: None, admin: None })
    }
}

fn node_name(number: usize) -> Result<NodeName, Failure> {
    NodeName::new(&format!("n{number}")).map_err(Failure::run)
}

/// One line per node, after those of every server.
fn announce_nodes(nodes: &[NodePlace]) {
    let mut output = std::io::stdout().lock();
    for NodePlace { name, place, process, admin } in nodes {
        let _ = write!(output, "node {name} on {place}");
        let _ = process.map(|process| write!(output, ", process {process}"));
        let _ = admin.map(|admin| write!(output, ", metrics on http://{admin}/metrics"));
        let _ = writeln!(output);
    }
    let _ = output.flush();
}

/// Becomes true when the cluster is to end.
fn end_signal(readiness: Readiness) -> Result<watch::Receiver<bool>, Failure> {
    let end = ending(readiness)?;
    let (ends, is_ending) = watch::channel(false);
    tokio::spawn(async move {
        end.await;
        let _ = ends.send(true);
    });
    Ok(is_ending)
}

async fn is_true(mut signal: watch::Receiver<bool>) {
    // Without a sender the cluster has ended.
    let _ = signal.wait_for(|is_true| *is_true).await;
}

/// All nodes in this process, on one engine.
pub(super) async fn serve_together(args: &SessionArgs, count: usize) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let places = args.node_places(count)?;
    let tls = Tls::from_flags(ROLE, &args.tls, &places)?;
    let admin = args.admin()?.map(AdminListener::bind).transpose()?;
    let opened = Opened::new(args).await?;
    let keys = secrets::cookie_keys(args)?;
    let peers = secrets::peers_of(secrets::random_secret()?.as_bytes())?;
    let readiness = Readiness::default();
    let mut hosts = Vec::new();
    for (number, place) in (1..).zip(places) {
        let properties = NodeProperties {
            name: node_name(number)?,
            places: vec![place],
            tls: tls.as_ref(),
            peer_place: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            secrets: Secrets { peers: peers.clone(), keys: keys.clone() },
        };
        // The readiness of one applies to all: they share an engine.
        hosts.push(Host::start(args, properties, opened.clone(), readiness.clone())?);
    }
    drop(opened);
    let nodes = hosts.iter().map(|host| host.node().clone()).collect();
    let registry = registry(process, maintain(tls, None)?, nodes);
    let is_ending = end_signal(readiness.clone())?;
    let places: Vec<_> = hosts.iter().filter_map(NodePlace::from_host).collect();
    let (stop_nodes, nodes_stop) = watch::channel(false);
    let serving = hosts.into_iter().map(|host| {
        let stop = nodes_stop.clone();
        tokio::spawn(host.serve(async {
            is_true(stop).await;
            Ending::Cluster
        }))
    });
    let serving = join_all(serving.collect::<Vec<_>>());
    let front = Front { args, admin, registry, readiness };
    front.serve(&places, is_ending).await?;
    let _ = stop_nodes.send(true);
    if !serving.await.into_iter().all(|is_complete| is_complete.unwrap_or(false)) {
        eprintln!("breme session: some requests were aborted after --drain-timeout");
    }
    Ok(())
}

/// The director's inputs.
struct Front<'a> {
    args: &'a SessionArgs,
    admin: Option<AdminListener>,
    registry: Registry,
    readiness: Readiness,
}

impl Front<'_> {
    /// Runs the director until the cluster is to end, and waits for its exit.
    async fn serve(self, nodes: &[NodePlace], is_ending: watch::Receiver<bool>) -> Result<(), Failure> {
        let Self { args, admin, registry, readiness } = self;
        let director = Director::start(args, nodes).await?;
        let admin_address = admin.as_ref().map(|admin| admin.address().clone());
        let admin =
            admin.map(|admin| admin.start(Clock::start(), Vec::new(), registry, readiness, None)).transpose()?;
        announce(admin_address, director.places());
        announce_nodes(nodes);
        director.keep(is_ending).await;
        admin.into_iter().for_each(Admin::end);
        Ok(())
    }
}
