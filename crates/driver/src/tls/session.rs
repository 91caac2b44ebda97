//! A TLS session without I/O: ciphertext in, plaintext out, and the reverse.
//!
//! Its only buffer is the beginning of an incomplete record. The caller provides received ciphertext, which is
//! decrypted in place, and space for ciphertext to send. So the same session serves readiness and completion drivers.
//!
//! - Any call may produce ciphertext to send: handshake messages, tickets, alerts. It must be sent before, or together
//!   with, records encrypted later.
//! - The peer's end is its close_notify (RFC 8446, 6.1). A connection closed without it is truncated, which only the
//!   caller can detect: [`TlsSession::has_ended`].

use std::sync::Arc;

use breme_node::TlsFailure;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::EncryptError;
use rustls::{HandshakeKind, ServerConfig};

use super::ciphertext::Ciphertext;
use super::client::ClientTls;
use super::failure::tls_failure;
use super::rustls_connection::{ProcessStep, RustlsConnection, WriteState};

/// Maximum plaintext of a record (RFC 8446, 5.1).
pub(crate) const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Maximum record with header (RFC 5246, 6.2.3; TLS 1.3 is shorter).
pub(crate) const CIPHERTEXT_BYTES_MAX: usize = RECORD_BYTES_MAX + 2048 + 5;
/// Maximum incomplete data: a record, or handshake messages, where certificate chains are the longest.
const PARTIAL_BYTES_MAX: usize = 128 * 1024;

pub(crate) struct TlsSession {
    connection: RustlsConnection,
    /// The beginning of a record or handshake message.
    partial: Vec<u8>,
    is_handshaking: bool,
    has_ended: bool,
    /// rustls is not called after a failure.
    has_failed: bool,
    /// Stores what the handshake showed.
    client: Option<Arc<ClientTls>>,
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { partial, is_handshaking, has_ended, .. } = self;
        write!(
            formatter,
            "TlsSession {{ partial: {} bytes, is_handshaking: {is_handshaking}, has_ended: {has_ended} }}",
            partial.len()
        )
    }
}

impl TlsSession {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, TlsFailure> {
        let connection = UnbufferedServerConnection::new(config).map_err(|error| tls_failure(&error))?;
        Ok(Self::new(RustlsConnection::Server(connection), None))
    }

    /// Writes the ClientHello into `out`.
    pub(crate) fn client(client: &Arc<ClientTls>, out: &mut Ciphertext) -> Result<Self, TlsFailure> {
        let connection = client.new_connection().map_err(|error| tls_failure(&error))?;
        let mut session = Self::new(RustlsConnection::Client(connection), Some(Arc::clone(client)));
        session.receive(&mut [], &mut Vec::new(), out)?;
        Ok(session)
    }

    fn new(connection: RustlsConnection, client: Option<Arc<ClientTls>>) -> Self {
        Self { connection, partial: Vec::new(), is_handshaking: true, has_ended: false, has_failed: false, client }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.is_handshaking
    }

    /// Whether the peer sent close_notify.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Moves the incomplete record to the front of `buffer`, so that the next bytes can be received after it. Returns
    /// its length; 0 if the buffer is too short, which only costs a copy.
    pub(crate) fn take_partial(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.partial.len();
        // Useless without space after it.
        if length == 0 || length >= buffer.len() {
            return 0;
        }
        buffer[..length].copy_from_slice(&self.partial);
        self.partial = Vec::new();
        length
    }

