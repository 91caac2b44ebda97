//! A session over a socket, whether that is asked for its bytes or they are brought.
//!
//! What is sealed leaves in one call where the kernel takes it; what it does not take waits here, at most one call's
//! worth. What is opened goes straight to the caller's buffer; what does not fit into it waits here, at most one
//! receipt's worth. Both are empty, and hold no memory, while the connection is idle: the places in which records are
//! opened and sealed belong to the thread.

use std::cell::RefCell;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Deref;

use breme_base::Instant;
use breme_node::{Accepted, CloseReason, TlsFailure};
use bytes::Bytes;

use super::ciphertext::Ciphertext;
use super::session::{RECORD_BYTES_MAX, SEALED_BYTES_MAX, Session};
use crate::socket::{Moved, Receipt, SendFailure};
use crate::socket::{Socket, read_file};

/// Ciphertext that one call receives at most.
const RECEIVE_BYTES_MAX: usize = 64 * 1024;
/// Plaintext that one call seals at most: four full records.
const SEAL_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;

/// What a thread needs for one call at a time.
struct Scratch {
    /// Received ciphertext, behind the beginning of a record.
    incoming: Box<[u8]>,
    /// What it holds.
    plaintext: Vec<u8>,
    /// Segments put together to a record, or a piece of a file.
    gathered: Vec<u8>,
    /// Records on their way out.
    out: Ciphertext,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        incoming: vec![0; RECEIVE_BYTES_MAX + SEALED_BYTES_MAX].into_boxed_slice(),
        plaintext: Vec::new(),
        gathered: Vec::new(),
        out: Ciphertext::default(),
    });
}

/// A session, and what waits on both sides of it.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Session,
    /// Sealed, and not taken by the kernel.
    pending: Ciphertext,
    /// Opened, and not handed over: from `lent` on.
    plaintext: Vec<u8>,
    lent: usize,
    /// Why nothing more can be opened, once the plaintext before it has been handed over.
    failure: Option<TlsFailure>,
    /// When the connection was there.
    pub(crate) since: Instant,
    /// Who connected, until the node has been told.
    pub(crate) accepted: Option<Accepted>,
    /// For clients that do not speak TLS; until something has come.
    plaintext_answer: Option<Bytes>,
}

/// How far a handshake has come.
pub(crate) enum HandshakeStep {
    /// What is left to be sent leaves with the first bytes of the node.
    Done,
    Waiting,
    /// An alert may be left to be sent.
    Failed(TlsFailure),
}

impl Secured {
    /// The side that was accepted.
    pub(crate) fn server(session: Session, plaintext_answer: &Bytes, accepted: Accepted, since: Instant) -> Self {
        let answer = Some(plaintext_answer.clone()).filter(|answer| !answer.is_empty());
        Self { accepted: Some(accepted), plaintext_answer: answer, ..Self::new(session, Ciphertext::default(), since) }
    }

    /// The side that has connected; `hello` is to be sent first.
    pub(crate) fn new(session: Session, hello: Ciphertext, since: Instant) -> Self {
        Self {
            session,
            pending: hello,
            plaintext: Vec::new(),
            lent: 0,
            failure: None,
            since,
            accepted: None,
            plaintext_answer: None,
        }
    }

