//! The certificate by which other nodes know this one, and its replacement while the node runs.

use std::path::{Path, PathBuf};

use breme_admin::CertificateExpiry;
use breme_cluster::peers::PeerTls;
use breme_command::failure::Failure;
use breme_command::file_check::FileCheck;
use breme_command::tls::{IdentityFiles, fingerprint};
use breme_driver::Identity;

use super::arguments::{ROLE, SessionArgs};
use super::secrets::read;

/// The files, to be read again.
pub(super) struct PeerIdentity {
    pub(super) tls: PeerTls,
    pub(super) expiry: CertificateExpiry,
    files: Files,
    file_check: FileCheck,
}

/// The paths of `--peer-cert`, `--peer-key` and `--peer-ca`.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
}

impl PeerIdentity {
    /// The one named by the flags, if any.
    pub(super) fn new(args: &SessionArgs) -> Result<Option<Self>, Failure> {
        let (Some(certificate), Some(key), Some(authority)) = (&args.peer_cert, &args.peer_key, &args.peer_ca) else {
            return Ok(None);
        };
        let files = Files { certificate: certificate.clone(), key: key.clone(), authority: authority.clone() };
        let (tls, identity) = files.read().map_err(Failure::usage)?;
        let expiry = CertificateExpiry::default();
        expiry.set(&identity);
        Ok(Some(Self { tls, expiry, files, file_check: FileCheck::default() }))
    }

    /// Reads the files again, for new connections. Returns whether they are valid; if not, the old ones stay in use.
    pub(super) fn reload(&mut self) -> bool {
        let Files { certificate, key, authority } = &self.files;
        let checked = self.file_check.check([certificate, key, authority]);
        match checked.and_then(|()| self.files.read()) {
            Ok((tls, identity)) => {
                self.tls.replace(&tls);
                self.expiry.set(&identity);
                let print = fingerprint(identity.certificate());
                breme_base::error_line!("breme {ROLE}: reloaded the certificate for other nodes, SHA-256 {print}");
                true
            }
            Err(problem) => {
                breme_base::error_line!("breme {ROLE}: {problem}; keeping the old certificate for other nodes");
                false
            }
        }
    }
}

impl Files {
    fn read(&self) -> Result<(PeerTls, Identity), String> {
        let read = |flag, path: &Path| read(flag, path).map_err(|failure| failure.message);
        let certificates = read("--peer-cert", &self.certificate)?;
        let key = read("--peer-key", &self.key)?;
        let authority = read("--peer-ca", &self.authority)?;
        let files = IdentityFiles {
            certificate_flag: "--peer-cert",
            certificate: &self.certificate,
            key_flag: "--peer-key",
            key: Some(&self.key),
        };
        let identity = files.parse(&certificates, &key)?;
        let tls = PeerTls::from_pem(&certificates, &key, &authority).map_err(|error| error.to_string())?;
        files.warn(ROLE, &identity);
        Ok((tls, identity))
    }
}
