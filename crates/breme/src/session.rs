//! `breme session`: converts flags to the settings of a node of a session cluster, and runs it on hyper and tokio.
//!
//! | module | content |
//! |---|---|
//! | `arguments` | the flags |
//! | `engine`, `secrets`, `peer_identity` | the store of sessions; keys of cookies, and authentication among nodes |
//! | `host` | a node with its listeners and applications |
//! | `cluster`, `supervisor` | `--nodes`: several nodes and a director; the protocol between its processes |
//! | `metrics` | metrics at `--admin` |

mod arguments;
mod cluster;
mod engine;
mod host;
mod metrics;
mod peer_identity;
mod secrets;
mod supervisor;

use std::process::ExitCode;

use arguments::{EngineChoice, ROLE};
pub use arguments::{SessionArgs, command};
use breme_admin::{Admin, AdminListener, ProcessMetrics, Readiness};
use breme_cluster::node::Node;
use breme_driver::Clock;
use engine::Opened;
use host::{Ending, Host, NodeProperties};
use metrics::registry;
use peer_identity::PeerIdentity;
use secrets::Secrets;
use supervisor::Supervisor;

use breme_command::configuration;
use breme_command::failure::{Failure, exit};
use breme_command::server::application::{ending, runtime};
use breme_command::server::{Tls, announce};

#[expect(clippy::needless_pass_by_value, reason = "the command line is ours for good")]
pub fn run(args: SessionArgs) -> ExitCode {
    exit(ROLE, carry_out(&args).map(|()| ExitCode::SUCCESS))
}

fn carry_out(args: &SessionArgs) -> Result<(), Failure> {
    let Some((matches, args)) = args.configuration.in_force::<SessionArgs>(&command())? else { return Ok(()) };
    args.check()?;
    let runtime = runtime(ROLE, args.threads)?;
    let ended = match (args.nodes, &args.engine) {
        _ if args.supervised => runtime.block_on(serve_supervised(&args)),
        (None, _) => runtime.block_on(serve_alone(&args)),
        (Some(count), EngineChoice::Embedded(_)) => runtime.block_on(cluster::serve_together(&args, count)),
        (Some(count), EngineChoice::Nats(_)) => {
            let configuration = configuration::print(&command(), &matches);
            runtime.block_on(cluster::serve_processes(&args, count, &configuration))
        }
    };
    // Remaining tasks are irrelevant.
    runtime.shutdown_background();
    ended
}

impl SessionArgs {
    /// Checks the certificate for clients, if its name is known yet.
    pub fn check_files(&self) -> Result<(), Failure> {
        self.tls.check_files()
    }
}

/// Serves as a node that nothing supervises.
async fn serve_alone(args: &SessionArgs) -> Result<(), Failure> {
    let peer_identity = PeerIdentity::new(args)?;
    let secrets = Secrets::new(args, peer_identity.as_ref().map(|peer| &peer.tls))?;
    serve_node(args, secrets, peer_identity, None).await
}

/// Serves as a node that is a process of `--nodes`.
async fn serve_supervised(args: &SessionArgs) -> Result<(), Failure> {
    let (supervisor, secrets) = Supervisor::listen(args).await?;
    serve_node(args, secrets, None, Some(supervisor)).await
}

/// Serves as one node, possibly started by a supervisor.
async fn serve_node(
    args: &SessionArgs,
    secrets: Secrets,
    peer_identity: Option<PeerIdentity>,
    supervisor: Option<Supervisor>,
) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let places = args.places()?;
    let tls = Tls::from_flags(ROLE, &args.tls, &places)?;
    let admin = args.admin()?.map(AdminListener::bind).transpose()?;
    let opened = Opened::new(args).await?;
    let readiness = Readiness::default();
    let properties = NodeProperties {
        name: args.name,
        places,
        tls: tls.as_ref(),
        peer_place: args.peer_place()?,
        transformer: host::transformer(args)?,
        secrets,
    };
    let host = Host::start(args, properties, opened, readiness.clone())?;
    // Before the addresses are printed: a signal after that is handled.
    let end = ending(readiness.clone())?;
    if supervisor.is_some() {
        Supervisor::introduce(host.node());
    }
    let registry = registry(process, host::maintain(tls, peer_identity)?, vec![host.node().clone()]);
    let admin = admin.map(|admin| admin.start(Clock::start(), Vec::new(), registry, readiness, None)).transpose()?;
    announce(admin.as_ref(), host.places());
    let end = end_of(args, host.node().clone(), end, supervisor);
    let is_complete = host.serve(end).await;
    admin.into_iter().for_each(Admin::end);
    if !is_complete {
        breme_base::error_line!(
            "breme session: some requests were aborted, or sessions not handed over, after --drain-timeout"
        );
    }
    Ok(())
}

/// Ends with a signal, which concerns this node, or with its supervisor, which concerns all.
async fn end_of(
    args: &SessionArgs,
    node: Node,
    signal: impl Future<Output = ()>,
    supervisor: Option<Supervisor>,
) -> Ending {
    let supervised = async {
        match supervisor {
            Some(supervisor) => supervisor.follow(node).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = signal => match &args.engine {
            EngineChoice::Embedded(_) => Ending::Cluster,
            EngineChoice::Nats(_) => Ending::Node,
        },
        () = supervised => Ending::Cluster,
    }
}
