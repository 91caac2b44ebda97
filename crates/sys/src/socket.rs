//! Socket functions that std lacks or has only in blocking form.

use std::io;
use std::net::{SocketAddr, TcpListener};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// A non-blocking, exclusive listener whose connections have TCP_NODELAY.
///
/// # Errors
/// Those of `bind` and `listen`: the address is in use, is not local, or the port is privileged.
pub fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = new_listening_socket(address)?;
    // Bound exclusively, so that a port in use is detected even if its owner shares it; shared with our own sockets
    // from here on. Linux checks both flags at the second bind.
    socket.bind(&address.into())?;
    share_port(&socket)?;
    socket.listen(backlog_of(backlog))?;
    Ok(socket.into())
}

/// Another listener on the address of `first`: on Linux with its own queue, chosen by a hash of the peer's address
/// (SO_REUSEPORT); elsewhere a duplicate of the same queue.
///
/// # Errors
/// Those of `bind`, `listen` or `dup`.
pub fn listen_beside(first: &TcpListener, backlog: u32) -> io::Result<TcpListener> {
    if !cfg!(target_os = "linux") {
        return first.try_clone();
    }
    let address = first.local_addr()?;
    let socket = new_listening_socket(address)?;
    share_port(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(backlog_of(backlog))?;
    Ok(socket.into())
}

fn new_listening_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A restart need not wait for connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    // Inherited by accepted connections.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(target_os = "linux"))]
fn share_port(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// Accepts a non-blocking connection, without blocking.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is none, and those of `accept`.
#[cfg(target_os = "linux")]
pub fn accept(listener: &TcpListener) -> io::Result<(OwnedFd, SocketAddr)> {
    use rustix::net::SocketFlags;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).ok_or(io::ErrorKind::ConnectionAborted)?;
    Ok((socket, peer))
}

/// Accepts a non-blocking connection, without blocking.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is none, and those of `accept`.
#[cfg(not(target_os = "linux"))]
pub fn accept(listener: &TcpListener) -> io::Result<(OwnedFd, SocketAddr)> {
    let (socket, peer) = listener.accept()?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), peer))
}

/// Destination of a stream connection.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    Tcp(SocketAddr),
    /// Path of a Unix domain socket.
    Unix(&'a Path),
}

impl From<SocketAddr> for Destination<'_> {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl Destination<'_> {
    pub(crate) fn socket_address(self) -> io::Result<SockAddr> {
        match self {
            Self::Tcp(address) => Ok(address.into()),
            Self::Unix(path) => SockAddr::unix(path),
        }
    }
}

/// Starts to connect without blocking; see [`connect_outcome`].
///
/// # Errors
/// Immediate ones: no descriptor, port or route, (for local addresses) refused, or a full queue of a Unix socket.
pub fn connect<'a>(destination: impl Into<Destination<'a>>) -> io::Result<OwnedFd> {
    let destination = destination.into();
    let socket = Socket::from(new_unconnected(destination)?);
    match socket.connect(&destination.socket_address()?) {
        Err(error) if !is_in_progress(&error) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// A non-blocking socket, for TCP with TCP_NODELAY.
///
/// # Errors
/// No descriptor, or no memory.
pub fn new_unconnected<'a>(destination: impl Into<Destination<'a>>) -> io::Result<OwnedFd> {
    let socket = match destination.into() {
        Destination::Unix(_) => new_connecting_socket(Domain::UNIX, None)?,
        Destination::Tcp(address) => {
            let socket = new_connecting_socket(Domain::for_address(address), Some(Protocol::TCP))?;
            socket.set_tcp_nodelay(true)?;
            socket
        }
    };
    Ok(socket.into())
}

/// The peer's address.
///
/// # Errors
/// [`io::ErrorKind::ConnectionAborted`] if it is no longer connected.
pub fn peer_of(socket: impl AsFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(&socket).peer_addr().map_err(|_| io::ErrorKind::ConnectionAborted)?;
    address.as_socket().ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
}

#[cfg(target_os = "linux")]
fn new_connecting_socket(domain: Domain, protocol: Option<Protocol>) -> io::Result<Socket> {
    // The flags save system calls.
    Socket::new_raw(domain, Type::STREAM.nonblocking().cloexec(), protocol)
}

#[cfg(not(target_os = "linux"))]
fn new_connecting_socket(domain: Domain, protocol: Option<Protocol>) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn is_in_progress(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::INPROGRESS | Errno::INTR))
}

