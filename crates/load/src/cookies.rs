//! A user's cookies (RFC 6265, as far as a load needs it).
//!
//! All targets of a run have one host, so a cookie is identified by its name and path. Unlike in a browser, a cookie
//! without a Path attribute applies to the whole host, and `Secure` is ignored, because systems under test are
//! reached without TLS here.

use std::time::Duration;

use breme_base::{Instant, UnixSeconds};
use breme_http::parse_http_date;

/// The most cookies per user; beyond this the oldest is removed.
const COOKIE_COUNT_MAX: usize = 64;
/// The longest name and value together; longer cookies are ignored.
const COOKIE_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug)]
struct Cookie {
    /// `name=value`, as sent.
    pair: Vec<u8>,
    name_bytes: usize,
    path: Vec<u8>,
    expires: Instant,
}

impl Jar {
    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Stores the value of a Set-Cookie field received at `now`, which is `wall` in calendar time, from `host`.
    pub(crate) fn store(&mut self, set_cookie: &[u8], host: &str, now: Instant, wall: UnixSeconds) {
        let mut parts = set_cookie.split(|&byte| byte == b';');
        let pair = parts.next().unwrap_or_default().trim_ascii();
        let Some(name_bytes) = memchr::memchr(b'=', pair).filter(|&length| length > 0) else {
            return;
        };
        let attributes = Attributes::parse(parts, now, wall);
        if pair.len() > COOKIE_BYTES_MAX || pair.iter().any(u8::is_ascii_control) || !attributes.domain_matches(host) {
            return;
        }
        let path = attributes.path.to_vec();
        self.cookies.retain(|cookie| cookie.path != path || cookie.pair[..cookie.name_bytes] != pair[..name_bytes]);
        if attributes.expires <= now {
            return;
        }
        if self.cookies.len() == COOKIE_COUNT_MAX {
            self.cookies.remove(0);
        }
        self.cookies.push(Cookie { pair: pair.to_vec(), name_bytes, path, expires: attributes.expires });
    }

    /// Appends a Cookie field line for a request of `path`, if a cookie applies.
    pub(crate) fn write_field(&mut self, path: &[u8], now: Instant, out: &mut Vec<u8>) {
        self.cookies.retain(|cookie| cookie.expires > now);
        let mut separator: &[u8] = b"Cookie: ";
        for cookie in self.cookies.iter().filter(|cookie| path_matches(&cookie.path, path)) {
            out.extend_from_slice(separator);
            out.extend_from_slice(&cookie.pair);
            separator = b"; ";
        }
        if separator == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

struct Attributes<'a> {
    path: &'a [u8],
    domain: Option<&'a [u8]>,
    expires: Instant,
}

impl<'a> Attributes<'a> {
    fn parse(parts: impl Iterator<Item = &'a [u8]>, now: Instant, wall: UnixSeconds) -> Self {
        let mut attributes = Self { path: b"/", domain: None, expires: Instant::FAR };
        let mut has_max_age = false;
        for part in parts {
            let (name, value) = split_attribute(part);
            if name.eq_ignore_ascii_case(b"path") && value.starts_with(b"/") {
                attributes.path = value;
            } else if name.eq_ignore_ascii_case(b"domain") && !value.is_empty() {
                attributes.domain = Some(value.strip_prefix(b".").unwrap_or(value));
            } else if name.eq_ignore_ascii_case(b"max-age") {
                // It takes precedence over Expires (RFC 6265, 5.3).
                if let Some(expires) = expiry_of_max_age(value, now) {
                    attributes.expires = expires;
                    has_max_age = true;
                }
            } else if name.eq_ignore_ascii_case(b"expires")
                && !has_max_age
                && let Some(expires) = expiry_of_date(value, now, wall)
            {
                attributes.expires = expires;
            }
        }
        attributes
    }

