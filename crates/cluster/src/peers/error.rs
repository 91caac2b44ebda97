//! What is wrong with the nodes' means to communicate.

use http::header::InvalidHeaderValue;
use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use thiserror::Error;

/// Minimum length of the secret of nodes on one machine.
pub const SECRET_MIN: usize = 16;

/// Why nodes cannot communicate, with the remedy.
#[derive(Debug, Error)]
pub enum PeersError {
    #[error("the nodes' secret has {0} bytes: give at least {min}", min = SECRET_MIN)]
    ShortSecret(usize),
    #[error("the nodes' secret cannot be sent: {0}")]
    Secret(#[from] InvalidHeaderValue),
    #[error("{what} is missing: give it in PEM")]
    Missing { what: &'static str },
    #[error("{what} cannot be read: {source}")]
    Pem { what: &'static str, source: pem::Error },
    #[error("{what} cannot be used: {source}")]
    Certificate { what: &'static str, source: rustls::Error },
    #[error("the nodes' authority cannot be used: {0}")]
    Authority(#[from] VerifierBuilderError),
}

/// An address to which no session is sent, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    #[error("`{0}` is no address of a node: give a host and a port")]
    Invalid(String),
    #[error("`{0}` is no address of a node: a port is missing")]
    NoPort(String),
    #[error("nodes would send sessions to `{0}` in plain text: give the nodes certificates, or use 127.0.0.1")]
    PlainText(String),
}
