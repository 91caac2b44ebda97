//! Whether a response may be stored, and how it may be reused (RFC 9111, 3).
//!
//! The response alone decides, never the URL. Refusals that will recur are recorded as pass markers, so that later
//! requests do not wait for each other in vain.

use breme_base::Random;
use breme_http::{list_members, reason_phrase};

use crate::directives::{ResponseDirectives, qualified_names};
use crate::fields::FieldValues;
use crate::freshness::{Freshness, ResponseTimes, may_be_heuristic};
use crate::request::ResponseHead;
use crate::settings::CacheSettings;
use crate::store::ReuseTerms;
use crate::structured_fields::{self, PurgeNames};
use crate::vary::{CookieRules, Vary};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storability {
    /// `names`: the fields of Vary.
    Store {
        terms: ReuseTerms,
        names: Vec<Vec<u8>>,
    },
    Refused(StoreRefusal),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreRefusal {
    /// Later responses are expected to be refused too, for requests with the same values of `names`.
    pub(crate) is_lasting: bool,
    pub(crate) names: Vec<Vec<u8>>,
}

/// The properties of a request that matter for storing its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTraits {
    pub(crate) no_store: bool,
    pub(crate) has_authorization: bool,
    pub(crate) is_personal: bool,
    /// Only a response with explicit freshness may be stored (RFC 9110, 9.3.3).
    pub(crate) needs_lifetime: bool,
    pub(crate) has_range: bool,
}

impl RequestTraits {
    pub(crate) fn new(request: &impl FieldValues, no_store: bool, settings: &CacheSettings) -> Self {
        Self {
            no_store,
            needs_lifetime: false,
            has_range: request.has("range"),
            has_authorization: request.has("authorization"),
            is_personal: CookieRules::new(settings).are_personal(request),
        }
    }
}

pub(crate) fn storability(
    request: RequestTraits,
    status: u16,
    fields: &impl FieldValues,
    times: ResponseTimes,
    settings: &CacheSettings,
    random: &mut Random,
) -> Storability {
    let targeted = structured_fields::targeted(fields, &settings.targeted_fields);
    let directives = targeted.unwrap_or_else(|| ResponseDirectives::read(fields));
    let vary = Vary::from_fields(fields);
    let lasting = |names| Storability::Refused(StoreRefusal { is_lasting: is_about_target(status), names });
    let is_unrequested = status == 304 || (status == 206 && !request.has_range);
    if request.no_store || is_unrequested || is_about_request(status) {
        return Storability::Refused(StoreRefusal { is_lasting: false, names: Vec::new() });
    }
    if directives.is_closed(status) || fields.has("set-cookie") || fields.has("set-cookie2") {
        return lasting(vary.names().to_vec());
    }
    if request.has_authorization && !directives.allows_authorization() {
        return Storability::Refused(StoreRefusal { is_lasting: false, names: Vec::new() });
    }
    let is_private = request.is_personal && vary.has_cookie();
    let Vary::Fields(names) = vary else { return lasting(Vec::new()) };
    let group_names = PurgeNames::from_fields(fields, &settings.key_fields);
    if is_private || group_names.are_too_many() {
        return lasting(names);
    }
    let freshness = Freshness::read(status, fields, &directives, targeted.is_some(), times, settings);
    let terms = terms(&directives, freshness, settings, random);
    let terms = ReuseTerms { has_groups: !group_names.is_empty(), ..terms };
    if request.needs_lifetime && !freshness.is_explicit {
        return Storability::Refused(StoreRefusal { is_lasting: false, names });
    }
    if directives.allows(status, freshness) && is_useful(fields, terms) {
        return Storability::Store { terms, names };
    }
    lasting(names)
}

/// Whether a status is about the request and not its target: its conditions (412), range (416), expectation (417), or
/// client, rate and headers (428, 429, 431, 511; RFC 6585 forbids storing these). None of that is in the key.
const fn is_about_request(status: u16) -> bool {
    matches!(status, 412 | 416 | 417 | 428 | 429 | 431 | 511)
}

/// Whether a status says something about the target that also holds for other requests. Server errors are transient,
/// and other client errors depend on headers outside the key: one request with a cookie that is too long (400), without
/// credentials (401, 403) or with an odd Accept (406) must not remove a page or stop the collapsing of its requests
/// ("Your Cache Has Fallen: Cache-Poisoned Denial-of-Service Attack", Nguyen et al., CCS 2019).
pub(crate) const fn is_about_target(status: u16) -> bool {
    matches!(status, ..400 | 404 | 405 | 410 | 414 | 451)
}

