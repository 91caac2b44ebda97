//! TLS toward upstreams: whose certificates count, who the proxy is, and the clients that the driver has for upstreams.

use std::sync::{Arc, OnceLock};

<<<<<<< HEAD
use breme_driver::ClientTls;
use breme_node::TlsClientId;
=======
use breme_driver::{ClientOptions, ClientTls, Identity, TlsClients, Trust};
use breme_proxy::TlsNames;
>>>>>>> w-edges

use super::arguments::UpstreamFlags;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::tls::{ClientFlags, IdentityFiles, client};

/// Clients that may ever be made: an upstream that is in the list no more leaves its one behind.
const CLIENTS_MAX: usize = 4096;

/// The driver's clients of TLS, and which of them is for which upstream. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    pub list: TlsClients,
    pub names: TlsNames,
    rules: Arc<Rules>,
}

/// What all clients have in common, from the start on.
#[derive(Debug, Default)]
struct Rules {
    /// The machine's own authorities are read when an upstream needs them.
    trust: OnceLock<Trust>,
    identity: Option<Identity>,
}

impl Clients {
    /// None yet. The files are read in any case, so that a wrong one is found.
    pub fn of(flags: &UpstreamFlags) -> Result<Self, Failure> {
<<<<<<< HEAD
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
=======
        let identity = identity(flags)?;
        let named = flags.upstream_ca.as_deref().map(|path| authorities("--upstream-ca", path)).transpose();
        let named = if flags.upstream_insecure { Some(Trust::Everybody) } else { named.map_err(Failure::usage)? };
        let trust = OnceLock::new();
        if let Some(named) = named {
            let _ = trust.set(named); // nobody else has it
        }
        Ok(Self { rules: Arc::new(Rules { trust, identity }), ..Self::default() })
    }

    /// Makes a client for each upstream that is spoken to over TLS and has none.
    pub fn prepare(&self, upstreams: &[Upstream]) -> Result<(), String> {
        let is_new = |upstream: &&Upstream| upstream.is_tls && self.names.client(&upstream.name()).is_none();
        for upstream in upstreams.iter().filter(is_new) {
            let name = upstream.name();
            if self.names.count() >= CLIENTS_MAX {
                return Err(format!(
                    "https://{name} is one https upstream too many since the start; it needs a restart"
                ));
            }
            let options = ClientOptions {
                trust: self.rules.trust.get_or_init(Trust::of_system).clone(),
                identity: self.rules.identity.as_ref(),
                protocols: &PROTOCOLS,
                resumption: true,
                version: None,
            };
            let client = ClientTls::new(&upstream.host, &options).map_err(|error| error.to_string())?;
            self.names.insert(&name, self.list.add(Arc::new(client)));
>>>>>>> w-edges
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
