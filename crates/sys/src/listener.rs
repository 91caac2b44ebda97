//! Listening sockets, of TCP and Unix.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use socket2::{Protocol, SockRef, Socket, Type};

use crate::address::Address;
use crate::socket::connect;

/// A lock is held for as long as it takes to listen, so one that is held longer has another purpose: systemd-tmpfiles
/// spares a folder that is locked.
const LOCK_RETRY: Duration = Duration::from_millis(5);
const LOCK_ATTEMPTS_MAX: usize = 200;

/// A non-blocking listening socket. The connections of TCP have TCP_NODELAY. The file of a Unix socket is removed with
/// the last socket on it.
#[derive(Debug)]
pub struct ListeningSocket {
    /// Of a Unix socket. Dropped first: while the socket is open, no other file can have its identity.
    file: Option<Arc<SocketFile>>,
    socket: OwnedFd,
}

impl ListeningSocket {
    /// Listens exclusively. The file of a Unix socket on which nobody listens is replaced; the umask determines the
    /// permissions of the new one.
    ///
    /// # Errors
    /// Those of `bind` and `listen`: the address is in use, is not local, or the port is privileged; the folder of the
    /// Unix socket does not exist or must not be written, or its path is too long.
    pub fn bind(address: &Address, backlog: u32) -> io::Result<Self> {
        let socket = new_listening_socket(address)?;
        let file = match address {
            Address::Tcp(_) => {
                socket.bind(&address.socket_address()?)?;
                listen_then_share(&socket, backlog)?;
                None
            }
            Address::Unix(path) => {
                let _lock = lock_folder(path);
                bind_path(&socket, address, path)?;
                let file = Arc::new(SocketFile::new(path)?);
                socket.listen(backlog_of(backlog))?;
                Some(file)
            }
        };
        Ok(Self { file, socket: socket.into() })
    }

    /// Another socket on the same address: for TCP on Linux with a queue of its own, selected by a hash of the peer's
    /// address (SO_REUSEPORT); otherwise a duplicate that shares the queue.
    ///
    /// # Errors
    /// Those of `bind`, `listen` or `dup`.
    pub fn beside(&self, backlog: u32) -> io::Result<Self> {
        if self.file.is_some() || !cfg!(target_os = "linux") {
            return Ok(Self { file: self.file.clone(), socket: self.socket.try_clone()? });
        }
        let address = self.address()?;
        let socket = new_listening_socket(&address)?;
        share_port(&socket)?;
        socket.bind(&address.socket_address()?)?;
        socket.listen(backlog_of(backlog))?;
        Ok(Self { file: None, socket: socket.into() })
    }

    /// The address, with the selected port.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn address(&self) -> io::Result<Address> {
        match &self.file {
            Some(file) => Ok(Address::Unix(Arc::clone(&file.path))),
            None => internet_address(SockRef::from(&self.socket).local_addr()?.as_socket()).map(Address::Tcp),
        }
    }

    /// Accepts a connection without blocking, as a non-blocking socket; with the address of its peer, which only TCP
    /// has.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, and those of `accept`.
    #[cfg(target_os = "linux")]
    pub fn accept(&self) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
        use rustix::net::SocketFlags;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        if self.file.is_some() {
            return Ok((socket, None));
        }
        let peer = internet_address(peer.and_then(|peer| SocketAddr::try_from(peer).ok()))?;
        Ok((socket, Some(peer)))
    }

    /// Accepts a connection without blocking, as a non-blocking socket; with the address of its peer, which only TCP
    /// has.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none, and those of `accept`.
    #[cfg(not(target_os = "linux"))]
    pub fn accept(&self) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
        let (socket, peer) = SockRef::from(&self.socket).accept()?;
        socket.set_nonblocking(true)?;
        if self.file.is_some() {
            return Ok((socket.into(), None));
        }
        let peer = internet_address(peer.as_socket())?;
        Ok((socket.into(), Some(peer)))
    }

    /// Ignores SYN segments from now on, so that the backlog can be emptied before the socket is closed: closing resets
    /// what waits there. A client whose SYN is ignored repeats it after 1 s. Only TCP on Linux; elsewhere a connection
    /// that arrives between the last accept and the close is reset.
    pub fn ignore_handshakes(&self) {
        if self.file.is_none() {
            ignore_handshakes(&self.socket);
        }
    }

    /// The peer's address of a connection that was accepted here, which only TCP has.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionAborted`] if it is no longer connected.
    pub fn peer_of(&self, accepted: impl AsFd) -> io::Result<Option<SocketAddr>> {
        if self.file.is_some() {
            return Ok(None);
        }
        let address = SockRef::from(&accepted).peer_addr().map_err(|_| io::ErrorKind::ConnectionAborted)?;
        internet_address(address.as_socket()).map(Some)
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// [`ListeningSocket::ignore_handshakes`], of any listening socket of TCP.
#[cfg(target_os = "linux")]
pub fn ignore_handshakes(socket: impl AsFd) {
    use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
    use socket2::SockFilter;
    /// Position of the flags in the TCP header, where the kernel starts a filter (RFC 9293, 3.1).
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    let instruction = |code: u32, if_true, if_false, operand| SockFilter::new(code as u16, if_true, if_false, operand);
    // Segments with other flags complete handshakes that have begun.
    let filter = [
        instruction(BPF_LD | BPF_B | BPF_ABS, 0, 0, FLAGS_AT),
        instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, SYN | ACK),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYN),
        instruction(BPF_RET | BPF_K, 0, 0, 0),
        instruction(BPF_RET | BPF_K, 0, 0, u32::MAX),
    ];
    // Without the filter, stopping still works; a connection may be reset.
    let _ = SockRef::from(&socket).attach_filter(&filter);
}

