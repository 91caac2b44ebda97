//! A node with its listeners and its applications.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use breme_admin::{Maintenance, Readiness, ReloadStatus};
use breme_axum_server::{Application, Incoming, Limits, Listener, Response, Router, serve};
use breme_cluster::applications;
use breme_cluster::layer::{ClientAddress, Cookies, SessionLayer};
use breme_cluster::node::{Membership, Node};
use breme_cluster::peers;
use breme_cluster::xsl::{Transformer, TransformerLimits};
use breme_command::failure::Failure;
use breme_command::server::application::listen;
use breme_command::server::{ListenPlace, Reloading, Tls};
use breme_session::{Event, NodeName};
use http::Request;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout_at};

use super::arguments::SessionArgs;
use super::engine::Opened;
use super::peer_identity::PeerIdentity;
use super::secrets::Secrets;
use super::supervisor::Supervisor;

/// Interval between checks of a node's lease and sessions.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Least time limit for leaving the cluster, one write to the engine, after `--drain-timeout` has passed.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Properties of one node, in addition to the flags of all.
pub(super) struct NodeProperties<'a> {
    pub(super) name: NodeName,
    /// Where it listens for clients, and with which certificate.
    pub(super) places: Vec<ListenPlace>,
    pub(super) tls: Option<&'a Tls>,
    /// Where it listens for other nodes, if there are any.
    pub(super) peer_place: Option<SocketAddr>,
    /// Shared by the nodes of a process, whose transformations compete for the same CPUs.
    pub(super) transformer: Option<Arc<Transformer>>,
    pub(super) secrets: Secrets,
}

/// The scope of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// One node, whose sessions are handed over to other nodes.
    Node,
    /// The only node, or all.
    Cluster,
}

/// A serving node.
pub(super) struct Host {
    node: Node,
    router: Router,
    listeners: Vec<Listener>,
    places: Vec<ListenPlace>,
    limits: Limits,
    drain_timeout: Duration,
}

impl Host {
    /// Starts a node on the current runtime. It joins the cluster, and other nodes reach it; clients wait for
    /// [`Host::serve`].
    pub(super) fn start(
        args: &SessionArgs,
        properties: NodeProperties<'_>,
        opened: Opened,
        readiness: Readiness,
    ) -> Result<Self, Failure> {
        let NodeProperties { name, places, tls, peer_place, transformer, secrets: Secrets { peers: trust, keys } } =
            properties;
        let limits = args.limits()?;
        let peer_listener = peer_place.map(listen_for_peers).transpose()?;
        let address = match (&args.peer_address, &peer_listener) {
            (Some(address), _) => address.clone(),
            (None, Some((_, address))) => address.to_string(),
            // Never used.
            (None, None) => "127.0.0.1:1".to_owned(),
        };
        let (listeners, places) = listen(places, tls)?;
        let Opened { engine, ended } = opened;
        let node = Node::start(args.settings(address)?, name, engine, trust).map_err(Failure::usage)?;
        for (name, nonce) in ended {
            node.exited(name, nonce);
        }
        let layer = SessionLayer::new(node.clone(), Cookies::new(keys, args.has_secure_cookies()))
            .with_forward_time(args.wait());
        let router = applications::router(layer, transformer);
        if let Some((listener, _)) = peer_listener {
            tokio::spawn(peers::serve(listener, node.clone(), router.clone()));
        }
        tokio::spawn(report(node.name().to_string(), node.events()));
        tokio::spawn(watch(node.clone(), readiness, args.supervised));
        Ok(Self { node, router, listeners, places, limits, drain_timeout: args.drain_timeout() })
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Where it listens for clients.
    pub(super) fn places(&self) -> &[ListenPlace] {
        &self.places
    }

    /// Serves clients until `end`; then hands the sessions over, finishes requests in progress, and leaves the cluster.
    /// Returns whether that was done in time.
    pub(super) async fn serve(self, end: impl Future<Output = Ending>) -> bool {
        let Self { node, router, listeners, limits, drain_timeout, .. } = self;
        let mut deadline = Instant::now();
        let drained = async {
            let ending = end.await;
            deadline = Instant::now() + drain_timeout;
            if ending == Ending::Node {
                // Meanwhile clients are served by the nodes that receive their sessions.
                node.drain();
                let _ = timeout_at(deadline, gave_all_away(&node)).await;
            }
            deadline
        };
        let is_finished = serve(listeners, Clients(router), limits, drained).await;
        node.leave();
        let mut membership = node.membership();
        let has_left = membership.wait_for(|membership| *membership == Membership::Left);
        timeout_at(deadline.max(Instant::now() + LEAVE_TIME), has_left).await.is_ok() && is_finished
    }
}

/// The applications, for requests from clients: adds the client address, for nodes that receive them later.
#[derive(Clone)]
struct Clients(Router);

impl Application for Clients {
    async fn respond(&self, mut request: Request<Incoming>, client: IpAddr) -> Response {
        request.extensions_mut().insert(ClientAddress(client));
        self.0.respond(request, client).await
    }
}

async fn gave_all_away(node: &Node) {
    while node.gauges().owned > 0 {
        sleep(LOOK_EVERY).await;
    }
}

/// The transformer of the nodes of this process, if `--xsl` names a folder.
pub(super) fn transformer(args: &SessionArgs) -> Result<Option<Arc<Transformer>>, Failure> {
    let new = |folder: &std::path::PathBuf| {
        let transformer = Transformer::new(folder, TransformerLimits::default());
        transformer.map(Arc::new).map_err(|error| Failure::run(format!("--xsl: {error}")))
    };
    args.xsl.as_ref().map(new).transpose()
}

fn listen_for_peers(place: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bind = || {
        let listener = std::net::TcpListener::bind(place)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((TcpListener::from_std(listener)?, address))
    };
    bind().map_err(|error: std::io::Error| Failure::run(format!("--peer-listen {place}: {error}")))
}

/// Prints events for operators.
async fn report(name: String, mut events: broadcast::Receiver<Event>) {
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => return,
        };
        match event {
            Event::Joined(incarnation) => {
                breme_base::error_line!(
                    "breme session: {name} joined the cluster (incarnation {})",
                    incarnation.number
                );
            }
            Event::Fenced(incarnation) => breme_base::error_line!(
                "breme session: {name}: another node fenced incarnation {}, because its lease was not renewed in time; rejoining",
                incarnation.number
            ),
            Event::FencedPeer(owner) => {
                breme_base::error_line!(
                    "breme session: {name} fenced incarnation {} of {}, and serves its sessions",
                    owner.incarnation.number,
                    owner.node
                );
            }
            Event::DataLost(incarnation) => breme_base::error_line!(
                "breme session: {name}: the engine has lost what incarnation {} stored; joining again, without its sessions",
                incarnation.number
            ),
            Event::NameTaken { address } => breme_base::error_line!(
                "breme session: {name}: another process, at {address}, has this name and is alive; give each node a --name of its own"
            ),
            Event::Damaged(register) => {
                breme_base::error_line!(
                    "breme session: {name}: the engine's register {register} is damaged, or older than before"
                );
            }
            Event::Left => breme_base::error_line!("breme session: {name} left the cluster"),
        }
    }
}

