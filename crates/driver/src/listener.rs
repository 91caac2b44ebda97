//! Listening sockets. They are bound before the driver starts, so that a program can report errors and its port early.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};

use crate::DriverSettings;
use crate::tls::ServerTls;

/// A listening socket. Connections that arrive before the driver's start wait in the backlog.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<ServerTls>,
}

impl Listener {
    /// Port 0 selects a free port.
    ///
    /// # Errors
    /// If the address cannot be bound; the message contains the remedy.
    pub fn bind(address: SocketAddr, settings: &DriverSettings) -> Result<Self, BindError> {
        let socket = breme_sys::listen(address, settings.backlog).map_err(|source| BindError { address, source })?;
        let address = socket.local_addr().map_err(|source| BindError { address, source })?;
        Ok(Self { socket, address, tls: None })
    }

    #[must_use]
    pub fn secured_by(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// The address, with the selected port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `count` sockets on this address; the first is this one.
    pub(crate) fn into_sockets(self, count: usize, settings: &DriverSettings) -> io::Result<Vec<TcpListener>> {
        let mut sockets = Vec::with_capacity(count);
        for _ in 1..count {
            sockets.push(breme_sys::listen_beside(&self.socket, settings.backlog)?);
        }
        sockets.insert(0, self.socket);
        Ok(sockets)
    }

    pub(crate) fn into_socket(self) -> TcpListener {
        self.socket
    }
}

#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, source } = self;
        let (ip, port) = (address.ip(), address.port());
        write!(formatter, "cannot listen on {address}: ")?;
        match source.kind() {
            io::ErrorKind::AddrInUse => write!(
                formatter,
                "port {port} is in use by another program; stop that program (`ss -ltnp` shows it) or choose another port"
            ),
            io::ErrorKind::PermissionDenied => write!(
                formatter,
                "ports below 1024 require a privilege; choose a higher port, or give the program CAP_NET_BIND_SERVICE"
            ),
            io::ErrorKind::AddrNotAvailable => {
                write!(formatter, "{ip} is not an address of this machine; `ip address` shows those that are")
            }
            _ => write!(formatter, "{source}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn message(address: SocketAddr) -> String {
        Listener::bind(address, &DriverSettings::default()).unwrap_err().to_string()
    }

    #[test]
    fn bind_error_names_port_in_use() {
        let first = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &DriverSettings::default()).unwrap();
        let taken = message(first.address());
        assert!(taken.contains(&first.address().to_string()) && taken.contains("in use"), "{taken}");
    }

    #[test]
    fn bind_error_names_foreign_address() {
        // Reserved for documentation (RFC 5737).
        let foreign = message(([192, 0, 2, 1], 0).into());
        assert!(foreign.contains("192.0.2.1 is not an address of this machine"), "{foreign}");
    }
}
