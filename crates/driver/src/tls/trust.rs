//! How a client knows the server that it speaks to: whose certificates count.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::failure::{TlsSetupError, is_authority_as_server};
use super::identity::{IdentityError, certificates_of};

/// Whose certificates count.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that these authorities have signed. A certificate that stands in the list itself counts too, also if it is
    /// an authority's.
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
    /// The authorities that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are heeded); if it knows none,
    /// those of Mozilla's list of the day on which this program was built.
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

    pub(super) fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsSetupError> {
        let algorithms = provider.signature_verification_algorithms;
        let known = match self {
            Self::Everybody => None,
            Self::Authorities(authorities) => Some(Known::new(authorities, provider)?),
        };
        Ok(Arc::new(Verifier { known, algorithms }))
    }
}

/// Checks the certificate that a server shows, and that the server has its key.
#[derive(Debug)]
struct Verifier {
    /// None: whatever certificate is shown is believed.
    known: Option<Known>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Checks a certificate as browsers do, and also takes one that the user has named as trusted itself.
#[derive(Debug)]
struct Known {
    chain: Arc<WebPkiServerVerifier>,
    authorities: Arc<Authorities>,
}

impl Known {
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
        let Some(Known { chain, authorities }) = &self.known else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, others, name, ocsp_response, now) {
            // Many laboratories have a self-signed certificate that says of itself to be an authority's. Its time has
            // been checked by then.
            Err(Error::InvalidCertificate(error))
                if is_authority_as_server(&error) && authorities.certificates.contains(certificate) =>
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
