//! Fields behind the content (RFC 9110, 6.5): which may stand there, and how those of others are passed on.
//!
//! By the time a trailer comes, its message has been framed, routed, allowed and interpreted. Whoever merges it into
//! the head nevertheless (some do) would let a client add to that what the head was judged without. So names that can
//! only be an attack are refused, and of the rest nothing is passed on that RFC 9110, 6.5.1, keeps for heads, that a
//! proxy vouches for, or that somebody could take for another name.

use crate::fields::push_checked_line;
use crate::{Field, Fields};

/// Behind these nothing of a message can be trusted: what is needed before the content cannot come behind it.
const REFUSED: [&str; 17] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Controls of requests and responses, what routes them, and who says who asks.
const LEFT_OUT: [&str; 23] = [
    "accept-ranges",
    "age",
    "cache-control",
    "close", // an option of Connection, and no field
    "cookie2",
    "date",
    "expires",
    "forwarded",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "retry-after",
    "set-cookie2",
    "status",
    "true-client-ip",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-host",
];

/// Families of the same.
const LEFT_OUT_PREFIXES: [&str; 14] = [
    "access-control-",
    "authentication-",
    "cf-connecting-",
    "content-",
    "if-",
    "proxy-",
    "sec-",
    "surrogate-",
    "x-client-",
    "x-forwarded",
    "x-http-",
    "x-method-",
    "x-original-",
    "x-re", // x-real-ip, x-rewrite-url
];

/// The digest of a content is known behind it (RFC 9530, 2).
const ALLOWED: &str = "content-digest";

/// Whether a field of this name tells some caches other than Cache-Control tells all: targeted cache control (RFC 9213,
/// 2.2).
#[must_use]
pub fn is_targeted_cache_control(name: &str) -> bool {
    const SUFFIX: &[u8] = b"-cache-control";
    name.as_bytes().last_chunk().is_some_and(|end: &[u8; SUFFIX.len()]| end.eq_ignore_ascii_case(SUFFIX))
}

/// Whether a message with this trailer is refused.
pub(crate) fn is_refused(name: &[u8]) -> bool {
    REFUSED.iter().any(|refused| refused.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a trailer of this name is passed on.
pub(crate) fn is_relayed(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Some readers take `_` and others for `-` (RFC 3875, 4.1.18).
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_left_out = REFUSED.contains(&&*name)
        || LEFT_OUT.contains(&&*name)
        || LEFT_OUT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_targeted_cache_control(&name);
    is_plain && (!is_left_out || name == ALLOWED)
}

/// The members of a Trailer field (RFC 9110, 6.6.2) that announce what will be passed on, as one value; none if there
/// is none.
pub(crate) fn announced<'a>(members: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let names = members.filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| is_relayed(name));
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| names.join(", ").into_bytes())
}

/// The end of chunked content that is passed on: the last chunk, trailers, an empty line (RFC 9112, 7.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastChunk {
    /// Its size is written, and trailers may stand behind it.
    is_begun: bool,
    /// No trailer is passed on.
    is_bare: bool,
}

impl LastChunk {
    const SIZE: &[u8] = b"0\r\n";

    /// That of a message with these fields, whose trailers are passed on if they [may be](Fields::keep_trailers).
    #[must_use]
    pub fn of(fields: Fields<'_, '_>) -> Self {
        Self { is_begun: false, is_bare: !fields.keep_trailers() }
    }

    /// Passes a trailer on that was received, if one of its name may be.
    pub fn relay(&mut self, trailer: Field<'_>, out: &mut Vec<u8>) {
        if self.is_bare || !is_relayed(trailer.name) {
            return;
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(Self::SIZE);
        }
        push_checked_line(out, trailer.name, trailer.value);
    }

    /// Ends the content.
    pub fn end(self, out: &mut Vec<u8>) {
        if !self.is_begun {
            out.extend_from_slice(Self::SIZE);
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(trailers: &[(&str, &str)]) -> String {
        let (mut last, mut out) = (LastChunk::default(), Vec::new());
        for &(name, value) in trailers {
            last.relay(Field { name, value: value.as_bytes() }, &mut out);
        }
        last.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn trailers_stand_between_the_last_chunk_and_the_empty_line() {
        assert_eq!(relayed(&[]), "0\r\n\r\n");
        assert_eq!(relayed(&[("X-A", "b"), ("grpc-status", "")]), "0\r\nX-A: b\r\ngrpc-status: \r\n\r\n");
        assert_eq!(relayed(&[("Content-Digest", "sha-256=:x:")]), "0\r\nContent-Digest: sha-256=:x:\r\n\r\n");
    }

    #[test]
    fn what_belongs_into_a_head_is_left_out() {
        for name in [
            "Content-Length",
            "Content_Length",
            "Content-Security-Policy",
            "TRANSFER-ENCODING",
            "Host",
            "Forwarded",
            "X-Forwarded-For",
            "x-forwarded",
            "X_Real_IP",
            "X-Real-IP",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "Via",
            "Authorization",
            "Proxy-Authenticate",
            "Set-Cookie",
            "If-None-Match",
            "Range",
            "CDN-Cache-Control",
            "Vary",
            "Close",
            "X!A",
        ] {
            assert_eq!(relayed(&[("X-A", "b"), (name, "c")]), "0\r\nX-A: b\r\n\r\n", "{name}");
            assert_eq!(relayed(&[(name, "c")]), "0\r\n\r\n", "{name}");
            assert_eq!(announced([name.as_bytes(), b"X-A"].into_iter()), Some(b"X-A".to_vec()), "{name}");
        }
        assert_eq!(announced([&b"Host"[..], b"\xff"].into_iter()), None);
        for name in ["ETag", "Server-Timing", "grpc-message", "Digest", "X-Checksum", "Signature"] {
            assert!(is_relayed(name), "{name}");
        }
    }
}
