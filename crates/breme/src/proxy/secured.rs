//! TLS toward upstreams: whose certificates count, and who the proxy is.

use std::collections::HashMap;
use std::sync::Arc;

use breme_driver::{ClientOptions, ClientTls, Identity, Trust};
use breme_node::TlsClientId;

use super::arguments::UpstreamFlags;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::tls::{IdentityFiles, PROTOCOLS, authorities, own_identity};

/// The driver's clients of TLS, and which of them is for which upstream.
#[derive(Debug, Default)]
pub struct Clients {
    pub list: Vec<Arc<ClientTls>>,
    pub by_name: HashMap<String, TlsClientId>,
}

impl Clients {
    /// One for each upstream that is spoken to over TLS. The files are read in any case, so that a wrong one is found.
    pub fn of(flags: &UpstreamFlags) -> Result<Self, Failure> {
        let identity = identity(flags)?;
        let named = flags.upstream_ca.as_deref().map(|path| authorities("--upstream-ca", path)).transpose();
        let named = named.map_err(Failure::usage)?;
        let mut clients = Self::default();
        let secured: Vec<&Upstream> = flags.upstream.iter().filter(|upstream| upstream.is_tls).collect();
        if secured.is_empty() {
            return Ok(clients);
        }
        let trust = match named {
            _ if flags.upstream_insecure => Trust::Everybody,
            Some(named) => named,
            None => Trust::of_system(),
        };
        let options = ClientOptions {
            trust,
            identity: identity.as_ref(),
            protocols: &PROTOCOLS,
            resumption: true,
            version: None,
        };
        for upstream in secured {
            let client = ClientTls::new(&upstream.host, &options).map_err(|error| Failure::usage(error.to_string()))?;
            let id = TlsClientId(u32::try_from(clients.list.len()).unwrap_or(u32::MAX)); // upstreams are few
            clients.list.push(Arc::new(client));
            clients.by_name.insert(upstream.name(), id);
        }
        Ok(clients)
    }
}

fn identity(flags: &UpstreamFlags) -> Result<Option<Identity>, Failure> {
    let Some(certificate) = &flags.upstream_cert else { return Ok(None) };
    let key = flags.upstream_key.as_deref();
    let files = IdentityFiles { certificate_flag: "--upstream-cert", certificate, key_flag: "--upstream-key", key };
    own_identity("proxy", files).map(Some).map_err(Failure::usage)
}
