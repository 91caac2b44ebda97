//! All nodes in this process.

use std::net::SocketAddr;

use breme_admin::{AdminListener, ProcessMetrics, Readiness};
use breme_command::failure::Failure;
use breme_command::server::Tls;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::super::arguments::{ROLE, SessionArgs};
use super::super::engine::Opened;
use super::super::host::{Ending, Host, NodeProperties, maintain, transformer};
use super::super::metrics::registry;
use super::super::secrets::{self, Secrets};
use super::director::is_true;
use super::front::{Front, end_signal, wait_for_nodes};
use super::hangups::Hangups;
use super::node_place::{NodePlace, node_name};

/// Runs the nodes on one engine.
pub(crate) async fn serve_together(args: &SessionArgs, count: usize) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    // The certificate of the nodes is reloaded by `maintain`.
    let hangups = Hangups::catch(args)?;
    let places = args.node_places(count)?;
    let tls = Tls::from_flags(ROLE, &args.tls, &places)?;
    let admin = args.admin()?.map(AdminListener::bind).transpose()?;
    let opened = Opened::new(args).await?;
    let keys = secrets::cookie_keys(args)?;
    let peers = secrets::peers_of(secrets::random_secret()?.as_bytes())?;
    let transformer = transformer(args)?;
    let readiness = Readiness::starting();
    let mut hosts = Vec::new();
    for (number, place) in (1..).zip(places) {
        let properties = NodeProperties {
            name: node_name(number)?,
            places: vec![place],
            tls: tls.as_ref(),
            peer_place: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            transformer: transformer.clone(),
            secrets: Secrets { peers: peers.clone(), keys: keys.clone() },
        };
        // The readiness of one applies to all: they share an engine.
        hosts.push(Host::start(args, properties, opened.clone(), readiness.clone())?);
    }
    drop(opened);
    let nodes = hosts.iter().map(|host| host.node().clone()).collect();
    let registry = registry(process, maintain(tls, None)?, nodes);
    let is_ending = end_signal(readiness.clone())?;
    let front = Front::start(args, admin, registry, readiness, hangups)?;
    wait_for_nodes(join_all(hosts.iter().map(|host| host.node().joined())), is_ending.clone()).await;
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
    front.serve(&places, is_ending).await?;
    let _ = stop_nodes.send(true);
    if !serving.await.into_iter().all(|is_complete| is_complete.unwrap_or(false)) {
        breme_base::error_line!("breme session: some requests were aborted after --drain-timeout");
    }
    Ok(())
}
