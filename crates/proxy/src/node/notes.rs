//! What the access log is told: of a request when it comes, of what became of it when that is over, and of what was
//! refused before it was a request.
//!
//! What stands in a request's bytes is the same for all that have the same bytes. So it is shared, and
//! [familiar](super::familiar) requests need not be read anew to be logged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use breme_base::UnixMillis;
use breme_cache::CacheStatus;
use breme_http1::{RequestHead, Target, Version};
use breme_node::ListenerId;

use crate::access_log::{self, AccessLog, Ending};

/// Of a request line that was refused, so much is told.
const REFUSED_LINE_BYTES_MAX: usize = 256;
/// What is not known.
const UNKNOWN: &[u8] = b"-";

/// A request, by its bytes.
#[derive(Debug)]
pub(super) struct Noted {
    method: Vec<u8>,
    target: Vec<u8>,
    /// None: its line is no request line.
    version: Option<Version>,
    authority: Option<String>,
    referer: Option<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    /// For whom a trusted client asks.
    asked_for: Option<IpAddr>,
}

/// The same, from somebody.
#[derive(Debug)]
pub(crate) struct Notes {
    client: SocketAddr,
    listener: ListenerId,
    is_secured: bool,
    began: UnixMillis,
    pub(super) request: Arc<Noted>,
    /// What the cache did, without the proxy's name.
    pub(super) cache_status: Option<String>,
}

impl Noted {
    pub(super) fn of(head: &RequestHead<'_, '_>, asked_for: Option<IpAddr>) -> Self {
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
            asked_for,
        }
    }

    /// What can be seen of a request that was refused: nothing of it was judged, so it may be anything.
    pub(super) fn of_refused(input: &[u8]) -> Self {
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
        Self { method, target, version, authority: None, referer: None, user_agent: None, asked_for: None }
    }
}

impl Notes {
    pub(super) fn new(
        client: SocketAddr,
        listener: ListenerId,
        is_secured: bool,
        began: UnixMillis,
        request: Arc<Noted>,
    ) -> Self {
        Self { client, listener, is_secured, began, request, cache_status: None }
    }

    /// For the log, with nothing of what became of it.
    pub(super) fn begun(&self) -> access_log::Exchange<'_> {
        let Self { client, listener, is_secured, began, request, cache_status } = self;
        access_log::Exchange {
            client: *client,
            asked_for: request.asked_for,
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
            ending: Ending::Complete,
        }
    }
}

/// A request that was answered out of the store without an exchange.
pub(super) fn record_hit(log: &dyn AccessLog, notes: &Notes, status: u16, sent_bytes: u64, cache_status: &str) {
    log.record(&access_log::Exchange { status, sent_bytes, cache_status: Some(cache_status), ..notes.begun() });
}

/// What the cache did, as the log says it.
pub(super) fn cache_words(report: CacheStatus) -> String {
    let mut text = Vec::new();
    report.write("", &mut text);
    String::from_utf8_lossy(&text).trim_start_matches("; ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_refused_is_told_what_can_be_seen() {
        let seen = |input: &[u8]| {
            let Noted { method, target, version, .. } = Noted::of_refused(input);
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
