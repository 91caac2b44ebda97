//! The bytes of one connection to and from the kernel, without waiting.
//!
//! This is the place where TLS will stand between socket and node: everything above speaks of plain bytes and of segments.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use breme_node::CloseReason;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// Segments that one send hands to the kernel at once. More do not make it cheaper, and the kernel allows 1024.
pub(crate) const SEGMENTS_PER_SEND: usize = 64;

#[cfg(not(target_os = "linux"))]
const FILE_COPY_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
}

/// What a receive brought.
pub(crate) enum Receipt {
    Bytes(usize),
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

const FULL: Moved = Moved { bytes: 0, is_full: true };

/// Why nothing can be sent any more.
pub(crate) enum SendFailure {
    Transport(CloseReason),
    /// The file has fewer bytes than were promised, so that the peer must be told by a reset.
    FileTooShort,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        match retry_on_intr(|| rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty())) {
            Ok((0, _)) => Ok(Receipt::End),
            Ok((count, _)) => Ok(Receipt::Bytes(count)),
            Err(Errno::AGAIN) => Ok(Receipt::Nothing),
            Err(error) => Err(reason(error)),
        }
    }

    /// Sends one segment; `more` follows at once, so that the kernel may wait to fill a packet.
    pub(crate) fn send(&mut self, segment: &[u8], more: bool) -> Result<Moved, SendFailure> {
        let sent = retry_on_intr(|| rustix::net::send(&self.socket, segment, flags(more)));
        moved(sent, segment.len())
    }

    /// Sends several segments in one call.
    pub(crate) fn send_segments(&mut self, segments: &[IoSlice<'_>], more: bool) -> Result<Moved, SendFailure> {
        if let [segment] = segments {
            return self.send(segment, more);
        }
        let sent = retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, segments, &mut SendAncillaryBuffer::default(), flags(more))
        });
        moved(sent, segments.iter().map(|segment| segment.len()).sum())
    }

    /// Sends a part of a file, at most `length` bytes of it.
    pub(crate) fn send_file(&mut self, file: &File, offset: u64, length: usize) -> Result<Moved, SendFailure> {
        match retry_on_intr(|| self.send_file_once(file, offset, length)) {
            Ok(0) => Err(SendFailure::FileTooShort),
            // A file comes in pieces of the kernel's liking, so that few bytes do not mean that the socket is full.
            Ok(bytes) => Ok(Moved { bytes, is_full: false }),
            Err(Errno::AGAIN) => Ok(FULL),
            Err(error) => Err(SendFailure::Transport(reason(error))),
        }
    }

    #[cfg(target_os = "linux")]
    fn send_file_once(&self, file: &File, offset: u64, length: usize) -> Result<usize, Errno> {
        let mut position = offset;
        rustix::fs::sendfile(&self.socket, file, Some(&mut position), length)
    }

    #[cfg(not(target_os = "linux"))]
    fn send_file_once(&self, file: &File, offset: u64, length: usize) -> Result<usize, Errno> {
        let mut copied = vec![0; length.min(FILE_COPY_BYTES)];
        let count = rustix::io::pread(file, &mut copied[..], offset)?;
        if count == 0 {
            return Ok(0);
        }
        rustix::net::send(&self.socket, &copied[..count], flags(false))
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn end_sending(&mut self) -> Result<(), CloseReason> {
        rustix::net::shutdown(&self.socket, Shutdown::Write).map_err(reason)
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

/// The reason of a file that was too short.
pub(crate) const FILE_TOO_SHORT: CloseReason = CloseReason::Failed(ErrorKind::UnexpectedEof);
