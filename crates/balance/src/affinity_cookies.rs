//! Affinity cookies: a client returns to the upstream that served it.
//!
//! Either the balancer sets a cookie whose value is a keyed tag of the upstream (HMAC-SHA-256, truncated to 128 bits):
//! it reveals nothing about the upstream, and the tag of another cannot be forged. Or it follows the route that an
//! application appends to its own cookie, as Tomcat does: `JSESSIONID=0A1B2C.node1`.
//!
//! If a name occurs several times, **the first value that names an upstream of the group counts**. So an invalid cookie
//! planted by others (for another path, from a neighbouring domain) has no effect, and the client does not get a new
//! cookie with every response.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use breme_http::syntax::unquoted;
use breme_http::{CookiePair, cookie_pairs};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::{Affinity, AffinityKey, UpstreamSettings};

/// A tag in lower-case hex digits.
const TAG_DIGITS: usize = 32;

/// A tag as in a cookie: compared as text, since it has only one spelling.
type Tag = [u8; TAG_DIGITS];

/// The prepared cookies of a list of upstreams, by index in the list.
#[derive(Debug)]
pub(crate) struct AffinityCookies {
    cookie: Box<[u8]>,
    marks: AffinityMarks,
}

#[derive(Debug)]
enum AffinityMarks {
    Tags { tags: Box<[Tag]>, fields: Box<[SetCookie]> },
    Routes { separator: u8, routes: Box<[Box<[u8]>]> },
}

/// The Set-Cookie values of one upstream.
#[derive(Debug)]
struct SetCookie {
    plain: Arc<str>,
    secured: Arc<str>,
}

impl AffinityCookies {
    pub(crate) fn new(affinity: &Affinity, upstreams: &[UpstreamSettings]) -> Self {
        match affinity {
            Affinity::Insert { cookie, key, max_age } => {
                let mac = keyed(key);
                let tags: Box<[Tag]> = upstreams.iter().map(|upstream| tag(&mac, upstream)).collect();
                let fields = tags.iter().map(|tag| SetCookie::new(cookie, tag, *max_age)).collect();
                Self { cookie: cookie.as_bytes().into(), marks: AffinityMarks::Tags { tags, fields } }
            }
            Affinity::Follow { cookie, separator } => {
                let route =
                    |upstream: &UpstreamSettings| upstream.route.as_ref().unwrap_or(&upstream.name).as_bytes().into();
                let marks = AffinityMarks::Routes {
                    separator: *separator as u8,
                    routes: upstreams.iter().map(route).collect(),
                };
                Self { cookie: cookie.as_bytes().into(), marks }
            }
        }
    }

    /// The index of the upstream that a client's cookies name.
    pub(crate) fn named(&self, cookies: &[&[u8]]) -> Option<usize> {
        let pairs = cookies.iter().flat_map(|line| cookie_pairs(line));
        pairs.filter_map(|pair| pair.value_of(&self.cookie)).find_map(|value| self.marks.index(value))
    }

    /// The Set-Cookie value of the upstream at `index`; None if the cookie is the application's.
    pub(crate) fn set_cookie(&self, index: usize, is_secured: bool) -> Option<Arc<str>> {
        let AffinityMarks::Tags { fields, .. } = &self.marks else { return None };
        let SetCookie { plain, secured } = fields.get(index)?;
        Some(Arc::clone(if is_secured { secured } else { plain }))
    }
}

/// The balancer's own cookie.
#[derive(Clone, Debug)]
pub struct OwnCookie(Arc<AffinityCookies>);

impl OwnCookie {
    /// None if the cookie is the application's.
    pub(crate) fn new(affinity_cookies: &Arc<AffinityCookies>) -> Option<Self> {
        matches!(affinity_cookies.marks, AffinityMarks::Tags { .. }).then(|| Self(Arc::clone(affinity_cookies)))
    }

    /// A Cookie line without it, whatever its value; None if it is not there. The other pairs are unchanged.
    #[must_use]
    pub fn taken_out_of(&self, line: &[u8]) -> Option<Vec<u8>> {
        let is_own = |pair: &CookiePair<'_>| pair.name() == &*self.0.cookie;
        if !cookie_pairs(line).any(|pair| is_own(&pair)) {
            return None;
        }
        let others: Vec<&[u8]> = cookie_pairs(line).filter(|pair| !is_own(pair)).map(CookiePair::as_bytes).collect();
        Some(others.join(&b"; "[..]))
    }
}

