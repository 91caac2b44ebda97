//! Percent-encoding of values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, 2.3).
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value, whose reserved characters mean nothing.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_UNRESERVED).to_string()
}

/// A part of a form, in which a space is a plus sign.
pub(super) fn form_encoded(text: &str) -> String {
    encoded(text).replace("%20", "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        assert_eq!(encoded("a-._~ /?#&=%+{}\u{1b}ä"), "a-._~%20%2F%3F%23%26%3D%25%2B%7B%7D%1B%C3%A4");
        assert_eq!(form_encoded("a b+c"), "a+b%2Bc");
    }
}
