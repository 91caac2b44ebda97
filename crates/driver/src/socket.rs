//! Non-blocking sockets: system calls, and bytes delivered by completions.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use breme_node::CloseReason;
use breme_sys::ReceiveTimestamp;
use bytes::{Buf, BytesMut};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

pub(crate) enum ReceiveResult {
    Bytes {
        count: usize,
        /// The kernel has no more data.
        is_all: bool,
    },
    /// The peer closed its side.
    End,
    /// Would block.
    Nothing,
}

#[derive(Clone, Copy)]
pub(crate) struct SendResult {
    pub(crate) bytes: usize,
    /// The kernel's buffer is full.
    pub(crate) is_full: bool,
}

pub(crate) enum SendFailure {
    Transport(CloseReason),
    /// The file is shorter than announced: reset the connection.
    FileTooShort,
}

/// Bytes of a file copied per send, where sendfile(2) is not used.
#[cfg(not(target_os = "linux"))]
const FILE_COPY_BYTES: usize = 64 * 1024;

const FULL: SendResult = SendResult { bytes: 0, is_full: true };

#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    source: ReceiveSource,
    /// The kernel timestamps arrivals.
    has_timestamps: bool,
    /// The timestamp of the bytes received last.
    latest: Option<ReceiveTimestamp>,
}

#[derive(Debug)]
enum ReceiveSource {
    Syscalls,
    /// Completions deliver bytes; those that must wait are buffered here.
    Completions(Option<Box<ReceivedAhead>>),
    /// After a failure: first the buffered bytes, then system calls for what the kernel still holds.
    Draining(Box<ReceivedAhead>),
}

/// Bytes delivered ahead of their use.
#[derive(Debug, Default)]
struct ReceivedAhead {
    bytes: BytesMut,
    /// The peer's end follows.
    has_end: bool,
}

impl ReceivedAhead {
    fn take(&mut self, buffer: &mut [u8]) -> ReceiveResult {
        let count = self.bytes.len().min(buffer.len());
        if count > 0 {
            self.bytes.copy_to_slice(&mut buffer[..count]);
            return ReceiveResult::Bytes { count, is_all: self.bytes.is_empty() && !self.has_end };
        }
        if self.has_end { ReceiveResult::End } else { ReceiveResult::Nothing }
    }
}

impl Socket {
    /// Bytes are received by system calls (readiness).
    pub(crate) fn with_syscalls(descriptor: OwnedFd) -> Self {
        Self { descriptor, source: ReceiveSource::Syscalls, has_timestamps: false, latest: None }
    }

    /// Bytes are delivered by completions ([`Socket::buffer`]).
    pub(crate) fn with_completions(descriptor: OwnedFd) -> Self {
        Self { descriptor, source: ReceiveSource::Completions(None), has_timestamps: false, latest: None }
    }

    /// Enables arrival timestamps, if the kernel supports them.
    pub(crate) fn enable_timestamps(&mut self) {
        self.has_timestamps = breme_sys::enable_timestamps(&self.descriptor).is_ok();
    }

    pub(crate) fn has_timestamps(&self) -> bool {
        self.has_timestamps
    }

    /// Sets the timestamp of the bytes delivered last.
    pub(crate) fn set_timestamp(&mut self, timestamp: Option<ReceiveTimestamp>) {
        self.latest = timestamp;
    }

    pub(crate) fn take_timestamp(&mut self) -> Option<ReceiveTimestamp> {
        self.latest.take()
    }

    /// Whether nothing is buffered.
    pub(crate) fn is_passthrough(&self) -> bool {
        matches!(self.source, ReceiveSource::Completions(None))
    }

    /// Buffers delivered bytes.
    pub(crate) fn buffer(&mut self, bytes: &[u8]) {
        if let ReceiveSource::Completions(ahead) = &mut self.source {
            ahead.get_or_insert_default().bytes.extend_from_slice(bytes);
        }
    }

    pub(crate) fn buffer_end(&mut self) {
        if let ReceiveSource::Completions(ahead) = &mut self.source {
            ahead.get_or_insert_default().has_end = true;
        }
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.source {
            ReceiveSource::Syscalls | ReceiveSource::Completions(None) => 0,
            ReceiveSource::Completions(Some(ahead)) | ReceiveSource::Draining(ahead) => ahead.bytes.len(),
        }
    }