impl AffinityMarks {
    fn index(&self, value: &[u8]) -> Option<usize> {
        match self {
            Self::Tags { tags, .. } => find_tag(tags, value.try_into().ok()?),
            Self::Routes { separator, routes } => {
                let value = unquoted(value);
                let end = memchr::memrchr(*separator, value)?;
                routes.iter().position(|route| **route == value[end + 1..])
            }
        }
    }
}

/// Compares all tags, so that the duration reveals nothing.
fn find_tag(tags: &[Tag], tag: &Tag) -> Option<usize> {
    tags.iter().enumerate().fold(None, |found, (index, known)| if known == tag { Some(index) } else { found })
}

impl SetCookie {
    fn new(cookie: &str, tag: &Tag, max_age: Option<Duration>) -> Self {
        let mut field = format!("{cookie}={}; Path=/; HttpOnly; SameSite=Lax", tag.escape_ascii());
        if let Some(max_age) = max_age {
            // Writing to a string cannot fail.
            let _ = write!(field, "; Max-Age={}", max_age.as_secs());
        }
        Self { plain: Arc::from(&*field), secured: Arc::from(format!("{field}; Secure")) }
    }
}

/// Hashes a key of any length to the block's length.
fn keyed(key: &AffinityKey) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..32].copy_from_slice(&Sha256::digest(key.as_bytes()));
    Hmac::new(&block.into())
}

