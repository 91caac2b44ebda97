//! A socket that does not wait: its system calls, and what the kernel has brought of its bytes by itself.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use breme_node::CloseReason;
use breme_sys::Stamp;
use bytes::{Buf, BytesMut};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

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

#[cfg(not(target_os = "linux"))]
const FILE_COPY_BYTES: usize = 64 * 1024;

const FULL: Moved = Moved { bytes: 0, is_full: true };

#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    source: Source,
    /// The kernel says when bytes came.
    has_stamps: bool,
    /// What it said last.
    latest: Option<Stamp>,
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
            return Receipt::Bytes { count, is_all: self.bytes.is_empty() && !self.has_end };
        }
        if self.has_end { Receipt::End } else { Receipt::Nothing }
    }
}

impl Socket {
    /// One that is asked for bytes.
    pub(crate) fn asked(descriptor: OwnedFd) -> Self {
        Self { descriptor, source: Source::Asked, has_stamps: false, latest: None }
    }

    /// One whose bytes are brought ([`Socket::keep`]).
    pub(crate) fn brought(descriptor: OwnedFd) -> Self {
        Self { descriptor, source: Source::Brought(None), has_stamps: false, latest: None }
    }

    /// From now on it is known when bytes came, where the kernel can tell.
    pub(crate) fn stamp_arrivals(&mut self) {
        self.has_stamps = breme_sys::stamp_arrivals(&self.descriptor).is_ok();
    }

    /// Whether the kernel says when bytes came.
    pub(crate) fn has_stamps(&self) -> bool {
        self.has_stamps
    }

    /// What was brought came then.
    pub(crate) fn note_stamp(&mut self, stamp: Option<Stamp>) {
        self.latest = stamp;
    }

    /// When the latest bytes came.
    pub(crate) fn take_stamp(&mut self) -> Option<Stamp> {
        self.latest.take()
    }

    /// Whether nothing is kept of what was brought.
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
        let asked = buffer.len();
        match retry_on_intr(|| self.ask_once(buffer)) {
            Ok(0) => Ok(Receipt::End),
            // Less than was asked for means that there is no more, unless the end comes behind it.
            Ok(count) => Ok(Receipt::Bytes { count, is_all: count < asked }),
            Err(Errno::AGAIN) => Ok(Receipt::Nothing),
            Err(error) => Err(reason(error)),
        }
    }

    fn ask_once(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if !self.has_stamps {
            return rustix::net::recv(&self.descriptor, buffer, RecvFlags::empty()).map(|(count, _)| count);
        }
        let received = breme_sys::receive_with_stamp(&self.descriptor, buffer);
        let (count, stamp) = received.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.note_stamp(stamp);
        Ok(count)
    }

    pub(crate) fn send(&self, segment: &[u8], more: bool) -> Result<Moved, SendFailure> {
        let sent = retry_on_intr(|| rustix::net::send(&self.descriptor, segment, flags(more)));
        moved(sent, segment.len())
    }

    pub(crate) fn send_segments(&self, segments: &[IoSlice<'_>], more: bool) -> Result<Moved, SendFailure> {
        let sent = retry_on_intr(|| {
            rustix::net::sendmsg(&self.descriptor, segments, &mut SendAncillaryBuffer::default(), flags(more))
        });
        moved(sent, segments.iter().map(|segment| segment.len()).sum())
    }

    pub(crate) fn send_file(&self, file: &File, offset: u64, length: usize) -> Result<Moved, SendFailure> {
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
        rustix::fs::sendfile(&self.descriptor, file, Some(&mut position), length)
    }

    #[cfg(not(target_os = "linux"))]
    fn send_file_once(&self, file: &File, offset: u64, length: usize) -> Result<usize, Errno> {
        let mut copied = vec![0; length.min(FILE_COPY_BYTES)];
        let count = rustix::io::pread(file, &mut copied[..], offset)?;
        if count == 0 {
            return Ok(0);
        }
        rustix::net::send(&self.descriptor, &copied[..count], flags(false))
    }

    pub(crate) fn end_sending(&self) -> Result<(), CloseReason> {
        rustix::net::shutdown(&self.descriptor, Shutdown::Write).map_err(reason)
    }

    /// Gives the descriptor back.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Reads a part of a file; it is at least one byte.
pub(crate) fn read_file(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, SendFailure> {
    match retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset)) {
        Ok(0) => Err(SendFailure::FileTooShort),
        Ok(count) => Ok(count),
        Err(error) => Err(SendFailure::Transport(reason(error))),
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
