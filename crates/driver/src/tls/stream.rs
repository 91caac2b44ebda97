//! A TLS session on a socket, by readiness or completions.
//!
//! Records are sent with one call; what the kernel does not take waits here, at most one call's worth. Plaintext goes
//! to the caller's buffer; what does not fit waits here, at most one receive's worth. Both are empty and hold no memory
//! while the connection is idle: work buffers belong to the thread.

use std::cell::RefCell;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Deref;

use breme_base::Instant;
use breme_node::{Accepted, CloseReason, TlsFailure};
use bytes::Bytes;

use super::ciphertext::Ciphertext;
use super::session::{CIPHERTEXT_BYTES_MAX, RECORD_BYTES_MAX, TlsSession};
use crate::socket::{ReceiveResult, SendFailure, SendResult};
use crate::socket::{Socket, read_file};

/// Ciphertext per receive, in bytes.
const RECEIVE_BYTES_MAX: usize = 64 * 1024;
/// Plaintext per send, in bytes: four full records.
const ENCRYPT_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;

/// Work buffers of a thread.
struct Scratch {
    /// Received ciphertext, after the beginning of an incomplete record.
    incoming: Box<[u8]>,
    plaintext: Vec<u8>,
    /// Small segments combined into a record, or a piece of a file.
    gathered: Vec<u8>,
    out: Ciphertext,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        incoming: vec![0; RECEIVE_BYTES_MAX + CIPHERTEXT_BYTES_MAX].into_boxed_slice(),
        plaintext: Vec::new(),
        gathered: Vec::new(),
        out: Ciphertext::default(),
    });
}

#[derive(Debug)]
pub(crate) struct TlsStream {
    session: TlsSession,
    /// Encrypted, not sent.
    pending: Ciphertext,
    /// Decrypted; unread from `consumed` on.
    plaintext: Vec<u8>,
    consumed: usize,
    /// Why decryption stopped; reported after the plaintext before it.
    failure: Option<TlsFailure>,
    pub(crate) connected_at: Instant,
    /// Set until the node is notified.
    pub(crate) accepted: Option<Accepted>,
    /// For clients without TLS; cleared by the first bytes.
    plaintext_response: Option<Bytes>,
}

pub(crate) enum HandshakeStep {
    /// Pending records are sent with the node's first bytes.
    Done,
    Waiting,
    /// An alert may be pending.
    Failed(TlsFailure),
}

impl TlsStream {
    pub(crate) fn server(
        session: TlsSession,
        plaintext_response: &Bytes,
        accepted: Accepted,
        connected_at: Instant,
    ) -> Self {
        let plaintext_response = Some(plaintext_response.clone()).filter(|response| !response.is_empty());
        Self { accepted: Some(accepted), plaintext_response, ..Self::new(session, Ciphertext::default(), connected_at) }
    }