#[cfg(not(target_os = "linux"))]
pub fn ignore_handshakes(_: impl AsFd) {}

fn internet_address(address: Option<SocketAddr>) -> io::Result<SocketAddr> {
    address.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
}

fn new_listening_socket(address: &Address) -> io::Result<Socket> {
    let protocol = address.tcp().map(|_| Protocol::TCP);
    let socket = Socket::new(address.domain(), Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    if protocol.is_some() {
        // A restart need not wait for connections in TIME_WAIT.
        socket.set_reuse_address(true)?;
        // Inherited by accepted connections.
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// A port in use is detected even if its owner shares it, since only our own sockets share this one. It is not shared
/// before it listens: SO_REUSEADDR lets two processes bind the same port at the same time, and with SO_REUSEPORT both
/// of them could listen.
fn listen_then_share(socket: &Socket, backlog: u32) -> io::Result<()> {
    socket.listen(backlog_of(backlog))?;
    share_port(socket)
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

/// Locks the folder of a Unix socket: two processes could each take the other's file for abandoned, before it listens,
/// and replace it. Without the lock, as on a file system that has none, they can only be unlucky.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(LOCK_RETRY),
            Err(_) => return None,
        }
    }
    None
}

fn bind_path(socket: &Socket, address: &Address, path: &Path) -> io::Result<()> {
    let socket_address = address.socket_address()?;
    match socket.bind(&socket_address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(address, path) => {
            fs::remove_file(path)?;
            socket.bind(&socket_address)
        }
        outcome => outcome,
    }
}

/// Whether the file is a socket on which nobody listens.
fn is_abandoned(address: &Address, path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket && connect(address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The file of a Unix socket.
#[derive(Debug)]
struct SocketFile {
    path: Arc<Path>,
    /// Device and inode: another program may have replaced the file since.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Arc<Path>) -> io::Result<Self> {
        Ok(Self { path: Arc::clone(path), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // If that fails, the next listener replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Barrier;

    use super::*;
    use crate::socket::connect_outcome;

    fn anywhere() -> Address {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()
    }

    fn kind<T>(outcome: io::Result<T>) -> Option<io::ErrorKind> {
        outcome.err().map(|error| error.kind())
    }

    #[test]
    fn only_own_sockets_share_port() {
        let first = ListeningSocket::bind(&anywhere(), 16).unwrap();
        let address = first.address().unwrap();
        let second = first.beside(16).unwrap();
        assert_eq!(second.address().unwrap(), address);
        assert_eq!(kind(ListeningSocket::bind(&address, 16)), Some(io::ErrorKind::AddrInUse));
    }

    /// Both sockets may be bound as long as neither listens.
    #[test]
    fn port_that_was_bound_at_the_same_time_is_in_use() {
        let other = new_listening_socket(&anywhere()).unwrap();
        other.bind(&anywhere().socket_address().unwrap()).unwrap();
        let address = Address::from(other.local_addr().unwrap().as_socket().unwrap());
        let _first = ListeningSocket::bind(&address, 16).unwrap();
        assert_eq!(kind(listen_then_share(&other, 16)), Some(io::ErrorKind::AddrInUse));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connections_spread_over_sockets_that_share_a_port() {
        let first = ListeningSocket::bind(&anywhere(), 64).unwrap();
        let second = first.beside(64).unwrap();
        let address = first.address().unwrap().tcp().unwrap();
        let _clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        // A client that spreads evenly leaves one of them empty once in 2^63 times.
        assert!(first.accept().is_ok() && second.accept().is_ok());
    }

    #[test]
    fn accepted_sockets_are_nonblocking_nodelay() {
        let listener = ListeningSocket::bind(&anywhere(), 16).unwrap();
        assert_eq!(kind(listener.accept()), Some(io::ErrorKind::WouldBlock));
        let client = TcpStream::connect(listener.address().unwrap().tcp().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        assert_eq!(peer, Some(client.local_addr().unwrap()));
        assert_eq!(listener.peer_of(&socket).unwrap(), peer);
        let mut accepted = TcpStream::from(socket);
        assert!(accepted.nodelay().unwrap());
        let nothing = accepted.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(nothing, Err(io::ErrorKind::WouldBlock));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn handshakes_are_ignored_and_connections_go_on() {
        let listener = ListeningSocket::bind(&Address::from(breme_testkit::reserved_address()), 16).unwrap();
        let address = listener.address().unwrap();
        let mut early = TcpStream::connect(address.tcp().unwrap()).unwrap();
        listener.ignore_handshakes();
        let late = connect(&address).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        assert_eq!(peer, Some(early.local_addr().unwrap()));
        assert_eq!(kind(listener.accept()), Some(io::ErrorKind::WouldBlock));
        early.write_all(b"hi").unwrap();
        let mut accepted = TcpStream::from(socket);
        accepted.set_nonblocking(false).unwrap();
        let mut received = [0; 2];
        accepted.read_exact(&mut received).unwrap();
        // It has never been established, so it is refused and not reset.
        assert!(connect_outcome(&late).is_none());
        drop(listener);
        let outcome = loop {
            if let Some(outcome) = connect_outcome(&late) {
                break outcome;
            }
            thread::yield_now();
        };
        assert_eq!(kind(outcome), Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn sockets_on_one_path_share_its_queue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::from(&*path);
        let first = ListeningSocket::bind(&address, 16).unwrap();
        let second = first.beside(16).unwrap();
        assert_eq!((first.address().unwrap(), second.address().unwrap()), (address.clone(), address));
        assert_eq!(kind(second.accept()), Some(io::ErrorKind::WouldBlock));
        for listener in [&first, &second] {
            let mut client = UnixStream::connect(&path).unwrap();
            let (socket, peer) = listener.accept().unwrap();
            assert_eq!((peer, listener.peer_of(&socket).unwrap()), (None, None));
            File::from(socket).write_all(b"hi").unwrap();
            let mut received = [0; 2];
            client.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"hi");
        }
        drop(first);
        drop(UnixStream::connect(&path).unwrap());
        drop(second);
        assert!(!path.exists(), "the last one removes the file");
    }

    #[test]
    fn only_an_abandoned_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::from(&*path);
        let bind = || ListeningSocket::bind(&address, 16);
        let other = UnixListener::bind(&path).unwrap();
        assert_eq!(kind(bind()), Some(io::ErrorKind::AddrInUse));
        drop(other);
        assert!(path.exists(), "std leaves it");
        let ours = bind().unwrap();
        assert_eq!(kind(bind()), Some(io::ErrorKind::AddrInUse));
        // Another program removes the file, and listens in its place.
        fs::remove_file(&path).unwrap();
        let successor = bind().unwrap();
        drop(ours);
        drop(UnixStream::connect(&path).unwrap());
        drop(successor);
        fs::write(&path, "precious").unwrap();
        assert_eq!(kind(bind()), Some(io::ErrorKind::AddrInUse));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn one_of_many_replaces_an_abandoned_socket() {
        const COUNT: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::from(&*path);
        for round in 0..500 {
            drop(UnixListener::bind(&path).unwrap());
            let barrier = Barrier::new(COUNT);
            let bind = || {
                barrier.wait();
                ListeningSocket::bind(&address, 16)
            };
            let outcomes: Vec<_> = thread::scope(|scope| {
                let binding: Vec<_> = (0..COUNT).map(|_| scope.spawn(bind)).collect();
                binding.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "round {round}");
        }
    }

    /// A folder that somebody keeps locked.
    #[test]
    fn locked_folder_delays_but_does_not_prevent() {
        let folder = tempfile::tempdir().unwrap();
        let kept = File::open(folder.path()).unwrap();
        flock(&kept, FlockOperation::LockExclusive).unwrap();
        assert!(ListeningSocket::bind(&Address::from(&*folder.path().join("socket")), 16).is_ok());
    }

    #[test]
    fn impossible_paths_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let bind = |name: &str| kind(ListeningSocket::bind(&Address::from(&*folder.path().join(name)), 16));
        assert_eq!(bind("none/socket"), Some(io::ErrorKind::NotFound));
        assert_eq!(bind(&"x".repeat(200)), Some(io::ErrorKind::InvalidInput));
    }
}
