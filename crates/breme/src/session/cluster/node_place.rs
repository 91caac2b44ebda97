//! The nodes of a cluster, and where they serve.

use std::io::Write;
use std::net::SocketAddr;

use breme_command::failure::Failure;
use breme_command::server::ListenPlace;
use breme_session::NodeName;

use super::super::host::Host;

/// Where a node serves.
pub(super) struct NodePlace {
    pub(super) name: NodeName,
    pub(super) place: ListenPlace,
    /// Of a node that is a process of its own.
    pub(super) process: Option<u32>,
    pub(super) admin: Option<SocketAddr>,
}

impl NodePlace {
    /// Of a node of this process, which has one address.
    pub(super) fn from_host(host: &Host) -> Option<Self> {
        let place = host.places().first()?.clone();
        Some(Self { name: host.node().name(), place, process: None, admin: None })
    }
}

pub(super) fn node_name(number: usize) -> Result<NodeName, Failure> {
    NodeName::new(&format!("n{number}")).map_err(Failure::run)
}

/// One line per node, after those of every server.
pub(super) fn announce_nodes(nodes: &[NodePlace]) {
    let mut output = std::io::stdout().lock();
    for NodePlace { name, place, process, admin } in nodes {
        let _ = write!(output, "node {name} on {place}");
        let _ = process.map(|process| write!(output, ", process {process}"));
        let _ = admin.map(|admin| write!(output, ", metrics on http://{admin}/metrics"));
        let _ = writeln!(output);
    }
    let _ = output.flush();
}