    /// `hello` is sent first.
    pub(crate) fn new(session: TlsSession, hello: Ciphertext, connected_at: Instant) -> Self {
        Self {
            session,
            pending: hello,
            plaintext: Vec::new(),
            consumed: 0,
            failure: None,
            connected_at,
            accepted: None,
            plaintext_response: None,
        }
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn has_plaintext(&self) -> bool {
        self.consumed < self.plaintext.len()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    pub(crate) fn continue_handshake(&mut self, socket: &mut Socket) -> HandshakeStep {
        loop {
            let was_all = match self.receive_records(socket, RECEIVE_BYTES_MAX) {
                Ok(Incoming::Some { was_all }) => was_all,
                Ok(Incoming::Nothing) => true,
                Ok(Incoming::End) | Err(_) => return HandshakeStep::Failed(TlsFailure::Closed),
            };
            if let Some(failure) = self.failure {
                return HandshakeStep::Failed(failure);
            }
            if !self.session.is_handshaking() {
                return HandshakeStep::Done;
            }
            if self.flush(socket).is_err() {
                return HandshakeStep::Failed(TlsFailure::Closed);
            }
            if was_all {
                return HandshakeStep::Waiting;
            }
        }
    }

    /// Sends the alert if possible, and half-closes the socket.
    pub(crate) fn end_after_failure(&mut self, socket: &mut Socket) -> Result<(), CloseReason> {
        let _ = self.flush(socket); // the peer will see the end without it
        socket.end_sending()
    }

    pub(crate) fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Result<ReceiveResult, CloseReason> {
        let mut is_all = false;
        loop {
            if self.has_plaintext() {
                return Ok(self.copy_plaintext(buffer, is_all));
            }
            if let Some(failure) = self.failure {
                return self.receive_after_failure(socket, buffer, failure);
            }
            if self.session.has_ended() {
                return Ok(ReceiveResult::End);
            }
            if is_all {
                return Ok(ReceiveResult::Nothing);
            }
            match self.receive_records(socket, buffer.len())? {
                Incoming::Some { was_all } => is_all = was_all,
                Incoming::Nothing => return Ok(ReceiveResult::Nothing),
                Incoming::End => return Err(CloseReason::Truncated),
            }
        }
    }

    /// A failed session reports its failure once; later data is only for lingering.
    fn receive_after_failure(
        &mut self,
        socket: &mut Socket,
        buffer: &mut [u8],
        failure: TlsFailure,
    ) -> Result<ReceiveResult, CloseReason> {
        if self.session.is_handshaking() {
            return socket.receive(buffer);
        }
        let _ = self.flush(socket); // the alert
        Err(CloseReason::Tls(failure))
    }

    fn copy_plaintext(&mut self, buffer: &mut [u8], is_all: bool) -> ReceiveResult {
        let waiting = &self.plaintext[self.consumed..];
        let count = waiting.len().min(buffer.len());
        buffer[..count].copy_from_slice(&waiting[..count]);
        self.consumed += count;
        let is_last = !self.has_plaintext();
        if is_last {
            self.consumed = 0;
            self.recycle_plaintext();
        }
        // End and failure are reported later.
        let is_all = is_all && is_last && !self.session.has_ended() && self.failure.is_none();
        ReceiveResult::Bytes { count, is_all }
    }

    /// Returns the buffer to the thread.
    fn recycle_plaintext(&mut self) {
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.plaintext.capacity() < plaintext.capacity() {
                scratch.plaintext = plaintext;
            }
        });
    }

    /// Receives once and decrypts. Failures are stored in `self.failure`.
    fn receive_records(&mut self, socket: &mut Socket, wanted_bytes: usize) -> Result<Incoming, CloseReason> {
        SCRATCH.with_borrow_mut(|scratch| {
            let incoming = &mut scratch.incoming;
            let partial = self.session.take_partial(&mut incoming[..CIPHERTEXT_BYTES_MAX]);
            // At least one record, for progress. Only incomplete handshake messages can be longer than a record.
            let length = wanted_bytes.saturating_sub(partial).clamp(CIPHERTEXT_BYTES_MAX, RECEIVE_BYTES_MAX);
            let result = socket.receive(&mut incoming[partial..partial + length])?;
            let (count, intake) = match result {
                ReceiveResult::Bytes { count, is_all } => (count, Incoming::Some { was_all: is_all }),
                ReceiveResult::Nothing => (0, Incoming::Nothing),
                ReceiveResult::End => return Ok(Incoming::End),
            };
            if self.rejects_plaintext(&incoming[..count]) {
                return Ok(intake);
            }
            scratch.plaintext.clear();
            let incoming = &mut incoming[..partial + count];
            self.failure = self.session.receive(incoming, &mut scratch.plaintext, &mut self.pending).err();
            if !scratch.plaintext.is_empty() {
                std::mem::swap(&mut self.plaintext, &mut scratch.plaintext);
            }
            Ok(intake)
        })
    }

    /// Whether the first bytes look like plain text rather than a record.
    fn rejects_plaintext(&mut self, first: &[u8]) -> bool {
        if first.is_empty() {
            return false;
        }
        let response = self.plaintext_response.take().filter(|_| first[0].is_ascii_uppercase());
        let Some(response) = response else { return false };
        self.pending.append(&response);
        self.failure = Some(TlsFailure::NotTls);
        true
    }

