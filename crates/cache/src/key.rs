//! Cache keys: scheme, authority, path and query in one byte string, different for different targets.
//!
//! Lookups compare the whole key; the hash only finds the table slot. Scheme and authority are always included: without
//! them one site's responses were served for another's (CVE-2026-2836). The authority is normalised (case, default
//! port, trailing dot; RFC 9110, 4.2.3), and [`normalise_authority`] does the same for the forwarded request, so that
//! both mean the same target. Path and query stay as received.

use std::borrow::Cow;
use std::hash::Hasher as _;

use breme_base::{HttpUrl, resolve_target};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::inline_bytes::InlineBytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn as_front(self) -> &'static [u8] {
        match self {
            Self::Http => b"http://",
            Self::Https => b"https://",
        }
    }

    const fn default_port(self) -> &'static str {
        match self {
            Self::Http => "80",
            Self::Https => "443",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    bytes: InlineBytes,
    origin_bytes: usize,
}

impl Key {
    #[inline]
    pub(crate) fn new(scheme: Scheme, authority: &str, path: &str, query: Option<&str>) -> Self {
        let mut bytes = InlineBytes::new();
        bytes.extend(scheme.as_front());
        let (host, port) = parts(scheme, authority);
        bytes.extend_lowercase(host.as_bytes());
        if let Some(port) = port {
            bytes.push(b':');
            bytes.extend(port.as_bytes());
        }
        let origin_bytes = bytes.as_slice().len();
        bytes.extend(path.as_bytes());
        if let Some(query) = query {
            bytes.push(b'?');
            bytes.extend(query.as_bytes());
        }
        Self { bytes, origin_bytes }
    }

    /// Parses an absolute URL (`http://host/path?query`) without its fragment.
    pub(crate) fn from_url(url: &str) -> Option<Self> {
        let url = HttpUrl::split(url).ok()?;
        Self::from_parts(&url, url.target)
    }

    fn from_parts(url: &HttpUrl<'_>, target: &str) -> Option<Self> {
        let scheme = if url.is_tls { Scheme::Https } else { Scheme::Http };
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = if path.is_empty() { "/" } else { path };
        url.user_info.is_none().then(|| Self::new(scheme, url.authority, path, query))
    }

    /// `scheme://authority/path?query`
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// `scheme://authority`: a response may only invalidate others of the same origin.
    pub(crate) fn as_origin(&self) -> &[u8] {
        &self.as_slice()[..self.origin_bytes]
    }

    /// Resolves a URL reference from a response header (RFC 3986, 5.2); none if of another origin.
    pub(crate) fn same_origin(&self, reference: &[u8]) -> Option<Self> {
        let reference = std::str::from_utf8(reference).ok()?;
        let key = self.resolve(reference)?;
        (key.as_origin() == self.as_origin()).then_some(key)
    }

    fn resolve(&self, reference: &str) -> Option<Self> {
        let own = std::str::from_utf8(self.as_slice()).ok()?;
        let (origin, target) = own.split_at(self.origin_bytes);
        match HttpUrl::split_reference(origin.starts_with("https:"), reference).ok()? {
            Some(url) => Self::from_parts(&url, &resolve_target("/", url.target)),
            None => Self::from_url(&format!("{origin}{}", resolve_target(target, reference))),
        }
    }
}

/// Host without trailing dot, and port unless default.
fn parts(scheme: Scheme, authority: &str) -> (&str, Option<&str>) {
    let digit_count = authority.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (front, port) = authority.split_at(authority.len() - digit_count);
    let (host, port) = front.strip_suffix(':').map_or((authority, ""), |host| (host, port));
    let host = host.strip_suffix('.').unwrap_or(host);
    let digits = port.trim_start_matches('0');
    let is_default = port.is_empty() || digits == scheme.default_port();
    (host, (!is_default).then_some(if digits.is_empty() { "0" } else { digits }))
}

/// The authority in lower case, without default port and trailing dot, as in cache keys. Forward this, so that upstream
/// serves the target under which its response is stored.
#[must_use]
pub fn normalise_authority(scheme: Scheme, authority: &str) -> Cow<'_, str> {
    let (host, port) = parts(scheme, authority);
    let is_lowercase = !host.bytes().any(|byte| byte.is_ascii_uppercase());
    let bytes = host.len() + port.map_or(0, |port| port.len() + 1);
    if is_lowercase && bytes == authority.len() {
        return Cow::Borrowed(authority);
    }
    let host = host.to_ascii_lowercase();
    Cow::Owned(match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// Keyed SipHash, so that clients cannot choose colliding targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHasher {
    keys: (u64, u64),
}

