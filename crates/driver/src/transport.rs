//! The bytes of one connection to and from the kernel, without waiting.
//!
//! Here TLS stands between socket and node, if there is any: everything above speaks of plain bytes and of segments.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use breme_node::CloseReason;

use crate::tls::{HandshakeStep, Secured};

/// Segments that one send hands to the kernel at once. More do not make it cheaper, and the kernel allows 1024.
pub(crate) const SEGMENTS_PER_SEND: usize = 64;

#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    /// Its session, if it is TLS's.
    pub(crate) secured: Option<Box<Secured>>,
}

/// What a receive brought.
pub(crate) enum Receipt {
    Bytes {
        count: usize,
        /// The kernel had no more at that moment.
        is_all: bool,
    },
    /// The peer ended its sending.
    End,
    /// Nothing yet.
    Nothing,
}

/// What a send moved.
#[derive(Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) bytes: usize,
    /// The kernel takes no more for now.
    pub(crate) is_full: bool,
}

/// Why nothing can be sent any more.
pub(crate) enum SendFailure {
    Transport(CloseReason),
    /// The file has fewer bytes than were promised, so that the peer must be told by a reset.
    FileTooShort,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, secured: None }
    }

    /// The same with a session.
    pub(crate) fn secured(socket: OwnedFd, secured: Secured) -> Self {
        Self { socket, secured: Some(Box::new(secured)) }
    }

    /// Goes on with the handshake; without a session there is nothing to do.
    pub(crate) fn shake_hands(&mut self) -> HandshakeStep {
        self.secured.as_mut().map_or(HandshakeStep::Done, |secured| secured.shake_hands(&self.socket))
    }

    /// After a failed handshake: tells the peer, and that nothing more comes.
    pub(crate) fn say_farewell(&mut self) -> Result<(), CloseReason> {
        self.secured.as_mut().map_or(Ok(()), |secured| secured.say_farewell(&self.socket))
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        match &mut self.secured {
            None => plain::receive(&self.socket, buffer),
            Some(secured) => secured.receive(&self.socket, buffer),
        }
    }

    /// Sends one segment; `more` follows at once, so that the kernel may wait to fill a packet.
    pub(crate) fn send(&mut self, segment: &[u8], more: bool) -> Result<Moved, SendFailure> {
        match &mut self.secured {
            None => plain::send(&self.socket, segment, more),
            Some(secured) => secured.send(&self.socket, &[IoSlice::new(segment)], more),
        }
    }

    /// Sends several segments in one call.
    pub(crate) fn send_segments(&mut self, segments: &[IoSlice<'_>], more: bool) -> Result<Moved, SendFailure> {
        match (&mut self.secured, segments) {
            (Some(secured), _) => secured.send(&self.socket, segments, more),
            (None, [segment]) => plain::send(&self.socket, segment, more),
            (None, _) => plain::send_segments(&self.socket, segments, more),
        }
    }

    /// Sends a part of a file, at most `length` bytes of it.
    pub(crate) fn send_file(&mut self, file: &File, offset: u64, length: usize) -> Result<Moved, SendFailure> {
        match &mut self.secured {
            None => plain::send_file(&self.socket, file, offset, length),
            Some(secured) => secured.send_file(&self.socket, file, offset, length),
        }
    }

    /// Bytes that were taken from the caller, sealed, and not taken by the kernel.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.secured.as_ref().map_or(0, |secured| secured.pending_bytes())
    }

    /// Sends those.
    pub(crate) fn flush(&mut self) -> Result<Moved, SendFailure> {
        match &mut self.secured {
            None => Ok(Moved { bytes: 0, is_full: false }),
            Some(secured) => secured.flush(&self.socket),
        }
    }

    /// Tells the peer that nothing more comes. Returns whether that has left; if not, call it again when the kernel takes more.
    pub(crate) fn end_sending(&mut self) -> Result<bool, CloseReason> {
        match &mut self.secured {
            None => plain::end_sending(&self.socket).map(|()| true),
            Some(secured) => secured.end_sending(&self.socket),
        }
    }

    /// The end of this value will be a reset.
    pub(crate) fn reset_on_close(&mut self) {
        breme_sys::reset_on_close(&self.socket);
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The reason of a file that was too short.
pub(crate) const FILE_TOO_SHORT: CloseReason = CloseReason::Failed(ErrorKind::UnexpectedEof);

/// The system calls, on a socket that does not wait.
pub(crate) mod plain {
    use std::fs::File;
    use std::io::IoSlice;
    use std::os::fd::OwnedFd;

    use breme_node::CloseReason;
    use rustix::io::{Errno, retry_on_intr};
    use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

    use super::{Moved, Receipt, SendFailure};

    #[cfg(not(target_os = "linux"))]
    const FILE_COPY_BYTES: usize = 64 * 1024;

    const FULL: Moved = Moved { bytes: 0, is_full: true };

    pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        let asked = buffer.len();
        match retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())) {
            Ok((0, _)) => Ok(Receipt::End),
            // Less than was asked for means that there is no more, unless the end comes behind it.
            Ok((count, _)) => Ok(Receipt::Bytes { count, is_all: count < asked }),
            Err(Errno::AGAIN) => Ok(Receipt::Nothing),
            Err(error) => Err(reason(error)),
        }
    }

    pub(crate) fn send(socket: &OwnedFd, segment: &[u8], more: bool) -> Result<Moved, SendFailure> {
        let sent = retry_on_intr(|| rustix::net::send(socket, segment, flags(more)));
        moved(sent, segment.len())
    }

    pub(crate) fn send_segments(socket: &OwnedFd, segments: &[IoSlice<'_>], more: bool) -> Result<Moved, SendFailure> {
        let sent =
            retry_on_intr(|| rustix::net::sendmsg(socket, segments, &mut SendAncillaryBuffer::default(), flags(more)));
        moved(sent, segments.iter().map(|segment| segment.len()).sum())
    }

    pub(crate) fn send_file(socket: &OwnedFd, file: &File, offset: u64, length: usize) -> Result<Moved, SendFailure> {
        match retry_on_intr(|| send_file_once(socket, file, offset, length)) {
            Ok(0) => Err(SendFailure::FileTooShort),
            // A file comes in pieces of the kernel's liking, so that few bytes do not mean that the socket is full.
            Ok(bytes) => Ok(Moved { bytes, is_full: false }),
            Err(Errno::AGAIN) => Ok(FULL),
            Err(error) => Err(SendFailure::Transport(reason(error))),
        }
    }

    #[cfg(target_os = "linux")]
    fn send_file_once(socket: &OwnedFd, file: &File, offset: u64, length: usize) -> Result<usize, Errno> {
        let mut position = offset;
        rustix::fs::sendfile(socket, file, Some(&mut position), length)
    }

    #[cfg(not(target_os = "linux"))]
    fn send_file_once(socket: &OwnedFd, file: &File, offset: u64, length: usize) -> Result<usize, Errno> {
        let mut copied = vec![0; length.min(FILE_COPY_BYTES)];
        let count = rustix::io::pread(file, &mut copied[..], offset)?;
        if count == 0 {
            return Ok(0);
        }
        rustix::net::send(socket, &copied[..count], flags(false))
    }

    /// Reads a part of a file; it is at least one byte.
    pub(crate) fn read_file(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, SendFailure> {
        match retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset)) {
            Ok(0) => Err(SendFailure::FileTooShort),
            Ok(count) => Ok(count),
            Err(error) => Err(SendFailure::Transport(reason(error))),
        }
    }

    pub(crate) fn end_sending(socket: &OwnedFd) -> Result<(), CloseReason> {
        rustix::net::shutdown(socket, Shutdown::Write).map_err(reason)
    }

    fn moved(sent: Result<usize, Errno>, asked: usize) -> Result<Moved, SendFailure> {
        match sent {
            Ok(bytes) => Ok(Moved { bytes, is_full: bytes < asked }),
            Err(Errno::AGAIN) => Ok(FULL),
            Err(error) => Err(SendFailure::Transport(reason(error))),
        }
    }

    #[cfg(target_os = "linux")]
    fn flags(more: bool) -> SendFlags {
        if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
    }

    /// Rust's start-up code ignores SIGPIPE, so that a send to a dead connection is an error here too.
    #[cfg(not(target_os = "linux"))]
    fn flags(_more: bool) -> SendFlags {
        SendFlags::empty()
    }

    fn reason(error: Errno) -> CloseReason {
        match error {
            Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => CloseReason::Reset,
            other => CloseReason::Failed(other.kind()),
        }
    }
}
