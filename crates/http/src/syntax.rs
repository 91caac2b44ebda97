//! Character classes in one table, so that every check is one load.
//!
//! The tokeniser accepts slightly more than the RFCs (any byte above `!` in a target, for example). The strict rules
//! are here.

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const PATH: u8 = 4;
const QUERY: u8 = 8;
const HOST: u8 = 16;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = class(index as u8);
        index += 1;
    }
    table
}

const fn class(byte: u8) -> u8 {
    let mut class = 0;
    // RFC 9110, 5.6.2: tchar.
    if byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
    {
        class |= TOKEN;
    }
    // RFC 9110, 5.5: field-vchar and inner white space.
    if matches!(byte, b'\t' | b' '..=b'~' | 0x80..=0xff) {
        class |= VALUE;
    }
    let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%');
    let sub_delimiter = matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
    // RFC 3986, 3.3, and what browsers leave unencoded in a path by the URL standard.
    if unreserved || sub_delimiter || matches!(byte, b':' | b'@' | b'/' | b'[' | b']' | b'|' | b'^') {
        class |= PATH | QUERY;
    }
    // RFC 3986, 3.4, and what browsers leave unencoded in a query.
    if matches!(byte, b'?' | b'\\' | b'`' | b'{' | b'}') {
        class |= QUERY;
    }
    // RFC 3986, 3.2.2: reg-name, without the comma: in a Host field it would mean two joined hosts.
    if (unreserved || sub_delimiter) && byte != b',' {
        class |= HOST;
    }
    class
}

fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Length of the prefix of `bytes` in this class.
fn run(bytes: &[u8], class: u8) -> usize {
    bytes.iter().position(|&byte| !is(byte, class)).unwrap_or(bytes.len())
}

#[must_use]
pub fn token_run(bytes: &[u8]) -> usize {
    run(bytes, TOKEN)
}

#[must_use]
pub fn value_run(bytes: &[u8]) -> usize {
    run(bytes, VALUE)
}

#[must_use]
pub fn path_run(bytes: &[u8]) -> usize {
    run(bytes, PATH)
}

#[must_use]
pub fn query_run(bytes: &[u8]) -> usize {
    run(bytes, QUERY)
}

#[must_use]
pub fn host_run(bytes: &[u8]) -> usize {
    run(bytes, HOST)
}

/// Whether all bytes may appear in a field value. Long values are checked 16 bytes at a time; the last block overlaps
/// the previous one.
#[must_use]
pub fn is_value(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<WIDE>() {
        Some(rest) => bytes.as_chunks::<WIDE>().0.iter().all(are_value_bytes) && are_value_bytes(rest),
        None => match (bytes.first_chunk::<NARROW>(), bytes.last_chunk::<NARROW>()) {
            (Some(front), Some(rest)) => are_value_bytes(front) && are_value_bytes(rest),
            _ => bytes.iter().all(|&byte| is_value_byte(byte)),
        },
    }
}

/// Bytes checked in one step by [`is_value`].
const WIDE: usize = 16;
const NARROW: usize = 8;

/// Without an early exit, so that it compiles to a few vector instructions.
fn are_value_bytes<const LENGTH: usize>(bytes: &[u8; LENGTH]) -> bool {
    let is_forbidden = |byte: u8| (byte < b' ' && byte != b'\t') | (byte == 0x7f);
    !bytes.iter().fold(false, |found, &byte| found | is_forbidden(byte))
}

#[must_use]
pub fn is_token_byte(byte: u8) -> bool {
    is(byte, TOKEN)
}

#[must_use]
pub fn is_value_byte(byte: u8) -> bool {
    is(byte, VALUE)
}

