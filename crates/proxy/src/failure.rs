//! Why there is no upstream response: status, error type (RFC 9209, 2.3) and text of the proxy's own response.

use std::fmt;
use std::sync::Arc;

use breme_balance::NoChoice;
use breme_http1::ClientError;
use breme_node::ConnectError;

use crate::access_log::Completion;
use crate::client_limits::RateLimited;
use crate::resolver::ResolveError;
use crate::targets::TargetRefusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No upstream is available.
    NoUpstream(NoChoice),
    Connect(ConnectError),
    /// The driver has no TLS client for this upstream.
    NoTlsClient,
    Resolve(ResolveError),
    /// The connection was closed before the response began.
    ConnectionLost,
    InvalidResponse(ClientError),
    /// A required header field is invalid.
    Unsendable,
    ResponseHeadTimeout,
    /// The upstream failed its health checks while the request waited for its response.
    UpstreamDown,
    /// The upstream did not read the request body.
    SendTimeout,
    /// The response stopped arriving.
    ReadTimeout,
    TotalTimeout,
    Target(TargetRefusal),
    /// The request has passed this proxy before.
    Loop,
    /// CONNECT to a reverse proxy.
    NoTunnels,
    /// A forward proxy needs an absolute URL.
    NotAbsolute,
    /// `https://` without CONNECT.
    NeedsTunnel,
    /// A TRACE whose Max-Forwards is 0 (RFC 9110, 7.6.2).
    HopsExhausted,
    /// PURGE from an address without permission.
    MayNotPurge,
    /// PURGE of a URL that cannot be stored.
    NothingToPurge,
    /// The client exceeded its rate limit.
    RateLimited(RateLimited),
    /// A request with `only-if-cached` for a response that is not stored (RFC 9111, 5.2.1.7).
    NotCached,
    /// Another request's fetch failed.
    Shared(Arc<SharedFailure>),
}

/// A failure with its upstream, for all requests that waited for the response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedFailure {
    pub(crate) failure: Failure,
    pub(crate) upstream: Option<Arc<str>>,
}

impl Failure {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Shared(shared) => shared.failure.status(),
            Self::NoUpstream(_) | Self::Resolve(ResolveError::Busy) | Self::Connect(ConnectError::NoResources) => 503,
            Self::Connect(ConnectError::TimedOut)
            | Self::Resolve(ResolveError::TimedOut)
            | Self::ResponseHeadTimeout
            | Self::SendTimeout
            | Self::ReadTimeout
            | Self::TotalTimeout
            | Self::NotCached => 504,
            Self::Target(_) | Self::MayNotPurge => 403,
            Self::Loop => 508,
            Self::NoTunnels | Self::HopsExhausted => 405,
            Self::NotAbsolute | Self::NothingToPurge => 400,
            Self::NeedsTunnel => 501,
            Self::RateLimited(_) => 429,
            _ => 502,
        }
    }

    /// The `error` parameter of Proxy-Status; None for client errors and rules.
    fn error_type(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoUpstream(_) | Self::UpstreamDown => "destination_unavailable",
            Self::Connect(ConnectError::Refused) => "connection_refused",
            Self::Connect(ConnectError::TimedOut) => "connection_timeout",
            Self::Connect(ConnectError::Unreachable) => "destination_ip_unroutable",
            Self::Connect(ConnectError::NoResources) => "connection_limit_reached",
            Self::Connect(ConnectError::Tls(_)) => "tls_protocol_error",
            Self::Connect(ConnectError::Other(_)) => "destination_unavailable",
            Self::NoTlsClient | Self::Unsendable => "proxy_configuration_error",
            Self::Resolve(ResolveError::TimedOut) => "dns_timeout",
            Self::Resolve(_) => "dns_error",
            Self::ConnectionLost => "connection_terminated",
            Self::InvalidResponse(ClientError::ClosedEarly) => "http_response_incomplete",
            Self::InvalidResponse(ClientError::TooLarge(_)) => "http_response_header_section_size",
            Self::InvalidResponse(_) => "http_protocol_error",
            Self::ResponseHeadTimeout | Self::ReadTimeout | Self::TotalTimeout => "http_response_timeout",
            Self::SendTimeout => "connection_write_timeout",
            Self::Target(TargetRefusal::Address) => "destination_ip_prohibited",
            Self::Loop => "proxy_loop_detected",
            Self::Shared(shared) => return shared.failure.error_type(),
            Self::Target(_)
            | Self::NoTunnels
            | Self::NotAbsolute
            | Self::NeedsTunnel
            | Self::HopsExhausted
            | Self::MayNotPurge
            | Self::NothingToPurge
            | Self::NotCached
            | Self::RateLimited(_) => return None,
        })
    }

    /// The completion of an exchange with this failure. Violated rules are not the upstream's fault.
    pub(crate) fn completion(&self) -> Completion {
        let is_clients = matches!(self, Self::Target(_)) || self.error_type().is_none();
        if is_clients { Completion::ClientFailed } else { Completion::UpstreamFailed }
    }

    /// When a retry makes sense, in seconds (RFC 9110, 10.2.3).
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited(too_many) => Some(too_many.seconds()),
            Self::Shared(shared) => shared.failure.retry_after(),
            Self::NoUpstream(NoChoice::AllFull) => Some(1),
            _ => None,
        }
    }

    /// The failed upstream, as far as clients may see it: that of a shared failure, or else `requested`.
    pub(crate) fn upstream<'a>(&'a self, requested: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Shared(shared) => shared.upstream.as_deref(),
            _ => requested,
        }
    }

    /// One sentence for the user, with the upstream's name if clients may see it.
    pub(crate) fn text(&self, upstream: Option<&str>) -> String {
        let reason = self.reason();
        match upstream {
            Some(name) => format!("{name}: {reason}.\n"),
            None => format!("Proxy error: {reason}.\n"),
        }
    }

    /// The value of Proxy-Status (RFC 9209) of a proxy of this name.
    pub(crate) fn proxy_status(&self, proxy: &str, upstream: Option<&str>) -> Option<String> {
        let error = self.error_type()?;
        Some(match upstream {
            Some(name) => format!("{proxy}; error={error}; next-hop=\"{name}\""),
            None => format!("{proxy}; error={error}"),
        })
    }

    pub(crate) fn reason(&self) -> impl fmt::Display {
        Reason(self)
    }
}