    /// Consumes all ciphertext; appends its plaintext to `plaintext`, and ciphertext to send to `out`, also on failure
    /// (the alert).
    pub(crate) fn receive(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Ciphertext,
    ) -> Result<(), TlsFailure> {
        if self.has_failed {
            return Err(TlsFailure::Protocol);
        }
        if self.partial.is_empty() {
            let taken = self.process(ciphertext, plaintext, out)?;
            return self.keep_partial(&ciphertext[taken..]);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(ciphertext);
        let taken = self.process(&mut joined, plaintext, out)?;
        joined.drain(..taken);
        self.keep_partial(&joined)
    }

    fn keep_partial(&mut self, rest: &[u8]) -> Result<(), TlsFailure> {
        if rest.len() > PARTIAL_BYTES_MAX {
            self.has_failed = true;
            return Err(TlsFailure::Protocol);
        }
        // Data after the peer's end is ignored.
        if !rest.is_empty() && !self.has_ended {
            self.partial = rest.to_vec();
        }
        Ok(())
    }

    /// Returns the number of consumed bytes.
    fn process(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Ciphertext,
    ) -> Result<usize, TlsFailure> {
        let mut taken = 0;
        loop {
            let (discard, step) = self.connection.step(&mut ciphertext[taken..], plaintext, out);
            taken += discard;
            match step {
                Ok(ProcessStep::Again) => {}
                Ok(ProcessStep::Ended) => self.has_ended = true,
                Ok(ProcessStep::Blocked) => return Ok(taken),
                Ok(ProcessStep::Open) => {
                    self.finish_handshake();
                    return Ok(taken);
                }
                Err(error) => {
                    self.has_failed = true;
                    self.connection.drain(&mut ciphertext[taken..], out);
                    return Err(tls_failure(&error));
                }
            }
        }
    }

    fn finish_handshake(&mut self) {
        if !std::mem::replace(&mut self.is_handshaking, false) {
            return;
        }
        if let (Some(client), RustlsConnection::Client(connection)) = (self.client.take(), &self.connection) {
            client.note_handshake(connection);
        }
    }

    /// Encrypts up to [`RECORD_BYTES_MAX`] bytes as one record.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8], out: &mut Ciphertext) -> Result<(), TlsFailure> {
        debug_assert!(plaintext.len() <= RECORD_BYTES_MAX);
        self.write(out, |traffic, free| traffic.encrypt(plaintext, free))
    }

    /// Appends close_notify, once.
    pub(crate) fn end_sending(&mut self, out: &mut Ciphertext) -> Result<(), TlsFailure> {
        self.write(out, |traffic, free| traffic.queue_close_notify(free))
    }

