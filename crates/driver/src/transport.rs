//! The bytes of a connection, with or without TLS, without blocking.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use breme_node::CloseReason;

use crate::socket::{ReceiveResult, SendFailure, SendResult, Socket};
use crate::tls::{HandshakeStep, TlsStream};

/// Segments per send. More is not cheaper; the kernel allows 1024.
pub(crate) const SEGMENTS_PER_SEND: usize = 64;

#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<Box<TlsStream>>,
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    pub(crate) fn set_tls(&mut self, tls: TlsStream) {
        self.tls = Some(Box::new(tls));
    }

    /// Whether delivered bytes may go directly to the node: no TLS, nothing buffered.
    pub(crate) fn is_passthrough(&self) -> bool {
        self.tls.is_none() && self.socket.is_passthrough()
    }

    /// Done without TLS.
    pub(crate) fn continue_handshake(&mut self) -> HandshakeStep {
        self.tls.as_mut().map_or(HandshakeStep::Done, |tls| tls.continue_handshake(&mut self.socket))
    }

    /// After a failed handshake: sends the alert and half-closes.
    pub(crate) fn end_after_failure(&mut self) -> Result<(), CloseReason> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.end_after_failure(&mut self.socket))
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<ReceiveResult, CloseReason> {
        match &mut self.tls {
            None => self.socket.receive(buffer),
            Some(tls) => tls.receive(&mut self.socket, buffer),
        }
    }

    /// `more`: more follows at once (MSG_MORE).
    pub(crate) fn send(&mut self, segment: &[u8], more: bool) -> Result<SendResult, SendFailure> {
        match &mut self.tls {
            None => self.socket.send(segment, more),
            Some(tls) => tls.send(&mut self.socket, &[IoSlice::new(segment)], more),
        }
    }

    pub(crate) fn send_segments(&mut self, segments: &[IoSlice<'_>], more: bool) -> Result<SendResult, SendFailure> {
        match (&mut self.tls, segments) {
            (Some(tls), _) => tls.send(&mut self.socket, segments, more),
            (None, [segment]) => self.socket.send(segment, more),
            (None, _) => self.socket.send_segments(segments, more),
        }
    }

    /// Sends at most `length` bytes.
    pub(crate) fn send_file(&mut self, file: &File, offset: u64, length: usize) -> Result<SendResult, SendFailure> {
        match &mut self.tls {
            None => self.socket.send_file(file, offset, length),
            Some(tls) => tls.send_file(&mut self.socket, file, offset, length),
        }
    }

    /// Encrypted bytes that the kernel has not taken.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.pending_bytes())
    }

    pub(crate) fn flush(&mut self) -> Result<SendResult, SendFailure> {
        match &mut self.tls {
            None => Ok(SendResult { bytes: 0, is_full: false }),
            Some(tls) => tls.flush(&mut self.socket),
        }
    }

    /// Half-closes. Returns whether that is done; if not, call again when writable.
    pub(crate) fn end_sending(&mut self) -> Result<bool, CloseReason> {
        match &mut self.tls {
            None => self.socket.end_sending().map(|()| true),
            Some(tls) => tls.end_sending(&mut self.socket),
        }
    }

    /// Dropping this value will reset the connection.
    pub(crate) fn reset_on_close(&mut self) {
        breme_sys::reset_on_close(&self.socket);
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(crate) const FILE_TOO_SHORT: CloseReason = CloseReason::Failed(ErrorKind::UnexpectedEof);