    /// Encrypts segments and sends the records with one call. Encrypted bytes count as sent.
    pub(crate) fn send(
        &mut self,
        socket: &mut Socket,
        segments: &[IoSlice<'_>],
        more: bool,
    ) -> Result<SendResult, SendFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            self.send_encrypted(socket, more, out, |session, out| encrypt_segments(session, segments, gathered, out))
        })
    }

    /// Encrypts segments for a batched send. What `take` refuses is kept here. Nothing may be pending.
    pub(crate) fn encrypt_detached(
        &mut self,
        segments: &[&[u8]],
        take: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool, TlsFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            out.clear();
            encrypt_segments(&mut self.session, segments, gathered, out)?;
            let is_taken = take(out.as_slice());
            if !is_taken {
                self.pending.append(out.as_slice());
            }
            Ok(is_taken)
        })
    }

    pub(crate) fn keep_unsent(&mut self, rest: &[u8]) {
        self.pending.append(rest);
    }

    /// Sends at most `length` bytes.
    pub(crate) fn send_file(
        &mut self,
        socket: &mut Socket,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<SendResult, SendFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            gathered.resize(length.min(ENCRYPT_BYTES_MAX), 0);
            let count = read_file(file, gathered, offset)?;
            gathered.truncate(count);
            let more = count < length;
            self.send_encrypted(socket, more, out, |session, out| {
                gathered.chunks(RECORD_BYTES_MAX).try_for_each(|record| session.encrypt(record, out))?;
                Ok(count)
            })
        })
    }

    /// Encrypts after pending records, or into the thread's buffer, and sends.
    fn send_encrypted(
        &mut self,
        socket: &mut Socket,
        more: bool,
        scratch: &mut Ciphertext,
        encrypt: impl FnOnce(&mut TlsSession, &mut Ciphertext) -> Result<usize, TlsFailure>,
    ) -> Result<SendResult, SendFailure> {
        scratch.clear();
        let is_first = self.pending.is_empty();
        let out = if is_first { &mut *scratch } else { &mut self.pending };
        let encrypted =
            encrypt(&mut self.session, out).map_err(|failure| SendFailure::Transport(CloseReason::Tls(failure)))?;
        let moved = socket.send(out.as_slice(), more)?;
        out.consume(moved.bytes);
        if is_first {
            self.pending.append(scratch.as_slice());
        } else {
            self.release_pending();
        }
        Ok(SendResult { bytes: encrypted, is_full: moved.is_full })
    }

    pub(crate) fn flush(&mut self, socket: &mut Socket) -> Result<SendResult, SendFailure> {
        if self.pending.is_empty() {
            return Ok(SendResult { bytes: 0, is_full: false });
        }
        let moved = socket.send(self.pending.as_slice(), false)?;
        self.pending.consume(moved.bytes);
        self.release_pending();
        Ok(moved)
    }

    fn release_pending(&mut self) {
        if self.pending.is_empty() {
            self.pending = Ciphertext::default();
        }
    }

    /// Sends close_notify and half-closes. Returns whether that is done; if not, call again when writable.
    pub(crate) fn end_sending(&mut self, socket: &mut Socket) -> Result<bool, CloseReason> {
        self.session.end_sending(&mut self.pending).map_err(CloseReason::Tls)?;
        match self.flush(socket) {
            Ok(_) if self.pending.is_empty() => socket.end_sending().map(|()| true),
            Ok(_) => Ok(false),
            Err(SendFailure::Transport(reason)) => Err(reason),
            Err(SendFailure::FileTooShort) => Ok(false),
        }
    }
}

enum Incoming {
    Some {
        /// The kernel had no more data.
        was_all: bool,
    },
    Nothing,
    End,
}

/// Encrypts segments into full records where possible, and returns the number of plaintext bytes.
fn encrypt_segments(
    session: &mut TlsSession,
    segments: &[impl Deref<Target = [u8]>],
    gathered: &mut Vec<u8>,
    out: &mut Ciphertext,
) -> Result<usize, TlsFailure> {
    gathered.clear();
    let mut encrypted = 0;
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        let mut rest = &segment[..];
        while !rest.is_empty() && encrypted < ENCRYPT_BYTES_MAX {
            let (piece, behind) = rest.split_at(rest.len().min(RECORD_BYTES_MAX - gathered.len()));
            rest = behind;
            if gathered.is_empty() && (piece.len() == RECORD_BYTES_MAX || is_last) {
                session.encrypt(piece, out)?;
                encrypted += piece.len();
                continue;
            }
            gathered.extend_from_slice(piece);
            if gathered.len() == RECORD_BYTES_MAX || is_last && rest.is_empty() {
                session.encrypt(gathered, out)?;
                encrypted += gathered.len();
                gathered.clear();
            }
        }
    }
    if !gathered.is_empty() {
        session.encrypt(gathered, out)?;
        encrypted += gathered.len();
    }
    Ok(encrypted)
}
