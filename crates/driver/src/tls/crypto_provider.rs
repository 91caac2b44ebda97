//! Cipher suites and key exchanges, in order of preference.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, NamedGroup};

/// As in browsers: 128-bit AES first, strong enough and cheapest with hardware support.
const SUITE_ORDER: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];

/// For servers: prefers a post-quantum key exchange if the client offers a key share for it.
pub(super) fn server_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

/// For clients: offers what most servers accept without a retry, so that a handshake takes one round trip. Load tests
/// measure the server's key exchange, which must not be dominated by the client's.
pub(super) fn client_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let mut provider = provider();
        provider.kx_groups.retain(|group| group.name() != NamedGroup::X25519MLKEM768);
        // Initialising the random generator takes about 30 ms, which must not delay the first handshake.
        let _ = provider.secure_random.fill(&mut [0; 16]);
        Arc::new(provider)
    });
    Arc::clone(provider)
}

pub(super) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !SUITE_ORDER.contains(&suite.suite()));
    provider
}