impl ResponseDirectives {
    /// Whether storing is forbidden. `no-store` with `must-understand` applies only to unknown statuses (5.2.2.3).
    fn is_closed(&self, status: u16) -> bool {
        let is_understood = !reason_phrase(status).is_empty();
        let no_store = if self.must_understand { !is_understood } else { self.no_store };
        no_store || self.private
    }

    /// The last condition of RFC 9111, 3.
    fn allows(&self, status: u16, freshness: Freshness) -> bool {
        self.public || freshness.is_explicit || may_be_heuristic(status)
    }
}

/// `stale-*` directives apply despite `s-maxage`, but not despite `must-revalidate`.
fn terms(
    directives: &ResponseDirectives,
    freshness: Freshness,
    settings: &CacheSettings,
    random: &mut Random,
) -> ReuseTerms {
    let is_strict = directives.no_cache || directives.must_revalidate || directives.proxy_revalidate;
    let fresh_for_s = freshness.fresh_for_s(settings, random);
    ReuseTerms {
        age_from: freshness.age_from,
        initial_age_s: freshness.initial_age_s,
        fresh_for_s: if directives.no_cache { fresh_for_s.min(0) } else { fresh_for_s },
        stale_while_revalidate_s: if is_strict { 0 } else { directives.stale_while_revalidate_s.unwrap_or(0) },
        stale_if_error_s: if is_strict { Some(0) } else { directives.stale_if_error_s },
        forbids_stale: directives.forbids_stale(),
        allows_authorization: directives.allows_authorization(),
        is_immutable: directives.immutable,
        has_groups: false,
        is_pass: false,
    }
}

/// Stale responses are stored if they can be validated or may be served stale.
fn is_useful(fields: &impl FieldValues, terms: ReuseTerms) -> bool {
    let may_be_stale = terms.stale_while_revalidate_s > 0 || terms.stale_if_error_s.is_some_and(|seconds| seconds > 0);
    terms.fresh_for_s > 0 || may_be_stale || fields.has("etag") || fields.has("last-modified")
}

/// Headers about a connection or hop (RFC 9110, 7.6.1; RFC 9111, 3.1), and those generated for each response.
const NOT_STORED: [&str; 14] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "content-length",
    "age",
    "warning",
    "set-cookie",
];

/// Selects the headers to store.
pub(crate) struct StoredFields {
    /// Named by Connection, or by a qualified `no-cache` or `private`.
    named: Vec<Vec<u8>>,
}

impl StoredFields {
    pub(crate) fn new(fields: &impl FieldValues) -> Self {
        let connection = fields.values("connection").flat_map(list_members);
        Self { named: connection.chain(qualified_names(fields)).map(<[u8]>::to_vec).collect() }
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let is = |candidate: &[u8]| name.eq_ignore_ascii_case(candidate);
        !NOT_STORED.iter().any(|candidate| is(candidate.as_bytes()))
            && !self.named.iter().any(|candidate| is(candidate))
    }
}

