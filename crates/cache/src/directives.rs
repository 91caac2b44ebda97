//! Cache-Control of requests and responses (RFC 9111, 5.2).
//!
//! An invalid number counts as 0, since a response with an invalid lifetime is stale (4.2.1). Of duplicate directives
//! the smallest value counts. Values may be tokens or quoted strings.

use breme_http::list_members;
use breme_http::syntax::unquoted;

use crate::fields::FieldValues;

/// RFC 9111, 1.2.2. Sums of two do not overflow.
pub(crate) const SECONDS_MAX: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseDirectives {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    /// RFC 8246.
    pub(crate) immutable: bool,
    pub(crate) max_age_s: Option<u32>,
    pub(crate) s_maxage_s: Option<u32>,
    /// RFC 5861, 3.
    pub(crate) stale_while_revalidate_s: Option<u32>,
    /// RFC 5861, 4.
    pub(crate) stale_if_error_s: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    pub(crate) no_cache: bool,
    pub(crate) no_store: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age_s: Option<u32>,
    pub(crate) min_fresh_s: Option<u32>,
    pub(crate) max_stale_s: Option<u32>,
    pub(crate) stale_if_error_s: Option<u32>,
}

impl ResponseDirectives {
    /// Pragma has no meaning in a response (RFC 9111, 5.4).
    pub(crate) fn read(fields: &impl FieldValues) -> Self {
        parse_directives(fields, Self::add)
    }

    /// `no-cache` and `private` with field names apply to those fields only.
    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |candidate: &str| name.eq_ignore_ascii_case(candidate.as_bytes());
        match () {
            () if is("max-age") => least(&mut self.max_age_s, seconds(value)),
            () if is("s-maxage") => least(&mut self.s_maxage_s, seconds(value)),
            () if is("no-store") => self.no_store = true,
            () if is("no-cache") => self.no_cache |= value.is_none(),
            () if is("private") => self.private |= value.is_none(),
            () if is("public") => self.public = true,
            () if is("must-revalidate") => self.must_revalidate = true,
            () if is("proxy-revalidate") => self.proxy_revalidate = true,
            () if is("must-understand") => self.must_understand = true,
            () if is("immutable") => self.immutable = true,
            () if is("stale-while-revalidate") => least(&mut self.stale_while_revalidate_s, seconds(value)),
            () if is("stale-if-error") => least(&mut self.stale_if_error_s, seconds(value)),
            () => {}
        }
    }

    /// Whether a stale response may never be served (RFC 9111, 4.2.4); includes `s-maxage` (5.2.2.10).
    pub(crate) const fn forbids_stale(&self) -> bool {
        self.no_cache || self.must_revalidate || self.proxy_revalidate || self.s_maxage_s.is_some()
    }

    /// Whether a response to a request with Authorization may be stored (RFC 9111, 3.5).
    pub(crate) const fn allows_authorization(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage_s.is_some()
    }
}

impl RequestDirectives {
    /// `Pragma: no-cache` is deprecated (RFC 9111, 5.4) and ignored; clients that mean it send Cache-Control too.
    pub(crate) fn read(fields: &impl FieldValues) -> Self {
        parse_directives(fields, Self::add)
    }

    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |candidate: &str| name.eq_ignore_ascii_case(candidate.as_bytes());
        match () {
            () if is("no-cache") => self.no_cache = true,
            () if is("no-store") => self.no_store = true,
            () if is("only-if-cached") => self.only_if_cached = true,
            () if is("max-age") => least(&mut self.max_age_s, seconds(value)),
            () if is("min-fresh") => most(&mut self.min_fresh_s, value.and_then(number).unwrap_or(SECONDS_MAX)),
            () if is("max-stale") => {
                least(&mut self.max_stale_s, value.map_or(SECONDS_MAX, |value| seconds(Some(value))));
            }
            () if is("stale-if-error") => least(&mut self.stale_if_error_s, seconds(value)),
            () => {}
        }
    }

    /// Whether the client restricts which stored responses it accepts.
    pub(crate) fn restricts(&self) -> bool {
        *self != Self::default()
    }
}

/// Field names in `no-cache="a, b"` and `private="c"`, which are not stored.
pub(crate) fn qualified_names(fields: &impl FieldValues) -> impl Iterator<Item = &[u8]> {
    let qualifies = |name: &[u8]| name.eq_ignore_ascii_case(b"no-cache") || name.eq_ignore_ascii_case(b"private");
    let values = members(fields).filter(move |(name, value)| qualifies(name) && value.is_some());
    values.filter_map(|(_, value)| value).flat_map(|value| list_members(unquoted(value)))
}

