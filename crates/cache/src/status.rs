//! Cache-Status (RFC 9211).

use breme_http::push_decimal;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Why the request was forwarded; none: it was not.
    pub forwarded: Option<Forwarded>,
    /// Upstream's status, if different from the response's.
    pub forwarded_status: Option<u16>,
    /// Remaining freshness in seconds; negative if stale.
    pub ttl_s: Option<i64>,
    /// The response is being stored.
    pub stored: bool,
    /// The response came from another request's fill.
    pub collapsed: bool,
    pub detail: Option<&'static str>,
}

/// Reasons for forwarding (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forwarded {
    /// The cache was bypassed.
    Bypass,
    /// The method is not cacheable.
    Method,
    /// No response of the URL is stored.
    UriMiss,
    /// No stored variant matches.
    VaryMiss,
    /// The request's directives rule out the stored response.
    Request,
    Stale,
    /// Only another part is stored.
    Partial,
}

impl Forwarded {
    const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl CacheStatus {
    #[must_use]
    pub const fn hit(ttl_s: i64) -> Self {
        let none = Self {
            forwarded: None,
            forwarded_status: None,
            ttl_s: None,
            stored: false,
            collapsed: false,
            detail: None,
        };
        Self { ttl_s: Some(ttl_s), ..none }
    }

    #[must_use]
    pub const fn forwarded(why: Forwarded) -> Self {
        Self { forwarded: Some(why), ttl_s: None, ..Self::hit(0) }
    }

    /// Appends the field value. `name` is a token.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(name.as_bytes());
        match self.forwarded {
            None if self.ttl_s.is_some() => out.extend_from_slice(b"; hit"),
            None => {}
            Some(why) => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(why.token().as_bytes());
            }
        }
        if let Some(status) = self.forwarded_status {
            out.extend_from_slice(b"; fwd-status=");
            push_decimal(out, u64::from(status));
        }
        if let Some(ttl_s) = self.ttl_s {
            out.extend_from_slice(if ttl_s < 0 { b"; ttl=-" } else { b"; ttl=" });
            push_decimal(out, ttl_s.unsigned_abs());
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_cache_status() {
        let text = |status: CacheStatus| {
            let mut out = Vec::new();
            status.write("breme", &mut out);
            String::from_utf8(out).unwrap()
        };
        let stale = CacheStatus::forwarded(Forwarded::Stale);
        for (status, expected) in [
            (CacheStatus::hit(376), "breme; hit; ttl=376"),
            (CacheStatus::hit(-1), "breme; hit; ttl=-1"),
            (CacheStatus::forwarded(Forwarded::Method), "breme; fwd=method"),
            (CacheStatus { stored: true, ..CacheStatus::forwarded(Forwarded::UriMiss) }, "breme; fwd=uri-miss; stored"),
            (
                CacheStatus { collapsed: true, ..CacheStatus::forwarded(Forwarded::VaryMiss) },
                "breme; fwd=vary-miss; collapsed",
            ),
            (
                CacheStatus { forwarded_status: Some(304), ttl_s: Some(9), ..stale },
                "breme; fwd=stale; fwd-status=304; ttl=9",
            ),
            (CacheStatus { detail: Some("shared"), ..CacheStatus::default() }, "breme; detail=shared"),
        ] {
            assert_eq!(text(status), expected);
        }
    }
}
