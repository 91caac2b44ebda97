//! Listening sockets. They are bound before the driver starts, so that a program can report errors and its port early.

use std::fmt;
use std::io;

use breme_sys::{Address, ListeningSocket};

use crate::settings::DriverSettings;
use crate::tls::ServerTls;

/// A listening socket. Connections that arrive before the driver's start wait in the backlog.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    address: Address,
    tls: Option<ServerTls>,
}

impl Listener {
    /// Port 0 selects a free port. The file of a Unix socket on which nobody listens is replaced.
    ///
    /// # Errors
    /// If the address cannot be bound; the message contains the remedy.
    pub fn bind(address: impl Into<Address>, settings: &DriverSettings) -> Result<Self, BindError> {
        let address = address.into();
        match ListeningSocket::bind(&address, settings.backlog).and_then(|socket| Ok((socket.address()?, socket))) {
            Ok((address, socket)) => Ok(Self { socket, address, tls: None }),
            Err(source) => Err(BindError { address, source }),
        }
    }

    /// Connections begin with a TLS handshake.
    #[must_use]
    pub fn with_tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// The address, with the selected port.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// `count` sockets on this address, of which the first is this one.
    pub(crate) fn into_sockets(self, count: usize, settings: &DriverSettings) -> io::Result<Vec<ListeningSocket>> {
        let mut sockets = Vec::with_capacity(count);
        for _ in 1..count {
            sockets.push(self.socket.beside(settings.backlog)?);
        }
        sockets.insert(0, self.socket);
        Ok(sockets)
    }

    pub(crate) fn into_socket(self) -> ListeningSocket {
        self.socket
    }
}

/// The address cannot be bound; the message tells why, and the remedy.
#[derive(Debug)]
pub struct BindError {
    address: Address,
    source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, source } = self;
        write!(formatter, "cannot listen on {address}: ")?;
        match (address, source.kind()) {
            (Address::Tcp(address), io::ErrorKind::AddrInUse) => write!(
                formatter,
                "port {} is in use by another program; stop that program (`ss -ltnp` shows it) or choose another port",
                address.port()
            ),
            (Address::Tcp(_), io::ErrorKind::PermissionDenied) => formatter.write_str(
                "ports below 1024 require a privilege; choose a higher port, or give the program CAP_NET_BIND_SERVICE",
            ),
            (Address::Tcp(address), io::ErrorKind::AddrNotAvailable) => {
                let ip = address.ip();
                write!(formatter, "{ip} is not an address of this machine; `ip address` shows those that are")
            }
            (Address::Unix(_), io::ErrorKind::AddrInUse) => formatter.write_str(
                "another program listens there (`ss -lxp` shows it), or the file is no socket; choose another path",
            ),
            (Address::Unix(_), io::ErrorKind::PermissionDenied) => {
                formatter.write_str("this user may not create files in its folder; choose another path")
            }
            (Address::Unix(_), io::ErrorKind::NotFound) => formatter.write_str("its folder does not exist; create it"),
            (Address::Unix(_), io::ErrorKind::InvalidInput) => {
                formatter.write_str("the path is too long for a socket; choose one of at most 107 bytes")
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
    use std::net::{Ipv4Addr, SocketAddr};
    use std::path::Path;

    use super::*;

    fn message(address: impl Into<Address>) -> String {
        Listener::bind(address, &DriverSettings::default()).unwrap_err().to_string()
    }

    #[test]
    fn bind_error_names_port_in_use() {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = Listener::bind(anywhere, &DriverSettings::default()).unwrap();
        let taken = message(first.address().clone());
        assert!(taken.contains(&first.address().to_string()) && taken.contains("in use"), "{taken}");
    }

    #[test]
    fn bind_error_names_foreign_address() {
        // Reserved for documentation (RFC 5737).
        let foreign = message(SocketAddr::from(([192, 0, 2, 1], 0)));
        assert!(foreign.contains("192.0.2.1 is not an address of this machine"), "{foreign}");
    }

    #[test]
    fn bind_error_names_path_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let of = |path: &Path| message(path);
        let missing = of(&folder.path().join("none/socket"));
        assert!(missing.starts_with("cannot listen on unix:/") && missing.contains("create it"), "{missing}");
        let long = of(&folder.path().join("x".repeat(200)));
        assert!(long.contains("at most 107 bytes"), "{long}");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(of(&file).contains("the file is no socket"));
    }
}
