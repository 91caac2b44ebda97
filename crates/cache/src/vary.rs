//! Vary (RFC 9111, 4.1): variants of a URL, selected by request headers.
//!
//! Values are normalised: several lines are one list, blanks around commas are ignored, and for negotiation headers so
//! are case and the order of members of different weight. The order of equally preferred members stays: an origin may
//! choose the first (RFC 9110, 12.5.4). Only codings are sorted: they do not change what a response says. A variant is
//! encoded as `name NUL value LF`, or `name LF` for an absent header; names and values contain neither NUL nor LF, so
//! variants are equal if their bytes are.

use std::cmp::Reverse;

use breme_http::weight::{WEIGHT_MAX, Weight, parse_weight, weight_value};
use breme_http::{CookiePair, cookie_pairs, list_members};

use crate::fields::FieldValues;
use crate::inline_bytes::InlineBytes;
use crate::settings::CacheSettings;

/// Responses that vary by more headers are not stored.
const NAMES_MAX: usize = 16;
/// Longer lists are not sorted.
const SORTED_MAX: usize = 32;
/// Headers that the proxy sets per client: a response that varies by these is private.
const CLIENT_ADDRESS_HEADERS: [&[u8]; 3] = [b"forwarded", b"x-forwarded-for", b"x-real-ip"];
/// One variant for all requests with session cookies, so that a pass marker applies to all of them.
const PERSONAL: &[u8] = b"\x01";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vary {
    /// Sorted, in lower case.
    Fields(Vec<Vec<u8>>),
    /// `*`, a header of the client's address, or too many names.
    Unknown,
}

impl Vary {
    pub(crate) fn from_fields(fields: &impl FieldValues) -> Self {
        let mut names: Vec<Vec<u8>> =
            fields.values("vary").flat_map(list_members).map(<[u8]>::to_ascii_lowercase).collect();
        names.sort_unstable();
        names.dedup();
        let is_unknowable = |name: &Vec<u8>| {
            name == b"*" || CLIENT_ADDRESS_HEADERS.contains(&&name[..]) || std::str::from_utf8(name).is_err()
        };
        let is_unknown = names.len() > NAMES_MAX || names.iter().any(is_unknowable);
        if is_unknown { Self::Unknown } else { Self::Fields(names) }
    }

    pub(crate) fn names(&self) -> &[Vec<u8>] {
        if let Self::Fields(names) = self { names } else { &[] }
    }

    pub(crate) fn has_cookie(&self) -> bool {
        matches!(self, Self::Fields(names) if names.iter().any(|name| name == b"cookie"))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieRules<'s> {
    session: &'s [String],
    ignored: &'s [String],
}

impl<'s> CookieRules<'s> {
    pub(crate) fn new(settings: &'s CacheSettings) -> Self {
        Self { session: &settings.session_cookies, ignored: &settings.ignored_cookies }
    }

    /// Whether the request has a session cookie.
    pub(crate) fn are_personal(self, request: &impl FieldValues) -> bool {
        pairs(request).any(|pair| self.is_personal(pair))
    }

    fn is_personal(self, pair: CookiePair<'_>) -> bool {
        let name = pair.name();
        !self.is_ignored(pair) && self.session.iter().any(|word| contains_ignoring_case(name, word.as_bytes()))
    }

    /// Whether the request counts as one without cookies.
    fn are_all_ignored(self, request: &impl FieldValues) -> bool {
        let mut pairs = pairs(request).peekable();
        pairs.peek().is_some() && pairs.all(|pair| self.is_ignored(pair))
    }

    fn is_ignored(self, pair: CookiePair<'_>) -> bool {
        let name = pair.name();
        self.ignored.iter().any(|ignored| match ignored.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix.as_bytes()),
            None => name == ignored.as_bytes(),
        })
    }
}

fn pairs(request: &impl FieldValues) -> impl Iterator<Item = CookiePair<'_>> {
    request.values("cookie").flat_map(cookie_pairs)
}

fn contains_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// The variant of a response to this request.
pub(crate) fn variant(names: &[Vec<u8>], request: &impl FieldValues, cookies: CookieRules<'_>) -> InlineBytes {
    let mut out = InlineBytes::new();
    for name in names {
        write(name, request, cookies, &mut out);
    }
    out
}

pub(crate) fn matches(variant: &[u8], request: &impl FieldValues, cookies: CookieRules<'_>) -> bool {
    variant.is_empty() || same_names(variant, request, cookies).as_slice() == variant
}

/// The request's variant by the names of another variant.
pub(crate) fn same_names(variant: &[u8], request: &impl FieldValues, cookies: CookieRules<'_>) -> InlineBytes {
    let mut own = InlineBytes::new();
    for name in names_of(variant) {
        write(name, request, cookies, &mut own);
    }
    own
}

/// Whether a request can match both variants: no header has a different value in each.
pub(crate) fn overlap(first: &[u8], second: &[u8]) -> bool {
    let differs = |one, other| one != other && name_of(one) == name_of(other);
    !entries(first).any(|one| entries(second).any(|other| differs(one, other)))
}

