//! Flags that select the peers of connections; name resolution.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_driver::UnixSockets;
use breme_load_plan::{Authority, Plan};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Send requests through an HTTP proxy, [http://]HOST:PORT; https:// targets through a CONNECT tunnel
    #[arg(short = 'x', long, value_name = "URL")]
    pub(in super::super) proxy: Option<String>,

    /// Address to connect to for a host, instead of a DNS lookup; HOST may be * (any host); repeatable
    #[arg(long = "resolve", value_name = "HOST:PORT:ADDRESS", value_parser = Resolve::parse)]
    resolve: Vec<Resolve>,

    /// Host and port to connect to (HOST2:PORT2) instead of HOST1:PORT1; empty parts match any, or remain unchanged
    /// (::backend:8080); repeatable
    #[arg(long = "connect-to", value_name = "HOST1:PORT1:HOST2:PORT2", value_parser = ConnectTo::parse)]
    connect_to: Vec<ConnectTo>,

    /// Unix socket to connect to, whatever the URL's host
    #[arg(long, value_name = "PATH", conflicts_with_all = ["proxy", "resolve", "connect_to", "ipv4", "ipv6"])]
    unix_socket: Option<PathBuf>,

    /// Connect to IPv4 addresses only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// Connect to IPv6 addresses only
    #[arg(short = '6', long)]
    ipv6: bool,
}

/// The peers of a run.
#[derive(Debug, Default)]
pub struct Peers {
    /// Addresses of each of the plan's peers.
    pub(in super::super) addresses: Vec<Vec<SocketAddr>>,
    /// The Unix sockets that some addresses represent.
    pub(in super::super) unix_sockets: UnixSockets,
}

impl ConnectionFlags {
    /// Resolves the plan's peers.
    pub(in super::super) fn resolve(&self, plan: &Plan) -> Result<Peers, Failure> {
        if let Some(path) = &self.unix_socket {
            return Ok(Peers::behind(path, plan.peers().len()));
        }
        let addresses = plan.peers().iter().map(|peer| self.resolve_one(peer)).collect::<Result<_, _>>()?;
        Ok(Peers { addresses, unix_sockets: UnixSockets::default() })
    }

    /// A remark on each replacement that concerns no peer of the plan.
    pub(in super::super) fn unused<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = String> + 'a {
        let is_idle = |found: &&ConnectTo| !plan.peers().iter().any(|peer| found.applies_to(&peer.host, peer.port));
        let idle = self.connect_to.iter().filter(is_idle).map(|found| ("--connect-to", &found.text));
        let is_unknown = |known: &&Resolve| {
            !plan.peers().iter().any(|peer| {
                let (host, port) = self.replaced(peer);
                known.applies_to(host, port)
            })
        };
        let unknown = self.resolve.iter().filter(is_unknown).map(|known| ("--resolve", &known.text));
        idle.chain(unknown)
            .map(|(flag, text)| format!("{flag} {text} has no effect: no connection is to this host and port"))
    }

    /// The text that replaces an address in reports.
    pub(in super::super) fn address_text(&self) -> Option<String> {
        self.unix_socket.as_ref().map(|path| format!("unix:{}", path.display()))
    }

    fn resolve_one(&self, peer: &Authority) -> Result<Vec<SocketAddr>, Failure> {
        let (host, port) = self.replaced(peer);
        if let Some(known) = self.resolve.iter().find(|known| known.applies_to(host, port)) {
            return self
                .restrict_to_family(host, known.addresses.iter().map(|address| (*address, port).into()).collect());
        }
        let found = breme_sys::resolve(host, port)
            .map_err(|error| Failure::run(format!("cannot resolve the host {host:?}: {error}; check the spelling")))?;
        self.restrict_to_family(host, found)
    }

    /// Host and port, as `--connect-to` has them.
    fn replaced<'a>(&'a self, peer: &'a Authority) -> (&'a str, u16) {
        let replacement = self.connect_to.iter().find(|replacement| replacement.applies_to(&peer.host, peer.port));
        replacement.map_or((peer.host.as_str(), peer.port), |found| found.apply(peer))
    }

    fn restrict_to_family(&self, host: &str, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let (family, other) = match (self.ipv4, self.ipv6) {
            (true, _) => ("IPv4 address", "remove --ipv4"),
            (_, true) => ("IPv6 address", "remove --ipv6"),
            _ => ("address", "check the spelling"),
        };
        addresses.retain(|address| address.is_ipv4() || !self.ipv4);
        addresses.retain(|address| address.is_ipv6() || !self.ipv6);
        if addresses.is_empty() {
            return Err(Failure::run(format!("the host {host:?} has no {family}; {other}")));
        }
        Ok(addresses)
    }
}

