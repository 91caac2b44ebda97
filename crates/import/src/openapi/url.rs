//! Encoding of the parts of a request target.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::encoding::encoded;

/// What a path of a description cannot contain literally. Encodings in it are kept, braces are encoded.
const NOT_LITERAL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A part of a path or a query that is written as it is meant.
pub(super) fn literal(text: &str) -> String {
    utf8_percent_encode(text, NOT_LITERAL).to_string()
}

/// `a=1&b=2`.
pub(super) fn query(pairs: &[(String, String)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={value}", encoded(name)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_encoded() {
        assert_eq!(literal("/ä b/%20?a=1&b={c}#"), "/%C3%A4%20b/%20?a=1&b=%7Bc%7D%23");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(query(&[pair("ids[]", "1"), pair("q", "a%20b")]), "ids%5B%5D=1&q=a%20b");
    }
}
