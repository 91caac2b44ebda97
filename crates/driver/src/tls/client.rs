//! The client's side: whom to connect to, and how to know them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, SupportedProtocolVersion};

use super::cryptography::client_provider;
use super::failure::TlsSetupError;
use super::identity::Identity;
use super::trust::Trust;

/// Sessions that are remembered, for the one server there is.
const SESSIONS_KEPT_MAX: usize = 1024;

/// A server's name, and how to know the one who has it.
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    negotiated: OnceLock<Negotiated>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClientTls {{ name: {:?} }}", self.name.to_str())
    }
}

/// What a client wants besides the server's name.
#[derive(Clone, Debug)]
pub struct ClientOptions<'a> {
    /// Whose certificates count.
    pub trust: Trust,
    /// Who the client is, for servers that ask.
    pub identity: Option<&'a Identity>,
    /// Protocols to offer (ALPN).
    pub protocols: &'a [&'a [u8]],
    /// Whether later handshakes go on with the keys of earlier ones.
    pub resumption: bool,
    /// The only version to speak; none: 1.3 or 1.2, as the server likes.
    pub version: Option<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
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

/// What client and server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// As the registry of IANA has it.
    pub cipher_suite: &'static str,
}

impl Negotiated {
    pub(super) fn of(connection: &UnbufferedClientConnection) -> Self {
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "1.2",
            _ => "1.3",
        };
        let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or_default();
        Self { version, cipher_suite: suite.strip_prefix("TLS13_").unwrap_or(suite) }
    }
}

impl ClientTls {
    /// A client of the server that has the name (or the address) `host`.
    ///
    /// # Errors
    /// When the host can have no certificate, or the identity cannot be used.
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
            if options.resumption { Resumption::in_memory_sessions(SESSIONS_KEPT_MAX) } else { Resumption::disabled() };
        Ok(Self { config: Arc::new(config), name, negotiated: OnceLock::new() })
    }

    /// What the first handshake agreed on; none before.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.negotiated.get().copied()
    }

    pub(super) fn note(&self, negotiated: Negotiated) {
        if self.negotiated.get().is_none() {
            let _ = self.negotiated.set(negotiated); // another thread may have been first
        }
    }

    pub(super) fn new_connection(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}
