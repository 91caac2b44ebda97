//! TLS between socket and node.
//!
//! ```text
//!   identity.rs ┐                 ┌ session.rs (rustls_connection.rs, ciphertext.rs): records ↔ plaintext, without I/O
//!   server.rs   ├─ configuration ─┤
//!   client.rs   │                 └ stream.rs: a session on a socket
//!   trust.rs    ┘
//! ```
//!
//! The protocol is that of `rustls`, used so that no more buffers are needed than without TLS: an idle connection holds
//! its session and nothing else.

mod ciphertext;
mod client;
mod crypto_provider;
mod failure;
mod identity;
mod rustls_connection;
mod server;
mod session;
mod stream;
mod trust;

pub(crate) use ciphertext::Ciphertext;
pub use client::{ClientOptions, ClientTls, Negotiated, TlsClients, TlsVersion};
pub use failure::TlsSetupError;
pub use identity::{CertificateValidity, Identity, IdentityError};
pub use server::ServerTls;
pub(crate) use session::TlsSession;
pub(crate) use stream::{HandshakeStep, TlsStream};
pub use trust::Trust;
