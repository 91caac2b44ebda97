//! Conditional requests (RFC 9110, 13).
//!
//! [`evaluate`] follows the order of 13.2.2: If-Match, else If-Unmodified-Since; then If-None-Match, else
//! If-Modified-Since. A malformed or repeated date is no condition (13.1.3). If-Range concerns ranges only.

use breme_base::UnixSeconds;
use breme_http::{EntityTag, any_tag, only_tag, parse_http_date};

/// The validators of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// The opaque part with its quotes: `"5f-1a"`.
    pub(crate) tag: Box<str>,
    /// The tag is weak: the file may change without changing it (8.8.1).
    pub(crate) weak: bool,
    /// Last-Modified, if the file's time is representable and not in the future.
    pub(crate) modified: Option<UnixSeconds>,
}

impl Validators {
    pub(crate) fn entity_tag(&self) -> String {
        format!("{}{}", if self.weak { "W/" } else { "" }, self.tag)
    }

    /// Last-Modified as comparable with a received date, which may be before 1970.
    fn modified_s(&self) -> Option<i64> {
        i64::try_from(self.modified?.0).ok()
    }
}

/// The conditions of a request, as received. Lists have one member per field line.
#[derive(Debug, Default)]
pub(crate) struct Conditions<'a> {
    pub(crate) if_match: Vec<&'a [u8]>,
    pub(crate) if_none_match: Vec<&'a [u8]>,
    pub(crate) if_modified_since: Option<&'a [u8]>,
    pub(crate) if_unmodified_since: Option<&'a [u8]>,
}

/// The result of the conditions of a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    /// No condition applies, or all hold.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110, 13.2.2.
pub(crate) fn evaluate(conditions: &Conditions<'_>, validators: &Validators) -> ConditionResult {
    let date = |value: Option<&[u8]>| value.and_then(parse_http_date);
    if !conditions.if_match.is_empty() {
        if !any_tag(conditions.if_match.iter().copied(), |tag| strong_match(tag, validators)) {
            return ConditionResult::Failed;
        }
    } else if let (Some(limit), Some(modified)) = (date(conditions.if_unmodified_since), validators.modified_s())
        && modified > limit
    {
        return ConditionResult::Failed;
    }
    let unchanged = if conditions.if_none_match.is_empty() {
        matches!((date(conditions.if_modified_since), validators.modified_s()), (Some(since), Some(modified)) if modified <= since)
    } else {
        any_tag(conditions.if_none_match.iter().copied(), |tag| tag.opaque == validators.tag.as_bytes())
    };
    if unchanged { ConditionResult::NotModified } else { ConditionResult::Proceed }
}

/// Whether Range applies: If-Range contains the strong tag or the exact date of this representation (13.1.5).
pub(crate) fn if_range_holds(value: &[u8], validators: &Validators) -> bool {
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return only_tag(value).is_some_and(|tag| strong_match(tag, validators));
    }
    // A weak tag means that the file changed within the clock's resolution, so its date is weak as well (8.8.2.2).
    !validators.weak && validators.modified.is_some() && parse_http_date(value) == validators.modified_s()
}