fn parse_directives<D: Default>(fields: &impl FieldValues, mut add: impl FnMut(&mut D, &[u8], Option<&[u8]>)) -> D {
    let mut directives = D::default();
    members(fields).for_each(|(name, value)| add(&mut directives, name, value));
    directives
}

/// Names and values of the directives of all lines.
fn members(fields: &impl FieldValues) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    fields.values("cache-control").flat_map(list_members).map(|member| {
        let equals = member.iter().position(|&byte| byte == b'=');
        equals.map_or((member, None), |equals| (&member[..equals], Some(&member[equals + 1..])))
    })
}

fn seconds(value: Option<&[u8]>) -> u32 {
    value.and_then(number).unwrap_or(0)
}

/// Digits only; saturates at [`SECONDS_MAX`].
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    let digits = unquoted(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().fold(0_u64, |number, &digit| (number * 10 + u64::from(digit - b'0')).min(u64::from(SECONDS_MAX)));
    Some(number as u32)
}

fn least(slot: &mut Option<u32>, found: u32) {
    *slot = Some(slot.map_or(found, |candidate| candidate.min(found)));
}

fn most(slot: &mut Option<u32>, found: u32) {
    *slot = Some(slot.map_or(found, |candidate| candidate.max(found)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::block;

    fn response(value: &str) -> ResponseDirectives {
        ResponseDirectives::read(&block(&[("Cache-Control", value)]))
    }

    #[test]
    fn parses_seconds() {
        for (value, expected) in [
            ("max-age=3600", Some(3600)),
            ("MAX-AGE=003600", Some(3600)),
            ("max-age=\"3600\"", Some(3600)),
            ("max-age=2147483648", Some(1 << 31)),
            ("max-age=99999999999999999999999", Some(1 << 31)),
            ("max-age", Some(0)),
            ("max-age=", Some(0)),
            ("max-age='3600'", Some(0)),
            ("max-age=3600.0", Some(0)),
            ("max-age=-1", Some(0)),
            ("max-age=a1", Some(0)),
            ("max-age= 3600", Some(0)),
            ("max-age =3600", None),
            ("max-age=1, max-age=1800", Some(1)),
            ("max-age=1800, max-age=1", Some(1)),
            ("x=\"max-age=3600\", max-age=1", Some(1)),
            ("x=\"a\\\", max-age=3600\"", None),
            ("x-max-age=3600", None),
            ("max-agee=3600", None),
        ] {
            assert_eq!(response(value).max_age_s, expected, "{value}");
        }
    }

    #[test]
    fn parses_response_directives() {
        let found = response("private, No-Store,no-cache, must-revalidate , proxy-revalidate, public, must-understand");
        assert!(found.private && found.no_store && found.no_cache && found.must_revalidate && found.proxy_revalidate);
        assert!(found.public && found.must_understand && !found.immutable && found.max_age_s.is_none());
        assert!(response("Immutable").immutable);
        assert_eq!(response("x=\"no-store, private\", xno-store"), ResponseDirectives::default());
        let found = response("s-maxage=5, stale-while-revalidate=7, stale-if-error=9");
        assert_eq!(
            (found.s_maxage_s, found.stale_while_revalidate_s, found.stale_if_error_s),
            (Some(5), Some(7), Some(9))
        );
        assert!(found.forbids_stale() && found.allows_authorization());
    }

    #[test]
    fn qualified_directives_apply_to_their_fields() {
        let fields = block(&[("Cache-Control", "no-cache=\"a, B\", max-age=1"), ("cache-control", "private=c")]);
        let found = ResponseDirectives::read(&fields);
        assert!(!found.no_cache && !found.private);
        let names: Vec<&[u8]> = qualified_names(&fields).collect();
        assert_eq!(names, [b"a" as &[u8], b"B", b"c"]);
    }

    #[test]
    fn parses_request_directives() {
        let read = |value: &str| RequestDirectives::read(&block(&[("Cache-Control", value)]));
        let found = read("no-cache, no-store, only-if-cached, max-age=5, min-fresh=6, max-stale=7, stale-if-error=8");
        assert!(found.no_cache && found.no_store && found.only_if_cached && found.restricts());
        assert_eq!(
            (found.max_age_s, found.min_fresh_s, found.max_stale_s, found.stale_if_error_s),
            (Some(5), Some(6), Some(7), Some(8))
        );
        assert_eq!(read("max-stale").max_stale_s, Some(SECONDS_MAX));
        assert_eq!(read("max-stale=x").max_stale_s, Some(0));
        assert_eq!(
            read("min-fresh=x").min_fresh_s,
            Some(SECONDS_MAX),
            "not understood: no stored response is fresh enough"
        );
        assert!(!read("extension").restricts());
    }
}
