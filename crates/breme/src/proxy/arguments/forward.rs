//! Flags about where clients of a forward proxy may go.

use breme_proxy::ForwardRules;

const HEADING: &str = "Forward proxy";

#[derive(Debug, clap::Args)]
pub struct ForwardFlags {
    /// Only these hosts: example.org, *.example.org, an address, a network (10.0.0.0/8); repeatable [default: all that
    /// are public]
    #[arg(long, value_name = "HOST", help_heading = HEADING)]
    allow_host: Vec<String>,

    /// Only these ports; repeatable
    #[arg(long, value_name = "PORT", default_value = "80", help_heading = HEADING)]
    allow_port: Vec<u16>,

    /// Only tunnels (CONNECT) to these ports; repeatable; 0 = no tunnels
    #[arg(long, value_name = "PORT", default_value = "443", help_heading = HEADING)]
    allow_tunnel_port: Vec<u16>,

    /// Also to loopback, private, link-local and multicast addresses, whatever name leads there
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