fn strong_match(tag: EntityTag<'_>, validators: &Validators) -> bool {
    !tag.weak && !validators.weak && tag.opaque == validators.tag.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: UnixSeconds = UnixSeconds(784_111_777);
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const BEFORE_1970: &str = "Sun, 06 Nov 1960 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators() -> Validators {
        Validators { tag: "\"a,b\"".into(), weak: false, modified: Some(AT) }
    }

    fn weak() -> Validators {
        Validators { weak: true, ..validators() }
    }

    /// Evaluates conditions given in short form: `m` If-Match, `n` If-None-Match, `s` If-Modified-Since, `u`
    /// If-Unmodified-Since.
    fn verdict(conditions: &[(char, &'static str)], validators: &Validators) -> ConditionResult {
        let mut parsed = Conditions::default();
        for &(kind, value) in conditions {
            let value = value.as_bytes();
            match kind {
                'm' => parsed.if_match.push(value),
                'n' => parsed.if_none_match.push(value),
                's' => parsed.if_modified_since = Some(value),
                _ => parsed.if_unmodified_since = Some(value),
            }
        }
        evaluate(&parsed, validators)
    }

    #[test]
    fn strong_validators_match() {
        use ConditionResult::{Failed, NotModified, Proceed};
        let table: &[(&[(char, &'static str)], ConditionResult)] = &[
            (&[], Proceed),
            (&[('n', "\"a,b\"")], NotModified),
            (&[('n', "W/\"a,b\"")], NotModified),
            (&[('n', "\"x\", W/\"y\" ,\"a,b\"")], NotModified),
            (&[('n', "\"x\""), ('n', "\"a,b\"")], NotModified),
            (&[('n', "*")], NotModified),
            (&[('n', "\"a\"")], Proceed),
            (&[('n', "a,b")], Proceed),
            (&[('n', "\"a,b")], Proceed),
            (&[('n', "\"x"), ('n', "\"a,b\"")], NotModified),
            (&[('s', THEN)], NotModified),
            (&[('s', AFTER)], NotModified),
            (&[('s', BEFORE)], Proceed),
            (&[('s', "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
            (&[('s', "Sun Nov  6 08:49:37 1994")], NotModified),
            (&[('s', BEFORE_1970)], Proceed),
            (&[('s', "yesterday")], Proceed),
            // If-None-Match replaces If-Modified-Since.
            (&[('n', "\"x\""), ('s', AFTER)], Proceed),
            (&[('m', "\"a,b\"")], Proceed),
            (&[('m', "*")], Proceed),
            (&[('m', "\"x\"")], Failed),
            (&[('m', "W/\"a,b\"")], Failed),
            (&[('m', "rubbish")], Failed),
            (&[('u', THEN)], Proceed),
            (&[('u', BEFORE)], Failed),
            (&[('u', BEFORE_1970)], Failed),
            (&[('u', "never")], Proceed),
            // If-Match replaces If-Unmodified-Since.
            (&[('m', "\"a,b\""), ('u', BEFORE)], Proceed),
            (&[('m', "\"a,b\""), ('n', "\"a,b\"")], NotModified),
            (&[('m', "\"x\""), ('n', "\"a,b\"")], Failed),
        ];
        for (conditions, expected) in table {
            assert_eq!(verdict(conditions, &validators()), *expected, "{conditions:?}");
        }
    }

    #[test]
    fn weak_tags_do_not_match_strongly() {
        assert_eq!(verdict(&[('m', "W/\"a,b\"")], &weak()), ConditionResult::Failed);
        assert_eq!(verdict(&[('m', "\"a,b\"")], &weak()), ConditionResult::Failed);
        assert_eq!(verdict(&[('n', "\"a,b\"")], &weak()), ConditionResult::NotModified);
    }

    #[test]
    fn date_conditions_need_a_date() {
        let undated = Validators { modified: None, ..validators() };
        assert_eq!(verdict(&[('s', AFTER)], &undated), ConditionResult::Proceed);
        assert_eq!(verdict(&[('u', BEFORE)], &undated), ConditionResult::Proceed);
        assert!(!if_range_holds(b"yesterday", &undated));
    }

    #[test]
    fn a_file_of_1970_is_modified_since_any_earlier_date() {
        let first = Validators { modified: Some(UnixSeconds(0)), ..validators() };
        assert_eq!(verdict(&[('u', BEFORE_1970)], &first), ConditionResult::Failed);
        assert_eq!(verdict(&[('s', BEFORE_1970)], &first), ConditionResult::Proceed);
        assert_eq!(verdict(&[('s', "Thu, 01 Jan 1970 00:00:00 GMT")], &first), ConditionResult::NotModified);
    }

    #[test]
    fn if_range_needs_a_strong_match() {
        let holds = |value: &str| if_range_holds(value.as_bytes(), &validators());
        assert!(holds("\"a,b\""));
        assert!(holds(THEN));
        for value in ["W/\"a,b\"", "\"x\"", AFTER, BEFORE, "*", "", "\"a,b\", \"x\"", "\"a,b"] {
            assert!(!holds(value), "{value}");
        }
        assert!(!if_range_holds(b"\"a,b\"", &weak()));
        assert!(!if_range_holds(THEN.as_bytes(), &weak()));
    }
}
