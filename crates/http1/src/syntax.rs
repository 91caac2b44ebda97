//! Which byte may stand where, in one table, so that every check is one load.
//!
//! The tokeniser accepts a little more than the RFCs do (any byte above `!` in a target, for one). What is strict
//! about this crate is written here.

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
    // RFC 9110, 5.5: field-vchar, with the white space that may stand between.
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
    // RFC 3986, 3.2.2: reg-name, without the comma: in a Host field it would mean two hosts that somebody joined.
    if (unreserved || sub_delimiter) && byte != b',' {
        class |= HOST;
    }
    class
}

fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// How many bytes at the start of `bytes` are of this class.
fn run(bytes: &[u8], class: u8) -> usize {
    bytes.iter().position(|&byte| !is(byte, class)).unwrap_or(bytes.len())
}

/// Bytes of a token at the start.
pub(crate) fn token_run(bytes: &[u8]) -> usize {
    run(bytes, TOKEN)
}

/// Bytes of a field value at the start.
pub(crate) fn value_run(bytes: &[u8]) -> usize {
    run(bytes, VALUE)
}

/// Bytes of a target before `?` at the start.
pub(crate) fn path_run(bytes: &[u8]) -> usize {
    run(bytes, PATH)
}

/// Bytes of a query at the start.
pub(crate) fn query_run(bytes: &[u8]) -> usize {
    run(bytes, QUERY)
}

/// Bytes of a registered name at the start.
pub(crate) fn host_run(bytes: &[u8]) -> usize {
    run(bytes, HOST)
}

/// Whether all bytes may be in a field value. Long ones are checked many bytes at a time; the last piece overlaps the
/// one before it.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<WIDE>() {
        Some(rest) => bytes.as_chunks::<WIDE>().0.iter().all(are_value_bytes) && are_value_bytes(rest),
        None => match (bytes.first_chunk::<NARROW>(), bytes.last_chunk::<NARROW>()) {
            (Some(front), Some(rest)) => are_value_bytes(front) && are_value_bytes(rest),
            _ => bytes.iter().all(|&byte| is_value_byte(byte)),
        },
    }
}

/// What is checked in one step by [`is_value`].
const WIDE: usize = 16;
const NARROW: usize = 8;

/// Without a way out of the loop, so that it becomes a few instructions.
fn are_value_bytes<const LENGTH: usize>(bytes: &[u8; LENGTH]) -> bool {
    let is_forbidden = |byte: u8| (byte < b' ' && byte != b'\t') | (byte == 0x7f);
    !bytes.iter().fold(false, |found, &byte| found | is_forbidden(byte))
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    is(byte, TOKEN)
}

pub(crate) fn is_value_byte(byte: u8) -> bool {
    is(byte, VALUE)
}

/// RFC 9110, 5.6.2.
pub(crate) const fn is_token(bytes: &[u8]) -> bool {
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
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Without the optional white space around it.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
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

/// The members of a comma-separated list (RFC 9110, 5.6.1), trimmed, empty ones left out. A comma inside a quoted
/// string does not separate.
pub(crate) fn members(value: &[u8]) -> Members<'_> {
    Members { rest: value }
}

/// See [`members`].
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
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

/// Where the first comma outside a quoted string stands, or the end.
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

/// The number in one or more decimal digits; none if anything else stands there, or more digits than surely fit.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
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
    fn lists_split_at_commas_outside_quotes() {
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
    fn decimals_are_digits_that_fit() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        for bad in ["", "-1", "+1", " 1", "1 ", "0x1", "1_0", "1.0", "10000000000000000000", "１"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_value_is_checked_to_its_last_byte() {
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
    fn classes_agree_with_the_grammar() {
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
