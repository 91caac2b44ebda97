//! Fields that are written by RFC 9651 (Structured Fields): targeted Cache-Control (RFC 9213) and Cache-Groups (RFC
//! 9875).
//!
//! Such a field is all or nothing: what cannot be parsed is as if it were not there.

use sfv::{BareItem, Dictionary, List, ListEntry, Parser};

use crate::directives::{ResponseDirectives, SECONDS_MAX};
use crate::fields::FieldValues;

/// Groups and keys of one response; RFC 9875, 2.1, asks for at least 32. A response with more is not stored: it could
/// not be purged.
const GROUPS_MAX: usize = 128;

/// The first of these fields that is there, valid and not empty says what the cache does, and neither the others nor
/// Cache-Control and Expires say anything beside it (RFC 9213, 2.2).
pub(crate) fn targeted(fields: &impl FieldValues, names: &[String]) -> Option<ResponseDirectives> {
    names.iter().find_map(|name| {
        let dictionary: Dictionary = parse(fields, name)?;
        let mut directives = ResponseDirectives::default();
        for (key, entry) in &dictionary {
            take(&mut directives, key.as_str(), entry);
        }
        (!dictionary.is_empty()).then_some(directives)
    })
}

/// A lifetime that is no integer is not understood, and a response whose lifetime is not understood is stale (RFC 9111,
/// 4.2.1).
fn take(directives: &mut ResponseDirectives, key: &str, entry: &ListEntry) {
    let ListEntry::Item(item) = entry else { return };
    let is_true = !matches!(item.bare_item, BareItem::Boolean(false));
    let is_whole = matches!(item.bare_item, BareItem::Boolean(true));
    let seconds = match &item.bare_item {
        BareItem::Integer(number) => i64::from(*number).clamp(0, i64::from(SECONDS_MAX)) as u32,
        _ => 0,
    };
    match key {
        "max-age" => directives.max_age_s = Some(seconds),
        "s-maxage" => directives.s_maxage_s = Some(seconds),
        "stale-while-revalidate" => directives.stale_while_revalidate_s = Some(seconds),
        "stale-if-error" => directives.stale_if_error_s = Some(seconds),
        "no-store" => directives.no_store = is_true,
        "no-cache" => directives.no_cache = is_whole,
        "private" => directives.private = is_whole,
        "public" => directives.public = is_true,
        "must-revalidate" => directives.must_revalidate = is_true,
        "proxy-revalidate" => directives.proxy_revalidate = is_true,
        "must-understand" => directives.must_understand = is_true,
        _ => {}
    }
}

/// The strings of a list, as Cache-Groups and Cache-Group-Invalidation have them. Other members mean nothing there, nor
/// do parameters.
pub(crate) fn strings(fields: &impl FieldValues, name: &str) -> Vec<Vec<u8>> {
    let Some(list) = parse::<List>(fields, name) else { return Vec::new() };
    let string = |entry: &ListEntry| match entry {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::String(string) => Some(string.as_str().as_bytes().to_vec()),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    };
    list.iter().filter_map(string).collect()
}

/// All lines of this name as one value (RFC 9651, 4.2).
fn parse<T: sfv::FieldType>(fields: &impl FieldValues, name: &str) -> Option<T> {
    let mut values = fields.values(name);
    let first = values.next()?;
    let mut joined = first.to_vec();
    for value in values {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
    }
    Parser::new(&joined).parse().ok()
}

/// By which names a response can be purged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgeNames {
    /// Cache-Groups.
    pub(crate) groups: Vec<Vec<u8>>,
    /// Surrogate keys.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl PurgeNames {
    pub(crate) fn from_fields(fields: &impl FieldValues, key_fields: &[String]) -> Self {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace();
        let words = |value: &[u8]| {
            value.split(is_blank).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let keys = key_fields.iter().flat_map(|name| fields.values(name).flat_map(words).collect::<Vec<_>>()).collect();
        Self { groups: strings(fields, "cache-groups"), keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.keys.is_empty()
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.groups.len() + self.keys.len() > GROUPS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::block;

    fn read(fields: &[(&str, &str)]) -> Option<ResponseDirectives> {
        targeted(&block(fields), &["Own-Cache-Control".to_owned(), "CDN-Cache-Control".to_owned()])
    }

    #[test]
    fn the_first_valid_field_counts() {
        let max_age = |fields: &[(&str, &str)]| read(fields).map(|found| found.max_age_s);
        let cdn = |value| max_age(&[("CDN-Cache-Control", value)]);
        assert_eq!(cdn("max-age=600"), Some(Some(600)));
        assert_eq!(cdn("foobar, max-age=600;x=1"), Some(Some(600)));
        assert_eq!(cdn("max-age=99999999999"), Some(Some(1 << 31)));
        assert_eq!(cdn("max-age=-5"), Some(Some(0)));
        assert_eq!(cdn("max-age=\"600\""), Some(Some(0)), "not an integer: not understood, so stale");
        assert_eq!(cdn("max-age=1, max-age=2"), Some(Some(2)), "of a key that stands there twice the last counts");
        for invalid in ["", "max-age=600, &&&", "MaX-aGe=600", "max-age =600", "max-age= 600", "max-age=600,"] {
            assert_eq!(cdn(invalid), None, "{invalid}");
        }
        let both = [("CDN-Cache-Control", "max-age=1"), ("Own-Cache-Control", "max-age=2")];
        assert_eq!(max_age(&both), Some(Some(2)));
        assert_eq!(max_age(&[("CDN-Cache-Control", "max-age=1"), ("Own-Cache-Control", "&")]), Some(Some(1)));
        assert_eq!(
            max_age(&[("CDN-Cache-Control", "max-age=1"), ("CDN-Cache-Control", "public")]),
            Some(Some(1)),
            "lines are one value"
        );
        assert_eq!(max_age(&[("Cache-Control", "max-age=1")]), None);
    }

    #[test]
    fn words_are_true_unless_they_say_otherwise() {
        let found = read(&[("CDN-Cache-Control", "no-store, private, no-cache=?0, must-revalidate, stale-if-error=9")])
            .unwrap();
        assert!(found.no_store && found.private && !found.no_cache && found.must_revalidate);
        assert_eq!(found.stale_if_error_s, Some(9));
        let found = read(&[("CDN-Cache-Control", "no-cache=\"a\", no-store=?0")]).unwrap();
        assert!(!found.no_cache && !found.no_store);
    }

    #[test]
    fn names_of_a_response() {
        let fields = block(&[
            ("Cache-Groups", "\"a b\", \"c\";x=1, token, 5"),
            ("cache-groups", "\"d\""),
            ("Surrogate-Key", "k1  k2"),
            ("xkey", "k3"),
        ]);
        let key_fields = ["surrogate-key".to_owned(), "xkey".to_owned()];
        let names = PurgeNames::from_fields(&fields, &key_fields);
        assert_eq!(names.groups, [b"a b".to_vec(), b"c".to_vec(), b"d".to_vec()]);
        assert_eq!(names.keys, [b"k1".to_vec(), b"k2".to_vec(), b"k3".to_vec()]);
        assert!(!names.is_empty() && !names.are_too_many());
        assert!(PurgeNames::from_fields(&block(&[("Cache-Groups", "\"unclosed")]), &key_fields).is_empty());
    }
}
