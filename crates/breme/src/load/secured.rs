//! TLS for the load: whose certificates count, and who we are.

use std::sync::Arc;

use breme_driver::{ClientOptions, ClientTls, TlsVersion};
use breme_load::Authority;
use breme_node::TlsFailure;

use super::Args;
use crate::failure::Failure;
use crate::tls::{ClientFlags, IdentityFiles, client};

/// How TLS is spoken with the server, if its URL says so. The files are read in any case, so that a wrong one is found.
/// In the places of [`breme_load::TLS_CLIENT`] and [`breme_load::TLS_STRANGER`].
pub(super) fn clients(args: &Args, authority: &Authority) -> Result<Vec<Arc<ClientTls>>, Failure> {
    let files = flags(args).read()?;
    if !authority.is_tls {
        return Ok(Vec::new());
    }
    let options = ClientOptions {
        resumption: !args.no_tls_resumption,
        version: args.tls.as_deref().map(|name| if name == "1.2" { TlsVersion::Tls12 } else { TlsVersion::Tls13 }),
        ..files.options()
    };
    let mut clients = vec![client(&authority.host, &options)?];
    if args.has_scenario() {
        clients.push(client(&authority.host, &ClientOptions { resumption: false, ..options })?);
    }
    Ok(clients)
}

pub(super) fn flags(args: &Args) -> ClientFlags<'_> {
    let key = args.key.as_deref();
    let identity = |certificate| IdentityFiles { certificate_flag: "--cert", certificate, key_flag: "--key", key };
    ClientFlags {
        command: "load",
        authorities_flag: "--cacert",
        authorities: args.cacert.as_deref(),
        is_insecure: args.insecure,
        identity: args.cert.as_deref().map(identity),
    }
}

/// What the user can do about it.
pub(super) fn remedy(failure: TlsFailure) -> &'static str {
    match failure {
        TlsFailure::UnknownAuthority => "name its authority with --cacert FILE, or load it unchecked with --insecure",
        TlsFailure::Expired | TlsFailure::NotYetValid => {
            "renew it, check this machine's clock, or load it unchecked with --insecure"
        }
        TlsFailure::WrongHost => "write the host that the certificate is for, or load it unchecked with --insecure",
        TlsFailure::BadCertificate => {
            "look at it with `openssl s_client -connect`, or load it unchecked with --insecure"
        }
        // handshake_failure, protocol_version, insufficient_security
        TlsFailure::NothingInCommon | TlsFailure::Alert(40 | 70 | 71) => {
            "TLS 1.2 and 1.3 are spoken here; leave out --tls, or renew the server"
        }
        TlsFailure::NotTls => "write http:// and not https://, or another port",
        TlsFailure::Alert(116) => "show it a certificate with --cert FILE --key FILE",
        TlsFailure::Alert(_) | TlsFailure::Closed | TlsFailure::Protocol | TlsFailure::NoSuchClient => {
            "the server's log may tell more"
        }
        TlsFailure::TimedOut => "check the server, or give it more time with --timeout",
    }
}