/// Sent bytes that the peer has not acknowledged; 0 if unknown.
pub fn unacknowledged_bytes(socket: impl AsFd) -> u64 {
    #[cfg(target_os = "linux")]
    {
        let mut count: libc::c_int = 0;
        // SAFETY: the kernel writes one integer to the given address, which outlives the call.
        #[allow(unsafe_code)]
        let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
        if outcome == 0 { u64::try_from(count).unwrap_or(0) } else { 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        0
    }
}

/// Result of a started connect; none while pending.
pub fn connect_outcome(socket: impl AsFd) -> Option<io::Result<()>> {
    let socket = SockRef::from(&socket);
    match socket.take_error() {
        Ok(Some(error)) | Err(error) => Some(Err(error)),
        Ok(None) => match socket.peer_addr() {
            Ok(_) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        },
    }
}

/// Closing the socket will reset the connection and discard unsent data.
pub fn reset_on_close(socket: impl AsFd) {
    // Fails only on a broken socket, which needs no reset.
    let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    fn anywhere() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    #[test]
    fn only_own_sockets_share_port() {
        let first = listen(anywhere(), 16).unwrap();
        let address = first.local_addr().unwrap();
        let second = listen_beside(&first, 16).unwrap();
        assert_eq!(second.local_addr().unwrap(), address);
        let stranger = listen(address, 16).map(drop).map_err(|error| error.kind());
        assert_eq!(stranger, Err(io::ErrorKind::AddrInUse));
    }

    #[test]
    fn accepted_sockets_are_nonblocking_nodelay() {
        let listener = listen(anywhere(), 16).unwrap();
        let none = accept(&listener).map(drop).map_err(|error| error.kind());
        assert_eq!(none, Err(io::ErrorKind::WouldBlock));
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = accept(&listener).unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        let mut accepted = TcpStream::from(socket);
        assert!(accepted.nodelay().unwrap());
        let nothing = accepted.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(nothing, Err(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn connect_reports_outcome() {
        let listener = listen(anywhere(), 16).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = connect(address).unwrap();
        let mut outcome = connect_outcome(&connecting);
        while outcome.is_none() {
            std::thread::yield_now();
            outcome = connect_outcome(&connecting);
        }
        assert!(outcome.unwrap().is_ok());
        drop(listener);
        let refused = match connect(address) {
            Err(error) => error,
            Ok(connecting) => loop {
                if let Some(outcome) = connect_outcome(&connecting) {
                    break outcome.unwrap_err();
                }
                std::thread::yield_now();
            },
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn unix_sockets_are_connected() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let failed = connect(Destination::Unix(&path)).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let socket = connect(Destination::Unix(&path)).unwrap();
        assert!(connect_outcome(&socket).unwrap().is_ok());
        let (mut accepted, _) = listener.accept().unwrap();
        std::fs::File::from(socket).write_all(b"hello").unwrap();
        let mut received = [0; 5];
        accepted.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        let long = folder.path().join("x".repeat(200));
        assert!(connect(Destination::Unix(&long)).is_err());
    }

    #[test]
    fn reset_reaches_peer() {
        let listener = TcpListener::bind(anywhere()).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"lost").unwrap();
        let mut first = [0];
        client.read_exact(&mut first).unwrap();
        reset_on_close(&accepted);
        drop(accepted);
        let mut rest = Vec::new();
        let error = client.read_to_end(&mut rest).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
