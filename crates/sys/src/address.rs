//! Addresses of stream sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use socket2::{Domain, SockAddr};

/// Where a stream socket listens, or connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    /// The path of a Unix domain socket.
    Unix(Arc<Path>),
}

impl Address {
    /// The prefix of the path of a Unix socket, as in nginx and HAProxy.
    pub const UNIX: &str = "unix:";

    /// The internet address; None: a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    pub(crate) fn domain(&self) -> Domain {
        match self {
            Self::Tcp(address) => Domain::for_address(*address),
            Self::Unix(_) => Domain::UNIX,
        }
    }

    pub(crate) fn socket_address(&self) -> io::Result<SockAddr> {
        match self {
            Self::Tcp(address) => Ok((*address).into()),
            Self::Unix(path) => SockAddr::unix(path),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self::Unix(path.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{}{}", Self::UNIX, path.display()),
        }
    }
}
