//! TLS servers, with an identity that can be replaced at run time.

use std::fmt;
use std::sync::Arc;

use breme_node::TlsFailure;
use bytes::Bytes;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;

use super::crypto_provider::server_provider;
use super::failure::TlsSetupError;
use super::identity::Identity;
use super::session::TlsSession;

/// Sessions kept for the resumption of TLS 1.2 clients without tickets; some hundred bytes each.
const SESSIONS_MAX: usize = 16 * 1024;

/// TLS configuration of a listener. Clones share the identity.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    current: Arc<CurrentCertificate>,
    plaintext_response: Bytes,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerTls")
    }
}

#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl ServerTls {
    /// `protocols`: ALPN; clients may offer none.
    ///
    /// Sessions are resumable: by tickets, whose keys rotate every few hours and are lost on exit, or, for TLS 1.2
    /// clients without tickets, from a bounded cache.
    ///
    /// # Errors
    /// If the operating system provides no random numbers.
    pub fn new(identity: &Identity, protocols: &[&[u8]]) -> Result<Self, TlsSetupError> {
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::clone(&identity.certified))));
        let mut config = ServerConfig::builder_with_provider(server_provider())
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.ticketer = Ticketer::new()?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        Ok(Self { config: Arc::new(config), current, plaintext_response: Bytes::new() })
    }

    /// The response to clients whose first byte is a letter, which indicates a plain-text protocol. Without it they get
    /// an alert.
    #[must_use]
    pub fn with_plaintext_response(mut self, response: impl Into<Bytes>) -> Self {
        self.plaintext_response = response.into();
        self
    }

    /// Uses a new identity for handshakes from now on. Existing connections and sessions continue.
    pub fn replace(&self, identity: &Identity) {
        *self.current.0.write() = Arc::clone(&identity.certified);
    }

    /// The configuration of rustls, for servers outside this driver. It follows [`ServerTls::replace`].
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn session(&self) -> Result<TlsSession, TlsFailure> {
        TlsSession::server(Arc::clone(&self.config))
    }

    pub(crate) fn plaintext_response(&self) -> &Bytes {
        &self.plaintext_response
    }
}
