//! Entity tags in header fields (RFC 9110, 8.8.3): one, or a list.
//!
//! A tag may contain commas, so a list cannot be split at commas. It is read up to the first malformed member.

/// An entity tag as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// It begins with `W/`.
    pub weak: bool,
    /// With its quotes.
    pub opaque: &'a [u8],
}

impl EntityTag<'_> {
    /// Strong comparison (RFC 9110, 8.8.3.2).
    #[must_use]
    pub fn is_strongly(self, other: EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison (RFC 9110, 8.8.3.2).
    #[must_use]
    pub fn is_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// Whether one of these list values contains `*` or a tag for which `matches` is true.
pub fn any_tag<'a>(lines: impl IntoIterator<Item = &'a [u8]>, matches: impl Fn(EntityTag<'a>) -> bool) -> bool {
    lines.into_iter().flat_map(|line| Tags { rest: line }).any(|member| match member {
        Member::Any => true,
        Member::Tag(tag) => matches(tag),
    })
}

/// The single tag in this value; None for anything else.
#[must_use]
pub fn only_tag(value: &[u8]) -> Option<EntityTag<'_>> {
    let mut tags = Tags { rest: value };
    match tags.next() {
        Some(Member::Tag(tag)) if tags.rest.is_empty() && !value.starts_with(b",") => Some(tag),
        _ => None,
    }
}

enum Member<'a> {
    Any,
    Tag(EntityTag<'a>),
}

struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tags<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        while let [b' ' | b'\t' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest == b"*" {
            self.rest = b"";
            return Some(Member::Any);
        }
        let weak = self.rest.starts_with(b"W/");
        let prefix = if weak { 2 } else { 0 };
        let quoted = &self.rest[prefix..];
        let closing = quoted.strip_prefix(b"\"")?.iter().position(|&byte| byte == b'"')?;
        self.rest = &quoted[closing + 2..];
        Some(Member::Tag(EntityTag { weak, opaque: &quoted[..closing + 2] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_single_entity_tag() {
        let strong = EntityTag { weak: false, opaque: b"\"a,b\"" };
        assert_eq!(only_tag(b"\"a,b\""), Some(strong));
        let weak = only_tag(b"W/\"a,b\"").unwrap();
        assert_eq!((weak.weak, weak.opaque), (true, &b"\"a,b\""[..]));
        assert!(
            weak.is_weakly(strong)
                && !weak.is_strongly(strong)
                && strong.is_strongly(strong)
                && !weak.is_strongly(weak)
        );
        for other in ["", "*", "a", "\"a", "\"a\", \"b\"", ",\"a\"", "w/\"a\"", "\"a\"x"] {
            assert_eq!(only_tag(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn parses_tag_lists_up_to_an_error() {
        let found = |lines: &[&str]| {
            let lines = lines.iter().map(|line| line.as_bytes());
            any_tag(lines, |tag| tag.opaque == b"\"x\"")
        };
        assert!(found(&["\"a,b\" ,W/\"x\""]) && found(&["\"a", "\"x\""]) && found(&["*"]));
        assert!(!found(&["a, \"x\""]) && !found(&[]) && !found(&["\"y\""]));
    }
}
