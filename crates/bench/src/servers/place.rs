//! Where a peer runs, and with room for how much.

use std::net::SocketAddr;
use std::path::Path;

use crate::workbench::Certificate;

/// Where a peer runs, and what for.
pub(super) struct Place<'a> {
    pub(super) folder: &'a Path,
    pub(super) pages: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) connections: usize,
    pub(super) certificate: Option<&'a Certificate>,
    /// Whom a proxy asks.
    pub(super) upstream: Option<SocketAddr>,
}

/// Connections beyond those of the load: the checks', the listener.
pub(crate) const CONNECTIONS_SPARE: usize = 100;
/// What the one that counts worst, lighttpd, wants for a connection.
pub(crate) const DESCRIPTORS_PER_CONNECTION: usize = 2;
