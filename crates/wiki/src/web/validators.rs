//! Validators and cache headers.

use axum::body::Body;
use axum::response::Response;
use breme_http::{
    Ranges, any_tag, cookie_pairs, media_type, only_tag, parse_http_date, parse_ranges, unsatisfied_range,
};
use breme_wiki_database::digest::sha256;
use breme_wiki_database::keys;
use breme_wiki_database::page::Millis;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, COOKIE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::calendar::http_date;

/// The keys by which a response can be purged.
pub(crate) const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");

/// Capacity for the headers of a page.
const HEADERS_USUAL: usize = 12;

/// Who may see a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Anyone: shared caches may store it.
    Everybody,
    /// Only the requesting user; a browser may store it but must revalidate it before each use.
    One,
}

/// A representation before conditional requests are evaluated.
pub(crate) struct Representation {
    pub(crate) media_type: HeaderValue,
    pub(crate) body: Bytes,
    /// Without quotes.
    pub(crate) tag: String,
    pub(crate) modified: Option<Millis>,
    /// Whether If-Modified-Since may be answered with 304: not if something other than the text changes the response.
    pub(crate) is_dated: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) audience: Audience,
    /// The request headers on which the response depends.
    pub(crate) vary: &'static str,
}

impl Representation {
    /// HTML whose entity tag is its digest.
    pub(crate) fn html(html: String, keys: Vec<String>, audience: Audience) -> Self {
        Self::digested(media_type::HTML, html.into(), keys, audience)
    }

    /// Any body whose entity tag is its digest.
    pub(crate) fn digested(media_type: &'static str, body: Bytes, keys: Vec<String>, audience: Audience) -> Self {
        let tag = digest(&body);
        let media_type = HeaderValue::from_static(media_type);
        Self { media_type, body, tag, modified: None, is_dated: false, keys, audience, vary: "" }
    }

    /// The headers of the response, without Content-Type.
    pub(crate) fn headers(&self, cache_control: &HeaderValue) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS_USUAL);
        let control = match self.audience {
            Audience::Everybody => cache_control.clone(),
            Audience::One => HeaderValue::from_static("private, no-cache"),
        };
        headers.insert(CACHE_CONTROL, control);
        insert(&mut headers, ETAG, &format!("\"{}\"", self.tag));
        if let Some(modified) = self.modified {
            insert(&mut headers, LAST_MODIFIED, &http_date(modified));
        }
        if !self.vary.is_empty() {
            headers.insert(VARY, HeaderValue::from_static(self.vary));
        }
        if self.audience == Audience::Everybody && !self.keys.is_empty() {
            insert(&mut headers, SURROGATE_KEY, &format!("{} {}", keys::EVERYTHING, self.keys.join(" ")));
        }
        headers
    }

    /// As [`respond`](Self::respond), or the single range that the client requests (RFC 9110, section 14).
    pub(crate) fn respond_in_parts(self, request: &HeaderMap, cache_control: &HeaderValue) -> Response {
        let body = self.body.clone();
        let mut response = self.respond(request, cache_control);
        response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if response.status() != StatusCode::OK || !is_same_version(request, response.headers()) {
            return response;
        }
        let Some(range) = request.get(RANGE) else { return response };
        let length = body.len() as u64;
        match parse_ranges(range.as_bytes(), length) {
            Ranges::One(range) => {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                insert(response.headers_mut(), CONTENT_RANGE, &range.content_range(length));
                // Both are at most the length, which is a usize.
                *response.body_mut() = Body::from(body.slice(range.start as usize..range.end as usize));
            }
            Ranges::Unsatisfiable => {
                *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                // Caches that forward Range, but whose keys ignore it, would send it to others.
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                insert(response.headers_mut(), CONTENT_RANGE, &unsatisfied_range(length));
                *response.body_mut() = Body::empty();
            }
            // Several are never needed: a player requests one after the other.
            Ranges::Ignored | Ranges::Several(_) => (),
        }
        response
    }

    /// The response, or 304 if the client has it.
    pub(crate) fn respond(self, request: &HeaderMap, cache_control: &HeaderValue) -> Response {
        let mut response = Response::new(Body::empty());
        let headers = self.headers(cache_control);
        let modified = self.modified.filter(|_| self.is_dated);
        let is_known = headers.get(ETAG).is_some_and(|tag| is_current(request, tag, modified));
        *response.headers_mut() = headers;
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            response.headers_mut().insert(CONTENT_TYPE, self.media_type);
            *response.body_mut() = Body::from(self.body);
        }
        response
    }
}

pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Values built here are ASCII without control characters; anything else is skipped.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// 64 bits of SHA-256, hexadecimal: enough to distinguish the versions of one response.
pub(crate) fn digest(bytes: &[u8]) -> String {
    sha256(bytes)[..16].to_owned()
}

/// Whether the client has this version (RFC 9110, section 13.2.2): If-None-Match, compared weakly, or else
/// If-Modified-Since.
pub(crate) fn is_current(request: &HeaderMap, tag: &HeaderValue, modified: Option<Millis>) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        let lines = request.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
        return only_tag(tag.as_bytes()).is_some_and(|tag| any_tag(lines, |one| one.is_weakly(tag)));
    }
    let (Some(since), Some(modified)) = (date(request, &IF_MODIFIED_SINCE), modified) else { return false };
    modified.div_euclid(1000) <= since
}

/// Whether the parts that the client has are of this version, according to If-Range, which compares strongly. A date
/// never matches: two versions may be of the same second.
fn is_same_version(request: &HeaderMap, response: &HeaderMap) -> bool {
    let Some(condition) = request.get(IF_RANGE) else { return true };
    response.get(ETAG) == Some(condition)
}

/// The date in a header, in seconds since 1970.
pub(crate) fn date(headers: &HeaderMap, name: &HeaderName) -> Option<i64> {
    parse_http_date(headers.get(name)?.as_bytes())
}

/// The members of a list of entity tags. The wiki's own tags contain no commas.
pub(crate) fn tags<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|tag| !tag.is_empty())
}

/// The entity tag of a page's representation: `r7-h3-0f6e…` is HTML of revision 7.
pub(crate) fn page_tag(revision: u64, rest: &str) -> String {
    format!("r{revision}-{rest}")
}

/// The revision in an entity tag of a page; none in a weak one, since If-Match compares strongly.
pub(crate) fn revision_of_tag(tag: &str) -> Option<u64> {
    tag.strip_prefix("\"r")?.strip_suffix('"')?.split_once('-')?.0.parse().ok()
}

pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut pairs = headers.get_all(COOKIE).iter().flat_map(|value| cookie_pairs(value.as_bytes()));
    pairs.find_map(|pair| pair.value_of(name.as_bytes())).and_then(|value| std::str::from_utf8(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn known_versions_are_recognised() {
        let current = |pairs: &[(HeaderName, &str)]| {
            is_current(&headers(pairs), &HeaderValue::from_static("\"a\""), Some(1_000_500))
        };
        assert!(current(&[(IF_NONE_MATCH, "\"b\", W/\"a\"")]));
        assert!(current(&[(IF_NONE_MATCH, "*")]));
        assert!(!current(&[(IF_NONE_MATCH, "\"b\"")]) && !current(&[]));
        assert!(current(&[(IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:16:40 GMT")]));
        assert!(!current(&[(IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:16:39 GMT")]));
        let both = [(IF_NONE_MATCH, "\"b\""), (IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:16:40 GMT")];
        assert!(!current(&both), "If-None-Match comes first");
    }

    #[test]
    fn entity_tags_name_their_revision() {
        assert_eq!(revision_of_tag(&format!("\"{}\"", page_tag(7, "m"))), Some(7));
        for tag in ["W/\"r7-m\"", "\"7\"", "r7-m", "*", "\"rx-m\""] {
            assert_eq!(revision_of_tag(tag), None, "{tag}");
        }
    }

    #[test]
    fn cookies_are_found_by_name() {
        let headers = headers(&[(COOKIE, "a=\u{e4}; session=x=y")]);
        assert_eq!((cookie(&headers, "session"), cookie(&headers, "b")), (Some("x=y"), None));
    }
}
