//! The bytes of one connection to and from the kernel, without waiting.
//!
//! Here TLS stands between socket and node, if there is any: everything above speaks of plain bytes and of segments.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use breme_node::CloseReason;

use crate::socket::{Moved, Receipt, SendFailure, Socket};
use crate::tls::{HandshakeStep, Secured};

/// Segments that one send hands to the kernel at once. More do not make it cheaper, and the kernel allows 1024.
pub(crate) const SEGMENTS_PER_SEND: usize = 64;

#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Socket,
    /// Its session, if it is TLS's.
    pub(crate) secured: Option<Box<Secured>>,
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, secured: None }
    }

    /// From now on a session stands between.
    pub(crate) fn secure(&mut self, secured: Secured) {
        self.secured = Some(Box::new(secured));
    }

    /// Whether bytes that are brought may go to the node as they are: there is nothing between it and the socket, and
    /// nothing before them.
    pub(crate) fn is_clear(&self) -> bool {
        self.secured.is_none() && self.socket.is_clear()
    }

    /// Goes on with the handshake; without a session there is nothing to do.
    pub(crate) fn shake_hands(&mut self) -> HandshakeStep {
        self.secured.as_mut().map_or(HandshakeStep::Done, |secured| secured.shake_hands(&mut self.socket))
    }

    /// After a failed handshake: tells the peer, and that nothing more comes.
    pub(crate) fn say_farewell(&mut self) -> Result<(), CloseReason> {
        self.secured.as_mut().map_or(Ok(()), |secured| secured.say_farewell(&mut self.socket))
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        match &mut self.secured {
            None => self.socket.receive(buffer),
            Some(secured) => secured.receive(&mut self.socket, buffer),
        }
    }

    /// Sends one segment; `more` follows at once, so that the kernel may wait to fill a packet.
    pub(crate) fn send(&mut self, segment: &[u8], more: bool) -> Result<Moved, SendFailure> {
        match &mut self.secured {
            None => self.socket.send(segment, more),
            Some(secured) => secured.send(&mut self.socket, &[IoSlice::new(segment)], more),
        }
    }

    /// Sends several segments in one call.
    pub(crate) fn send_segments(&mut self, segments: &[IoSlice<'_>], more: bool) -> Result<Moved, SendFailure> {
        match (&mut self.secured, segments) {
            (Some(secured), _) => secured.send(&mut self.socket, segments, more),
            (None, [segment]) => self.socket.send(segment, more),
            (None, _) => self.socket.send_segments(segments, more),
        }
    }

    /// Sends a part of a file, at most `length` bytes of it.
    pub(crate) fn send_file(&mut self, file: &File, offset: u64, length: usize) -> Result<Moved, SendFailure> {
        match &mut self.secured {
            None => self.socket.send_file(file, offset, length),
            Some(secured) => secured.send_file(&mut self.socket, file, offset, length),
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
            Some(secured) => secured.flush(&mut self.socket),
        }
    }

    /// Tells the peer that nothing more comes. Returns whether that has left; if not, call it again when the kernel
    /// takes more.
    pub(crate) fn end_sending(&mut self) -> Result<bool, CloseReason> {
        match &mut self.secured {
            None => self.socket.end_sending().map(|()| true),
            Some(secured) => secured.end_sending(&mut self.socket),
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
