//! What went wrong, as a node may know it.

use std::fmt;

use breme_node::TlsFailure;
use rustls::{CertificateError, Error, InvalidMessage};

/// Names the cause of an error. The words of rustls are for those who write clients; a user needs to know which of a
/// few things to mend.
pub(crate) fn failure_of(error: &Error) -> TlsFailure {
    match error {
        Error::InvalidCertificate(error) => certificate_failure(error),
        Error::AlertReceived(alert) => TlsFailure::Alert(u8::from(*alert)),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFailure::NothingInCommon,
        // What does not begin as a record does: HTTP, SSH, the greeting of a mail server.
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
            TlsFailure::NotTls
        }
        Error::NoCertificatesPresented => TlsFailure::BadCertificate,
        _ => TlsFailure::Protocol,
    }
}

fn certificate_failure(error: &CertificateError) -> TlsFailure {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFailure::NotYetValid,
        // A signature that does not fit is that of another authority of the same name, more often than not.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFailure::UnknownAuthority,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFailure::WrongHost,
        // A self-signed certificate, as `openssl req -x509` makes it, that is not among those that are trusted.
        error if is_authority_as_server(error) => TlsFailure::UnknownAuthority,
        _ => TlsFailure::BadCertificate,
    }
}

/// Whether the certificate of an authority stands where that of a server should.
pub(crate) fn is_authority_as_server(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// A server or a client of TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSetupError {
    /// The host can stand in no certificate.
    Host(String),
    /// Something else, with the reason.
    Unusable(String),
}

impl fmt::Display for TlsSetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(
                formatter,
                "the host {host:?} cannot appear in a certificate; write a name such as www.example.org, or an address"
            ),
            Self::Unusable(reason) => write!(formatter, "TLS cannot be set up: {reason}"),
        }
    }
}

impl std::error::Error for TlsSetupError {}

impl From<Error> for TlsSetupError {
    fn from(error: Error) -> Self {
        Self::Unusable(error.to_string())
    }
}
