//! Socket functions that std lacks or has only in blocking form.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::address::Address;

/// Starts to connect without blocking; see [`connect_outcome`].
///
/// # Errors
/// Immediate ones: no descriptor, port or route, (for local addresses) refused, or a full queue of a Unix socket.
pub fn connect(address: &Address) -> io::Result<OwnedFd> {
    let socket = Socket::from(new_unconnected(address)?);
    match socket.connect(&address.socket_address()?) {
        Err(error) if !is_in_progress(&error) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// A non-blocking socket, for TCP with TCP_NODELAY.
///
/// # Errors
/// No descriptor, or no memory.
pub fn new_unconnected(address: &Address) -> io::Result<OwnedFd> {
    let protocol = address.tcp().map(|_| Protocol::TCP);
    let socket = new_connecting_socket(address.domain(), protocol)?;
    if protocol.is_some() {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket.into())
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

/// Sent bytes that the peer has not acknowledged (TIOCOUTQ); 0 if unknown.
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

/// The result of a connect that was started; None: it is pending.
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
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use super::*;
    use crate::listener::ListeningSocket;

    fn anywhere() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    #[test]
    fn connect_reports_outcome() {
        let address = Address::from(breme_testkit::reserved_address());
        let outcome = || {
            let connecting = connect(&address)?;
            loop {
                if let Some(outcome) = connect_outcome(&connecting) {
                    return outcome;
                }
                std::thread::yield_now();
            }
        };
        assert_eq!(outcome().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _listener = ListeningSocket::bind(&address, 16).unwrap();
        assert!(outcome().is_ok());
    }

    #[test]
    fn unix_sockets_are_connected() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::from(&*path);
        let failed = connect(&address).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let socket = connect(&address).unwrap();
        assert!(connect_outcome(&socket).unwrap().is_ok());
        let (mut accepted, _) = listener.accept().unwrap();
        std::fs::File::from(socket).write_all(b"hello").unwrap();
        let mut received = [0; 5];
        accepted.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        let long = folder.path().join("x".repeat(200));
        assert!(connect(&Address::from(&*long)).is_err());
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
