//! Fields of CSV files.

use std::fmt;

/// A field (RFC 4180, 2), quoted if necessary; spaces at its ends are, since some readers trim them.
#[derive(Clone, Copy, Debug)]
pub struct CsvField<'a>(pub &'a str);

impl fmt::Display for CsvField<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
            write!(formatter, "\"{}\"", text.replace('"', "\"\""))
        } else {
            formatter.write_str(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        let cases = [
            ("plain", "plain"),
            ("", ""),
            ("a b", "a b"),
            ("a{b=\"c\",d=\"e\"}", "\"a{b=\"\"c\"\",d=\"\"e\"\"}\""),
            ("a\r\nb", "\"a\r\nb\""),
            (" a", "\" a\""),
            ("a ", "\"a \""),
        ];
        for (text, expected) in cases {
            assert_eq!(CsvField(text).to_string(), expected, "{text:?}");
        }
    }
}
