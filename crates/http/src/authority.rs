//! Hosts with optional ports.

use std::net::{IpAddr, SocketAddr};

use crate::syntax::host_run;

/// Whether this is a host with an optional port, as in Host or in a target (RFC 9110, 4.2.1 and 7.2).
#[must_use]
pub fn is_authority(text: &str) -> bool {
    Authority::parse(text.as_bytes()).is_some()
}

/// The address of a client as proxies name it (RFC 7239, 6; X-Forwarded-For): `IP`, `IP:PORT`, `[IP]` or `[IP]:PORT`.
#[must_use]
pub fn forwarded_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse().map(|address: SocketAddr| address.ip()).ok())
}

/// A valid authority (RFC 3986, 3.2) without user information.
#[derive(Clone, Copy, Debug)]
pub struct Authority {
    /// A port that is not empty.
    pub has_port: bool,
}

impl Authority {
    /// None if `bytes` is not a host with an optional port. An empty host is not one (RFC 9110, 4.2.1).
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let host_len = if bytes.first() == Some(&b'[') { literal_len(bytes)? } else { name_len(bytes)? };
        match &bytes[host_len..] {
            [] => Some(Self { has_port: false }),
            [b':', port @ ..] if is_port(port) => Some(Self { has_port: !port.is_empty() }),
            _ => None,
        }
    }
}

/// A registered name or an IPv4 address; every `%` must begin an encoded byte.
fn name_len(bytes: &[u8]) -> Option<usize> {
    let len = host_run(bytes);
    let name = &bytes[..len];
    let encoded = |at: usize| name.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    let is_encoded = name.iter().enumerate().all(|(at, &byte)| byte != b'%' || encoded(at));
    (len > 0 && is_encoded).then_some(len)
}

/// An IPv6 address in brackets. The grammar's "future" addresses do not exist and are not accepted.
fn literal_len(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|&byte| byte == b']')?;
    let address = std::str::from_utf8(&bytes[1..end]).ok()?;
    address.parse::<std::net::Ipv6Addr>().ok()?;
    Some(end + 1)
}

/// A port may be empty (RFC 3986, 3.2.3).
fn is_port(port: &[u8]) -> bool {
    port.len() <= 5
        && port.iter().all(u8::is_ascii_digit)
        && port.iter().fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0')) <= u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_authorities() {
        for good in ["a", "a.b-c_d~e", "1.2.3.4", "a:", "a:0", "a:65535", "[::1]", "[fe80::1]:80", "%41"] {
            assert!(Authority::parse(good.as_bytes()).is_some(), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a,b",
            "a/b",
            "u@a",
            "a:b",
            "a:-1",
            "a:65536",
            "a:000080",
            "a:1:2",
            "[::1",
            "[x]",
            "[::1]a",
            "[fe80::1%25eth0]",
            "::1",
            "a?b",
            "a#b",
            "a\\b",
            "%4",
            "%zz",
            "é",
        ] {
            assert!(Authority::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
