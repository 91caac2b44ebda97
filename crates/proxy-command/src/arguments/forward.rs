//! Flags that restrict the destinations of a forward proxy.

use breme_command::server::whole;
use breme_proxy::ForwardRules;

const HEADING: &str = "Forward proxy";

#[derive(Debug, clap::Args)]
pub struct ForwardFlags {
    /// Host that clients may reach: example.org, *.example.org, an address, or a network (10.0.0.0/8); repeatable
    /// [default: every public host]
    #[arg(long, value_name = "HOST", help_heading = HEADING)]
    allow_host: Vec<String>,

    /// Port that clients may reach; repeatable
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>, default_value = "80", help_heading = HEADING)]
    allow_port: Vec<u16>,

    /// Port to which clients may open tunnels (CONNECT); repeatable; 0 = no tunnels
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>, default_value = "443", help_heading = HEADING)]
    allow_tunnel_port: Vec<u16>,

    /// Allow addresses that are not public: loopback, private, link-local, shared (RFC 6598), multicast and reserved
    /// ones
    #[arg(long, help_heading = HEADING)]
    allow_private: bool,
}

impl ForwardFlags {
    pub(super) fn rules(&self) -> ForwardRules {
        ForwardRules {
            hosts_allowed: self.allow_host.clone(),
            ports_allowed: self.allow_port.clone(),
            tunnel_ports_allowed: self.allow_tunnel_port.iter().copied().filter(|port| *port != 0).collect(),
            private_allowed: self.allow_private,
        }
    }
}
