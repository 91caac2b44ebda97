//! The bytes of one connection to and from the kernel, without waiting.
//!
//! This is the place where TLS will stand between socket and node: everything above speaks of plain bytes and of segments.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use breme_node::CloseReason;
use bytes::{Buf, BytesMut};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

/// Segments that one send hands to the kernel at once. More do not make it cheaper, and the kernel allows 1024.
pub(crate) const SEGMENTS_PER_SEND: usize = 64;

#[cfg(not(target_os = "linux"))]
const FILE_COPY_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    source: Source,
}

/// Where received bytes come from.
#[derive(Debug)]
enum Source {
    /// The kernel is asked for them.
    Asked,
    /// The kernel brings them; those that wait for their turn lie here.
    Brought(Option<Box<Arrivals>>),
    /// The kernel brought them until the connection broke: first these, then it is asked for what it still holds.
    Last(Box<Arrivals>),
}

/// What the kernel brought before it was wanted.
#[derive(Debug, Default)]
struct Arrivals {
    bytes: BytesMut,
    /// The peer's end came behind them.
    has_end: bool,
}

impl Arrivals {
    fn take(&mut self, buffer: &mut [u8]) -> Receipt {
        let count = self.bytes.len().min(buffer.len());
        if count > 0 {
            self.bytes.copy_to_slice(&mut buffer[..count]);
            return Receipt::Bytes(count);
        }
        if self.has_end { Receipt::End } else { Receipt::Nothing }
    }
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
    /// Over a socket that is asked for bytes.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, source: Source::Asked }
    }

    /// Over a socket whose bytes are brought ([`Transport::keep`]).
    pub(crate) fn brought(socket: OwnedFd) -> Self {
        Self { socket, source: Source::Brought(None) }
    }

    /// Whether bytes that are brought may go to the node as they are: there is nothing between socket and node, and nothing
    /// before them.
    pub(crate) fn is_clear(&self) -> bool {
        matches!(self.source, Source::Brought(None))
    }

    /// Bytes that were brought, to be received later.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        if let Source::Brought(arrivals) = &mut self.source {
            arrivals.get_or_insert_default().bytes.extend_from_slice(bytes);
        }
    }

    /// The peer's end was brought.
    pub(crate) fn keep_end(&mut self) {
        if let Source::Brought(arrivals) = &mut self.source {
            arrivals.get_or_insert_default().has_end = true;
        }
    }

    /// How many bytes are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        match &self.source {
            Source::Asked | Source::Brought(None) => 0,
            Source::Brought(Some(arrivals)) | Source::Last(arrivals) => arrivals.bytes.len(),
        }
    }

    /// Nothing is brought any more: after what is kept, the kernel is asked.
    pub(crate) fn ask_for_rest(&mut self) {
        if let Source::Brought(arrivals) = &mut self.source {
            self.source = Source::Last(arrivals.take().unwrap_or_default());
        }
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        match &mut self.source {
            Source::Asked => self.ask(buffer),
            Source::Brought(None) => Ok(Receipt::Nothing),
            Source::Brought(Some(arrivals)) => {
                let receipt = arrivals.take(buffer);
                if arrivals.bytes.is_empty() && !arrivals.has_end {
                    self.source = Source::Brought(None);
                }
                Ok(receipt)
            }
            Source::Last(arrivals) => match arrivals.take(buffer) {
                Receipt::Nothing => self.ask(buffer),
                receipt => Ok(receipt),
            },
        }
    }

    fn ask(&mut self, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
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

    /// Gives the socket back.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
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

/// What an error says of a connection.
pub(crate) fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => CloseReason::Reset,
        other => CloseReason::Failed(other.kind()),
    }
}

/// The reason of a file that was too short.
pub(crate) const FILE_TOO_SHORT: CloseReason = CloseReason::Failed(ErrorKind::UnexpectedEof);
