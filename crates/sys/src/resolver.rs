//! The addresses of host names.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use breme_base::loopback_addresses;

/// It tells whether `localhost` has an IPv6 address on this machine.
const HOSTS_FILE: &str = "/etc/hosts";

/// All addresses of a host: a name, or an address without brackets. It can take seconds.
///
/// The hosts file decides whether `localhost` has one address or two: a server that listens on one of two addresses
/// only would fail half of the time for a client that tries both. Without the file, and for the names below it, it is
/// both loopback addresses; no resolver is queried (RFC 6761, 6.3). The IPv4 address always comes first.
///
/// # Errors
/// The name has no address, or the resolver does not respond.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let by_resolver = || (host, port).to_socket_addrs().map(Iterator::collect).map_err(without_call);
    let Some(addresses) = loopback_addresses(host) else { return by_resolver() };
    let loopback = addresses.map(|address| SocketAddr::new(address, port)).to_vec();
    if host.eq_ignore_ascii_case("localhost") && Path::new(HOSTS_FILE).exists() {
        let mut found: Vec<SocketAddr> = by_resolver().unwrap_or(loopback);
        found.sort_by_key(SocketAddr::is_ipv6);
        return Ok(found);
    }
    Ok(loopback)
}

/// The reason alone, which std prefixes with "failed to lookup address information".
fn without_call(error: io::Error) -> io::Error {
    match error.to_string().split_once("lookup address information: ") {
        Some((_, reason)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_lookup_has_a_reason_only() {
        let error = |text: &str| without_call(io::Error::other(text)).to_string();
        assert_eq!(
            error("failed to lookup address information: Name or service not known"),
            "Name or service not known"
        );
        assert_eq!(error("timed out"), "timed out");
    }

    #[test]
    fn names_of_this_machine_and_addresses_need_no_resolver() {
        let check = |host: &str, expected: &[&str]| {
            let expected: Vec<SocketAddr> = expected.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(resolve(host, 80).unwrap(), expected, "{host}");
        };
        let localhost = resolve("localhost", 80).unwrap();
        assert!(!localhost.is_empty() && localhost.iter().all(|address| address.ip().is_loopback()), "{localhost:?}");
        assert!(localhost.is_sorted_by_key(SocketAddr::is_ipv6), "{localhost:?}");
        check("a.localhost", &["127.0.0.1:80", "[::1]:80"]);
        check("192.0.2.1", &["192.0.2.1:80"]);
        check("2001:db8::1", &["[2001:db8::1]:80"]);
        assert!(resolve("", 80).is_err());
    }
}
