//! TLS toward upstreams: trusted certificates, the proxy's identity, and the driver's TLS clients.

use std::sync::Arc;

use breme_admin::CertificateExpiry;
use breme_command::failure::Failure;
use breme_command::tls::{ClientFiles, ClientFlags, IdentityFiles, client};
use breme_driver::TlsClients;
use breme_node::TlsClientId;
use breme_proxy::TlsClientIds;
use parking_lot::Mutex;

use super::arguments::UpstreamFlags;
use super::upstream::{Location, Upstream};

/// Limit of clients ever created: that of a removed upstream is kept.
const CLIENTS_MAX: usize = 4096;

/// The driver's TLS clients, by upstream. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    pub list: TlsClients,
    pub ids: TlsClientIds,
    /// Of the proxy's client certificate.
    pub expiry: CertificateExpiry,
    state: Arc<Mutex<TlsClientsState>>,
}

#[derive(Debug, Default)]
struct TlsClientsState {
    files: ClientFiles,
    /// The host of each client in the list.
    hosts: Vec<(String, TlsClientId)>,
}

impl Clients {
    /// No clients yet. The files are always read, so that an invalid one is detected.
    pub fn from_flags(flags: &UpstreamFlags) -> Result<Self, Failure> {
        let clients = Self::default();
        clients.take(client_flags(flags).read()?);
        Ok(clients)
    }

    fn take(&self, files: ClientFiles) {
        files.identity().into_iter().for_each(|identity| self.expiry.set(identity));
        self.state.lock().files = files;
    }

    /// Reads the files again, including the system's CA certificates, for future handshakes. On any error, nothing
    /// changes.
    pub fn reload(&self, flags: &UpstreamFlags) -> Result<(), Failure> {
        let files = client_flags(flags).read()?;
        let state = self.state.lock();
        if !state.hosts.is_empty() {
            let options = files.options();
            let renew = |(host, id): &(String, TlsClientId)| Ok((*id, client(host, &options)?));
            let renewed: Vec<_> = state.hosts.iter().map(renew).collect::<Result<_, Failure>>()?;
            renewed.into_iter().for_each(|(id, client)| self.list.replace(id, client));
        }
        drop(state);
        self.take(files);
        Ok(())
    }

    /// Creates a client for each upstream with TLS that has none.
    pub fn prepare(&self, upstreams: &[Upstream]) -> Result<(), String> {
        let is_new = |upstream: &&Upstream| upstream.is_tls && self.ids.client(&upstream.name()).is_none();
        let new: Vec<&Upstream> = upstreams.iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let TlsClientsState { files, hosts } = &mut *state;
        let options = files.options();
        for upstream in new {
            let name = upstream.name();
            if self.ids.count() >= CLIENTS_MAX {
                return Err(format!(
                    "https://{name}: {CLIENTS_MAX} https upstreams have been used since the start, which is the limit; restart the proxy"
                ));
            }
            let Location::Host { host, .. } = &upstream.location else { continue };
            let client = client(host, &options).map_err(|failure| failure.message)?;
            let id = self.list.add(client);
            hosts.push((host.clone(), id));
            self.ids.insert(&name, id);
        }
        Ok(())
    }
}

pub(super) fn client_flags(flags: &UpstreamFlags) -> ClientFlags<'_> {
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
