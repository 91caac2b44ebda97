//! Networks such as `10.0.0.0/8`, the clients in them, and public addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl FromStr for Network {
    type Err = ();

    /// Parses an address with an optional prefix length.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(drop)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        let width = if address.is_ipv4() { u32::BITS } else { u128::BITS };
        let prefix_bits = bits.unwrap_or(width);
        if prefix_bits > width {
            return Err(());
        }
        Ok(Self { address, prefix_bits })
    }
}

impl Network {
    /// Whether it contains an address; IPv4-mapped addresses count as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let bits = if self.address.is_ipv4() { self.prefix_bits } else { self.prefix_bits.saturating_sub(96) };
                (own.to_bits() ^ other.to_bits()).checked_shr(u32::BITS - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(u128::BITS - self.prefix_bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// A set of clients: those in networks, and possibly those of Unix sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSet {
    networks: Vec<Network>,
    has_unix: bool,
}

impl ClientSet {
    /// Clients of Unix sockets, which have no address, as nginx writes them.
    const UNIX: &str = "unix:";

    /// The error is the first text that is neither a network nor `unix:`.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut clients = Self::default();
        for text in texts {
            match text.parse() {
                _ if text == Self::UNIX => clients.has_unix = true,
                Ok(network) => clients.networks.push(network),
                Err(()) => return Err(text.clone()),
            }
        }
        Ok(clients)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.has_unix
    }

    /// `address`: none for a client of a Unix socket.
    pub(crate) fn contains(&self, address: Option<IpAddr>) -> bool {
        match address {
            Some(address) => self.networks.iter().any(|network| network.contains(address)),
            None => self.has_unix,
        }
    }
}

/// Whether an address is public: not local to the host or a network, multicast or unspecified. Embedded IPv4 addresses
/// are checked themselves (RFC 4291, 2.5.5; RFC 6052; RFC 3056; RFC 4380).
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// RFC 6890 and its registry.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = match first {
        0 | 10 | 127 | 224.. => true,
        100 => second & 0xc0 == 64, // shared by carriers (RFC 6598)
        169 => second == 254,
        172 => second & 0xf0 == 16,
        192 => matches!((second, third), (168, _) | (0, 0 | 2) | (88, 99)),
        198 => second & 0xfe == 18 || (second, third) == (51, 100),
        203 => (second, third) == (0, 113),
        _ => false,
    };
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        // `::`, `::1`, and IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0, _, _] => false,
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        [0x64, 0xff9b, ..] => false,
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Teredo, benchmarking, ORCHID and the rest of the protocol assignments; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Only 2000::/3 is allocated for routing.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|()| panic!("{text}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
        ] {
            assert!(network(text).contains(ip(inside)), "{inside} in {text}");
            assert!(!network(text).contains(ip(outside)), "{outside} not in {text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "example.org", "10.0.0.0/8/8"] {
            assert_eq!(text.parse::<Network>(), Err(()), "{text}");
        }
    }

    #[test]
    fn clients_of_unix_sockets_are_in_no_network() {
        let clients = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().copied().map(String::from).collect();
            ClientSet::parse(&texts)
        };
        let (nobody, all, unix) =
            (clients(&[]).unwrap(), clients(&["0.0.0.0/0", "::/0"]).unwrap(), clients(&["unix:"]).unwrap());
        let local = Some(ip("127.0.0.1"));
        assert_eq!([nobody.is_empty(), all.is_empty(), unix.is_empty()], [true, false, false]);
        assert_eq!([nobody.contains(None), all.contains(None), unix.contains(None)], [false, false, true]);
        assert_eq!([nobody.contains(local), all.contains(local), unix.contains(local)], [false, true, false]);
        assert_eq!(clients(&["::1", "unix:/run/x"]).unwrap_err(), "unix:/run/x");
    }

    #[test]
    fn classifies_public_addresses() {
        for text in
            ["1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.0.1.1", "223.255.255.255"]
        {
            assert!(is_public(ip(text)), "{text}");
        }
        for text in ["2606:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8"] {
            assert!(is_public(ip(text)), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!is_public(ip(text)), "{text}");
            let mapped = format!("::ffff:{text}");
            assert!(!is_public(ip(&mapped)), "{mapped}");
        }
        for text in [
            "::",
            "::1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "fec0::1",
            "2001:db8::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001::1",
            "100::1",
            "3fff::1",
            "4000::1",
        ] {
            assert!(!is_public(ip(text)), "{text}");
        }
    }
}
