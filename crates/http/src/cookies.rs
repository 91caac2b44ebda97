//! The pairs of a Cookie field (RFC 6265, 4.2.1), as servers and proxies read them: separated by semicolons, in order.
//!
//! More is accepted than the grammar permits, as browsers send it: white space around names and values, and pairs
//! without `=`. Quotation marks belong to the value. HTTP/1.1 clients send one line, but intermediaries may have split
//! it. Set-Cookie has another syntax, which only clients read.

/// A pair as received, without white space around it. It is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookiePair<'a>(&'a [u8]);

/// The pairs of one Cookie line.
pub fn cookie_pairs(line: &[u8]) -> impl Iterator<Item = CookiePair<'_>> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b';', line).chain(std::iter::once(line.len()));
    let pairs = ends.map(move |end| {
        let pair = line[start..end].trim_ascii();
        start = end + 1;
        pair
    });
    pairs.filter(|pair| !pair.is_empty()).map(CookiePair)
}

impl<'a> CookiePair<'a> {
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// All of a pair without `=`.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == b'=').unwrap_or(self.0.len());
        self.0[..end].trim_ascii_end()
    }

    /// The value, if the pair has one and this name. Names are case-sensitive.
    #[must_use]
    pub fn value_of(self, name: &[u8]) -> Option<&'a [u8]> {
        let value = self.0.strip_prefix(name)?.trim_ascii_start().strip_prefix(b"=")?;
        Some(value.trim_ascii_start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<&str> {
        cookie_pairs(line.as_bytes()).map(|pair| std::str::from_utf8(pair.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn splits_pairs_in_order() {
        assert_eq!(texts("a=1; b=2;c=\"3\""), ["a=1", "b=2", "c=\"3\""]);
        assert_eq!(texts(";; =x ;\tjunk;d==; a = again ;"), ["=x", "junk", "d==", "a = again"]);
        assert_eq!(texts(" ; "), [""; 0]);
        assert_eq!(texts(""), [""; 0]);
    }

    #[test]
    fn finds_values_by_name() {
        let value = |line: &str, name: &str| {
            let value = cookie_pairs(line.as_bytes()).find_map(|pair| pair.value_of(name.as_bytes()))?;
            Some(String::from_utf8(value.to_vec()).unwrap())
        };
        for (line, expected) in [
            ("id=1", "1"),
            ("x=id=3; id=1; id=2", "1"),
            ("idx=3;xid=3;id; id=x=y", "x=y"),
            (" id = a b ; x", "a b"),
            ("id=", ""),
            ("id=\"1\"", "\"1\""),
        ] {
            assert_eq!(value(line, "id").as_deref(), Some(expected), "{line}");
        }
        for line in ["", "id", "ID=1", "id x=1", "x=id=1", "=id"] {
            assert_eq!(value(line, "id"), None, "{line}");
        }
    }

    #[test]
    fn names_end_before_the_first_equals_sign() {
        let names = |line| cookie_pairs(line).map(CookiePair::name).collect::<Vec<_>>();
        assert_eq!(names(b"a=1; b =2=3; c; =d"), [b"a" as &[u8], b"b", b"c", b""]);
    }
}