    fn domain_matches(&self, host: &str) -> bool {
        self.domain.is_none_or(|domain| {
            let host = host.as_bytes();
            let ends_so = host.len() >= domain.len() && host[host.len() - domain.len()..].eq_ignore_ascii_case(domain);
            ends_so && (host.len() == domain.len() || host[host.len() - domain.len() - 1] == b'.')
        })
    }
}

fn split_attribute(part: &[u8]) -> (&[u8], &[u8]) {
    let part = part.trim_ascii();
    match memchr::memchr(b'=', part) {
        Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
        None => (part, b""),
    }
}

fn expiry_of_max_age(value: &[u8], now: Instant) -> Option<Instant> {
    let text = std::str::from_utf8(value).ok()?;
    if let Some(negative) = text.strip_prefix('-') {
        return negative.bytes().all(|byte| byte.is_ascii_digit()).then_some(now);
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(now + Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

fn expiry_of_date(value: &[u8], now: Instant, wall: UnixSeconds) -> Option<Instant> {
    // The old dash form (`Thu, 01-Jan-1970 00:00:00 GMT`) is the same with spaces.
    let text = std::str::from_utf8(value).ok()?.replace('-', " ");
    let seconds = u64::try_from(parse_http_date(text.as_bytes())?).unwrap_or(0);
    Some(now + Duration::from_secs(seconds.saturating_sub(wall.0)))
}

/// RFC 6265, 5.1.4.
fn path_matches(cookie: &[u8], request: &[u8]) -> bool {
    request.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: UnixSeconds = UnixSeconds(1_700_000_000);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn sent(jar: &mut Jar, path: &str, seconds: u64) -> String {
        let mut out = Vec::new();
        jar.write_field(path.as_bytes(), at(seconds), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn jar_of(cookies: &[&str]) -> Jar {
        let mut jar = Jar::default();
        cookies.iter().for_each(|cookie| jar.store(cookie.as_bytes(), "www.example.org", at(10), WALL));
        jar
    }

    #[test]
    fn keeps_replaces_and_deletes() {
        let check =
            |cookies: &[&str], expected: &str| assert_eq!(sent(&mut jar_of(cookies), "/", 10), expected, "{cookies:?}");
        check(&["a=1"], "Cookie: a=1\r\n");
        check(&["a=1", "b=2; HttpOnly; Secure", "a=3"], "Cookie: b=2; a=3\r\n");
        check(&["a=1", "a=; Max-Age=0"], "");
        check(&["a=1", "a=x; max-age=-5"], "");
        check(&["a=1", "a=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "");
        check(&["a=1", "a=x; Expires=Thu, 01-Jan-1970 00:00:00 GMT"], "");
        check(&["a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=5"], "Cookie: a=1\r\n");
        check(&["a=1; Max-Age=soon"], "Cookie: a=1\r\n");
        check(&["noequals", "=x", "a=\x01"], "");
        check(&["a=b=c"], "Cookie: a=b=c\r\n");
    }

    #[test]
    fn paths_and_domains_match_as_the_rfc_says() {
        let mut jar = jar_of(&["a=1; Path=/shop", "b=2; Path=/shop/", "c=3"]);
        assert_eq!(sent(&mut jar, "/", 10), "Cookie: c=3\r\n");
        assert_eq!(sent(&mut jar, "/shop", 10), "Cookie: a=1; c=3\r\n");
        assert_eq!(sent(&mut jar, "/shop/x", 10), "Cookie: a=1; b=2; c=3\r\n");
        assert_eq!(sent(&mut jar, "/shopping", 10), "Cookie: c=3\r\n");
        let mut jar = jar_of(&["a=1; Domain=.example.org", "b=2; Domain=example.com", "c=3; Domain=ample.org"]);
        assert_eq!(sent(&mut jar, "/", 10), "Cookie: a=1\r\n");
    }

    #[test]
    fn cookies_expire() {
        let date = "b=2; Expires=Tue, 14 Nov 2023 22:13:40 GMT"; // 20 s after WALL
        let mut jar = jar_of(&["a=1; Max-Age=5", date, "c=3", "c=; Expires=Wed, 31-Dec-1969 23:59:59 GMT"]);
        assert_eq!(sent(&mut jar, "/", 14), "Cookie: a=1; b=2\r\n");
        assert_eq!(sent(&mut jar, "/", 15), "Cookie: b=2\r\n");
        assert_eq!(sent(&mut jar, "/", 30), "");
    }

    #[test]
    fn a_jar_is_bounded() {
        let mut jar = Jar::default();
        for number in 0..200 {
            jar.store(format!("n{number}=x").as_bytes(), "a", at(1), WALL);
        }
        jar.store(&[b"big=".as_slice(), &vec![b'x'; COOKIE_BYTES_MAX]].concat(), "a", at(1), WALL);
        assert_eq!(jar.cookies.len(), COOKIE_COUNT_MAX);
        assert!(sent(&mut jar, "/", 1).starts_with("Cookie: n136=x; n137=x; "));
    }
}