fn names_of(variant: &[u8]) -> impl Iterator<Item = &[u8]> {
    entries(variant).map(name_of)
}

fn entries(variant: &[u8]) -> impl Iterator<Item = &[u8]> {
    variant.split(|&byte| byte == b'\n').filter(|entry| !entry.is_empty())
}

fn name_of(entry: &[u8]) -> &[u8] {
    entry.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn write(name: &[u8], request: &impl FieldValues, cookies: CookieRules<'_>, out: &mut InlineBytes) {
    out.extend(name);
    let text = std::str::from_utf8(name).unwrap_or_default();
    if request.has(text) && !(text == "cookie" && cookies.are_all_ignored(request)) {
        out.push(0);
        match text {
            "cookie" => write_cookies(request, cookies, out),
            "accept-encoding" => write_members(request, text, sort_by_name, out),
            "accept" | "accept-charset" | "accept-language" => write_members(request, text, sort_by_weight, out),
            _ => write_list(request, text, out),
        }
    }
    out.push(b'\n');
}

/// In order, without ignored cookies.
fn write_cookies(request: &impl FieldValues, cookies: CookieRules<'_>, out: &mut InlineBytes) {
    if cookies.are_personal(request) {
        return out.extend(PERSONAL);
    }
    for pair in pairs(request).filter(|&pair| !cookies.is_ignored(pair)) {
        out.extend(pair.as_bytes());
        out.push(b';');
    }
}

/// Sorted, in lower case and without blanks: `en;q=0.5, DE` becomes `de,en;q=0.5`.
fn write_members(request: &impl FieldValues, name: &str, sort: fn(&mut [&[u8]]), out: &mut InlineBytes) {
    let mut sorted: [&[u8]; SORTED_MAX] = [b""; SORTED_MAX];
    let mut members = request.values(name).flat_map(list_members);
    let mut count = 0;
    for (slot, member) in sorted.iter_mut().zip(members.by_ref()) {
        *slot = member;
        count += 1;
    }
    if members.next().is_some() {
        return write_list(request, name, out);
    }
    let sorted = &mut sorted[..count];
    sort(sorted);
    for member in sorted {
        lowercase_without_blanks(member).for_each(|byte| out.push(byte));
        out.push(b',');
    }
}

fn sort_by_name(members: &mut [&[u8]]) {
    members.sort_unstable_by(|a, b| lowercase_without_blanks(a).cmp(lowercase_without_blanks(b)));
}

/// The most preferred first; members of equal weight keep their order. What an invalid weight means is unknown, so with
/// one the order stays.
fn sort_by_weight(members: &mut [&[u8]]) {
    if members.iter().all(|member| weight(member).is_some()) {
        members.sort_by_key(|member| Reverse(weight(member)));
    }
}

/// None if it is invalid.
fn weight(member: &[u8]) -> Option<Weight> {
    let mut parameters = std::str::from_utf8(member).ok()?.split(';').skip(1);
    parameters.find_map(weight_value).map_or(Some(WEIGHT_MAX), parse_weight)
}

fn lowercase_without_blanks(member: &[u8]) -> impl Iterator<Item = u8> {
    member.iter().filter(|byte| !matches!(byte, b' ' | b'\t')).map(u8::to_ascii_lowercase)
}

/// All lines as one list without blanks around commas. Quoted strings stay unchanged.
fn write_list(request: &impl FieldValues, name: &str, out: &mut InlineBytes) {
    for (index, value) in request.values(name).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_without_blanks(value.trim_ascii(), out);
    }
}

fn write_without_blanks(value: &[u8], out: &mut InlineBytes) {
    let (mut is_quoted, mut is_escaped, mut before) = (false, false, b',');
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let blanks = if is_quoted { &[][..] } else { leading_blanks(rest) };
        if !blanks.is_empty() {
            // All at once, so that a long run of blanks takes linear time.
            rest = &rest[blanks.len()..];
            if before != b',' && rest.first() != Some(&b',') {
                out.extend(blanks);
                before = b' ';
            }
            continue;
        }
        is_quoted ^= byte == b'"' && !is_escaped;
        is_escaped = is_quoted && byte == b'\\' && !is_escaped;
        before = byte;
        out.push(byte);
        rest = after;
    }
}

