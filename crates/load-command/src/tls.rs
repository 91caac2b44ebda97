//! TLS for the load: trusted certificates, and the client's identity.

use std::sync::Arc;

use breme_command::failure::Failure;
use breme_command::tls::{ClientFiles, ClientFlags, IdentityFiles, client};
use breme_driver::{ClientOptions, ClientTls, TlsVersion};
use breme_load_plan::Authority;
use breme_node::TlsFailure;

use super::arguments::LoadArgs;

/// The TLS clients for the hosts, indexed by [`breme_load::tls_client`]. They have no sessions yet.
pub(super) fn clients(
    args: &LoadArgs,
    files: &ClientFiles,
    hosts: &[Authority],
) -> Result<Vec<Arc<ClientTls>>, Failure> {
    if !hosts.iter().any(|host| host.is_tls) {
        return Ok(Vec::new());
    }
    let options = ClientOptions {
        resumption: !args.no_tls_resumption,
        version: args.tls.as_deref().map(|name| if name == "1.2" { TlsVersion::Tls12 } else { TlsVersion::Tls13 }),
        ..files.options()
    };
    let mut clients = Vec::with_capacity(2 * hosts.len());
    for host in hosts {
        // A host without TLS has indexes too, which nothing uses.
        let name = if host.is_tls { host.host.as_str() } else { "localhost" };
        let known = client(name, &options)?;
        let stranger = match args.has_scenario() {
            true => client(name, &ClientOptions { resumption: false, ..options.clone() })?,
            false => Arc::clone(&known),
        };
        clients.extend([known, stranger]);
    }
    Ok(clients)
}

pub(super) fn flags(args: &LoadArgs) -> ClientFlags<'_> {
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

/// A suggestion for the user.
pub(super) fn remedy(failure: TlsFailure) -> &'static str {
    match failure {
        TlsFailure::UnknownAuthority => "trust its issuer with --cacert FILE, or skip the check with --insecure",
        TlsFailure::Expired | TlsFailure::NotYetValid => {
            "renew it, check this machine's clock, or skip the check with --insecure"
        }
        TlsFailure::WrongHost => "use the host of the certificate, or skip the check with --insecure",
        TlsFailure::BadCertificate => "inspect it with `openssl s_client -connect`, or skip the check with --insecure",
        // handshake_failure, protocol_version, insufficient_security
        TlsFailure::NothingInCommon | TlsFailure::Alert(40 | 70 | 71) => {
            "breme supports TLS 1.2 and 1.3; remove --tls, or upgrade the server"
        }
        TlsFailure::NotTls => "use http:// instead of https://, or another port",
        TlsFailure::Alert(116) => "send a client certificate with --cert FILE --key FILE",
        TlsFailure::Alert(_) | TlsFailure::Closed | TlsFailure::Protocol | TlsFailure::NoSuchClient => {
            "see the server's log"
        }
        TlsFailure::TimedOut => "check the server, or raise --timeout",
    }
}