/// Reports what the node lacks: its membership, or its lease.
async fn watch(node: Node, readiness: Readiness, is_supervised: bool) {
    let mut was_ready = false;
    loop {
        let is_member = matches!(*node.membership().borrow(), Membership::Member(_));
        let lack = if !is_member {
            Some("the node is not a member of the cluster")
        } else if node.gauges().lease_margin.is_zero() {
            Some("the engine does not renew the node's lease")
        } else {
            None
        };
        let is_ready = lack.is_none();
        match lack {
            Some(lack) if was_ready => {
                breme_base::error_line!("breme session: {}: {lack}; /ready returns 503", node.name());
            }
            None if !was_ready => breme_base::error_line!("breme session: {} is ready", node.name()),
            _ => {}
        }
        if is_supervised && is_ready != was_ready {
            Supervisor::report(is_ready);
        }
        was_ready = is_ready;
        readiness.set_lack(lack.map(str::to_owned));
        sleep(LOOK_EVERY).await;
    }
}

/// Reports the certificates for clients and for other nodes, and reloads them on SIGHUP.
pub(super) fn maintain(tls: Option<Tls>, peer_identity: Option<PeerIdentity>) -> Result<Maintenance, Failure> {
    let mut maintenance = Maintenance::default();
    let mut for_clients = None;
    if let Some(Tls { expiry, reloading, .. }) = tls {
        maintenance.certificates.push(("clients", expiry));
        for_clients = reloading;
    }
    if let Some(peer_identity) = &peer_identity {
        maintenance.certificates.push(("nodes", peer_identity.expiry.clone()));
    }
    if for_clients.is_some() || peer_identity.is_some() {
        reload_on_hangup(for_clients, peer_identity, maintenance.reloads.clone())?;
    }
    Ok(maintenance)
}

fn reload_on_hangup(
    mut for_clients: Option<Reloading>,
    mut for_nodes: Option<PeerIdentity>,
    status: ReloadStatus,
) -> Result<(), Failure> {
    let hangups = signal(SignalKind::hangup());
    let mut hangups = hangups.map_err(|error| Failure::run(format!("cannot catch signals: {error}")))?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            // The files may be on a network mount that does not respond.
            let succeeded = tokio::task::block_in_place(|| {
                [
                    for_clients.as_mut().is_none_or(Reloading::reload),
                    for_nodes.as_mut().is_none_or(PeerIdentity::reload),
                ]
            });
            status.record(succeeded == [true; 2]);
        }
    });
    Ok(())
}
