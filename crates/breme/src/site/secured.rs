//! TLS for the site: whose certificate is shown, and how it is exchanged while the site serves.

use std::net::SocketAddr;
use std::path::PathBuf;

use breme_driver::{Identity, ServerTls};

use super::Args;
use crate::failure::Failure;
use crate::tls::{IdentityFiles, PROTOCOLS, fingerprint};

/// What a client hears that speaks HTTP without TLS.
const PLAINTEXT_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 58\r\n\
    Connection: close\r\n\r\nThis port speaks TLS only: ask for https:// and not http:\n";

/// Where a listener is, and whether TLS is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    pub(super) is_secured: bool,
}

impl Place {
    pub(super) fn scheme(self) -> &'static str {
        if self.is_secured { "https" } else { "http" }
    }
}

/// The files, so that they can be read again.
#[derive(Debug)]
pub(super) struct Reloading {
    tls: ServerTls,
    certificate: PathBuf,
    key: Option<PathBuf>,
}

impl Reloading {
    /// Reads the files again. Connections that there are go on.
    pub(super) fn reload(&self) {
        let files = files(&self.certificate, self.key.as_ref());
        match files.identity() {
            Ok(identity) => {
                warn(files.warning(&identity));
                self.tls.replace(&identity);
                eprintln!("breme site: new certificate, SHA-256 {}", fingerprint(identity.certificate()));
            }
            Err(problem) => eprintln!("breme site: {problem}; the old certificate stays"),
        }
    }
}

/// How TLS is spoken, if it is.
pub(super) fn of(args: &Args) -> Result<Option<(ServerTls, Option<Reloading>)>, Failure> {
    if args.tls_self_signed {
        let identity = self_signed(args)?;
        eprintln!("breme site: self-signed certificate, SHA-256 {}", fingerprint(identity.certificate()));
        return Ok(Some((server(&identity)?, None)));
    }
    let Some(certificate) = &args.tls_cert else { return Ok(None) };
    let files = files(certificate, args.tls_key.as_ref());
    let identity = files.identity().map_err(Failure::run)?;
    warn(files.warning(&identity));
    let tls = server(&identity)?;
    let reloading = Reloading { tls: tls.clone(), certificate: certificate.clone(), key: args.tls_key.clone() };
    Ok(Some((tls, Some(reloading))))
}

fn files<'a>(certificate: &'a PathBuf, key: Option<&'a PathBuf>) -> IdentityFiles<'a> {
    IdentityFiles { certificate_flag: "--tls-cert", certificate, key_flag: "--tls-key", key: key.map(PathBuf::as_path) }
}

fn server(identity: &Identity) -> Result<ServerTls, Failure> {
    let server = ServerTls::new(identity, &PROTOCOLS).map_err(|error| Failure::run(error.to_string()))?;
    Ok(server.answering_plaintext_with(PLAINTEXT_ANSWER))
}

fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        eprintln!("breme site: warning: {warning}");
    }
}

/// A new certificate for the names by which this machine is reached in a laboratory.
fn self_signed(args: &Args) -> Result<Identity, Failure> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(args.places()?.into_iter().map(|place| place.address.ip().to_string()));
    names.extend(host_name());
    names.sort_unstable();
    names.dedup();
    let fault = |problem: String| Failure::run(format!("--tls-self-signed: no certificate could be made: {problem}"));
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| fault(error.to_string()))?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Identity::from_pem(certificate.as_bytes(), key.as_bytes()).map_err(|error| fault(error.to_string()))
}

/// The machine's name, where the kernel tells it in a file.
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
