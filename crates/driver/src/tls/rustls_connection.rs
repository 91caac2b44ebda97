//! A common interface to the client and server connections of rustls, whose types differ.

use breme_node::TlsFailure;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, HandshakeKind};

use super::ciphertext::Ciphertext;
use super::failure::tls_failure;

pub(super) enum RustlsConnection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Result of passing ciphertext to rustls once.
pub(super) enum ProcessStep {
    /// Call again.
    Again,
    /// No progress without more ciphertext.
    Blocked,
    /// The same, with the handshake completed.
    Open,
    Ended,
}

/// The `WriteTraffic` of either role.
pub(super) trait WriteState {
    fn encrypt(&mut self, plaintext: &[u8], free: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, free: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<Data> WriteState for WriteTraffic<'_, Data> {
    fn encrypt(&mut self, plaintext: &[u8], free: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plaintext, free)
    }

    fn queue_close_notify(&mut self, free: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, free)
    }
}

pub(super) type Put<'a> = dyn FnMut(&mut dyn WriteState, &mut [u8]) -> Result<usize, EncryptError> + 'a;

impl RustlsConnection {
    pub(super) fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            Self::Client(connection) => connection.handshake_kind(),
            Self::Server(connection) => connection.handshake_kind(),
        }
    }

    /// Passes ciphertext to rustls once, and handles the result. Returns the number of consumed bytes.
    pub(super) fn step(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Ciphertext,
    ) -> (usize, Result<ProcessStep, Error>) {
        match self {
            Self::Client(connection) => handle(connection.process_tls_records(ciphertext), plaintext, out),
            Self::Server(connection) => handle(connection.process_tls_records(ciphertext), plaintext, out),
        }
    }

    fn wants_write(&self) -> bool {
        match self {
            Self::Client(connection) => connection.wants_write(),
            Self::Server(connection) => connection.wants_write(),
        }
    }

    /// After an error: appends the pending alert to `out`. Until then rustls ignores ciphertext.
    pub(super) fn drain(&mut self, ciphertext: &mut [u8], out: &mut Ciphertext) {
        while self.wants_write() {
            if self.step(ciphertext, &mut Vec::new(), out).1.is_err() {
                return;
            }
        }
    }

    pub(super) fn write(
        &mut self,
        partial: &mut [u8],
        out: &mut Ciphertext,
        put: &mut Put<'_>,
    ) -> Result<(), TlsFailure> {
        match self {
            Self::Client(connection) => loop {
                if let Some(outcome) = write_once(connection.process_tls_records(partial), out, put) {
                    return outcome;
                }
            },
            Self::Server(connection) => loop {
                if let Some(outcome) = write_once(connection.process_tls_records(partial), out, put) {
                    return outcome;
                }
            },
        }
    }
}

fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: &mut Vec<u8>,
    out: &mut Ciphertext,
) -> (usize, Result<ProcessStep, Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut traffic) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    plaintext.extend_from_slice(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(ProcessStep::Again),
            }
        },
        ConnectionState::EncodeTlsData(mut data) => {
            let mut outcome = data.encode(out.free(0));
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
                outcome = data.encode(out.free(required_size));
            }
            outcome.map(|count| out.fill(count)).map_err(|_| Error::EncryptError).map(|()| ProcessStep::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done(); // it is in `out`, from which everything leaves in order
            Ok(ProcessStep::Again)
        }
        ConnectionState::PeerClosed => Ok(ProcessStep::Ended),
        ConnectionState::WriteTraffic(_) => Ok(ProcessStep::Open),
        ConnectionState::BlockedHandshake | ConnectionState::Closed => Ok(ProcessStep::Blocked),
        // Early data is not offered.
        _ => Err(Error::HandshakeNotComplete),
    };
    (discard, step)
}

/// None: call again.
fn write_once<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Ciphertext,
    put: &mut Put<'_>,
) -> Option<Result<(), TlsFailure>> {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        let mut outcome = put(&mut traffic, out.free(0));
        if let Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
            outcome = put(&mut traffic, out.free(required_size));
        }
        return Some(outcome.map(|count| out.fill(count)).map_err(|_| TlsFailure::Protocol));
    }
    let mut nothing = Vec::new();
    match handle(status, &mut nothing, out) {
        (0, Ok(ProcessStep::Again)) if nothing.is_empty() => None,
        // Closed by both sides.
        (_, Ok(ProcessStep::Blocked)) => Some(Ok(())),
        (_, Err(error)) => Some(Err(tls_failure(&error))),
        _ => Some(Err(TlsFailure::Protocol)),
    }
}
