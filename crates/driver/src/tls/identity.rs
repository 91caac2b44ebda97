//! Certificate chain and private key.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

use super::crypto_provider::{provider, server_provider};

/// A certificate chain and the private key of its first certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) key: Arc<PrivateKeyDer<'static>>,
}

/// Why the file of a certificate chain or of a key is unusable. The messages continue a sentence that begins with the
/// name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("contains no certificate; it must be PEM, with a line -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    #[error("contains no private key; it must be PEM, with a line -----BEGIN PRIVATE KEY-----")]
    NoKey,
    #[error(
        "is encrypted, and there is no way to enter a password; decrypt it with `openssl pkey -in FILE -out DECRYPTED`"
    )]
    EncryptedKey,
    #[error("is not valid PEM: {0}")]
    Pem(String),
    #[error("contains an unusable key ({0}); use ECDSA, Ed25519 or RSA of at least 2048 bits")]
    Key(String),
    #[error("is not the key of the certificate; the two must belong together")]
    KeyMismatch,
    #[error("contains an unreadable certificate: {0}")]
    Certificate(String),
}

impl IdentityError {
    /// Whether the key file is the cause, not the certificate file.
    #[must_use]
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey | Self::EncryptedKey | Self::Key(_) | Self::KeyMismatch)
    }
}

/// Whether the dates of a certificate include the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateValidity {
    Valid,
    Expired,
    NotYetValid,
}

impl Identity {
    /// Parses PEM; the key may be in the same file. The server's certificate comes first, then its issuers.
    ///
    /// # Errors
    /// If a part is missing or invalid, or key and certificate do not match. Authority, dates and names are not
    /// checked.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain = certificates_of(certificates)?;
        let key = key_of(key)?;
        Self::new(chain, key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, IdentityError> {
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => IdentityError::KeyMismatch,
            Error::InvalidCertificate(error) => IdentityError::Certificate(format!("{error:?}")),
            other => IdentityError::Key(other.to_string()),
        })?;
        Ok(Self { certified: Arc::new(certified), key: Arc::new(key) })
    }

    /// The first certificate, in DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        self.certified.cert.first().map_or(&[], AsRef::as_ref)
    }

    /// Expiry of the first certificate, in Unix seconds.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        expires_at(&self.certified.cert)
    }

    /// Validity of the first certificate now.
    #[must_use]
    pub fn validity(&self) -> CertificateValidity {
        match check_time(&self.certified.cert, UnixTime::now()) {
            Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
                CertificateValidity::Expired
            }
            Err(Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            )) => CertificateValidity::NotYetValid,
            _ => CertificateValidity::Valid,
        }
    }
}

/// Expiry of the first certificate of a chain, in Unix seconds.
pub(super) fn expires_at(chain: &[CertificateDer<'_>]) -> Option<u64> {
    // Later than any expiry date (RFC 5280, 4.1.2.5), so that the verifier's error contains the date.
    const FAR: Duration = Duration::from_secs(1 << 40);
    match check_time(chain, UnixTime::since_unix_epoch(FAR)) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Some(not_after.as_secs()),
        _ => None,
    }
}

/// The verifier checks dates first, so its other errors can be ignored.
fn check_time(chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
    let Some((first, others)) = chain.split_first() else { return Ok(()) };
    let mut roots = RootCertStore::empty();
    roots.add(first.clone())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), server_provider())
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    let any_name = ServerName::try_from("name.invalid").map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_server_cert(first, others, &any_name, &[], now).map(drop)
}

pub(crate) fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| IdentityError::Pem(error.to_string()))?;
    if chain.is_empty() { Err(IdentityError::NoCertificate) } else { Ok(chain) }
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>, IdentityError> {
    let contains = |words: &[u8]| pem.windows(words.len()).any(|window| window == words);
    if contains(b"BEGIN ENCRYPTED PRIVATE KEY") || contains(b"Proc-Type: 4,ENCRYPTED") {
        return Err(IdentityError::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound => IdentityError::NoKey,
        other => IdentityError::Pem(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(from: i32, to: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn error(certificates: &str, key: &str) -> IdentityError {
        Identity::from_pem(certificates.as_bytes(), key.as_bytes()).unwrap_err()
    }

    #[test]
    fn identity_errors_are_distinct() {
        let (certificate, key) = made(2000, 4000);
        let (_, other_key) = made(2000, 4000);
        assert_eq!(error("", &key), IdentityError::NoCertificate);
        assert_eq!(error(&key, &key), IdentityError::NoCertificate);
        assert_eq!(error(&certificate, &certificate), IdentityError::NoKey);
        assert_eq!(error(&certificate, &other_key), IdentityError::KeyMismatch);
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        assert_eq!(error(&certificate, &encrypted), IdentityError::EncryptedKey);
        assert!(matches!(error(&certificate[..100], &key), IdentityError::Pem(_)));
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(error(garbage, &key), IdentityError::Certificate(_)));
        assert!(Identity::from_pem((certificate.clone() + &key).as_bytes(), (certificate + &key).as_bytes()).is_ok());
    }

    #[test]
    fn detects_certificate_validity() {
        for (from, to, expected, expires_at) in [
            (2000, 2001, CertificateValidity::Expired, 978_307_200),
            (2000, 4000, CertificateValidity::Valid, 64_060_588_800),
            (3999, 4000, CertificateValidity::NotYetValid, 64_060_588_800),
        ] {
            let (certificate, key) = made(from, to);
            let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
            assert_eq!((identity.validity(), identity.expires_at()), (expected, Some(expires_at)));
        }
    }
}
