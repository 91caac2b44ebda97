//! TLS for a server: its certificate, and its replacement while the server runs.

use std::path::PathBuf;

use breme_admin::CertificateExpiry;
use breme_driver::{Identity, ServerTls};

use super::flags::TlsFlags;
use super::place::ListenPlace;
use crate::failure::Failure;
use crate::file_check::FileCheck;
use crate::tls::{IdentityFiles, PROTOCOLS, fingerprint};

/// The response to a client that sends HTTP without TLS.
const PLAINTEXT_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 52\r\n\
    Connection: close\r\n\r\nThis port speaks TLS only: use https:// in the URL.\n";

/// The TLS configuration, and its files if they can be read again.
#[derive(Debug)]
pub struct Tls {
    pub server: ServerTls,
    pub expiry: CertificateExpiry,
    pub reloading: Option<Reloading>,
}

/// The files, to be read again.
#[derive(Debug)]
pub struct Reloading {
    role: &'static str,
    tls: ServerTls,
    expiry: CertificateExpiry,
    certificate: PathBuf,
    key: Option<PathBuf>,
    file_check: FileCheck,
}

impl Reloading {
    /// Reads the files again, for new connections. Returns whether they are valid; if not, the old ones stay in use.
    pub fn reload(&mut self) -> bool {
        let role = self.role;
        let files = files(&self.certificate, self.key.as_ref());
        let checked = self.file_check.check([&self.certificate].into_iter().chain(&self.key));
        match checked.and_then(|()| files.identity_with_warning(role)) {
            Ok(identity) => {
                self.tls.replace(&identity);
                self.expiry.set(&identity);
                breme_base::error_line!(
                    "breme {role}: reloaded the certificate, SHA-256 {}",
                    fingerprint(identity.certificate())
                );
                true
            }
            Err(problem) => {
                breme_base::error_line!("breme {role}: {problem}; keeping the old certificate");
                false
            }
        }
    }
}

impl Tls {
    /// The TLS configuration of these places, if any uses TLS.
    pub fn from_flags(role: &'static str, flags: &TlsFlags, places: &[ListenPlace]) -> Result<Option<Self>, Failure> {
        if flags.tls_self_signed {
            let identity = self_signed(places)?;
            breme_base::error_line!(
                "breme {role}: self-signed certificate, SHA-256 {}",
                fingerprint(identity.certificate())
            );
            let expiry = CertificateExpiry::default();
            expiry.set(&identity);
            return Ok(Some(Self { server: server(&identity)?, expiry, reloading: None }));
        }
        let Some(certificate) = &flags.tls_cert else { return Ok(None) };
        let files = files(certificate, flags.tls_key.as_ref());
        let identity = files.identity_with_warning(role).map_err(Failure::usage)?;
        let tls = server(&identity)?;
        let (certificate, key) = (certificate.clone(), flags.tls_key.clone());
        let expiry = CertificateExpiry::default();
        expiry.set(&identity);
        let file_check = FileCheck::default();
        let reloading = Reloading { role, tls: tls.clone(), expiry: expiry.clone(), certificate, key, file_check };
        Ok(Some(Self { server: tls, expiry, reloading: Some(reloading) }))
    }
}

impl TlsFlags {
    /// Checks the certificate and its key, if their names are known yet.
    pub fn check_files(&self) -> Result<(), Failure> {
        let files = self.tls_cert.as_ref().and_then(|certificate| files(certificate, self.tls_key.as_ref()).known());
        files.map_or(Ok(()), |files| files.identity().map(drop).map_err(Failure::usage))
    }
}

fn files<'a>(certificate: &'a PathBuf, key: Option<&'a PathBuf>) -> IdentityFiles<'a> {
    IdentityFiles { certificate_flag: "--tls-cert", certificate, key_flag: "--tls-key", key: key.map(PathBuf::as_path) }
}

fn server(identity: &Identity) -> Result<ServerTls, Failure> {
    let server = ServerTls::new(identity, &PROTOCOLS).map_err(Failure::run)?;
    Ok(server.with_plaintext_response(PLAINTEXT_ANSWER))
}

/// A new certificate for the names of this machine.
fn self_signed(places: &[ListenPlace]) -> Result<Identity, Failure> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(places.iter().filter_map(|place| place.address.tcp()).map(|address| address.ip().to_string()));
    names.extend(host_name());
    names.sort_unstable();
    names.dedup();
    let fault = |problem: String| Failure::run(format!("--tls-self-signed: cannot create a certificate: {problem}"));
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| fault(error.to_string()))?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Identity::from_pem(certificate.as_bytes(), key.as_bytes()).map_err(|error| fault(error.to_string()))
}

/// The hostname from a file of the kernel.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_the_clear_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAINTEXT_ANSWER).unwrap();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", content.len())), "{}", content.len());
    }
}
