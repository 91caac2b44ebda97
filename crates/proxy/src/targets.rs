//! The rules of a forward proxy. The name is checked first and its addresses afterwards, since a name may lead anywhere
//! (DNS rebinding).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::networks::{Network, is_public};
use crate::settings::ForwardRules;

#[derive(Debug)]
pub(crate) struct TargetRules {
    names: Vec<NameRule>,
    networks: Vec<Network>,
    allows_all_public: bool,
    ports: Vec<u16>,
    tunnel_ports: Vec<u16>,
    private_allowed: bool,
}

#[derive(Debug)]
enum NameRule {
    Exactly(String),
    /// Hosts below this domain; begins with a dot.
    Below(String),
}

/// Why a target is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetRefusal {
    Port(u16),
    Host,
    /// None of its addresses is allowed.
    Address,
}

impl fmt::Display for TargetRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(formatter, "this proxy does not forward to port {port}"),
            Self::Host => formatter.write_str("this proxy does not forward to that host"),
            Self::Address => formatter.write_str("that host has no address to which this proxy forwards"),
        }
    }
}

impl TargetRules {
    /// The error is the invalid rule.
    pub(crate) fn new(rules: &ForwardRules) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut networks = Vec::new();
        for rule in &rules.hosts_allowed {
            let bare = rule.strip_prefix('[').and_then(|rule| rule.strip_suffix(']')).unwrap_or(rule);
            match (bare.parse(), rule.strip_prefix("*.")) {
                (Ok(network), _) => networks.push(network),
                (Err(()), Some(domain)) if is_host_name(domain) => {
                    names.push(NameRule::Below(format!(".{}", domain.to_ascii_lowercase())));
                }
                (Err(()), None) if is_host_name(rule) => names.push(NameRule::Exactly(rule.to_ascii_lowercase())),
                _ => return Err(rule.clone()),
            }
        }
        Ok(Self {
            names,
            networks,
            allows_all_public: rules.hosts_allowed.is_empty(),
            ports: rules.ports_allowed.clone(),
            tunnel_ports: rules.tunnel_ports_allowed.clone(),
            private_allowed: rules.private_allowed,
        })
    }

    /// Checks a target before its name is looked up. `host` has no brackets.
    pub(crate) fn judge_name(&self, host: &str, port: u16, is_tunnel: bool) -> Result<(), TargetRefusal> {
        let ports = if is_tunnel { &self.tunnel_ports } else { &self.ports };
        if !ports.contains(&port) {
            return Err(TargetRefusal::Port(port));
        }
        // The addresses of a name without a rule may be in an allowed network.
        let may_be = self.allows_all_public || self.is_name_allowed(host) || !self.networks.is_empty();
        if may_be { Ok(()) } else { Err(TargetRefusal::Host) }
    }

    /// Keeps the allowed addresses.
    pub(crate) fn judge_addresses(&self, host: &str, addresses: &mut Vec<SocketAddr>) -> Result<(), TargetRefusal> {
        let is_name_allowed = self.allows_all_public || self.is_name_allowed(host);
        addresses.retain(|address| self.is_address_allowed(address.ip(), is_name_allowed));
        if addresses.is_empty() { Err(TargetRefusal::Address) } else { Ok(()) }
    }

    /// Addresses and names with a rule are allowed; other addresses must be public.
    fn is_address_allowed(&self, address: IpAddr, is_name_allowed: bool) -> bool {
        let is_named = self.networks.iter().any(|network| network.contains(address));
        let is_open = self.private_allowed || is_public(address);
        is_named || (is_name_allowed && is_open)
    }

    fn is_name_allowed(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        self.names.iter().any(|rule| match rule {
            NameRule::Exactly(name) => *name == host,
            NameRule::Below(domain) => host.len() > domain.len() && host.ends_with(domain.as_str()),
        })
    }
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.split('.').all(is_label)
}

/// Host (without brackets) and port of an authority, with a default port.
pub(crate) fn split_authority(authority: &str, default_port: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => default_port,
        Some(port) => port.parse().ok()?,
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(hosts: &[&str], private_allowed: bool) -> TargetRules {
        let hosts_allowed = hosts.iter().map(|&host| host.to_owned()).collect();
        let rules = ForwardRules { hosts_allowed, private_allowed, ..ForwardRules::default() };
        TargetRules::new(&rules).unwrap()
    }

    fn kept(rules: &TargetRules, host: &str, addresses: &[&str]) -> Vec<String> {
        let mut kept: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 80)).collect();
        let judged = rules.judge_addresses(host, &mut kept);
        assert_eq!(judged.is_err(), kept.is_empty());
        kept.iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn checks_resolved_addresses() {
        let open = rules(&[], false);
        assert_eq!(open.judge_name("rebound.example", 80, false), Ok(()));
        let led_to = ["127.0.0.1", "::ffff:10.0.0.1", "169.254.169.254", "8.8.8.8", "::1"];
        assert_eq!(kept(&open, "rebound.example", &led_to), ["8.8.8.8"]);
        assert_eq!(kept(&rules(&[], true), "rebound.example", &led_to).len(), led_to.len());
    }

    #[test]
    fn checks_ports_by_kind() {
        let rules = rules(&[], false);
        assert_eq!(rules.judge_name("a", 443, false), Err(TargetRefusal::Port(443)));
        assert_eq!(rules.judge_name("a", 443, true), Ok(()));
        assert_eq!(rules.judge_name("a", 80, true), Err(TargetRefusal::Port(80)));
        assert_eq!(rules.judge_name("a", 25, false), Err(TargetRefusal::Port(25)));
    }

    #[test]
    fn compares_names_by_label() {
        let rules = rules(&["example.org", "*.example.net"], false);
        for (host, is_allowed) in [
            ("example.org", true),
            ("EXAMPLE.org.", true),
            ("www.example.org", false),
            ("badexample.org", false),
            ("a.b.example.net", true),
            ("example.net", false),
            ("badexample.net", false),
            (".example.net", false),
        ] {
            assert_eq!(rules.judge_name(host, 80, false).is_ok(), is_allowed, "{host}");
            assert_eq!(!kept(&rules, host, &["8.8.8.8"]).is_empty(), is_allowed, "{host}");
        }
        assert!(kept(&rules, "example.org", &["10.0.0.1"]).is_empty(), "an allowed name does not open the house");
    }

    #[test]
    fn allowed_network_may_be_private() {
        let rules = rules(&["10.0.0.0/8", "[::1]"], false);
        let led_to = ["10.1.1.1", "192.168.0.1", "8.8.8.8", "::1"];
        assert_eq!(kept(&rules, "any.example", &led_to), ["10.1.1.1", "::1"]);
    }

    #[test]
    fn rejects_invalid_rules() {
        for rule in ["", "*", "*.", "a b", "http://example.org", "example..org", "10.0.0.0/40", "a:80"] {
            let rules = ForwardRules { hosts_allowed: vec![rule.to_owned()], ..ForwardRules::default() };
            assert_eq!(TargetRules::new(&rules).unwrap_err(), rule);
        }
    }

    #[test]
    fn splits_authorities() {
        for (authority, expected) in [
            ("a", Some(("a", 80))),
            ("a:8080", Some(("a", 8080))),
            ("a:", Some(("a", 80))),
            ("[::1]:443", Some(("::1", 443))),
            ("[::1]", Some(("::1", 80))),
            (":80", None),
            ("a:99999", None),
        ] {
            assert_eq!(split_authority(authority, 80), expected, "{authority}");
        }
    }
}
