//! TLS errors as reported to nodes and users.

use breme_node::TlsFailure;
use rustls::{CertificateError, Error, InvalidMessage};

/// Maps an error of rustls to its cause.
pub(crate) fn tls_failure(error: &Error) -> TlsFailure {
    match error {
        Error::InvalidCertificate(error) => certificate_failure(error),
        Error::AlertReceived(alert) => TlsFailure::Alert(u8::from(*alert)),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFailure::NothingInCommon,
        // Not a TLS record: HTTP, SSH, a mail greeting.
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
        // A wrong signature usually means another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFailure::UnknownAuthority,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFailure::WrongHost,
        // A self-signed certificate (`openssl req -x509`) that is not trusted.
        error if is_ca_as_server(error) => TlsFailure::UnknownAuthority,
        _ => TlsFailure::BadCertificate,
    }
}

/// Whether a CA certificate was presented as a server certificate.
pub(crate) fn is_ca_as_server(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Why a TLS client or server cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsSetupError {
    #[error("the host {0:?} cannot appear in a certificate; write a name such as www.example.org, or an address")]
    Host(String),
    #[error("TLS cannot be set up: {0}")]
    Unusable(String),
}

impl From<Error> for TlsSetupError {
    fn from(error: Error) -> Self {
        Self::Unusable(error.to_string())
    }
}
