//! TLS toward upstreams: whose certificates count, and who the proxy is.

use std::collections::HashMap;
use std::sync::Arc;

use breme_driver::ClientTls;
use breme_node::TlsClientId;

use super::arguments::UpstreamFlags;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::tls::{ClientFlags, IdentityFiles, client};

/// The driver's clients of TLS, and which of them is for which upstream.
#[derive(Debug, Default)]
pub struct Clients {
    pub list: Vec<Arc<ClientTls>>,
    pub by_name: HashMap<String, TlsClientId>,
}

impl Clients {
    /// One for each upstream that is spoken to over TLS. The files are read in any case, so that a wrong one is found.
    pub fn of(flags: &UpstreamFlags) -> Result<Self, Failure> {
        let files = client_flags(flags).read()?;
        let mut clients = Self::default();
        let secured: Vec<&Upstream> = flags.upstream.iter().filter(|upstream| upstream.is_tls).collect();
        if secured.is_empty() {
            return Ok(clients);
        }
        let options = files.options();
        for upstream in secured {
            let id = TlsClientId(u32::try_from(clients.list.len()).unwrap_or(u32::MAX)); // upstreams are few
            clients.list.push(client(&upstream.host, &options)?);
            clients.by_name.insert(upstream.name(), id);
        }
        Ok(clients)
    }
}

fn client_flags(flags: &UpstreamFlags) -> ClientFlags<'_> {
    let key = flags.upstream_key.as_deref();
    let identity = |certificate| IdentityFiles {
        certificate_flag: "--upstream-cert",
        certificate,
        key_flag: "--upstream-key",
        key,
    };
    ClientFlags {
        command: "proxy",
        authorities_flag: "--upstream-ca",
        authorities: flags.upstream_ca.as_deref(),
        is_insecure: flags.upstream_insecure,
        identity: flags.upstream_cert.as_deref().map(identity),
    }
}
