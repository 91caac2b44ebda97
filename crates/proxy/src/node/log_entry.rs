//! Entries of the access log.
//!
//! What follows from the bytes of a request alone is shared, so that [replayed requests](super::relay_replay) need not
//! be parsed to be logged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use breme_base::UnixMillis;
use breme_cache::CacheStatus;
use breme_http::{RequestHead, Target, Version};
use breme_node::ListenerId;

use crate::access_log::{self, AccessLog, Completion};

/// Bytes logged of a rejected request line.
const REFUSED_LINE_BYTES_MAX: usize = 256;
/// Logged for a missing value.
const UNKNOWN: &[u8] = b"-";

/// The parts of a log entry that follow from the request's bytes.
#[derive(Debug)]
pub(super) struct LoggedRequest {
    method: Vec<u8>,
    target: Vec<u8>,
    /// None: the request line is invalid.
    version: Option<Version>,
    authority: Option<String>,
    referer: Option<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    /// The client for which a trusted proxy sent the request.
    forwarded_for: Option<IpAddr>,
}

#[derive(Debug)]
pub(crate) struct LogEntry {
    client: Option<SocketAddr>,
    listener: ListenerId,
    is_secured: bool,
    began: UnixMillis,
    pub(super) request: Arc<LoggedRequest>,
    /// The value of Cache-Status, without the proxy's name.
    pub(super) cache_status: Option<String>,
    /// Why there is no complete response of an upstream.
    pub(super) failure: Option<String>,
}

impl LoggedRequest {
    pub(super) fn new(head: &RequestHead<'_, '_>, forwarded_for: Option<IpAddr>) -> Self {
        let with_query = |path: &str, query: Option<&str>| match query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let target = match head.target {
            Target::Origin { path, query } => with_query(path, query),
            Target::Absolute { scheme, authority, path, query } => {
                format!("{scheme}://{authority}{}", with_query(path, query))
            }
            Target::Authority(authority) => authority.to_owned(),
            Target::Asterisk => "*".to_owned(),
        };
        Self {
            method: head.method.as_str().into(),
            target: target.into(),
            version: Some(head.version),
            authority: head.authority.map(str::to_owned),
            referer: head.fields.first("Referer").map(<[u8]>::to_vec),
            user_agent: head.fields.first("User-Agent").map(<[u8]>::to_vec),
            forwarded_for,
        }
    }

    /// The recognisable parts of a rejected request, which may be any bytes.
    pub(super) fn from_refused(input: &[u8]) -> Self {
        let window = &input[..input.len().min(REFUSED_LINE_BYTES_MAX)];
        let line = window.trim_ascii_start().split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let mut word = || match words.next() {
            Some(word) if !word.is_empty() => word.to_vec(),
            _ => UNKNOWN.to_owned(),
        };
        let (method, target) = (word(), word());
        let version = match words.next() {
            Some(b"HTTP/1.0") => Some(Version::Http10),
            Some(b"HTTP/1.1") => Some(Version::Http11),
            _ => None,
        };
        Self { method, target, version, authority: None, referer: None, user_agent: None, forwarded_for: None }
    }
}

impl LogEntry {
    pub(super) fn new(
        client: Option<SocketAddr>,
        listener: ListenerId,
        is_secured: bool,
        began: UnixMillis,
        request: Arc<LoggedRequest>,
    ) -> Self {
        Self { client, listener, is_secured, began, request, cache_status: None, failure: None }
    }

    /// The record of a request that has just begun.
    pub(super) fn begun(&self) -> access_log::ExchangeRecord<'_> {
        let Self { client, listener, is_secured, began, request, cache_status, failure } = self;
        access_log::ExchangeRecord {
            client: *client,
            forwarded_for: request.forwarded_for,
            listener: *listener,
            is_secured: *is_secured,
            began: *began,
            duration: Duration::ZERO,
            method: &request.method,
            target: &request.target,
            version: request.version,
            authority: request.authority.as_deref(),
            referer: request.referer.as_deref(),
            user_agent: request.user_agent.as_deref(),
            status: 0,
            sent_bytes: 0,
            received_bytes: 0,
            upstream: None,
            upstream_duration: None,
            retries: 0,
            cache_status: cache_status.as_deref(),
            completion: Completion::Complete,
            failure: failure.as_deref(),
        }
    }
}

/// Logs a request served from the store without an exchange.
pub(super) fn record_hit(log: &dyn AccessLog, log_entry: &LogEntry, status: u16, sent_bytes: u64, cache_status: &str) {
    log.record(&access_log::ExchangeRecord {
        status,
        sent_bytes,
        cache_status: Some(cache_status),
        ..log_entry.begun()
    });
}

/// The value of Cache-Status, without the proxy's name.
pub(super) fn cache_status_text(cache_status: CacheStatus) -> String {
    let mut text = Vec::new();
    cache_status.write("", &mut text);
    String::from_utf8_lossy(&text).trim_start_matches("; ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_recognisable_parts_of_refused_requests() {
        let seen = |input: &[u8]| {
            let LoggedRequest { method, target, version, .. } = LoggedRequest::from_refused(input);
            (method, target, version)
        };
        for (input, method, target, version) in [
            (&b"GET /a HTTP/1.1\r\nHost : x\r\n"[..], &b"GET"[..], &b"/a"[..], Some(Version::Http11)),
            (b"\r\nPOST /b HTTP/1.0\n", b"POST", b"/b", Some(Version::Http10)),
            (b"GET /c HTTP/2.0\r\n", b"GET", b"/c", None),
            (b"GET  /d HTTP/1.1\r\n", b"GET", b"-", None),
            (b"\x16\x03\x01\xff", b"\x16\x03\x01\xff", b"-", None),
            (b"", b"-", b"-", None),
        ] {
            assert_eq!(seen(input), (method.to_owned(), target.to_owned(), version), "{}", input.escape_ascii());
        }
        let long = [b"GET /", &[b'x'; 1000][..]].concat();
        assert_eq!(seen(&long).1.len(), REFUSED_LINE_BYTES_MAX - 4);
    }
}