fn tag(mac: &Hmac<Sha256>, upstream: &UpstreamSettings) -> Tag {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut mac = mac.clone();
    mac.update(if upstream.tls { b"https://" } else { b"http://" });
    mac.update(upstream.name.as_bytes());
    let bytes = mac.finalize().into_bytes();
    std::array::from_fn(|digit| DIGITS[usize::from(bytes[digit / 2] >> (4 - digit % 2 * 4) & 15)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstreams(names: &[&str]) -> Vec<UpstreamSettings> {
        let upstream = |name: &&str| UpstreamSettings {
            name: (*name).to_owned(),
            tls: false,
            addresses: Vec::new(),
            weight: 1,
            route: name.strip_suffix(":1").map(str::to_owned),
        };
        names.iter().map(upstream).collect()
    }

    fn insert(key: &str, max_age: Option<Duration>) -> Affinity {
        let key = AffinityKey::new(key).unwrap();
        Affinity::Insert { cookie: "breme-route".to_owned(), key, max_age }
    }

    fn value(affinity_cookies: &AffinityCookies, index: usize) -> String {
        affinity_cookies.set_cookie(index, false).unwrap().split(['=', ';']).nth(1).unwrap().to_owned()
    }

    #[test]
    fn own_cookie_leads_back() {
        let affinity_cookies =
            AffinityCookies::new(&insert("sixteen byte key", None), &upstreams(&["a:1", "b:1", "c:1"]));
        for index in 0..3 {
            let value = value(&affinity_cookies, index);
            for line in [
                format!("breme-route={value}"),
                format!("x=1; breme-route={value}; y=2"),
                format!("x=1;breme-route = {value} ;y"),
                format!("breme-route=junk; breme-route={value}"),
                format!("breme-route=; =; ;;breme-route={value}"),
            ] {
                assert_eq!(affinity_cookies.named(&[line.as_bytes()]), Some(index), "{line}");
                assert_eq!(affinity_cookies.named(&[b"a=b", line.as_bytes()]), Some(index), "{line}");
            }
        }
        let both = format!("breme-route={}; breme-route={}", value(&affinity_cookies, 2), value(&affinity_cookies, 0));
        assert_eq!(affinity_cookies.named(&[both.as_bytes()]), Some(2), "of two that are good the first");
    }

    #[test]
    fn removes_only_the_own_cookie() {
        let of = |affinity: &Affinity| OwnCookie::new(&Arc::new(AffinityCookies::new(affinity, &upstreams(&["a:1"]))));
        let own = of(&insert("sixteen byte key", None)).unwrap();
        for (line, expected) in [
            ("breme-route=x", ""),
            ("breme-route=x; a=b", "a=b"),
            ("a=b; breme-route=x", "a=b"),
            ("a=\"b\";  c = d ;breme-route = x; e", "a=\"b\"; c = d; e"),
            ("breme-route=x; breme-route; a=b; breme-route=", "a=b"),
        ] {
            let rest = own.taken_out_of(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(rest).unwrap(), expected, "{line}");
        }
        for line in ["", "a=b", "Breme-Route=x", "breme-routes=x; xbreme-route=y", "a=breme-route=x"] {
            assert_eq!(own.taken_out_of(line.as_bytes()), None, "{line}");
        }
        assert!(of(&Affinity::Follow { cookie: "sid".to_owned(), separator: '.' }).is_none());
    }

    #[test]
    fn sets_cookie_attributes() {
        let list = upstreams(&["a:1"]);
        let affinity_cookies = AffinityCookies::new(&insert("sixteen byte key", None), &list);
        let plain = affinity_cookies.set_cookie(0, false).unwrap();
        assert!(plain.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{plain}");
        assert_eq!(*affinity_cookies.set_cookie(0, true).unwrap(), *format!("{plain}; Secure"));
        let aged = AffinityCookies::new(&insert("sixteen byte key", Some(Duration::from_secs(60))), &list);
        assert_eq!(*aged.set_cookie(0, false).unwrap(), *format!("{plain}; Max-Age=60"));
        assert_eq!(aged.set_cookie(1, false), None);
    }

    #[test]
    fn rejects_forged_and_foreign_tags() {
        let list = upstreams(&["a:1", "b:1"]);
        let affinity_cookies = AffinityCookies::new(&insert("sixteen byte key", None), &list);
        let good = value(&affinity_cookies, 0);
        let foreign = value(&AffinityCookies::new(&insert("another key, 16+", None), &list), 0);
        let removed = value(&AffinityCookies::new(&insert("sixteen byte key", None), &upstreams(&["c:1"])), 0);
        let secured = [UpstreamSettings { tls: true, ..list[0].clone() }];
        let other_scheme = value(&AffinityCookies::new(&insert("sixteen byte key", None), &secured), 0);
        let flipped = |at: usize| {
            let digit = if good.as_bytes()[at] == b'0' { "1" } else { "0" };
            format!("{}{digit}{}", &good[..at], &good[at + 1..])
        };
        let made_up = [
            foreign,
            removed,
            other_scheme,
            flipped(0),
            flipped(31),
            good.to_uppercase() + "G",
            good[..31].to_owned(),
            format!("{good}0"),
            format!("\"{good}\""),
            "a:1".to_owned(),
            "a".to_owned(),
            "0".repeat(32),
            String::new(),
        ];
        for value in made_up {
            assert_eq!(affinity_cookies.named(&[format!("breme-route={value}").as_bytes()]), None, "{value}");
        }
        for line in
            [format!("Breme-Route={good}"), format!("xbreme-route={good}"), format!("breme-routex={good}"), good]
        {
            assert_eq!(affinity_cookies.named(&[line.as_bytes()]), None, "{line}");
        }
    }

    #[test]
    fn tags_survive_list_changes() {
        let affinity = insert("sixteen byte key", None);
        let before = AffinityCookies::new(&affinity, &upstreams(&["a:1", "b:1"]));
        let after = AffinityCookies::new(&affinity, &upstreams(&["c:1", "b:1", "d:1"]));
        assert_eq!(value(&before, 1), value(&after, 1));
    }

    #[test]
    fn follows_application_route() {
        let follow = Affinity::Follow { cookie: "JSESSIONID".to_owned(), separator: '.' };
        let affinity_cookies = AffinityCookies::new(&follow, &upstreams(&["node1:1", "node2:1", "other"]));
        let named = |line: &str| affinity_cookies.named(&[line.as_bytes()]);
        assert_eq!(named("JSESSIONID=abc.node1"), Some(0));
        assert_eq!(named("JSESSIONID=\"abc.node2\""), Some(1));
        assert_eq!(named("JSESSIONID=a.b.node2"), Some(1), "behind the last separator");
        assert_eq!(named("JSESSIONID=abc.other"), Some(2), "without a route of its own, the name");
        assert_eq!(named("JSESSIONID=old.node9; JSESSIONID=abc.node1"), Some(0));
        for line in
            ["JSESSIONID=abc", "JSESSIONID=node1", "JSESSIONID=abc.", "JSESSIONID=abc.node", "jsessionid=abc.node1", ""]
        {
            assert_eq!(named(line), None, "{line}");
        }
        assert_eq!(affinity_cookies.set_cookie(0, false), None);
    }
}