struct Reason<'a>(&'a Failure);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Failure::NoUpstream(why) => return write!(formatter, "{why}"),
            Failure::Connect(error) => return connect_reason(error, formatter),
            Failure::NoTlsClient => "no TLS settings are known for the upstream",
            Failure::Resolve(error) => return write!(formatter, "{error}"),
            Failure::ConnectionLost => "the upstream closed the connection before it sent a response",
            Failure::InvalidResponse(error) => return write!(formatter, "{error}"),
            Failure::Unsendable => "the request cannot be forwarded",
            Failure::ResponseHeadTimeout => "the upstream did not respond in time",
            Failure::UpstreamDown => "the upstream did not respond, and failed its health checks",
            Failure::SendTimeout => "the upstream did not read the request body in time",
            Failure::ReadTimeout => "the upstream stopped sending its response",
            Failure::TotalTimeout => "the response was not complete in time",
            Failure::Target(refusal) => return write!(formatter, "{refusal}"),
            Failure::Loop => "the request has already passed through this proxy (forwarding loop)",
            Failure::NoTunnels => "this is a reverse proxy; it does not support CONNECT",
            Failure::NotAbsolute => "this is a forward proxy; send it an absolute URL, as in `GET http://example.org/`",
            Failure::NeedsTunnel => "this proxy forwards https URLs through CONNECT only",
            Failure::HopsExhausted => "Max-Forwards is 0, and this proxy does not support TRACE",
            Failure::MayNotPurge => "PURGE is not allowed from your address",
            Failure::NothingToPurge => "PURGE needs the URL of a cacheable resource",
            Failure::NotCached => "the cache has no response for this request, which forbids asking the upstream",
            Failure::Shared(shared) => return shared.failure.reason().fmt(formatter),
            Failure::RateLimited(too_many) => {
                return write!(formatter, "too many requests from your address; retry in {} s", too_many.seconds());
            }
        })
    }
}

fn connect_reason(error: &ConnectError, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(match error {
        ConnectError::Refused => "the upstream refused the connection",
        ConnectError::TimedOut => "the connection to the upstream timed out",
        ConnectError::Unreachable => "there is no route to the upstream",
        ConnectError::NoResources => "the proxy has no file descriptors, ports or memory left for new connections",
        ConnectError::Tls(failure) => {
            return write!(formatter, "the TLS handshake with the upstream failed: {failure}");
        }
        ConnectError::Other(kind) => return write!(formatter, "the connection to the upstream failed: {kind}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_text_names_upstream_and_error() {
        let failure = Failure::Connect(ConnectError::Refused);
        assert_eq!(failure.text(Some("a.example:80")), "a.example:80: the upstream refused the connection.\n");
        assert_eq!((failure.status(), failure.error_type()), (502, Some("connection_refused")));
        assert_eq!(
            (failure.completion(), Failure::NoTunnels.completion()),
            (Completion::UpstreamFailed, Completion::ClientFailed)
        );
        assert!(Failure::NoUpstream(NoChoice::AllFull).text(None).contains("every upstream is at its limit"));
    }
}
