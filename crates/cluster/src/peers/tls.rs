//! Certificates of nodes: each is signed by the cluster's own authority.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use parking_lot::RwLock;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig, crypto};

use super::error::PeersError;

/// Names of files in messages.
const CERTIFICATE: &str = "the node's certificate";
const AUTHORITY: &str = "the certificate of the nodes' authority";

/// A node's certificate and the trusted authority. Both can be replaced while the node runs; copies share them.
///
/// A node's certificate names the host of its address, and is valid for servers and clients.
#[derive(Clone)]
pub struct PeerTls(Arc<RwLock<Arc<Credentials>>>);

/// For new connections.
pub(super) struct Credentials {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl PeerTls {
    /// The certificate with its chain up to the authority, its key, and the authority's certificate, in PEM.
    ///
    /// # Errors
    ///
    /// If one of them is invalid, or they do not match. Dates are not checked.
    pub fn from_pem(certificates: &[u8], key: &[u8], authority: &[u8]) -> Result<Self, PeersError> {
        let chain = parse(CERTIFICATE, certificates)?;
        let unreadable = |source| PeersError::Pem { what: "the key of the node's certificate", source };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable)?;
        let mut roots = RootCertStore::empty();
        for certificate in parse(AUTHORITY, authority)? {
            roots.add(certificate).map_err(|source| PeersError::Certificate { what: AUTHORITY, source })?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(crypto::aws_lc_rs::default_provider()));
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build()?;
        let own = |source| PeersError::Certificate { what: CERTIFICATE, source };
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(own)?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(own)?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(own)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key)
            .map_err(own)?;
        // A resumed session skips the certificates, which may have expired. Connections are kept for long anyway.
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        let credentials = Credentials { client: Arc::new(client), server: Arc::new(server), chain, verifier };
        Ok(Self(Arc::new(RwLock::new(Arc::new(credentials)))))
    }

    /// Uses the certificate and the authority of another one for connections from now on. Existing ones continue.
    pub fn replace(&self, other: &Self) {
        let credentials = other.current();
        *self.0.write() = credentials;
    }

    pub(super) fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.0.read())
    }
}

impl Credentials {
    /// Whether this node's certificate is valid now. In TLS 1.3 another node refuses it only after the handshake, when
    /// a request may have been sent, whose outcome would be unknown.
    pub(super) fn check_dates(&self) -> io::Result<()> {
        let Some((own, issuers)) = self.chain.split_first() else { return Ok(()) };
        match self.verifier.verify_client_cert(own, issuers, UnixTime::now()) {
            Err(rustls::Error::InvalidCertificate(problem)) if is_of_dates(&problem) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, InvalidOwn(problem)))
            }
            // Other nodes may trust other authorities.
            _ => Ok(()),
        }
    }
}

/// This node's certificate is not valid now.
#[derive(Debug)]
struct InvalidOwn(CertificateError);

impl fmt::Display for InvalidOwn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = describe(&self.0);
        write!(formatter, "the certificate of this node {problem}: replace the file of --peer-cert and send SIGHUP")
    }
}

impl Error for InvalidOwn {}

/// Describes why this node and another one do not trust each other; none if the error is something else.
pub(super) fn describe_distrust(other: &str, error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(own) = find::<InvalidOwn>(error) {
        return Some(own.to_string());
    }
    match find(error)? {
        rustls::Error::InvalidCertificate(problem) => Some(format!("the certificate of {other} {}", describe(problem))),
        rustls::Error::NoCertificatesPresented => Some(format!("{other} shows no certificate")),
        rustls::Error::AlertReceived(alert) if is_of_certificate(*alert) => {
            Some(format!("{other} does not accept the certificate of this node: {alert:?}"))
        }
        _ => None,
    }
}

/// Whether the other node has refused this node's certificate, and so has received no request.
pub(super) fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    matches!(find(error), Some(rustls::Error::AlertReceived(alert)) if is_of_certificate(*alert))
}

/// The error of this type among the causes of an error.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The source of an I/O error is the one after the error that it was made from.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn is_of_dates(problem: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(problem, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

fn is_of_certificate(alert: AlertDescription) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked, CertificateUnknown,
        DecryptError, UnknownCA, UnsupportedCertificate,
    };
    matches!(
        alert,
        AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | DecryptError
            | UnknownCA
            | UnsupportedCertificate
    )
}

fn describe(problem: &CertificateError) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidForName,
        NotValidForNameContext, NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let text = match problem {
        Expired | ExpiredContext { .. } => "has expired",
        NotValidYet | NotValidYetContext { .. } => "is not valid yet, or a clock is wrong",
        // A wrong signature usually means another authority of the same name.
        UnknownIssuer | BadSignature => "is not signed by the authority of --peer-ca",
        NotValidForName | NotValidForNameContext { .. } => "does not name the host of its address",
        InvalidPurpose | InvalidPurposeContext { .. } => "is not for servers and clients",
        other => return format!("is not valid: {other}"),
    };
    text.to_owned()
}

fn parse(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PeersError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|source| PeersError::Pem { what, source })?;
    if certificates.is_empty() { Err(PeersError::Missing { what }) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_error(error: impl Error + Send + Sync + 'static) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn distrust_names_the_certificate() {
        let invalid = |problem| io_error(rustls::Error::InvalidCertificate(problem));
        let alert = |alert| io_error(rustls::Error::AlertReceived(alert));
        for (error, expected) in [
            (invalid(CertificateError::Expired), "the certificate of b:1 has expired"),
            (invalid(CertificateError::NotValidYet), "the certificate of b:1 is not valid yet, or a clock is wrong"),
            (invalid(CertificateError::Revoked), "the certificate of b:1 is not valid: "),
            (io_error(rustls::Error::NoCertificatesPresented), "b:1 shows no certificate"),
            (
                alert(AlertDescription::CertificateExpired),
                "b:1 does not accept the certificate of this node: CertificateExpired",
            ),
            (io_error(InvalidOwn(CertificateError::Expired)), "the certificate of this node has expired: replace"),
        ] {
            let text = describe_distrust("b:1", &error).unwrap();
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(is_refusal(&error), text.contains("does not accept"), "{text}");
        }
        for other in [alert(AlertDescription::InternalError), io_error(fmt::Error), io::ErrorKind::TimedOut.into()] {
            assert_eq!(describe_distrust("b:1", &other), None);
            assert!(!is_refusal(&other));
        }
    }

    #[test]
    fn an_error_is_found_among_causes() {
        let nested = io_error(io_error(rustls::Error::NoCertificatesPresented));
        assert_eq!(find::<rustls::Error>(&nested), Some(&rustls::Error::NoCertificatesPresented));
    }
}