    fn write(
        &mut self,
        out: &mut Ciphertext,
        mut put: impl FnMut(&mut dyn WriteState, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), TlsFailure> {
        if self.has_failed {
            return Err(TlsFailure::Protocol);
        }
        // Pass incomplete data each time: rustls keeps a position in it.
        let mut partial = std::mem::take(&mut self.partial);
        let outcome = self.connection.write(&mut partial, out, &mut put);
        self.has_failed = outcome.is_err();
        self.partial = partial;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;
    use crate::tls::{ClientOptions, Identity, ServerTls, Trust};

    struct Pair {
        sessions: [TlsSession; 2],
        wires: [Ciphertext; 2],
        read: [Vec<u8>; 2],
        failures: [Option<TlsFailure>; 2],
    }

    fn setup() -> (ServerTls, Arc<ClientTls>) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let options = ClientOptions {
            trust: Trust::from_pem(certificate.as_bytes()).unwrap(),
            identity: None,
            protocols: &[],
            resumption: true,
            version: None,
        };
        (ServerTls::new(&identity, &[]).unwrap(), Arc::new(ClientTls::new("localhost", &options).unwrap()))
    }

    impl Pair {
        fn new(server: &ServerTls, client: &Arc<ClientTls>) -> Self {
            let mut wires = [Ciphertext::default(), Ciphertext::default()];
            let client = TlsSession::client(client, &mut wires[0]).unwrap();
            let sessions = [client, server.session().unwrap()];
            Self { sessions, wires, read: [Vec::new(), Vec::new()], failures: [None; 2] }
        }

        /// Delivers a piece of what `from` sent, changed or not.
        fn carry(&mut self, from: usize, random: &mut Random, change: impl FnOnce(&mut [u8])) {
            let to = 1 - from;
            let sent = self.wires[from].len() as u64;
            let length = if random.below(2) == 0 { sent } else { sent.min(1 + random.below(40)) };
            // As drivers do: after the incomplete record, or as a separate piece.
            let mut lent = vec![0; 70_000];
            let waiting = if random.below(2) == 0 { self.sessions[to].take_partial(&mut lent) } else { 0 };
            let piece = self.wires[from].as_slice()[..length as usize].to_vec();
            self.wires[from].consume(piece.len());
            lent.truncate(waiting);
            lent.extend_from_slice(&piece);
            change(&mut lent[waiting..]);
            let outcome = self.sessions[to].receive(&mut lent, &mut self.read[to], &mut self.wires[to]);
            self.failures[to] = self.failures[to].or(outcome.err());
        }

        fn settle(&mut self, random: &mut Random) {
            while self.wires.iter().any(|wire| !wire.is_empty()) && self.failures == [None, None] {
                let from = random.below(2) as usize;
                self.carry(from, random, |_| {});
            }
        }
    }

    /// Often a full record.
    fn content(random: &mut Random) -> Vec<u8> {
        let length = [0, 1, 100, RECORD_BYTES_MAX - 1, RECORD_BYTES_MAX][random.below(5) as usize];
        (0..length).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn random_cuts_preserve_data() {
        let (server, client) = setup();
        for seed in 0..60 {
            let mut random = Random::stream(seed, 0);
            let mut pair = Pair::new(&server, &client);
            pair.settle(&mut random);
            assert!(pair.sessions.iter().all(|session| !session.is_handshaking()), "seed {seed}");
            let mut sent = [Vec::new(), Vec::new()];
            for _ in 0..20 {
                let from = random.below(2) as usize;
                let content = content(&mut random);
                pair.sessions[from].encrypt(&content, &mut pair.wires[from]).unwrap();
                sent[from].extend_from_slice(&content);
                pair.carry(random.below(2) as usize, &mut random, |_| {});
            }
            for side in [0, 1] {
                pair.sessions[side].end_sending(&mut pair.wires[side]).unwrap();
            }
            pair.settle(&mut random);
            assert_eq!(pair.failures, [None, None], "seed {seed}");
            assert!(pair.read[1] == sent[0] && pair.read[0] == sent[1], "seed {seed}");
            assert!(pair.sessions.iter().all(TlsSession::has_ended), "seed {seed}");
        }
    }

    #[test]
    fn corrupted_byte_fails_cleanly() {
        let (server, client) = setup();
        let mut failed_count = 0;
        for seed in 0..400 {
            let mut random = Random::stream(seed, 1);
            let mut pair = Pair::new(&server, &client);
            let wrong_at = random.below(12);
            for turn in 0..40 {
                let from = random.below(2) as usize;
                let (place, bit) = (random.below(1 << 16) as usize, 1 << random.below(8));
                pair.carry(from, &mut random, |bytes| {
                    if turn >= wrong_at && !bytes.is_empty() && turn % 3 == 0 {
                        let place = place % bytes.len();
                        bytes[place] ^= bit;
                    }
                });
                if !pair.sessions[from].is_handshaking() {
                    let _ = pair.sessions[from].encrypt(b"content", &mut pair.wires[from]);
                    let _ = pair.sessions[from].end_sending(&mut pair.wires[from]);
                }
            }
            for read in &pair.read {
                assert!(b"content".repeat(40).starts_with(read), "seed {seed}: {read:?}");
            }
            failed_count += u32::from(pair.failures != [None, None]);
        }
        assert!(failed_count > 200, "{failed_count}: only bytes after the end may be corrupted without a failure");
    }

    #[test]
    fn endless_handshake_message_fails() {
        let (server, _) = setup();
        let mut session = server.session().unwrap();
        let mut outcome = Ok(());
        for _ in 0..20 {
            // Parts of a handshake message that announces more than all of them.
            let mut piece = vec![22, 3, 1, 0x40, 0];
            piece.resize(5 + RECORD_BYTES_MAX, 0);
            if session.partial.is_empty() {
                piece[5..9].copy_from_slice(&[1, 0, 0xff, 0xff]);
            }
            outcome = outcome.and_then(|()| session.receive(&mut piece, &mut Vec::new(), &mut Ciphertext::default()));
        }
        assert!(outcome.is_err());
        assert!(session.partial.len() <= PARTIAL_BYTES_MAX);
    }
}
