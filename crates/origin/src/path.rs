//! From the path of a request target to the name of a file below the site's root.
//!
//! The path is decoded **once**, validated, and rewritten in a canonical form: no empty segment, no `.`, no leading
//! slash; a final slash means "the directory". Names that no file of a site has are rejected here, before the operating
//! system is called; that nothing leaves the root is then also the [`Root`](crate::Root)'s duty, so that two
//! independent checks would have to fail.
//!
//! | in the path | result |
//! |---|---|
//! | `..` as a segment, plain or encoded | 400 |
//! | `\` (plain or `%5C`), NUL or another control byte, `%` without two hex digits | 400 |
//! | `%2F`: a segment that contains a slash | 404 |
//! | bytes that are not UTF-8 (also overlong forms), a segment over 255 bytes | 404 |
//! | a segment that begins with a dot, except `/.well-known/` (RFC 8615), unless hidden files are shown | 404 |
//! | `.` segments, `//` | removed: the same file |

/// The longest file name of common file systems.
const SEGMENT_BYTES_MAX: usize = 255;

/// Why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    /// Never sent by well-behaved clients.
    Malformed,
    /// Valid, but no such file can exist.
    NoSuchFile,
}

impl PathError {
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::NoSuchFile => 404,
        }
    }
}

/// The canonical name of a path: `docs/a.html`, `docs/`, or empty for the root directory.
pub(crate) fn site_name(path: &str, hidden_shown: bool) -> Result<String, PathError> {
    let mut name = String::with_capacity(path.len());
    let mut ends_in_directory = true;
    for (index, segment) in path.strip_prefix('/').unwrap_or(path).split('/').enumerate() {
        ends_in_directory = matches!(segment, "" | "." | "%2e" | "%2E");
        if ends_in_directory {
            continue;
        }
        let start = name.len();
        push_segment(segment, &mut name)?;
        check_segment(&name[start..], index == 0, hidden_shown)?;
        name.push('/');
    }
    if !ends_in_directory {
        name.pop();
    }
    Ok(name)
}

/// Decodes one segment and appends it to `name`.
fn push_segment(segment: &str, name: &mut String) -> Result<(), PathError> {
    if !segment.contains('%') {
        name.push_str(segment);
        return Ok(());
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { escaped(bytes.next(), bytes.next())? } else { byte });
    }
    // Malformed takes precedence over unknown: an escaped control byte is an attack, whatever else is there.
    if decoded.iter().any(|&byte| is_forbidden(byte)) {
        return Err(PathError::Malformed);
    }
    if decoded.contains(&b'/') {
        return Err(PathError::NoSuchFile);
    }
    name.push_str(std::str::from_utf8(&decoded).map_err(|_| PathError::NoSuchFile)?);
    Ok(())
}

fn escaped(high: Option<u8>, low: Option<u8>) -> Result<u8, PathError> {
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(PathError::Malformed);
    Ok((digit(high)? * 16 + digit(low)?) as u8)
}

fn check_segment(segment: &str, is_first: bool, hidden_shown: bool) -> Result<(), PathError> {
    if segment == ".." || segment.bytes().any(is_forbidden) {
        return Err(PathError::Malformed);
    }
    let is_hidden = segment.starts_with('.') && !(is_first && segment == ".well-known");
    if segment.len() > SEGMENT_BYTES_MAX || (is_hidden && !hidden_shown) {
        return Err(PathError::NoSuchFile);
    }
    Ok(())
}

/// Whether a request for an entry of a directory can succeed. `/.well-known/` is served, but not listed.
pub(crate) fn may_be_requested(entry_name: &str, hidden_shown: bool) -> bool {
    check_segment(entry_name, false, hidden_shown).is_ok()
}

/// Bytes that end a name (NUL), separate it on other systems (`\`), or forge log lines and header fields.
const fn is_forbidden(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7F || byte == b'\\'
}

/// The URL path of a canonical name: `/a%20b/`. Begins with exactly one slash, so that it is never parsed as another
/// authority (`//elsewhere/`).
pub(crate) fn url_path(name: &str) -> String {
    let mut path = String::with_capacity(name.len() + 1);
    path.push('/');
    for (index, segment) in name.split('/').enumerate() {
        if index > 0 {
            path.push('/');
        }
        push_escaped(segment, &mut path);
    }
    path
}

/// Percent-encodes everything but unreserved characters (RFC 3986, 2.3).
pub(crate) fn push_escaped(segment: &str, url: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            url.push(char::from(byte));
        } else {
            url.push('%');
            url.push(char::from(HEX[usize::from(byte >> 4)]));
            url.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path: &str, expected: Result<&str, PathError>) {
        assert_eq!(site_name(path, false).as_deref(), expected.as_ref().copied(), "{path:?}");
    }

    #[test]
    fn canonicalises_paths() {
        for (path, name) in [
            ("/", ""),
            ("/index.html", "index.html"),
            ("/a/b.html", "a/b.html"),
            ("/a/", "a/"),
            ("//a///b", "a/b"),
            ("/./a/./b", "a/b"),
            ("/a/.", "a/"),
            ("/a/%2e", "a/"),
            ("/a%20b", "a b"),
            ("/%41", "A"),
            ("/%C4%8Ds", "čs"),
            ("/a+b", "a+b"),
            ("/.well-known/acme", ".well-known/acme"),
            ("/a..b", "a..b"),
        ] {
            check(path, Ok(name));
        }
        assert_eq!(site_name("/...", true).as_deref(), Ok("..."));
    }

    #[test]
    fn rejects_attacks() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/a/..",
            "/%2e%2e/x",
            "/.%2e/x",
            "/%2E./x",
            "/a\\b",
            "/..\\x",
            "/a%5cb",
            "/a%00",
            "/a%0d%0aSet-Cookie:x",
            "/%7f",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
            "/a%2f%00",
            "/..%2f..%00",
        ] {
            check(path, Err(PathError::Malformed));
            assert_eq!(site_name(path, true), Err(PathError::Malformed), "{path:?}");
        }
    }

    #[test]
    fn impossible_names_are_not_found() {
        let long = format!("/{}", "x".repeat(SEGMENT_BYTES_MAX + 1));
        for path in ["/a%2fb", "/..%2fetc", "/%c0%af", "/%ff", "/.git/config", "/a/.well-known", "/.%68idden", &long] {
            check(path, Err(PathError::NoSuchFile));
        }
        assert_eq!(site_name("/.git/config", true).as_deref(), Ok(".git/config"));
        // Decoded once, not twice.
        check("/%252e%252e/x", Ok("%2e%2e/x"));
    }

    #[test]
    fn urls_stay_on_the_host() {
        assert_eq!(url_path("a b/č/"), "/a%20b/%C4%8D/");
        assert_eq!(url_path(&site_name("//evil.example/x", false).unwrap()), "/evil.example/x");
        assert_eq!(url_path(""), "/");
    }

    proptest! {
        #[test]
        fn names_stay_below_the_root_and_round_trip(path in "/[a-c./%\\\\0-9A-Fe]{0,24}") {
            if let Ok(name) = site_name(&path, true) {
                prop_assert!(!name.starts_with('/'));
                prop_assert!(name.split('/').all(|segment| segment != ".." && segment != "."));
                prop_assert!(!name.contains("//") && !name.contains('\\'));
                prop_assert_eq!(site_name(&url_path(&name), true), Ok(name));
            }
        }
    }
}
