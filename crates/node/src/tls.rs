//! TLS as seen by a node: whether a connection uses it, how long the handshake took, and why one failed.

use std::fmt;
use std::time::Duration;

/// The index of a TLS client in the driver's table: a server name, and how to verify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlsClientId(pub u32);

/// A completed handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handshake {
    /// From the open transport connection to the end of the handshake.
    pub duration: Duration,
    /// The session was resumed, without certificates.
    pub is_resumed: bool,
}

/// Why a handshake, or a session after it, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsFailure {
    /// The certificate's issuer is not trusted.
    UnknownAuthority,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate is for another name.
    WrongHost,
    /// The certificate is invalid for another reason.
    BadCertificate,
    /// No common version, cipher suite or key exchange.
    NothingInCommon,
    /// The peer does not speak TLS.
    NotTls,
    /// The peer sent this alert (RFC 8446, 6).
    Alert(u8),
    /// The handshake timed out.
    TimedOut,
    /// The peer closed the connection during the handshake.
    Closed,
    /// The peer violated the protocol.
    Protocol,
    /// The driver has no TLS client with this number.
    NoSuchClient,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UnknownAuthority => "the issuer of the certificate is not trusted",
            Self::Expired => "the certificate has expired",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::WrongHost => "the certificate is for another host",
            Self::BadCertificate => "the certificate is not valid",
            Self::NothingInCommon => "no TLS version or cipher suite in common",
            Self::NotTls => "the peer does not speak TLS",
            Self::TimedOut => "the handshake took too long",
            Self::Closed => "the peer closed the connection during the handshake",
            Self::Protocol => "the peer violated the protocol",
            Self::NoSuchClient => "the driver has no such client",
            Self::Alert(code) => return write!(formatter, "the peer refused with alert {code}, {}", alert_name(*code)),
        })
    }
}

/// The names in RFC 8446, 6.
fn alert_name(code: u8) -> &'static str {
    match code {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alerts() {
        let message = TlsFailure::Alert(48).to_string();
        assert!(message.contains("alert 48, unknown_ca"), "{message}");
        assert!(TlsFailure::Alert(255).to_string().ends_with("alert 255, unknown"));
    }
}
