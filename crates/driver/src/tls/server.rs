//! The server's side: an identity that can be exchanged while it serves.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use breme_node::TlsFailure;
use bytes::Bytes;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;

use super::cryptography::server_provider;
use super::failure::TlsSetupError;
use super::identity::Identity;
use super::session::Session;

/// Sessions that are remembered for clients that take no tickets; each takes some hundred bytes.
const SESSIONS_KEPT_MAX: usize = 16 * 1024;

/// How a listener speaks TLS. Copies share the identity, so that one of them can exchange it for all.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    plaintext_answer: Bytes,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerTls")
    }
}

/// The identity of the moment.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl ServerTls {
    /// A server of this identity that speaks one of `protocols` (ALPN; a client may also name none).
    ///
    /// Sessions can be resumed: by tickets, whose keys change every few hours and are lost with the process, or, by
    /// clients of TLS 1.2 that take none, from a bounded memory.
    ///
    /// # Errors
    /// When the operating system gives no random numbers.
    pub fn new(identity: &Identity, protocols: &[&[u8]]) -> Result<Self, TlsSetupError> {
        let current = Arc::new(Current(RwLock::new(Arc::clone(&identity.certified))));
        let mut config = ServerConfig::builder_with_provider(server_provider())
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.ticketer = Ticketer::new()?;
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_KEPT_MAX);
        Ok(Self { config: Arc::new(config), current, plaintext_answer: Bytes::new() })
    }

    /// What is said to a client that begins with a letter, and so does not speak TLS but some protocol in the clear.
    /// Without it, such a client gets an alert.
    #[must_use]
    pub fn answering_plaintext_with(mut self, answer: impl Into<Bytes>) -> Self {
        self.plaintext_answer = answer.into();
        self
    }

    /// From now on, handshakes are made with this identity. Connections and sessions that there are go on.
    pub fn replace(&self, identity: &Identity) {
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&identity.certified);
    }

    /// The same for servers that no driver carries. It follows [`ServerTls::replace`].
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn session(&self) -> Result<Session, TlsFailure> {
        Session::server(Arc::clone(&self.config))
    }

    pub(crate) fn plaintext_answer(&self) -> &Bytes {
        &self.plaintext_answer
    }
}