    /// Sealed bytes that the kernel has not taken.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Opened bytes that have not been handed over.
    pub(crate) fn has_plaintext(&self) -> bool {
        self.lent < self.plaintext.len()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// Goes on with the handshake as far as the kernel lets it.
    pub(crate) fn shake_hands(&mut self, socket: &mut Socket) -> HandshakeStep {
        loop {
            let was_all = match self.take_in(socket, RECEIVE_BYTES_MAX) {
                Ok(Intake::Some { was_all }) => was_all,
                Ok(Intake::Nothing) => true,
                Ok(Intake::End) | Err(_) => return HandshakeStep::Failed(TlsFailure::Closed),
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

    /// After a failed handshake: lets the peer know, as far as the kernel takes it, and ends the sending.
    pub(crate) fn say_farewell(&mut self, socket: &mut Socket) -> Result<(), CloseReason> {
        let _ = self.flush(socket); // the peer will see the end without it
        socket.end_sending()
    }

    /// Receives plaintext.
    pub(crate) fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Result<Receipt, CloseReason> {
        let mut is_all = false;
        loop {
            if self.has_plaintext() {
                return Ok(self.hand_over(buffer, is_all));
            }
            if let Some(failure) = self.failure {
                return self.receive_into_nothing(socket, buffer, failure);
            }
            if self.session.has_ended() {
                return Ok(Receipt::End);
            }
            if is_all {
                return Ok(Receipt::Nothing);
            }
            match self.take_in(socket, buffer.len())? {
                Intake::Some { was_all } => is_all = was_all,
                Intake::Nothing => return Ok(Receipt::Nothing),
                Intake::End => return Err(CloseReason::Truncated),
            }
        }
    }

    /// A session that has failed tells so once; what still comes is for a connection that lingers.
    fn receive_into_nothing(
        &mut self,
        socket: &mut Socket,
        buffer: &mut [u8],
        failure: TlsFailure,
    ) -> Result<Receipt, CloseReason> {
        if self.session.is_handshaking() {
            return socket.receive(buffer);
        }
        let _ = self.flush(socket); // the alert
        Err(CloseReason::Tls(failure))
    }

    fn hand_over(&mut self, buffer: &mut [u8], is_all: bool) -> Receipt {
        let waiting = &self.plaintext[self.lent..];
        let count = waiting.len().min(buffer.len());
        buffer[..count].copy_from_slice(&waiting[..count]);
        self.lent += count;
        let is_last = !self.has_plaintext();
        if is_last {
            self.lent = 0;
            self.recycle();
        }
        // The end and a failure are still to be told.
        let is_all = is_all && is_last && !self.session.has_ended() && self.failure.is_none();
        Receipt::Bytes { count, is_all }
    }

    /// Gives the memory of what was opened back to the thread.
    fn recycle(&mut self) {
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.plaintext.capacity() < plaintext.capacity() {
                scratch.plaintext = plaintext;
            }
        });
    }

    /// Receives once, and opens what has come. A failure is left in `self.failure`.
    fn take_in(&mut self, socket: &mut Socket, wanted_bytes: usize) -> Result<Intake, CloseReason> {
        SCRATCH.with_borrow_mut(|scratch| {
            let incoming = &mut scratch.incoming;
            let partial = self.session.take_partial(&mut incoming[..SEALED_BYTES_MAX]);
            // A whole record at least, so that each call gets on. What is left of a record is shorter than one, but for
            // a handshake's.
            let room = wanted_bytes.saturating_sub(partial).clamp(SEALED_BYTES_MAX, RECEIVE_BYTES_MAX);
            let receipt = socket.receive(&mut incoming[partial..partial + room])?;
            let (count, intake) = match receipt {
                Receipt::Bytes { count, is_all } => (count, Intake::Some { was_all: is_all }),
                Receipt::Nothing => (0, Intake::Nothing),
                Receipt::End => return Ok(Intake::End),
            };
            if self.answers_plaintext(&incoming[..count]) {
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

    /// Whether these are the first bytes, and begin like a protocol in the clear rather than like a record.
    fn answers_plaintext(&mut self, first: &[u8]) -> bool {
        if first.is_empty() {
            return false;
        }
        let answer = self.plaintext_answer.take().filter(|_| first[0].is_ascii_uppercase());
        let Some(answer) = answer else { return false };
        self.pending.append(&answer);
        self.failure = Some(TlsFailure::NotTls);
        true
    }

    /// Seals some of the segments, and sends what is sealed in one call. What it takes of them has left as far as the
    /// caller is concerned.
    pub(crate) fn send(
        &mut self,
        socket: &mut Socket,
        segments: &[IoSlice<'_>],
        more: bool,
    ) -> Result<Moved, SendFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            self.send_sealed(socket, more, out, |session, out| seal_segments(session, segments, gathered, out))
        })
    }

    /// Seals segments for somebody who sends them with others'. What is not taken waits here. Nothing may wait before.
    pub(crate) fn seal_apart(
        &mut self,
        segments: &[&[u8]],
        take: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool, TlsFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            out.clear();
            seal_segments(&mut self.session, segments, gathered, out)?;
            let is_taken = take(out.as_slice());
            if !is_taken {
                self.pending.append(out.as_slice());
            }
            Ok(is_taken)
        })
    }

    /// What was taken apart, and has not left after all.
    pub(crate) fn keep_unsent(&mut self, rest: &[u8]) {
        self.pending.append(rest);
    }

    /// Sends a part of a file, at most `length` bytes of it.
    pub(crate) fn send_file(
        &mut self,
        socket: &mut Socket,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<Moved, SendFailure> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, out, .. } = scratch;
            gathered.resize(length.min(SEAL_BYTES_MAX), 0);
            let count = read_file(file, gathered, offset)?;
            gathered.truncate(count);
            let more = count < length;
            self.send_sealed(socket, more, out, |session, out| {
                gathered.chunks(RECORD_BYTES_MAX).try_for_each(|record| session.seal(record, out))?;
                Ok(count)
            })
        })
    }

    /// Seals behind what waits already, or else in the thread's place for it, and sends that.
    fn send_sealed(
        &mut self,
        socket: &mut Socket,
        more: bool,
        scratch: &mut Ciphertext,
        seal: impl FnOnce(&mut Session, &mut Ciphertext) -> Result<usize, TlsFailure>,
    ) -> Result<Moved, SendFailure> {
        scratch.clear();
        let is_first = self.pending.is_empty();
        let out = if is_first { &mut *scratch } else { &mut self.pending };
        let sealed =
            seal(&mut self.session, out).map_err(|failure| SendFailure::Transport(CloseReason::Tls(failure)))?;
        let moved = socket.send(out.as_slice(), more)?;
        out.consume(moved.bytes);
        if is_first {
            self.pending.append(scratch.as_slice());
        } else {
            self.release_pending();
        }
        Ok(Moved { bytes: sealed, is_full: moved.is_full })
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self, socket: &mut Socket) -> Result<Moved, SendFailure> {
        if self.pending.is_empty() {
            return Ok(Moved { bytes: 0, is_full: false });
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

    /// Tells the peer that nothing more comes. Returns whether that has left; if not, it is to be called again when the
    /// kernel takes more.
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

enum Intake {
    Some {
        /// The kernel had no more.
        was_all: bool,
    },
    Nothing,
    End,
}

/// Makes records of the segments, each as full as can be, and returns how many bytes are in them.
fn seal_segments(
    session: &mut Session,
    segments: &[impl Deref<Target = [u8]>],
    gathered: &mut Vec<u8>,
    out: &mut Ciphertext,
) -> Result<usize, TlsFailure> {
    gathered.clear();
    let mut sealed = 0;
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        let mut rest = &segment[..];
        while !rest.is_empty() && sealed < SEAL_BYTES_MAX {
            let (piece, behind) = rest.split_at(rest.len().min(RECORD_BYTES_MAX - gathered.len()));
            rest = behind;
            if gathered.is_empty() && (piece.len() == RECORD_BYTES_MAX || is_last) {
                session.seal(piece, out)?;
                sealed += piece.len();
                continue;
            }
            gathered.extend_from_slice(piece);
            if gathered.len() == RECORD_BYTES_MAX || is_last && rest.is_empty() {
                session.seal(gathered, out)?;
                sealed += gathered.len();
                gathered.clear();
            }
        }
    }
    if !gathered.is_empty() {
        session.seal(gathered, out)?;
        sealed += gathered.len();
    }
    Ok(sealed)
}
