//! TLS toward upstreams: whose certificates count, who the proxy is, and the clients that the driver has for upstreams.

use std::sync::Arc;

use breme_driver::TlsClients;
use breme_proxy::TlsNames;

use super::arguments::UpstreamFlags;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::tls::{ClientFiles, ClientFlags, IdentityFiles, client};

/// Clients that may ever be made: an upstream that is in the list no more leaves its one behind.
const CLIENTS_MAX: usize = 4096;

/// The driver's clients of TLS, and which of them is for which upstream. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    pub list: TlsClients,
    pub names: TlsNames,
    files: Arc<ClientFiles>,
}

impl Clients {
    /// None yet. The files are read in any case, so that a wrong one is found.
    pub fn of(flags: &UpstreamFlags) -> Result<Self, Failure> {
        Ok(Self { files: Arc::new(client_flags(flags).read()?), ..Self::default() })
    }

    /// Makes a client for each upstream that is spoken to over TLS and has none.
    pub fn prepare(&self, upstreams: &[Upstream]) -> Result<(), String> {
        let is_new = |upstream: &&Upstream| upstream.is_tls && self.names.client(&upstream.name()).is_none();
        let new: Vec<&Upstream> = upstreams.iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let options = self.files.options();
        for upstream in new {
            let name = upstream.name();
            if self.names.count() >= CLIENTS_MAX {
                return Err(format!(
                    "https://{name} is one https upstream too many since the start; it needs a restart"
                ));
            }
            let client = client(&upstream.host, &options).map_err(|failure| failure.message)?;
            self.names.insert(&name, self.list.add(client));
        }
        Ok(())
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
