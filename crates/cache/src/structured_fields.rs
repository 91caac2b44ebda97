//! Structured fields (RFC 9651): targeted cache control (RFC 9213) and Cache-Groups (RFC 9875).
//!
//! A field that cannot be parsed counts as absent.

use sfv::{BareItem, Dictionary, List, ListEntry, Parser};

use crate::directives::{ResponseDirectives, SECONDS_MAX};
use crate::fields::FieldValues;

/// Groups and keys per response; RFC 9875, 2.1, requires at least 32. A response with more is not stored, since it
/// could not be purged.
const GROUPS_MAX: usize = 128;

/// The first of these fields that is present, valid and not empty replaces the others, Cache-Control and Expires (RFC
/// 9213, 2.2).
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

/// A lifetime that is not an integer makes the response stale (RFC 9111, 4.2.1).
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
        "immutable" => directives.immutable = is_true,
        _ => {}
    }
}

/// The strings of a list, as in Cache-Groups and Cache-Group-Invalidation; other members and parameters are ignored.
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

/// All lines of a field as one value (RFC 9651, 4.2).
fn parse<T: sfv::FieldType>(fields: &impl FieldValues, name: &str) -> Option<T> {
    let mut values = fields.values(name);
    let first = values.next()?;
    let mut merged = first.to_vec();
    for value in values {
        merged.extend_from_slice(b", ");
        merged.extend_from_slice(value);
    }
    Parser::new(&merged).parse().ok()
}

/// The groups and surrogate keys of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgeNames {
    pub(crate) groups: Vec<Vec<u8>>,
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
    fn first_valid_targeted_field_applies() {
        let max_age = |fields: &[(&str, &str)]| read(fields).map(|found| found.max_age_s);
        let cdn = |value| max_age(&[("CDN-Cache-Control", value)]);
        assert_eq!(cdn("max-age=600"), Some(Some(600)));
        assert_eq!(cdn("foobar, max-age=600;x=1"), Some(Some(600)));
        assert_eq!(cdn("max-age=99999999999"), Some(Some(1 << 31)));
        assert_eq!(cdn("max-age=-5"), Some(Some(0)));
        assert_eq!(cdn("max-age=\"600\""), Some(Some(0)), "not an integer: not understood, so stale");
        assert_eq!(cdn("max-age=1, max-age=2"), Some(Some(2)), "of duplicate keys the last counts");
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
    fn parses_boolean_directives() {
        let found = read(&[("CDN-Cache-Control", "no-store, private, no-cache=?0, must-revalidate, stale-if-error=9")])
            .unwrap();
        assert!(found.no_store && found.private && !found.no_cache && found.must_revalidate);
        assert_eq!(found.stale_if_error_s, Some(9));
        let found = read(&[("CDN-Cache-Control", "no-cache=\"a\", no-store=?0")]).unwrap();
        assert!(!found.no_cache && !found.no_store);
    }

    #[test]
    fn parses_groups_and_keys() {
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