impl KeyHasher {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = breme_base::Random::stream(seed, 0xca_c4e);
        Self { keys: (random.next_u64(), random.next_u64()) }
    }

    pub(crate) fn hash(&self, bytes: &[u8]) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write(bytes);
        let hash = hasher.finish128();
        KeyHash { table: hash.h1, shard: hash.h2 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash {
    /// Hash for the shard's table.
    pub(crate) table: u64,
    /// Selects the shard; also the ghost fingerprint.
    pub(crate) shard: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &Key) -> &str {
        std::str::from_utf8(key.as_slice()).unwrap()
    }

    #[test]
    fn normalises_authority() {
        let key = |scheme, authority: &str| text(&Key::new(scheme, authority, "/A", Some("b?c=D"))).to_owned();
        for (scheme, authority, expected) in [
            (Scheme::Http, "Example.ORG", "http://example.org/A?b?c=D"),
            (Scheme::Http, "example.org:80", "http://example.org/A?b?c=D"),
            (Scheme::Http, "example.org:080", "http://example.org/A?b?c=D"),
            (Scheme::Http, "example.org:", "http://example.org/A?b?c=D"),
            (Scheme::Http, "example.org.:80", "http://example.org/A?b?c=D"),
            (Scheme::Http, "example.org:443", "http://example.org:443/A?b?c=D"),
            (Scheme::Https, "example.org.:443", "https://example.org/A?b?c=D"),
            (Scheme::Https, "[2001:DB8::1]", "https://[2001:db8::1]/A?b?c=D"),
            (Scheme::Https, "[2001:DB8::1]:8443", "https://[2001:db8::1]:8443/A?b?c=D"),
        ] {
            assert_eq!(key(scheme, authority), expected);
            let sent = normalise_authority(scheme, authority);
            assert_eq!(key(scheme, &sent), expected, "what is sent upstream means the same");
            assert!(expected.contains(&format!("://{sent}/")));
        }
        assert!(matches!(normalise_authority(Scheme::Http, "example.org:8080"), Cow::Borrowed(_)));
    }

    #[test]
    fn different_targets_have_different_keys() {
        let targets = [
            (Scheme::Http, "a", "/", None),
            (Scheme::Https, "a", "/", None),
            (Scheme::Http, "a:8080", "/", None),
            (Scheme::Http, "b", "/", None),
            (Scheme::Http, "a", "//", None),
            (Scheme::Http, "a", "/", Some("")),
            (Scheme::Http, "a", "/%41", None),
            (Scheme::Http, "a", "/A", None),
            (Scheme::Http, "a", "/a", None),
        ];
        let keys: std::collections::HashSet<_> = targets
            .map(|(scheme, authority, path, query)| text(&Key::new(scheme, authority, path, query)).to_owned())
            .into();
        assert_eq!(keys.len(), targets.len());
    }

    #[test]
    fn resolves_same_origin_references() {
        let base = Key::new(Scheme::Http, "a.example:8080", "/b/c/d", Some("q"));
        for (reference, expected) in [
            ("http://A.example:8080/x", Some("http://a.example:8080/x")),
            ("http://a.example:8080", Some("http://a.example:8080/")),
            ("http://a.example:8080?x", Some("http://a.example:8080/?x")),
            ("//a.example:8080/x#f", Some("http://a.example:8080/x")),
            ("http://a.example:8080/x/../y", Some("http://a.example:8080/y")),
            ("/x/../y", Some("http://a.example:8080/y")),
            ("x", Some("http://a.example:8080/b/c/x")),
            ("x:y", None),
            ("./x:y", Some("http://a.example:8080/b/c/x:y")),
            ("../x/./y?z=../..", Some("http://a.example:8080/b/x/y?z=../..")),
            ("..", Some("http://a.example:8080/b/")),
            ("?r", Some("http://a.example:8080/b/c/d?r")),
            ("", Some("http://a.example:8080/b/c/d?q")),
            ("../../../../x", Some("http://a.example:8080/x")),
            ("http://b.example/x", None),
            ("https://a.example:8080/x", None),
            ("//b.example/x", None),
            ("http://u@a.example:8080/x", None),
            ("mailto:a@b", None),
        ] {
            let found = base.same_origin(reference.as_bytes());
            assert_eq!(found.as_ref().map(text), expected, "{reference:?}");
        }
    }
}