/// RFC 9110, 5.6.2.
#[must_use]
pub const fn is_token(bytes: &[u8]) -> bool {
    let mut index = 0;
    while index < bytes.len() {
        if CLASSES[bytes[index] as usize] & TOKEN == 0 {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty()
}

/// Optional white space (RFC 9110, 5.6.3).
#[must_use]
pub const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Removes optional white space from both ends.
#[must_use]
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The inside of a value in quotation marks; other values unchanged. Escapes remain (RFC 9110, 5.6.4): the values that
/// are read so need none.
#[must_use]
pub fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

/// The members of a comma-separated list (RFC 9110, 5.6.1), trimmed, without empty ones. A comma inside a quoted string
/// does not separate.
#[must_use]
pub fn members(value: &[u8]) -> Members<'_> {
    Members { rest: value }
}

/// See [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = member_end(self.rest);
            let member = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

/// The first comma outside a quoted string, or the end.
fn member_end(list: &[u8]) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    for (index, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return index,
            _ => {}
        }
    }
    list.len()
}

/// A number of 1 to 19 decimal digits; None for anything else.
#[must_use]
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    /// Every number of 19 digits fits into 64 bits.
    const DIGITS_MAX: usize = 19;
    if bytes.is_empty() || bytes.len() > DIGITS_MAX {
        return None;
    }
    bytes.iter().try_fold(0_u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_lists_at_unquoted_commas() {
        let check = |list: &str, expected: &[&str]| {
            let found: Vec<&[u8]> = members(list.as_bytes()).collect();
            let expected: Vec<&[u8]> = expected.iter().map(|member| member.as_bytes()).collect();
            assert_eq!(found, expected, "{list}");
        };
        check("", &[]);
        check(" , ,\t", &[]);
        check("a", &["a"]);
        check(" a ,b,, c d ", &["a", "b", "c d"]);
        check(r#"a="x,y", b"#, &[r#"a="x,y""#, "b"]);
        check(r#""x\",y",z"#, &[r#""x\",y""#, "z"]);
        check(r#"a, "never closed, b"#, &["a", r#""never closed, b"#]);
        check(r"a\,b", &[r"a\", "b"]);
    }

    #[test]
    fn quotation_marks_are_removed_in_pairs() {
        for (value, expected) in
            [("a", "a"), ("\"a\"", "a"), ("\"\"", ""), ("\"", "\""), ("\"a", "\"a"), ("a\"", "a\""), ("\"\"a\"", "\"a")]
        {
            assert_eq!(unquoted(value.as_bytes()), expected.as_bytes(), "{value}");
        }
    }

    #[test]
    fn parses_decimals() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        for bad in ["", "-1", "+1", " 1", "1 ", "0x1", "1_0", "1.0", "10000000000000000000", "１"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn checks_every_byte_of_a_value() {
        for length in 0..50 {
            let value = vec![b'a'; length];
            assert!(is_value(&value), "{length}");
            for place in 0..length {
                for (byte, expected) in [(0, false), (b'\t', true), (b'\r', false), (0x7f, false), (0x80, true)] {
                    let mut other = value.clone();
                    other[place] = byte;
                    assert_eq!(is_value(&other), expected, "{length} bytes, {byte:#x} at {place}");
                }
            }
        }
    }

    #[test]
    fn byte_classes_match_the_grammar() {
        for byte in 0..=255_u8 {
            assert_eq!(
                is_token_byte(byte),
                byte > b' ' && byte < 0x7f && !b"\"(),/:;<=>?@[\\]{}".contains(&byte),
                "{byte:#x}"
            );
            assert_eq!(is_value_byte(byte), is_value(&[b'a', byte]), "{byte:#x}");
            assert_eq!(is_value_byte(byte), byte == b'\t' || (byte >= b' ' && byte != 0x7f), "{byte:#x}");
            let never_in_a_target = byte <= b' ' || byte >= 0x7f || b"#\"<>".contains(&byte);
            assert_eq!(is(byte, QUERY), !never_in_a_target, "{byte:#x}");
            assert_eq!(is(byte, PATH), !never_in_a_target && !b"?\\`{}".contains(&byte), "{byte:#x}");
            assert!(!is(byte, HOST) || !b",@/?#[]: \"<>".contains(&byte), "{byte:#x}");
        }
    }
}