    /// Receives by system calls once the buffer is empty.
    pub(crate) fn switch_to_syscalls(&mut self) {
        if let ReceiveSource::Completions(ahead) = &mut self.source {
            self.source = ReceiveSource::Draining(ahead.take().unwrap_or_default());
        }
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<ReceiveResult, CloseReason> {
        match &mut self.source {
            ReceiveSource::Syscalls => self.receive_from_kernel(buffer),
            ReceiveSource::Completions(None) => Ok(ReceiveResult::Nothing),
            ReceiveSource::Completions(Some(ahead)) => {
                let result = ahead.take(buffer);
                if ahead.bytes.is_empty() && !ahead.has_end {
                    self.source = ReceiveSource::Completions(None);
                }
                Ok(result)
            }
            ReceiveSource::Draining(ahead) => match ahead.take(buffer) {
                ReceiveResult::Nothing => self.receive_from_kernel(buffer),
                result => Ok(result),
            },
        }
    }

    fn receive_from_kernel(&mut self, buffer: &mut [u8]) -> Result<ReceiveResult, CloseReason> {
        let requested = buffer.len();
        match retry_on_intr(|| self.receive_once(buffer)) {
            Ok(0) => Ok(ReceiveResult::End),
            // A short read means no more data, unless the end follows.
            Ok(count) => Ok(ReceiveResult::Bytes { count, is_all: count < requested }),
            Err(Errno::AGAIN) => Ok(ReceiveResult::Nothing),
            Err(error) => Err(reason(error)),
        }
    }

    fn receive_once(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if !self.has_timestamps {
            return rustix::net::recv(&self.descriptor, buffer, RecvFlags::empty()).map(|(count, _)| count);
        }
        let received = breme_sys::receive_with_timestamp(&self.descriptor, buffer);
        let (count, timestamp) = received.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.set_timestamp(timestamp);
        Ok(count)
    }

    pub(crate) fn send(&self, segment: &[u8], more: bool) -> Result<SendResult, SendFailure> {
        let sent = retry_on_intr(|| rustix::net::send(&self.descriptor, segment, flags(more)));
        moved(sent, segment.len())
    }

    pub(crate) fn send_segments(&self, segments: &[IoSlice<'_>], more: bool) -> Result<SendResult, SendFailure> {
        let sent = retry_on_intr(|| {
            rustix::net::sendmsg(&self.descriptor, segments, &mut SendAncillaryBuffer::default(), flags(more))
        });
        moved(sent, segments.iter().map(|segment| segment.len()).sum())
    }

    pub(crate) fn send_file(&self, file: &File, offset: u64, length: usize) -> Result<SendResult, SendFailure> {
        match retry_on_intr(|| self.send_file_once(file, offset, length)) {
            Ok(0) => Err(SendFailure::FileTooShort),
            // The kernel may send part of a file although the socket is not full.
            Ok(bytes) => Ok(SendResult { bytes, is_full: false }),
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

    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Reads a part of a file, at least one byte.
pub(crate) fn read_file(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, SendFailure> {
    match retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset)) {
        Ok(0) => Err(SendFailure::FileTooShort),
        Ok(count) => Ok(count),
        Err(error) => Err(SendFailure::Transport(reason(error))),
    }
}

fn moved(sent: Result<usize, Errno>, requested: usize) -> Result<SendResult, SendFailure> {
    match sent {
        Ok(bytes) => Ok(SendResult { bytes, is_full: bytes < requested }),
        Err(Errno::AGAIN) => Ok(FULL),
        Err(error) => Err(SendFailure::Transport(reason(error))),
    }
}

#[cfg(target_os = "linux")]
fn flags(more: bool) -> SendFlags {
    if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

/// Rust ignores SIGPIPE at start, so a send on a broken connection fails here too.
#[cfg(not(target_os = "linux"))]
fn flags(_more: bool) -> SendFlags {
    SendFlags::empty()
}

pub(crate) fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => CloseReason::Reset,
        other => CloseReason::Failed(other.kind()),
    }
}
