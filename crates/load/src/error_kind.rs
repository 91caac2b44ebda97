//! The kinds of errors, and the errors of connections among them.

use breme_node::{ConnectError, TlsFailure};

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Connection refused.
    Refused,
    /// No route to the address.
    Unreachable,
    /// Connection not established within the timeout.
    ConnectTimeout,
    /// The generator's machine ran out of file descriptors, ports or memory.
    NoResources,
    /// Connection failed for another reason.
    ConnectFailed,
    /// The proxy did not open a tunnel to the server.
    ProxyRefused,
    /// The issuer of the server's certificate is not trusted.
    TlsUnknownAuthority,
    /// The server's certificate has expired.
    TlsExpired,
    /// The server's certificate is for another host.
    TlsWrongHost,
    /// The server's certificate is not yet valid, or otherwise invalid.
    TlsBadCertificate,
    /// No TLS version or cipher suite in common with the server.
    TlsNothingInCommon,
    /// The server does not speak TLS on this port.
    NotTls,
    /// The server ended the handshake with an alert.
    TlsAlert,
    /// The handshake did not complete within the timeout.
    TlsTimeout,
    /// The server closed the connection during the handshake.
    TlsClosed,
    /// The server violated the TLS protocol.
    TlsFailed,
    /// The server reset the connection before the response was complete.
    Reset,
    /// The server closed the connection before the response was complete.
    ClosedEarly,
    /// The response was not complete within the timeout; its service time counts as the timeout.
    Timeout,
    /// The response is not valid HTTP.
    Malformed,
    /// An earlier request in the same pipeline failed, and the connection with it.
    Aborted,
    /// Complete response with an unexpected status.
    Status,
    /// Complete response with an unexpected body.
    Assertion,
    /// Complete response without a value that the scenario captures; the session ended.
    Capture,
    /// Open loop: never begun, because the queue was full, or the run ended first.
    Dropped,
    /// Open loop: discarded, because its deadline had passed.
    Shed,
}

impl ErrorKind {
    pub const ALL: [Self; 26] = [
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::NoResources,
        Self::ConnectFailed,
        Self::ProxyRefused,
        Self::TlsUnknownAuthority,
        Self::TlsExpired,
        Self::TlsWrongHost,
        Self::TlsBadCertificate,
        Self::TlsNothingInCommon,
        Self::NotTls,
        Self::TlsAlert,
        Self::TlsTimeout,
        Self::TlsClosed,
        Self::TlsFailed,
        Self::Reset,
        Self::ClosedEarly,
        Self::Timeout,
        Self::Malformed,
        Self::Aborted,
        Self::Status,
        Self::Assertion,
        Self::Capture,
        Self::Dropped,
        Self::Shed,
    ];

    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect-timeout",
            Self::NoResources => "no-resources",
            Self::ConnectFailed => "connect-failed",
            Self::ProxyRefused => "proxy-refused",
            Self::TlsUnknownAuthority => "tls-unknown-authority",
            Self::TlsExpired => "tls-expired",
            Self::TlsWrongHost => "tls-wrong-host",
            Self::TlsBadCertificate => "tls-bad-certificate",
            Self::TlsNothingInCommon => "tls-nothing-in-common",
            Self::NotTls => "not-tls",
            Self::TlsAlert => "tls-alert",
            Self::TlsTimeout => "tls-timeout",
            Self::TlsClosed => "tls-closed",
            Self::TlsFailed => "tls-failed",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed-early",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Aborted => "aborted",
            Self::Status => "status",
            Self::Assertion => "assertion",
            Self::Capture => "capture",
            Self::Dropped => "dropped",
            Self::Shed => "shed",
        }
    }

    /// Whether there was a response all the same.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Status | Self::Assertion | Self::Capture)
    }

    /// Whether the request was never begun.
    #[must_use]
    pub const fn is_unbegun(self) -> bool {
        matches!(self, Self::Dropped | Self::Shed)
    }
}

impl From<ConnectError> for ErrorKind {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused => Self::Refused,
            ConnectError::TimedOut => Self::ConnectTimeout,
            ConnectError::Unreachable => Self::Unreachable,
            ConnectError::NoResources => Self::NoResources,
            ConnectError::Tls(failure) => failure.into(),
            ConnectError::Other(_) => Self::ConnectFailed,
        }
    }
}

impl From<TlsFailure> for ErrorKind {
    fn from(failure: TlsFailure) -> Self {
        match failure {
            TlsFailure::UnknownAuthority => Self::TlsUnknownAuthority,
            TlsFailure::Expired => Self::TlsExpired,
            TlsFailure::WrongHost => Self::TlsWrongHost,
            TlsFailure::BadCertificate | TlsFailure::NotYetValid => Self::TlsBadCertificate,
            TlsFailure::NothingInCommon => Self::TlsNothingInCommon,
            TlsFailure::NotTls => Self::NotTls,
            TlsFailure::Alert(_) => Self::TlsAlert,
            TlsFailure::TimedOut => Self::TlsTimeout,
            TlsFailure::Closed => Self::TlsClosed,
            TlsFailure::Protocol | TlsFailure::NoSuchClient => Self::TlsFailed,
        }
    }
}
