//! Names of this machine that need no resolver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of `localhost` and of all names below it (RFC 6761, 6.3); none: a resolver has to be asked. IPv4
/// first, where most servers listen.
#[must_use]
pub fn loopback_addresses(name: &str) -> Option<[IpAddr; 2]> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let top = name.rsplit('.').next()?;
    top.eq_ignore_ascii_case("localhost").then_some([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_and_names_below_it_are_loopback() {
        let expected = Some(["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
        for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "a.b.LOCALHOST."] {
            assert_eq!(loopback_addresses(name), expected, "{name}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in ["", ".", "localhost..", "localhost.example", "mylocalhost", "local", "127.0.0.1", "::1"] {
            assert_eq!(loopback_addresses(name), None, "{name}");
        }
    }
}