impl Peers {
    /// All peers through one Unix socket.
    fn behind(path: &Path, count: usize) -> Self {
        let unix_sockets = UnixSockets::default();
        let addresses = unix_sockets.address_of(path).into_iter().collect();
        Self { addresses: vec![addresses; count], unix_sockets }
    }
}

/// A value of `--resolve`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Resolve {
    text: String,
    /// None: any.
    host: Option<String>,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Resolve {
    fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not HOST:PORT:ADDRESS, as in example.org:443:192.0.2.1 or a.test:80:[::1]");
        // In curl the plus limits how long its cache keeps the entry.
        let (host, rest) = split_part(text.strip_prefix('+').unwrap_or(text)).ok_or_else(fault)?;
        let (port, addresses) = rest.split_once(':').ok_or_else(fault)?;
        let address = |text: &str| {
            let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
            text.parse().map_err(|_| fault())
        };
        Ok(Self {
            text: text.to_owned(),
            host: (host != "*").then(|| host.to_owned()),
            port: port.parse().map_err(|_| fault())?,
            addresses: addresses.split(',').map(address).collect::<Result<_, _>>()?,
        })
    }

    fn applies_to(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host.as_ref().is_none_or(|own| own.eq_ignore_ascii_case(host))
    }
}

/// A value of `--connect-to`; none: any, or unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConnectTo {
    text: String,
    from: (Option<String>, Option<u16>),
    to: (Option<String>, Option<u16>),
}

impl ConnectTo {
    fn parse(text: &str) -> Result<Self, String> {
        let fault = || {
            format!("{text:?} is not HOST1:PORT1:HOST2:PORT2, as in example.org:443:backend:8443 or ::127.0.0.1:8080")
        };
        let host = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let port = |text: &str| match text {
            "" => Ok(None),
            _ => text.parse().map(Some).map_err(|_| fault()),
        };
        let (from_host, rest) = split_part(text).ok_or_else(fault)?;
        let (from_port, rest) = rest.split_once(':').ok_or_else(fault)?;
        let (to_host, to_port) = split_part(rest).ok_or_else(fault)?;
        let text = text.to_owned();
        Ok(Self { text, from: (host(from_host), port(from_port)?), to: (host(to_host), port(to_port)?) })
    }

    fn applies_to(&self, host: &str, port: u16) -> bool {
        let (own_host, own_port) = &self.from;
        own_host.as_ref().is_none_or(|own| own.eq_ignore_ascii_case(host)) && own_port.is_none_or(|own| own == port)
    }

    fn apply<'a>(&'a self, peer: &'a Authority) -> (&'a str, u16) {
        (self.to.0.as_deref().unwrap_or(&peer.host), self.to.1.unwrap_or(peer.port))
    }
}

/// Splits at the first colon that is not within brackets; without the brackets of an IPv6 address.
fn split_part(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':'),
    }
}

#[cfg(test)]
mod tests {
    use breme_load_plan::Settings;

    use super::*;

