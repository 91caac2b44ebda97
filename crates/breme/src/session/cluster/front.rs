//! What is in front of the nodes: the director and the admin server, until the cluster is to end.

use std::time::Duration;

use breme_admin::{Admin, AdminListener, Readiness};
use breme_command::failure::Failure;
use breme_command::server::announce;
use breme_command::server::application::ending;
use breme_driver::Clock;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::arguments::SessionArgs;
use super::director::{Director, is_true};
use super::hangups::Hangups;
use super::node_place::{NodePlace, announce_nodes};

/// How long the nodes of a new cluster may take to join it before clients are accepted.
const JOIN_TIME: Duration = Duration::from_secs(10);

/// Becomes true when the cluster is to end.
pub(super) fn end_signal(readiness: Readiness) -> Result<watch::Receiver<bool>, Failure> {
    let end = ending(readiness)?;
    let (ends, is_ending) = watch::channel(false);
    tokio::spawn(async move {
        end.await;
        let _ = ends.send(true);
    });
    Ok(is_ending)
}

/// Waits for the nodes, so that no client's first request does. Ends with the cluster.
pub(super) async fn wait_for_nodes(joined: impl Future, is_ending: watch::Receiver<bool>) {
    tokio::select! {
        joined = timeout(JOIN_TIME, joined) => if joined.is_err() {
            breme_base::error_line!("breme session: some nodes have not joined the cluster yet; requests to them wait");
        },
        () = is_true(is_ending) => {}
    }
}

/// The admin server, and the director's inputs.
pub(super) struct Front<'a> {
    args: &'a SessionArgs,
    admin: Option<Admin>,
    readiness: Readiness,
    hangups: Hangups,
}

impl<'a> Front<'a> {
    /// Starts the admin server: before the nodes have joined, so that probes get a response meanwhile.
    pub(super) fn start(
        args: &'a SessionArgs,
        admin: Option<AdminListener>,
        registry: Registry,
        readiness: Readiness,
        hangups: Hangups,
    ) -> Result<Self, Failure> {
        let start = |admin: AdminListener| admin.start(Clock::start(), Vec::new(), registry, readiness.clone(), None);
        Ok(Self { args, admin: admin.map(start).transpose()?, readiness, hangups })
    }

    /// Runs the director until the cluster is to end, and waits for its exit.
    pub(super) async fn serve(self, nodes: &[NodePlace], is_ending: watch::Receiver<bool>) -> Result<(), Failure> {
        let Self { args, admin, readiness, hangups } = self;
        let director = Director::start(args, nodes).await?;
        readiness.set_started();
        announce(admin.as_ref(), director.places());
        announce_nodes(nodes);
        director.keep(is_ending, hangups).await;
        admin.into_iter().for_each(Admin::end);
        Ok(())
    }
}
