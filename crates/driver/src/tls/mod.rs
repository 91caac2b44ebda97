//! TLS between socket and node.
//!
//! ```text
//!   identity.rs ┐              ┌ session.rs: records ↔ bytes, without I/O and without waiting; for every driver
//!   server.rs   ├─ who we are ─┤
//!   client.rs   ┘  whom to know└ secured.rs: a session over a socket that tells its readiness; for `events` and `threads`
//! ```
//!
//! The protocol is `rustls`'; here it is put to use so that a driver needs no more buffers than without it: an idle connection holds its
//! session and nothing else.

mod client;
mod clients;
mod failure;
mod identity;
mod secured;
mod server;
mod session;

pub use client::{ClientOptions, ClientTls, Negotiated, TlsVersion, Trust};
pub use clients::TlsClients;
pub use failure::TlsSetupError;
pub(crate) use failure::failure_of;
pub use identity::{Identity, IdentityError, Validity};
pub(crate) use secured::{HandshakeStep, Secured};
pub use server::ServerTls;
pub(crate) use session::{Ciphertext, Session};

use std::sync::Arc;
use std::sync::OnceLock;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, NamedGroup};

/// As browsers have it: AES with 128 bits first, which is strong enough and the cheapest where the processor helps.
const SUITE_ORDER: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];

/// The cryptography of servers. It prefers a key exchange that a quantum computer does not break, if the client has sent
/// its part of one.
fn server_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

/// The cryptography of clients. They offer what most servers answer at once, so that a handshake is one round trip: a load is to measure
/// the server's key exchange, and what it costs at the client is not to be most of it.
fn client_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.retain(|group| group.name() != NamedGroup::X25519MLKEM768);
        // The first random numbers of a process take the cryptography some 30 ms, which are not to be those of the first handshake.
        let _ = provider.secure_random.fill(&mut [0; 16]);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !SUITE_ORDER.contains(&suite.suite()));
    provider
}