/// The header lines to store, allocated with their exact size: growing and shrinking would leave holes in the heap, 80
/// bytes for each response.
pub(crate) fn stored_lines(head: &ResponseHead<'_, '_>) -> breme_http::FieldBlock {
    /// `: ` and CRLF.
    const AROUND_BYTES: usize = 4;
    let stored = StoredFields::new(&head.fields);
    let fields = || head.fields.iter().filter(|field| stored.has(field.name.as_bytes()));
    let bytes: usize = fields().map(|field| field.name.len() + field.value.len() + AROUND_BYTES).sum();
    let capacity = bytes + head.added.as_bytes().len();
    let mut lines = breme_http::FieldBlock::with_capacity(capacity);
    for field in fields() {
        let _ = lines.push(field.name, field.value);
    }
    for (name, value) in crate::fields::lines(head.added.as_bytes()) {
        let _ = lines.push(std::str::from_utf8(name).unwrap_or_default(), value);
    }
    debug_assert!(lines.as_bytes().len() <= capacity, "the room was counted wrongly");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Now;
    use crate::test_support::{NOON, block, http_date};
    use breme_base::Instant;

    const PLAIN: RequestTraits = RequestTraits {
        no_store: false,
        has_authorization: false,
        is_personal: false,
        needs_lifetime: false,
        has_range: false,
    };

    fn judged(request: RequestTraits, status: u16, fields: &[(&str, &str)]) -> Storability {
        let received = Now { instant: Instant::ZERO, wall: NOON };
        let times = ResponseTimes { requested: Instant::ZERO, received };
        storability(request, status, &block(fields), times, &CacheSettings::new(1 << 20), &mut Random::new(1))
    }

    #[test]
    fn refuses_statuses_about_the_request() {
        for status in [412, 416, 417, 428, 429, 431, 511] {
            assert!(!is_stored(PLAIN, status, &[("Cache-Control", "public, max-age=600")]), "{status}");
        }
        for status in [200, 400, 404, 410, 414, 501] {
            assert!(is_stored(PLAIN, status, &[("Cache-Control", "max-age=600")]), "{status}");
        }
    }

    fn is_stored(request: RequestTraits, status: u16, fields: &[(&str, &str)]) -> bool {
        matches!(judged(request, status, fields), Storability::Store { .. })
    }

    fn is_lasting(fields: &[(&str, &str)]) -> bool {
        is_refusal_lasting(200, fields)
    }

    fn is_refusal_lasting(status: u16, fields: &[(&str, &str)]) -> bool {
        matches!(judged(PLAIN, status, fields), Storability::Refused(StoreRefusal { is_lasting: true, .. }))
    }

    #[test]
    fn only_statuses_about_the_target_last() {
        for status in [200, 302, 404, 405, 410, 414, 451] {
            assert!(is_refusal_lasting(status, &[("Cache-Control", "no-store")]), "{status}");
        }
        for status in [400, 401, 402, 403, 406, 407, 408, 409, 411, 413, 415, 421, 422, 423, 426, 499, 500, 503] {
            assert!(!is_refusal_lasting(status, &[("Cache-Control", "no-store")]), "{status}");
        }
    }

    const FRESH: (&str, &str) = ("Cache-Control", "max-age=59");

    #[test]
    fn stores_cacheable_responses() {
        for status in [200, 203, 299, 301, 302, 404, 410, 500, 503, 599] {
            assert!(is_stored(PLAIN, status, &[FRESH]), "{status}");
        }
        let modified = http_date(-1000);
        let heuristic = [("Last-Modified", modified.as_str())];
        for (status, expected) in
            [(200, true), (204, true), (404, true), (405, true), (501, true), (201, false), (302, false), (503, false)]
        {
            assert_eq!(is_stored(PLAIN, status, &heuristic), expected, "{status}");
        }
        assert!(is_stored(PLAIN, 599, &[("Cache-Control", "public"), ("Last-Modified", &modified)]));
        assert!(is_stored(PLAIN, 200, &[("ETag", "\"a\"")]), "to be validated");
        assert!(is_stored(PLAIN, 200, &[("Cache-Control", "max-age=0, stale-while-revalidate=5")]));
    }

    #[test]
    fn refuses_uncacheable_responses() {
        for status in [206, 304] {
            assert!(!is_stored(PLAIN, status, &[FRESH]), "{status}");
        }
        for fields in [
            &[("Cache-Control", "max-age=59, no-store")][..],
            &[("Cache-Control", "max-age=59, private")],
            &[("Cache-Control", "max-age=59, PRIVATE")],
            &[FRESH, ("Set-Cookie", "a=b")],
            &[("Cache-Control", "public, max-age=59"), ("Set-Cookie", "a=b")],
            &[FRESH, ("Vary", "*")],
            &[("Cache-Control", "max-age=59"), ("CDN-Cache-Control", "no-store")],
            &[],
            &[("Cache-Control", "max-age=0")],
        ] {
            assert!(is_lasting(fields), "{fields:?}");
        }
        assert!(!is_stored(RequestTraits { no_store: true, ..PLAIN }, 200, &[FRESH]));
    }

    #[test]
    fn stores_partial_content_for_range_requests() {
        let ranged = RequestTraits { has_range: true, ..PLAIN };
        assert!(is_stored(ranged, 206, &[FRESH]) && !is_stored(ranged, 304, &[FRESH]));
        assert!(is_stored(ranged, 206, &[("Last-Modified", &http_date(-1000))]));
    }

    #[test]
    fn post_needs_explicit_lifetime() {
        let posted = RequestTraits { needs_lifetime: true, ..PLAIN };
        let modified = http_date(-1000);
        assert!(is_stored(posted, 200, &[FRESH]));
        for fields in
            [&[("Last-Modified", modified.as_str())][..], &[("ETag", "\"a\"")], &[("Cache-Control", "public")]]
        {
            assert!(!is_stored(posted, 200, fields), "{fields:?}");
        }
    }

    #[test]
    fn targeted_directives_replace_cache_control() {
        assert!(is_stored(PLAIN, 200, &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=59")]));
        assert!(!is_stored(PLAIN, 200, &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=59, &&")]));
        let expires = http_date(10_000);
        assert!(!is_stored(PLAIN, 200, &[("CDN-Cache-Control", "max-age=0"), ("Expires", &expires)]));
        assert!(!is_stored(PLAIN, 200, &[("CDN-Cache-Control", "foo"), ("Expires", &expires)]));
    }

    #[test]
    fn authorization_needs_permission() {
        let authorized = RequestTraits { has_authorization: true, ..PLAIN };
        assert!(!is_stored(authorized, 200, &[FRESH]));
        for value in ["max-age=59, public", "max-age=59, must-revalidate", "s-maxage=59"] {
            assert!(is_stored(authorized, 200, &[("Cache-Control", value)]), "{value}");
        }
    }

    #[test]
    fn refuses_vary_by_session_cookie() {
        let personal = RequestTraits { is_personal: true, ..PLAIN };
        assert!(is_stored(personal, 200, &[FRESH]));
        assert!(!is_stored(personal, 200, &[FRESH, ("Vary", "Cookie")]));
        assert!(is_stored(PLAIN, 200, &[FRESH, ("Vary", "Cookie")]));
    }

    #[test]
    fn must_understand_overrides_no_store() {
        let value = [("Cache-Control", "max-age=59, must-understand, no-store")];
        assert!(is_stored(PLAIN, 200, &value) && !is_stored(PLAIN, 299, &value));
    }

    #[test]
    fn derives_reuse_terms() {
        let terms = |value: &str| match judged(PLAIN, 200, &[("Cache-Control", value), ("ETag", "\"a\"")]) {
            Storability::Store { terms, .. } => terms,
            refused => panic!("{value}: {refused:?}"),
        };
        let found = terms("max-age=59, stale-while-revalidate=7");
        assert_eq!((found.fresh_for_s, found.stale_while_revalidate_s, found.stale_if_error_s), (59, 7, None));
        assert!(!found.forbids_stale && !found.allows_authorization);
        let found = terms("s-maxage=9, stale-while-revalidate=7, stale-if-error=8");
        assert_eq!((found.fresh_for_s, found.stale_while_revalidate_s, found.stale_if_error_s), (9, 7, Some(8)));
        assert!(found.forbids_stale && found.allows_authorization);
        let found = terms("max-age=59, must-revalidate, stale-while-revalidate=7, stale-if-error=8");
        assert_eq!((found.fresh_for_s, found.stale_while_revalidate_s, found.stale_if_error_s), (59, 0, Some(0)));
        assert_eq!(terms("max-age=59, no-cache").fresh_for_s, 0);
        let found = terms("max-age=59, proxy-revalidate, stale-while-revalidate=7");
        assert!(found.forbids_stale && found.stale_while_revalidate_s == 0);
    }

    #[test]
    fn drops_connection_headers() {
        let fields = block(&[("Connection", "a, B"), ("Cache-Control", "no-cache=\"c\", private=\"d\"")]);
        let stored = StoredFields::new(&fields);
        for name in
            ["A", "b", "C", "d", "Connection", "TE", "Set-Cookie", "Content-Length", "Proxy-Authenticate", "AGE"]
        {
            assert!(!stored.has(name.as_bytes()), "{name}");
        }
        for name in ["e", "Date", "Cache-Control", "Content-Type", "CDN-Cache-Control", "Via"] {
            assert!(stored.has(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn refuses_obsolete_cookies_and_names_that_cannot_be_compared() {
        assert!(is_lasting(&[FRESH, ("Set-Cookie2", "a=b")]));
        let many: Vec<String> = (0..1_000).map(|index| format!("\"g{index}\"")).collect();
        assert!(is_lasting(&[FRESH, ("Cache-Groups", &many.join(", "))]), "purges could not find it");
    }

    #[test]
    fn last_modified_alone_makes_a_stale_response_useful() {
        let modified = http_date(-1000);
        assert!(is_stored(PLAIN, 200, &[("Cache-Control", "max-age=0"), ("Last-Modified", &modified)]));
    }
}
