//! TLS between socket and node.
//!
//! ```text
//!   identity.rs ┐               ┌ session.rs (side.rs, ciphertext.rs): records ↔ bytes, without I/O and without waiting; for every driver
//!   server.rs   ├─ who we are,  ┤
//!   client.rs   │  whom to know └ secured.rs: a session over a socket that tells its readiness; for `events` and `threads`
//!   trust.rs    ┘
//! ```
//!
//! The protocol is `rustls`'; here it is put to use so that a driver needs no more buffers than without it: an idle
//! connection holds its session and nothing else.

mod ciphertext;
mod client;
mod clients;
mod cryptography;
mod failure;
mod identity;
mod secured;
mod server;
mod session;
mod side;
mod trust;

pub(crate) use ciphertext::Ciphertext;
pub use client::{ClientOptions, ClientTls, Negotiated, TlsVersion};
pub use clients::TlsClients;
pub use failure::TlsSetupError;
pub use identity::{Identity, IdentityError, Validity};
pub(crate) use secured::{HandshakeStep, Secured};
pub use server::ServerTls;
pub(crate) use session::Session;
pub use trust::Trust;
