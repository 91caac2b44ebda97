//! Addresses of hosts.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use breme_base::loopback_addresses;

/// All addresses of a host: a name, or an address without brackets. It can take seconds, except for `localhost` and the
/// names below it, which need neither a resolver nor a hosts file.
///
/// # Errors
/// The name has no address, or the resolver does not respond.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match loopback_addresses(host) {
        Some(addresses) => Ok(addresses.map(|address| SocketAddr::new(address, port)).to_vec()),
        None => (host, port).to_socket_addrs().map(Iterator::collect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_addresses_need_no_resolver() {
        let check = |host: &str, expected: &[&str]| {
            let expected: Vec<SocketAddr> = expected.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(resolve(host, 80).unwrap(), expected, "{host}");
        };
        check("localhost", &["127.0.0.1:80", "[::1]:80"]);
        check("a.localhost", &["127.0.0.1:80", "[::1]:80"]);
        check("192.0.2.1", &["192.0.2.1:80"]);
        check("2001:db8::1", &["[2001:db8::1]:80"]);
        assert!(resolve("", 80).is_err());
    }
}
