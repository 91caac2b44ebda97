//! The client and the target for which a trusted proxy forwards a request (RFC 7239; X-Forwarded-*).
//!
//! Each proxy appends the address that it sees. So the list is read from its end: trusted proxies are skipped, and the
//! first address that is not trusted is the client. Earlier entries come from that client and may be forged; they must
//! not affect how later ones are parsed either: an unterminated quotation mark would join both. So quoted strings are
//! also parsed from the end.

use std::net::IpAddr;

use breme_http::syntax::unquoted;
use breme_http::{Fields, forwarded_address};

/// The named client; None if there is none, or it has no address. X-Forwarded-For takes precedence over Forwarded:
/// proxies that write only one mostly write that, and pass the other on unchanged.
pub(crate) fn parse_forwarded_client(fields: Fields<'_, '_>, is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let has_list = fields.first("X-Forwarded-For").is_some();
    let lines: Vec<&[u8]> = fields.all(if has_list { "X-Forwarded-For" } else { "Forwarded" }).collect();
    for member in lines.into_iter().rev().flat_map(|line| parts_from_the_end(line, b',')) {
        let address = if has_list { address(member) } else { address_of_element(member) }?;
        if !is_trusted(address) {
            return Some(address);
        }
    }
    None
}

/// The schemes that forwarding fields name: those of X-Forwarded-Proto, then those of Forwarded.
pub(crate) fn named_schemes<'a>(fields: Fields<'a, '_>) -> impl Iterator<Item = &'a [u8]> {
    fields.list("X-Forwarded-Proto").chain(parameters(fields, b"proto"))
}

/// The authorities that forwarding fields name: those of X-Forwarded-Host, then those of Forwarded.
pub(crate) fn named_authorities<'a>(fields: Fields<'a, '_>) -> impl Iterator<Item = &'a [u8]> {
    fields.list("X-Forwarded-Host").chain(parameters(fields, b"host"))
}

/// The values of a parameter in Forwarded, whatever quotation marks enclose: an upstream may ignore these, or find an
/// end that is not there.
fn parameters<'a>(fields: Fields<'a, '_>, wanted: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let pairs = fields.all("Forwarded").flat_map(|line| line.split(|byte| matches!(byte, b',' | b';')));
    pairs.filter_map(move |pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        name.eq_ignore_ascii_case(wanted).then(|| value.strip_suffix(b"\"").unwrap_or(value))
    })
}

/// Parses an element such as `for=192.0.2.43;proto=https`.
fn address_of_element(element: &[u8]) -> Option<IpAddr> {
    let value = parts_from_the_end(element, b';').find_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    })?;
    address(unquoted(value))
}

/// The parts of a text from the last to the first, trimmed, without empty ones. Separators in quoted strings do not
/// count.
fn parts_from_the_end(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    let parts = std::iter::from_fn(move || {
        let text = rest?;
        let end = last_outside_of_quotes(text, separator);
        rest = end.map(|end| &text[..end]);
        Some(text[end.map_or(0, |end| end + 1)..].trim_ascii())
    });
    parts.filter(|part| !part.is_empty())
}

fn last_outside_of_quotes(text: &[u8], wanted: u8) -> Option<usize> {
    let is_escaped = |place: usize| text[..place].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
    let mut is_quoted = false;
    for (place, &byte) in text.iter().enumerate().rev() {
        if byte == b'"' && !is_escaped(place) {
            is_quoted = !is_quoted;
        } else if byte == wanted && !is_quoted {
            return Some(place);
        }
    }
    None
}

fn address(text: &[u8]) -> Option<IpAddr> {
    forwarded_address(std::str::from_utf8(text).ok()?).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use breme_http::Limits;
    use breme_http1::{FieldStorage, Progress, ServerConnection};

    use super::*;
    use crate::networks::Network;

    fn with_fields<T>(lines: &str, read: impl FnOnce(Fields<'_, '_>) -> T) -> T {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{request}: {progress:?}") };
        read(head.fields)
    }

    /// The client named by these fields if 10.0.0.0/8 and fd00::/8 are trusted.
    fn named(lines: &str) -> Option<String> {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse::<Network>().unwrap());
        let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
        with_fields(lines, |fields| parse_forwarded_client(fields, is_trusted)).map(|address| address.to_string())
    }

    #[test]
    fn finds_every_named_target() {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let lines = "Forwarded: for=\"x;Proto=http;Host=\"b:1\", for=c;host = d;proto=\"ws\"\r\nX-Forwarded-Proto: https, http\r\nX-Forwarded-Host: e\r\n";
        let found: Vec<String> = with_fields(lines, |fields| named_schemes(fields).map(text).collect());
        assert_eq!(found, ["https", "http", "http", "ws"]);
        let found: Vec<String> = with_fields(lines, |fields| named_authorities(fields).map(text).collect());
        assert_eq!(found, ["e", "b:1", "d"]);
        assert_eq!(with_fields("Forwarded: for=a\r\n", |fields| named_schemes(fields).count()), 0);
    }

    #[test]
    fn client_is_last_untrusted_address() {
        for (lines, expected) in [
            ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 203.0.113.9, 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 192.0.2.1, 10.1.1.1,10.2.2.2\r\n", "192.0.2.1"),
            ("X-Forwarded-For: nonsense, 192.0.2.1:4711\r\n", "192.0.2.1"),
            ("X-Forwarded-For: [2001:db8::1]:80, fd00::7\r\n", "2001:db8::1"),
            ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1"),
            ("Forwarded: for=203.0.113.9, For=192.0.2.1;proto=https\r\n", "192.0.2.1"),
            ("Forwarded: by=x; for=\"[2001:db8::1]:80\";host=\"a,b\", for=10.0.0.1\r\n", "2001:db8::1"),
            ("Forwarded: for=203.0.113.9\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
            // A quotation begun by a client does not extend over what follows it …
            ("X-Forwarded-For: \", 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: \"\\, 192.0.2.1, 10.1.1.1\r\n", "192.0.2.1"),
            ("Forwarded: for=\"x, for=192.0.2.1;host=\"a\\\",b\", for=10.0.0.1\r\n", "192.0.2.1"),
            ("Forwarded: for=\"x\\, for=192.0.2.1\r\n", "192.0.2.1"),
            // … nor does its end.
            ("Forwarded: host=\"a;for=203.0.113.9\";for=192.0.2.1\r\n", "192.0.2.1"),
            ("Forwarded: for=192.0.2.1;host=\"a;for=203.0.113.9;b\"\r\n", "192.0.2.1"),
        ] {
            assert_eq!(named(lines).as_deref(), Some(expected), "{lines}");
        }
        for lines in [
            "",
            "X-Forwarded-For:\r\n",
            "X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n",
            "X-Forwarded-For: 192.0.2.1, unknown\r\n",
            "Forwarded: for=_hidden\r\n",
            "Forwarded: for=192.0.2.1, proto=https\r\n",
        ] {
            assert_eq!(named(lines), None, "{lines}");
        }
    }
}