    fn addresses(url: &str, flags: &ConnectionFlags) -> Result<Vec<String>, String> {
        let plan = Plan::new(Settings::new(url)).unwrap();
        let peers = flags.resolve(&plan).map_err(|failure| failure.message)?;
        Ok(peers.addresses[0].iter().map(ToString::to_string).collect())
    }

    fn flags(resolve: &[&str], connect_to: &[&str]) -> ConnectionFlags {
        ConnectionFlags {
            resolve: resolve.iter().map(|text| Resolve::parse(text).unwrap()).collect(),
            connect_to: connect_to.iter().map(|text| ConnectTo::parse(text).unwrap()).collect(),
            ..ConnectionFlags::default()
        }
    }

    #[test]
    fn hosts_are_replaced() {
        let check = |url: &str, flags: &ConnectionFlags, expected: &[&str]| {
            assert_eq!(addresses(url, flags).unwrap(), expected, "{url} {flags:?}");
        };
        let both = "a.test:80:192.0.2.1,[2001:db8::1]";
        check("http://A.test/", &flags(&[both], &[]), &["192.0.2.1:80", "[2001:db8::1]:80"]);
        check("http://a.test/", &flags(&["+a.test:80:192.0.2.1"], &[]), &["192.0.2.1:80"]);
        check("http://a.test:81/", &flags(&["*:81:[::1]"], &[]), &["[::1]:81"]);
        check("http://a.test/", &flags(&[], &["::127.0.0.1:8080"]), &["127.0.0.1:8080"]);
        check("http://[2001:db8::1]:9/", &flags(&[], &["[2001:db8::1]:9:[::1]:"]), &["[::1]:9"]);
        check("https://a.test/", &flags(&["b.test:8443:192.0.2.2"], &["a.test:443:b.test:8443"]), &["192.0.2.2:8443"]);
        check("http://192.0.2.3/", &flags(&["a.test:80:192.0.2.1"], &["a.test::b.test:"]), &["192.0.2.3:80"]);
    }

    #[test]
    fn a_replacement_without_effect_is_named() {
        let unused = |resolve: &[&str], connect_to: &[&str]| {
            let (flags, plan) = (flags(resolve, connect_to), Plan::new(Settings::new("https://a.test/")).unwrap());
            flags.unused(&plan).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(unused(&["A.test:443:192.0.2.1"], &["a.test::a.test:"]), "");
        assert_eq!(unused(&["b.test:8443:192.0.2.2"], &["::b.test:8443"]), "");
        let said = unused(&["a.test:80:192.0.2.1"], &["b.test:443:c.test:443"]);
        assert!(
            said.contains("--resolve a.test:80:192.0.2.1 has") && said.contains("--connect-to b.test:443:c"),
            "{said}"
        );
    }

    #[test]
    fn a_family_is_selected() {
        let both = flags(&["a.test:80:192.0.2.1,[2001:db8::1]"], &[]);
        let only = |ipv4, ipv6| ConnectionFlags { ipv4, ipv6, ..both.clone() };
        assert_eq!(addresses("http://a.test/", &only(true, false)).unwrap(), ["192.0.2.1:80"]);
        assert_eq!(addresses("http://a.test/", &only(false, true)).unwrap(), ["[2001:db8::1]:80"]);
        let error = addresses("http://192.0.2.1/", &only(false, true)).unwrap_err();
        assert_eq!(error, "the host \"192.0.2.1\" has no IPv6 address; remove --ipv6");
    }

    #[test]
    fn malformed_values_name_the_form() {
        for text in ["a", "a:80", "a:x:1.2.3.4", "a:80:b", "[::1:80:1.2.3.4"] {
            assert!(Resolve::parse(text).unwrap_err().contains("HOST:PORT:ADDRESS"), "{text}");
        }
        for text in ["a", "a:80:b", "a:x:b:80", "a:80:b:x"] {
            assert!(ConnectTo::parse(text).unwrap_err().contains("HOST1:PORT1:HOST2:PORT2"), "{text}");
        }
    }
}
