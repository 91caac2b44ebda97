//! Paths of pages in URLs.

use breme_wiki_database::name::Name;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of a path segment that are not encoded: RFC 3986's unreserved characters, and those without a meaning
/// here.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'(')
    .remove(b')')
    .remove(b',');

/// A name as a path segment: spaces become underscores.
#[must_use]
pub fn segment(name: &Name) -> String {
    utf8_percent_encode(&name.as_str().replace(' ', "_"), SEGMENT).to_string()
}

#[must_use]
pub fn page(name: &Name) -> String {
    format!("/wiki/{}", segment(name))
}

/// The path of a part of a page: `edit`, `history`, `revisions/3`.
#[must_use]
pub fn page_part(name: &Name, what: &str) -> String {
    format!("/wiki/{}/{what}", segment(name))
}

#[must_use]
pub fn attachment(name: &Name, file: &Name) -> String {
    format!("/wiki/{}/files/{}", segment(name), segment(file))
}

/// A value in a query.
#[must_use]
pub fn query_value(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_ascii_without_spaces() {
        let name = Name::parse("Čas & prostor, 50%").unwrap();
        assert_eq!(page(&name), "/wiki/%C4%8Cas_%26_prostor,_50%25");
        assert_eq!(
            attachment(&name, &Name::parse("a+b.png").unwrap()),
            "/wiki/%C4%8Cas_%26_prostor,_50%25/files/a%2Bb.png"
        );
    }
}
