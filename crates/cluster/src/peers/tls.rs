//! Certificates of nodes: each is signed by the cluster's own authority.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};

use super::PeersError;

/// A node's certificate and the trusted authority.
///
/// A node's certificate names the host of its address, and is valid for servers and clients.
#[derive(Clone)]
pub struct PeerTls {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl PeerTls {
    /// The certificate with its chain up to the authority, its key, and the authority's certificate, in PEM.
    ///
    /// # Errors
    ///
    /// If one of them is invalid, or they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, PeersError> {
        let chain = parse("the node's certificate", certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| PeersError(format!("the key of the node's certificate cannot be read: {error}")))?;
        let mut roots = RootCertStore::empty();
        for certificate in parse("the certificate of the nodes' authority", authority)? {
            roots.add(certificate).map_err(|error| wrong("the certificate of the nodes' authority", &error))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(crypto::aws_lc_rs::default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| PeersError(format!("the nodes' authority cannot be used: {error}")))?;
        let own = |error| wrong("the node's certificate", &error);
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(own)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(own)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(own)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(own)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn parse(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PeersError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(PeersError(format!("{what} is missing: give it in PEM"))),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(PeersError(format!("{what} cannot be read: {error}"))),
    }
}

fn wrong(what: &str, error: &rustls::Error) -> PeersError {
    PeersError(format!("{what} cannot be used: {error}"))
}
