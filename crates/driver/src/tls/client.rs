//! TLS clients, and the table of those of a driver.

use std::fmt;
use std::sync::{Arc, OnceLock};

use breme_node::TlsClientId;
use parking_lot::RwLock;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Error, SupportedProtocolVersion};

use super::crypto_provider::client_provider;
use super::failure::TlsSetupError;
use super::identity::{Identity, expires_at};
use super::trust::Trust;

/// Sessions of a client that are kept for resumption.
const SESSIONS_MAX: usize = 1024;

/// The configuration of a client for one server name.
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    first_handshake: OnceLock<FirstHandshake>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClientTls {{ name: {:?} }}", self.name.to_str())
    }
}

/// The settings of a [`ClientTls`].
#[derive(Clone, Debug)]
pub struct ClientOptions<'a> {
    pub trust: Trust,
    /// The client certificate to send if the server requests one.
    pub identity: Option<&'a Identity>,
    /// Protocols to offer (ALPN).
    pub protocols: &'a [&'a [u8]],
    /// Resume sessions by tickets or session ids.
    pub resumption: bool,
    /// None: TLS 1.3 or 1.2.
    pub version: Option<TlsVersion>,
}

/// The only version that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl TlsVersion {
    const fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// What the first handshake of a client showed.
#[derive(Debug)]
struct FirstHandshake {
    negotiated: Negotiated,
    /// That of the server.
    certificate: Option<CertificateDer<'static>>,
}

/// What a handshake negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// Its IANA name, without the prefix `TLS13_`.
    pub cipher_suite: &'static str,
}

impl Negotiated {
    fn from_connection(connection: &UnbufferedClientConnection) -> Self {
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "1.2",
            _ => "1.3",
        };
        let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or_default();
        Self { version, cipher_suite: suite.strip_prefix("TLS13_").unwrap_or(suite) }
    }
}

impl ClientTls {
    /// `host`: the name or address that the certificate of the server must contain.
    ///
    /// # Errors
    /// If the host cannot be in a certificate, or the identity is unusable.
    pub fn new(host: &str, options: &ClientOptions<'_>) -> Result<Self, TlsSetupError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsSetupError::Host(host.to_owned()))?;
        let provider = client_provider();
        let verifier = options.trust.verifier(Arc::clone(&provider))?;
        let one = options.version.map(|version| [version.supported()]);
        let versions = one.as_ref().map_or(rustls::DEFAULT_VERSIONS, |one| &one[..]);
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match options.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certified, key }) => {
                builder.with_client_auth_cert(certified.cert.clone(), key.clone_key())?
            }
        };
        config.alpn_protocols = options.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.resumption =
            if options.resumption { Resumption::in_memory_sessions(SESSIONS_MAX) } else { Resumption::disabled() };
        Ok(Self { config: Arc::new(config), name, first_handshake: OnceLock::new() })
    }

    /// What the first handshake negotiated.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        Some(self.first_handshake.get()?.negotiated)
    }

    /// Expiry of the certificate that the server presented in the first handshake, in Unix seconds. It is parsed with
    /// each call.
    #[must_use]
    pub fn certificate_expires_at(&self) -> Option<u64> {
        expires_at(self.first_handshake.get()?.certificate.as_slice())
    }

    pub(super) fn note_handshake(&self, connection: &UnbufferedClientConnection) {
        if self.first_handshake.get().is_some() {
            return;
        }
        let certificate = connection.peer_certificates().and_then(<[_]>::first).cloned();
        let first = FirstHandshake { negotiated: Negotiated::from_connection(connection), certificate };
        let _ = self.first_handshake.set(first); // another thread may have been first
    }

    pub(super) fn new_connection(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// The TLS clients of a driver, by index. Clones share the list. Entries can be added and replaced while the driver
/// runs.
#[derive(Clone, Debug, Default)]
pub struct TlsClients(Arc<RwLock<Vec<Arc<ClientTls>>>>);

impl TlsClients {
    /// Adds a client. Entries are never removed: the caller bounds their number.
    #[must_use]
    pub fn add(&self, client: Arc<ClientTls>) -> TlsClientId {
        let mut clients = self.0.write();
        clients.push(client);
        TlsClientId(u32::try_from(clients.len() - 1).unwrap_or(u32::MAX))
    }

    /// Replaces a client, for handshakes from now on.
    pub fn replace(&self, id: TlsClientId, client: Arc<ClientTls>) {
        let mut clients = self.0.write();
        if let Some(place) = clients.get_mut(id.0 as usize) {
            *place = client;
        }
    }

    pub(crate) fn get(&self, id: TlsClientId) -> Option<Arc<ClientTls>> {
        self.0.read().get(id.0 as usize).cloned()
    }
}

impl From<Vec<Arc<ClientTls>>> for TlsClients {
    fn from(clients: Vec<Arc<ClientTls>>) -> Self {
        Self(Arc::new(RwLock::new(clients)))
    }
}
