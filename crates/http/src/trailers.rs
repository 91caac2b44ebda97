//! Trailer fields (RFC 9110, 6.5): which are accepted, and which are forwarded.
//!
//! When a trailer arrives, its message has already been framed, routed and authorised. A recipient that merges it into
//! the head (some do) would let a client bypass these checks. So names that can only be an attack are rejected, and of
//! the rest nothing is forwarded that RFC 9110, 6.5.1, reserves for heads, that a proxy vouches for, or that a
//! recipient could mistake for another name.

/// Needed before the content: a message with one of these as a trailer is rejected.
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

/// Request controls, response controls, routing and client identity.
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

/// Prefixes of such names.
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

/// The digest of content is known only after it (RFC 9530, 2).
const ALLOWED: &str = "content-digest";

/// Whether this is a targeted Cache-Control (RFC 9213, 2.2).
#[must_use]
pub fn is_targeted_cache_control(name: &str) -> bool {
    const SUFFIX: &[u8] = b"-cache-control";
    name.as_bytes().last_chunk().is_some_and(|end: &[u8; SUFFIX.len()]| end.eq_ignore_ascii_case(SUFFIX))
}

/// Whether a message with this trailer is rejected.
#[must_use]
pub fn is_refused(name: &[u8]) -> bool {
    REFUSED.iter().any(|refused| refused.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a trailer of this name is forwarded.
#[must_use]
pub fn is_relayed(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Some recipients treat `_` as `-` (RFC 3875, 4.1.18).
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_left_out = REFUSED.contains(&&*name)
        || LEFT_OUT.contains(&&*name)
        || LEFT_OUT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_targeted_cache_control(&name);
    is_plain && (!is_left_out || name == ALLOWED)
}

/// The names in a Trailer field (RFC 9110, 6.6.2) that will be forwarded, as one value; None if there is none.
#[must_use]
pub fn announced<'a>(members: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let names = members.filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| is_relayed(name));
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| names.join(", ").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_only_fields_are_not_forwarded() {
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
            assert!(!is_relayed(name), "{name}");
            assert_eq!(announced([name.as_bytes(), b"X-A"].into_iter()), Some(b"X-A".to_vec()), "{name}");
        }
        assert_eq!(announced([&b"Host"[..], b"\xff"].into_iter()), None);
        for name in ["ETag", "Server-Timing", "grpc-message", "Digest", "X-Checksum", "Signature"] {
            assert!(is_relayed(name), "{name}");
        }
    }
}
