//! What one shard counts. Nothing is dropped: every request that was begun is answered, failed by some kind, or unfinished.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{ConnectError, Handshake, TlsFailure};
use breme_stats::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request counts as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// Its connection was refused.
    Refused,
    /// There is no way to the address.
    Unreachable,
    /// Its connection was not accepted in time.
    ConnectTimeout,
    /// This machine had no file descriptor, port or memory left for its connection.
    NoResources,
    /// Its connection could not be opened for another reason.
    ConnectFailed,
    /// The server's certificate comes from nobody that is trusted here.
    TlsUnknownAuthority,
    /// The server's certificate has expired.
    TlsExpired,
    /// The server's certificate is for another host.
    TlsWrongHost,
    /// The server's certificate cannot be accepted for another reason; or it is not valid yet.
    TlsBadCertificate,
    /// Generator and server have no version or cipher suite of TLS in common.
    TlsNothingInCommon,
    /// The server does not speak TLS there.
    NotTls,
    /// The server refused with an alert.
    TlsAlert,
    /// The handshake was not done in time.
    TlsTimeout,
    /// The server closed the connection during the handshake.
    TlsClosed,
    /// The server broke the protocol of TLS.
    TlsFailed,
    /// The server reset the connection before the answer was complete.
    Reset,
    /// The server closed the connection before the answer was complete.
    ClosedEarly,
    /// The answer was not complete in time. It enters the service times at the limit.
    Timeout,
    /// The answer is not HTTP.
    Malformed,
    /// It stood behind a request of the same pipeline that failed, and went with its connection.
    Aborted,
    /// It was answered, but not with an expected status.
    Status,
    /// It was answered, but the content is not what was expected.
    Assertion,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::NoResources,
        Self::ConnectFailed,
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
    ];

    /// As it stands in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect-timeout",
            Self::NoResources => "no-resources",
            Self::ConnectFailed => "connect-failed",
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
        }
    }

    /// Whether the request was answered all the same.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Status | Self::Assertion)
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

/// The counters of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Requests that were begun: sent, or failed because no connection could be opened for them.
    pub issued: u64,
    /// Requests handed to the driver, each once.
    pub sent: u64,
    /// Complete answers, whatever their status.
    pub answered: u64,
    /// Complete answers that came after the run's window, while what was under way was waited for.
    pub answered_late: u64,
    /// Requests that were under way when the waiting ended.
    pub unfinished: u64,
    /// Requests sent once more, because the server said before answering them that it closes the connection.
    pub resent: u64,
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Answers by status, 0 to 999.
    pub statuses: Box<[u64; 1000]>,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub content_bytes: u64,
    pub connections_opened: u64,
    /// Connections opened in place of one that had ended.
    pub reconnects: u64,
    /// Connections on which bytes came that no request had asked for.
    pub unexpected: u64,
    pub lateness_max: Duration,
    /// Without the handshake of TLS.
    pub connect_times: Histogram,
    pub handshake_times: Histogram,
    /// Connections whose handshake went on with the keys of an earlier session.
    pub resumed: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            issued: 0,
            sent: 0,
            answered: 0,
            answered_late: 0,
            unfinished: 0,
            resent: 0,
            errors: [0; ErrorKind::ALL.len()],
            statuses: Box::new([0; 1000]),
            bytes_received: 0,
            bytes_sent: 0,
            content_bytes: 0,
            connections_opened: 0,
            reconnects: 0,
            unexpected: 0,
            lateness_max: Duration::ZERO,
            connect_times: Histogram::new(),
            handshake_times: Histogram::new(),
            resumed: 0,
        }
    }

    /// A connection was opened after `duration`, of which the handshake had its part.
    pub(crate) fn note_opening(&mut self, duration: Duration, handshake: Option<Handshake>) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let part = handshake.map_or(Duration::ZERO, |handshake| handshake.duration);
        self.connect_times.record(nanos(duration.saturating_sub(part)));
        if let Some(handshake) = handshake {
            self.handshake_times.record(nanos(handshake.duration));
            self.resumed += u64::from(handshake.is_resumed);
        }
    }

    pub(crate) fn count(&mut self, kind: ErrorKind) {
        self.errors[kind as usize] += 1;
    }

    pub(crate) const fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors[kind as usize]
    }

    /// Requests that got no answer.
    pub(crate) fn failed(&self) -> u64 {
        ErrorKind::ALL.into_iter().filter(|kind| !kind.is_answered()).map(|kind| self.errors_of(kind)).sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.issued += other.issued;
        self.sent += other.sent;
        self.answered += other.answered;
        self.answered_late += other.answered_late;
        self.unfinished += other.unfinished;
        self.resent += other.resent;
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, more)| *sum += more);
        self.statuses.iter_mut().zip(other.statuses.iter()).for_each(|(sum, more)| *sum += more);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.content_bytes += other.content_bytes;
        self.connections_opened += other.connections_opened;
        self.reconnects += other.reconnects;
        self.unexpected += other.unexpected;
        self.lateness_max = self.lateness_max.max(other.lateness_max);
        self.connect_times.merge(&other.connect_times);
        self.handshake_times.merge(&other.handshake_times);
        self.resumed += other.resumed;
    }
}

/// When a shard worked, and what it cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub started: Instant,
    pub ended: Instant,
    /// CPU time of the shard's thread, if the outside tells it.
    pub cpu: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_counter_and_name() {
        let mut tally = Tally::new();
        ErrorKind::ALL.into_iter().for_each(|kind| tally.count(kind));
        assert!(tally.errors.iter().all(|&count| count == 1));
        assert_eq!((tally.errors(), tally.failed()), (22, 20));
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn merging_adds_everything() {
        let mut one = Tally::new();
        (one.issued, one.statuses[200], one.lateness_max) = (3, 2, Duration::from_secs(1));
        one.connect_times.record(5);
        one.count(ErrorKind::Reset);
        let mut two = one.clone();
        two.merge(&one);
        assert_eq!((two.issued, two.statuses[200], two.errors(), two.connect_times.count()), (6, 4, 2, 2));
        assert_eq!(two.lateness_max, Duration::from_secs(1));
    }
}