fn leading_blanks(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::block;

    fn is_same(vary: &str, first: &[(&str, &str)], second: &[(&str, &str)]) -> bool {
        let settings =
            CacheSettings { ignored_cookies: ["visitor", "_ga*"].map(str::to_owned).to_vec(), ..CacheSettings::new(1) };
        let cookies = CookieRules::new(&settings);
        let Vary::Fields(names) = Vary::from_fields(&block(&[("Vary", vary)])) else { panic!("{vary} is known") };
        let (first, second) = (block(first), block(second));
        let own = variant(&names, &first, cookies);
        assert!(matches(own.as_slice(), &first, cookies), "a request gets its own variant");
        assert_eq!(same_names(own.as_slice(), &first, cookies).as_slice(), own.as_slice());
        let found = matches(own.as_slice(), &second, cookies);
        assert_eq!(found, variant(&names, &second, cookies).as_slice() == own.as_slice());
        found
    }

    #[test]
    fn equal_values_match() {
        for (vary, first, second) in [
            ("Foo", &[("Foo", "1, 2")][..], &[("Foo", "1"), ("foo", "2")][..]),
            ("foo", &[("Foo", "1,2")], &[("Foo", "1 ,\t2")]),
            ("Foo, Bar", &[("Foo", "1"), ("Other", "2")], &[("Foo", "1"), ("Other", "3")]),
            (
                "Accept-Language",
                &[("Accept-Language", "en;q=0.5, DE, fr")],
                &[("Accept-Language", "de"), ("Accept-Language", "fr,en; q=0.5")],
            ),
            ("Accept-Encoding", &[("Accept-Encoding", "gzip; q=0.5, br")], &[("Accept-Encoding", "br,GZIP;q=0.5")]),
            ("Cookie", &[("Cookie", "a=b; visitor=1")], &[("Cookie", "visitor=2;a=b")]),
            ("Cookie", &[("Cookie", "session=1")], &[("Cookie", "x=y; PHPSESSID=2")]),
            ("Cookie", &[("Cookie", "_ga=1; a=b; _ga_SID=2")], &[("Cookie", "a=b")]),
            ("Cookie", &[("Cookie", "_ga=1; visitor=2")], &[]),
            ("", &[("Foo", "1")], &[]),
        ] {
            assert!(is_same(vary, first, second), "{vary}: {first:?} {second:?}");
        }
    }

    #[test]
    fn different_values_do_not_match() {
        for (vary, first, second) in [
            ("Foo", &[("Foo", "1")][..], &[("Foo", "2")][..]),
            ("Foo", &[("Foo", "1")], &[]),
            ("Cookie", &[("Cookie", "visitors=1; ga=1")], &[]),
            ("Foo", &[("Foo", "")], &[]),
            ("Foo", &[("Foo", "a b")], &[("Foo", "ab")]),
            ("Foo", &[("Foo", "a, b")], &[("Foo", "b, a")]),
            ("Foo", &[("Foo", "\"a, b\"")], &[("Foo", "\"a,b\"")]),
            ("Foo", &[("Foo", "a,,b")], &[("Foo", "a,b")]),
            ("Foo", &[("Foo", "A")], &[("Foo", "a")]),
            ("Foo, Bar", &[("Foo", "1"), ("Bar", "2")], &[("Foo", "1"), ("Bar", "3")]),
            ("Foo, Bar", &[("Foo", "1")], &[("Bar", "1")]),
            ("Accept-Language", &[("Accept-Language", "en;q=0.5, de")], &[("Accept-Language", "en, de;q=0.5")]),
            // An origin may choose the first of equally preferred members.
            ("Accept-Language", &[("Accept-Language", "en, de")], &[("Accept-Language", "de, en")]),
            ("Accept", &[("Accept", "a/b;q=0.5, c/d;q=0.5")], &[("Accept", "c/d;q=0.5, a/b;q=0.5")]),
            ("Accept", &[("Accept", "a/b;q=x, c/d;q=0.5")], &[("Accept", "c/d;q=0.5, a/b;q=x")]),
            ("Cookie", &[("Cookie", "lang=de")], &[("Cookie", "lang=en")]),
            ("Cookie", &[("Cookie", "a=b; c=d")], &[("Cookie", "a=bc=d")]),
            ("Cookie", &[("Cookie", "session=1")], &[("Cookie", "a=b")]),
        ] {
            assert!(!is_same(vary, first, second), "{vary}: {first:?} {second:?}");
        }
    }

    /// In quadratic time this would not finish.
    #[test]
    fn long_blank_runs_take_linear_time() {
        let blanks = " \t".repeat(2 << 20);
        let (long, comma) = (format!("a{blanks}b"), format!("a{blanks},b"));
        assert!(is_same("Foo", &[("Foo", &long)], &[("Foo", &long)]));
        assert!(!is_same("Foo", &[("Foo", &long)], &[("Foo", "a b")]));
        assert!(is_same("Foo", &[("Foo", &comma)], &[("Foo", "a,b")]));
    }

    #[test]
    fn rejects_unknowable_vary() {
        let vary = |lines: &[(&str, &str)]| Vary::from_fields(&block(lines));
        assert_eq!(vary(&[]), Vary::Fields(vec![]));
        assert_eq!(
            vary(&[("Vary", "Foo, bar"), ("vary", "foo")]),
            Vary::Fields(vec![b"bar".to_vec(), b"foo".to_vec()])
        );
        for unknown in ["*", "*, *", "Foo, *", "*, Foo", "X-Forwarded-For", "foo, FORWARDED"] {
            assert_eq!(vary(&[("Vary", unknown)]), Vary::Unknown);
        }
        let many: Vec<String> = (0..=NAMES_MAX).map(|index| format!("n{index}")).collect();
        assert_eq!(vary(&[("Vary", &many.join(","))]), Vary::Unknown);
        assert!(vary(&[("Vary", "Accept, COOKIE")]).has_cookie() && !vary(&[("Vary", "Cookie2")]).has_cookie());
    }
}
