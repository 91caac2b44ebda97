//! Encoding of the parts of a request target.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

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
/// All but the unreserved characters (RFC 3986, 2.3).
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A part of a path or a query that is written as it is meant.
pub(super) fn literal(text: &str) -> String {
    utf8_percent_encode(text, NOT_LITERAL).to_string()
}

/// A value, whose reserved characters mean nothing.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_UNRESERVED).to_string()
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
        assert_eq!(encoded("a-._~ /?#&=%+{}\u{1b}ä"), "a-._~%20%2F%3F%23%26%3D%25%2B%7B%7D%1B%C3%A4");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(query(&[pair("ids[]", "1"), pair("q", "a%20b")]), "ids%5B%5D=1&q=a%20b");
    }
}
