//! TLS to PostgreSQL: `sslmode` and `sslrootcert` of a URL, compatible with libpq as far as possible.
//!
//! | `sslmode` | connections over TCP |
//! |---|---|
//! | `disable` | without TLS |
//! | `prefer`, the default | with TLS if the server offers it; its certificate is not verified |
//! | `require` | with TLS; the certificate is not verified |
//! | `verify-full` | with TLS; the certificate must have the host's name, and be issued by an authority of the file `sslrootcert`, or of the system |
//!
//! Connections over a Unix socket have no TLS.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The value that selects the system's authorities.
const SYSTEM: &str = "system";

/// A URL with which no connection can be opened.
#[derive(Debug, Error)]
pub(super) enum ConfigError {
    #[error("{0}{source}; a URL looks like postgres://USER:PASSWORD@HOST/DATABASE", source = source_of(.0))]
    Url(#[from] tokio_postgres::Error),
    #[error("sslmode={0}: write disable, prefer, require or verify-full")]
    Mode(String),
    #[error("sslrootcert: only sslmode=verify-full verifies certificates; add it")]
    UnverifiedAuthorities,
    #[error("sslmode=verify-full: this system has no list of authorities; name a file with sslrootcert=FILE")]
    NoAuthorities,
    #[error("sslrootcert={file}: {problem}")]
    Authorities { file: String, problem: AuthoritiesProblem },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What is wrong with a file of authorities.
#[derive(Debug, Error)]
pub(super) enum AuthoritiesProblem {
    #[error(transparent)]
    Pem(#[from] pem::Error),
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
    #[error("the file has no certificate in PEM format")]
    Empty,
}

fn source_of(error: &dyn std::error::Error) -> String {
    error.source().map(|source| format!(": {source}")).unwrap_or_default()
}

/// Parses a URL, and how its connections are secured.
pub(super) fn configure(url: &str) -> Result<(Config, MakeRustlsConnect), ConfigError> {
    let (url, parameters) = without_tls_parameters(url);
    let mut config: Config = url.parse()?;
    let (mode, is_verified) = match parameters.mode.as_deref() {
        Some("disable") => (SslMode::Disable, false),
        Some("prefer") | None => (SslMode::Prefer, false),
        Some("require") => (SslMode::Require, false),
        Some("verify-full") => (SslMode::Require, true),
        Some(other) => return Err(ConfigError::Mode(other.to_owned())),
    };
    if parameters.authorities.is_some() && !is_verified {
        return Err(ConfigError::UnverifiedAuthorities);
    }
    let is_local =
        config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    config.ssl_mode(if is_local { SslMode::Disable } else { mode });
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let client = if is_verified && !is_local {
        builder.with_root_certificates(authorities(parameters.authorities.as_deref())?).with_no_client_auth()
    } else {
        let any = Arc::new(Unverified(provider()));
        builder.dangerous().with_custom_certificate_verifier(any).with_no_client_auth()
    };
    Ok((config, MakeRustlsConnect::new(client)))
}

#[derive(Debug, Default, PartialEq)]
struct TlsParameters {
    mode: Option<String>,
    authorities: Option<String>,
}

/// The URL without the parameters handled here; of several with one name, the last counts.
fn without_tls_parameters(url: &str) -> (String, TlsParameters) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), TlsParameters::default()) };
    let mut parameters = TlsParameters::default();
    let mut others = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = || Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
        match name {
            "sslmode" => parameters.mode = value(),
            "sslrootcert" => parameters.authorities = value(),
            _ => others.push(pair),
        }
    }
    (format!("{address}?{}", others.join("&")), parameters)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The authorities in a file, or those of the system.
fn authorities(file: Option<&str>) -> Result<RootCertStore, ConfigError> {
    let Some(file) = file.filter(|file| *file != SYSTEM) else {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if store.is_empty() { Err(ConfigError::NoAuthorities) } else { Ok(store) };
    };
    authorities_in(file).map_err(|problem| ConfigError::Authorities { file: file.to_owned(), problem })
}

fn authorities_in(file: &str) -> Result<RootCertStore, AuthoritiesProblem> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        store.add(certificate?)?;
    }
    if store.is_empty() { Err(AuthoritiesProblem::Empty) } else { Ok(store) }
}

/// Accepts any certificate, as long as the server has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_out_of_a_url() {
        let taken = |mode: &str, authorities: &str| TlsParameters {
            mode: Some(mode.to_owned()),
            authorities: Some(authorities.to_owned()),
        };
        assert_eq!(
            without_tls_parameters("postgres://a@b/c?host=d&sslmode=verify-full&user=e&sslrootcert=%2Fca%20x.pem"),
            ("postgres://a@b/c?host=d&user=e".to_owned(), taken("verify-full", "/ca x.pem"))
        );
        assert_eq!(without_tls_parameters("postgres://a/b").1, TlsParameters::default());
    }

    #[test]
    fn modes_are_those_of_libpq() {
        let mode = |url: &str| configure(url).map(|(config, _)| config.get_ssl_mode());
        assert_eq!(mode("postgres://a/b").unwrap(), SslMode::Prefer);
        assert_eq!(mode("postgres://a/b?sslmode=disable").unwrap(), SslMode::Disable);
        assert_eq!(mode("postgres://a/b?sslmode=require").unwrap(), SslMode::Require);
        assert_eq!(mode("postgres:///b?host=/run/postgresql&sslmode=require").unwrap(), SslMode::Disable);
        for (wrong, problem) in [
            ("sslmode=verify-ca", "write disable, prefer, require or verify-full"),
            ("sslmode=require&sslrootcert=/x", "only sslmode=verify-full"),
            ("sslmode=verify-full&sslrootcert=/no/such/file", "sslrootcert=/no/such/file: "),
            ("sslmode=verify-full&sslrootcert=/dev/null", "has no certificate"),
        ] {
            let message = mode(&format!("postgres://a/b?{wrong}")).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
    }
}
