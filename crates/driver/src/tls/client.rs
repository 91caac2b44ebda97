//! The client's side: whom to connect to, and how to know them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, SupportedProtocolVersion};

use super::cryptography::client_provider;
use super::failure::{TlsSetupError, is_authority_as_server};
use super::identity::{Identity, IdentityError, certificates_of};

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

/// Whose certificates count.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that these authorities have signed. A certificate that stands in the list itself counts too, also if it is an authority's.
    Authorities(Arc<Authorities>),
    /// Everybody's: nothing is checked but that the server has the key of the certificate that it shows.
    Everybody,
}

/// A list of authorities.
#[derive(Debug)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// The authorities that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are heeded); if it knows none, those of Mozilla's list of
    /// the day on which this program was built.
    #[must_use]
    pub fn of_system() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Self::Authorities(Arc::new(Authorities { roots: Arc::new(roots), certificates: Vec::new() }))
    }

    /// The authorities in a PEM file, and no others.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn of_pem(pem: &[u8]) -> Result<Self, IdentityError> {
        let certificates = certificates_of(pem)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| IdentityError::Certificate(error.to_string()))?;
        }
        Ok(Self::Authorities(Arc::new(Authorities { roots: Arc::new(roots), certificates })))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsSetupError> {
        match self {
            Self::Everybody => Ok(Arc::new(Unchecked(provider))),
            Self::Authorities(authorities) => {
                let roots = Arc::clone(&authorities.roots);
                let chain = WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| TlsSetupError::Unusable(error.to_string()))?;
                Ok(Arc::new(Known { chain, authorities: Arc::clone(authorities) }))
            }
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

/// Checks a certificate as browsers do, and also takes one that the user has named as trusted itself.
#[derive(Debug)]
struct Known {
    chain: Arc<WebPkiServerVerifier>,
    authorities: Arc<Authorities>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chain.verify_server_cert(certificate, others, name, ocsp_response, now) {
            // Many laboratories have a self-signed certificate that says of itself to be an authority's. Its time has been checked by then.
            Err(Error::InvalidCertificate(error))
                if is_authority_as_server(&error) && self.authorities.certificates.contains(certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Believes whatever certificate it is shown.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
