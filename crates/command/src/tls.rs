//! Common part of TLS flags: files of identities, files of trusted authorities, and ALPN protocols.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use breme_driver::{CertificateValidity, ClientOptions, ClientTls, Identity, IdentityError, Trust};
use breme_sys::read_bounded;
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files::known;

/// Limit of files with certificates or keys: the CA certificates of a large system are about 300 kB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// ALPN protocols (RFC 7301, 6), the preferred one first.
pub(crate) const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Two files and their flags; without a second one, the key is in the first.
#[derive(Clone, Copy, Debug)]
pub struct IdentityFiles<'a> {
    pub certificate_flag: &'static str,
    pub certificate: &'a Path,
    pub key_flag: &'static str,
    pub key: Option<&'a Path>,
}

impl IdentityFiles<'_> {
    /// None if the name of one of them is not known yet.
    pub(crate) fn known(self) -> Option<Self> {
        (known(Some(self.certificate)).is_some() && self.key == known(self.key)).then_some(self)
    }

    pub(crate) fn identity(&self) -> Result<Identity, String> {
        let certificates = read(self.certificate_flag, self.certificate)?;
        let key = self.key.map(|key| read(self.key_flag, key)).transpose()?;
        self.parse(&certificates, key.as_deref().unwrap_or(&certificates))
    }

    /// Parses their contents.
    pub fn parse(&self, certificates: &[u8], key: &[u8]) -> Result<Identity, String> {
        Identity::from_pem(certificates, key).map_err(|error| self.locate(&error))
    }

    fn locate(&self, error: &IdentityError) -> String {
        match self.key {
            Some(key) if error.is_of_key() => format!("{} {}: {error}", self.key_flag, key.display()),
            _ => format!("{} {}: {error}", self.certificate_flag, self.certificate.display()),
        }
    }

    /// Reads them and prints a warning about the certificate, if any.
    pub(crate) fn identity_with_warning(&self, command: &str) -> Result<Identity, String> {
        let identity = self.identity()?;
        self.warn(command, &identity);
        Ok(identity)
    }

    /// Prints a warning about the certificate, if it can be used, but peers will refuse it.
    pub fn warn(&self, command: &str, identity: &Identity) {
        if let Some(problem) = self.problem(identity) {
            breme_base::error_line!("breme {command}: warning: {problem}");
        }
    }

    /// A defect of a certificate that can be used nevertheless.
    fn problem(&self, identity: &Identity) -> Option<String> {
        let problem = match identity.validity() {
            CertificateValidity::Valid => return None,
            CertificateValidity::Expired => "has expired",
            CertificateValidity::NotYetValid => "is not valid yet",
        };
        let (flag, path) = (self.certificate_flag, self.certificate.display());
        Some(format!("{flag} {path}: the certificate {problem}; peers that check it will refuse it"))
    }
}

/// A command's TLS flags as a client: trusted authorities, and its identity.
#[derive(Clone, Copy, Debug)]
pub struct ClientFlags<'a> {
    pub command: &'static str,
    pub authorities_flag: &'static str,
    pub authorities: Option<&'a Path>,
    /// Accept every certificate.
    pub is_insecure: bool,
    /// The client's identity, for servers that request one.
    pub identity: Option<IdentityFiles<'a>>,
}

/// The contents of these files.
#[derive(Debug, Default)]
pub struct ClientFiles {
    identity: Option<Identity>,
    /// The system's CA certificates are read when a server needs them.
    trust: OnceLock<Trust>,
}

impl ClientFlags<'_> {
    /// Reads those files whose names are known (see [`known`]), to check them.
    pub fn check(&self) -> Result<(), Failure> {
        let identity = self.identity.and_then(IdentityFiles::known);
        Self { identity, authorities: known(self.authorities), ..*self }.read().map(drop)
    }

    pub fn read(&self) -> Result<ClientFiles, Failure> {
        let identity = self.identity.map(|files| files.identity_with_warning(self.command)).transpose();
        let identity = identity.map_err(Failure::usage)?;
        let authorities = self.authorities.map(|path| authorities(self.authorities_flag, path)).transpose();
        let authorities = authorities.map_err(Failure::usage)?;
        let named = if self.is_insecure { Some(Trust::AcceptAny) } else { authorities };
        Ok(ClientFiles { identity, trust: named.map_or_else(OnceLock::new, OnceLock::from) })
    }
}

impl ClientFiles {
    /// The client's identity, if it has a certificate.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// TLS options: the highest common version, with session resumption.
    pub fn options(&self) -> ClientOptions<'_> {
        let trust = self.trust.get_or_init(Trust::system).clone();
        let identity = self.identity.as_ref();
        ClientOptions { trust, identity, protocols: &PROTOCOLS, resumption: true, version: None }
    }
}

/// The client of one host.
pub fn client(host: &str, options: &ClientOptions<'_>) -> Result<Arc<ClientTls>, Failure> {
    ClientTls::new(host, options).map(Arc::new).map_err(Failure::usage)
}

/// The trusted authorities in a file named by a flag.
fn authorities(flag: &str, path: &Path) -> Result<Trust, String> {
    let pem = read(flag, path)?;
    Trust::from_pem(&pem).map_err(|error| format!("{flag} {}: {error}", path.display()))
}

/// Reads a file named by a flag.
fn read(flag: &str, path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(path, FILE_BYTES_MAX).map_err(|error| format!("{flag} {}: cannot be read: {error}", path.display()))
}

/// The SHA-256 of a certificate, in the format of browsers and `openssl x509 -fingerprint -sha256`.
pub fn fingerprint(certificate: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(certificate) {
        let separator = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{separator}{byte:02X}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_the_usual_form() {
        assert_eq!(
            fingerprint(b""),
            "E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55"
        );
    }
}
