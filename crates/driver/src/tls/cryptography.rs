//! Which cryptography is offered and accepted, and what of it is preferred.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, NamedGroup};

/// As browsers have it: AES with 128 bits first, which is strong enough and the cheapest where the processor helps.
const SUITE_ORDER: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];

/// The cryptography of servers. It prefers a key exchange that a quantum computer does not break, if the client has
/// sent its part of one.
pub(super) fn server_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

/// The cryptography of clients. They offer what most servers answer at once, so that a handshake is one round trip: a
/// load is to measure the server's key exchange, and what it costs at the client is not to be most of it.
pub(super) fn client_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.retain(|group| group.name() != NamedGroup::X25519MLKEM768);
        // The first random numbers of a process take the cryptography some 30 ms, which are not to be those of the
        // first handshake.
        let _ = provider.secure_random.fill(&mut [0; 16]);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

/// That of both.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !SUITE_ORDER.contains(&suite.suite()));
    provider
}
