//! Which server certificates a client accepts.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::failure::{TlsSetupError, is_ca_as_server};
use super::identity::{IdentityError, certificates_of};

/// The server certificates that a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those signed by these authorities. A listed certificate itself is accepted too, even if it is a CA certificate.
    Authorities(Arc<Authorities>),
    /// Any certificate, if the server has its key.
    AcceptAny,
}

/// The certificates of [`Trust::Authorities`].
#[derive(Debug)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// The system's authorities (honours `SSL_CERT_FILE` and `SSL_CERT_DIR`), or Mozilla's list as of the build if
    /// there are none.
    #[must_use]
    pub fn system() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Self::Authorities(Arc::new(Authorities { roots: Arc::new(roots), certificates: Vec::new() }))
    }

    /// Only the authorities in a PEM file.
    ///
    /// # Errors
    /// If there is none, or one is invalid.
    pub fn from_pem(pem: &[u8]) -> Result<Self, IdentityError> {
        let certificates = certificates_of(pem)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| IdentityError::Certificate(error.to_string()))?;
        }
        Ok(Self::Authorities(Arc::new(Authorities { roots: Arc::new(roots), certificates })))
    }

    pub(super) fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsSetupError> {
        let algorithms = provider.signature_verification_algorithms;
        let verifier = match self {
            Self::AcceptAny => None,
            Self::Authorities(authorities) => Some(ChainVerifier::new(authorities, provider)?),
        };
        Ok(Arc::new(Verifier { verifier, algorithms }))
    }
}

#[derive(Debug)]
struct Verifier {
    /// None: any certificate is accepted.
    verifier: Option<ChainVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Verifies like browsers, but also accepts certificates that the user listed.
#[derive(Debug)]
struct ChainVerifier {
    chain: Arc<WebPkiServerVerifier>,
    authorities: Arc<Authorities>,
}

impl ChainVerifier {
    fn new(authorities: &Arc<Authorities>, provider: Arc<CryptoProvider>) -> Result<Self, TlsSetupError> {
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::clone(&authorities.roots), provider)
            .build()
            .map_err(|error| TlsSetupError::Unusable(error.to_string()))?;
        Ok(Self { chain, authorities: Arc::clone(authorities) })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(ChainVerifier { chain, authorities }) = &self.verifier else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(certificate, others, name, ocsp_response, now) {
            // Self-signed certificates often claim to be a CA. The dates have been checked by then.
            Err(Error::InvalidCertificate(error))
                if is_ca_as_server(&error) && authorities.certificates.contains(certificate) =>
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
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
