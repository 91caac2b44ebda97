//! What rustls has for each role, as one: ciphertext is lent to it, and it says what is next.
//!
//! Its types for clients and for servers differ; what is done with them does not.

use breme_node::TlsFailure;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, HandshakeKind};

use super::ciphertext::Ciphertext;
use super::failure::failure_of;

/// The connection of either role, in the words of rustls.
pub(super) enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What comes of lending ciphertext to rustls once.
pub(super) enum Step {
    /// Look again.
    Again,
    /// Nothing more can be done with what is there.
    Blocked,
    /// The same, and the handshake is done.
    Open,
    Ended,
}

/// Both sides' state of writing, whose types differ.
pub(super) trait Traffic {
    fn encrypt(&mut self, plaintext: &[u8], room: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<Data> Traffic for WriteTraffic<'_, Data> {
    fn encrypt(&mut self, plaintext: &[u8], room: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plaintext, room)
    }

    fn queue_close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, room)
    }
}

pub(super) type Put<'a> = dyn FnMut(&mut dyn Traffic, &mut [u8]) -> Result<usize, EncryptError> + 'a;

impl Side {
    pub(super) fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            Self::Client(connection) => connection.handshake_kind(),
            Self::Server(connection) => connection.handshake_kind(),
        }
    }

    /// Lends the ciphertext once, and handles what rustls makes of it. Returns how many bytes it has used up.
    pub(super) fn step(
        &mut self,
        ciphertext: &mut [u8],
        plaintext: &mut Vec<u8>,
        out: &mut Ciphertext,
    ) -> (usize, Result<Step, Error>) {
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

    /// After an error: puts what rustls still has to say, an alert, into `out`. While it has, it looks at no
    /// ciphertext.
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
) -> (usize, Result<Step, Error>) {
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
                None => break Ok(Step::Again),
            }
        },
        ConnectionState::EncodeTlsData(mut data) => {
            let mut outcome = data.encode(out.room(0));
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
                outcome = data.encode(out.room(required_size));
            }
            outcome.map(|count| out.fill(count)).map_err(|_| Error::EncryptError).map(|()| Step::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done(); // it is in `out`, from which everything leaves in order
            Ok(Step::Again)
        }
        ConnectionState::PeerClosed => Ok(Step::Ended),
        ConnectionState::WriteTraffic(_) => Ok(Step::Open),
        ConnectionState::BlockedHandshake | ConnectionState::Closed => Ok(Step::Blocked),
        // Early data is not offered; other states are not known yet.
        _ => Err(Error::HandshakeNotComplete),
    };
    (discard, step)
}

/// None: look again.
fn write_once<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Ciphertext,
    put: &mut Put<'_>,
) -> Option<Result<(), TlsFailure>> {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        let mut outcome = put(&mut traffic, out.room(0));
        if let Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
            outcome = put(&mut traffic, out.room(required_size));
        }
        return Some(outcome.map(|count| out.fill(count)).map_err(|_| TlsFailure::Protocol));
    }
    let mut nothing = Vec::new();
    match handle(status, &mut nothing, out) {
        (0, Ok(Step::Again)) if nothing.is_empty() => None,
        // After both ends there is nothing more to say.
        (_, Ok(Step::Blocked)) => Some(Ok(())),
        (_, Err(error)) => Some(Err(failure_of(&error))),
        _ => Some(Err(TlsFailure::Protocol)),
    }
}
