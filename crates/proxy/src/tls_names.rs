//! Which of the driver's clients of TLS is for which upstream.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use breme_node::TlsClientId;

/// The driver's clients of TLS, by the names of upstreams. Copies share it, and it may grow while requests come: a name
/// must be here before the balancer chooses it.
#[derive(Clone, Debug, Default)]
pub struct TlsNames(Arc<ArcSwap<HashMap<String, TlsClientId>>>);

impl TlsNames {
    /// The client for an upstream; none if nobody knows how to speak to it.
    #[must_use]
    pub fn client(&self, upstream: &str) -> Option<TlsClientId> {
        self.0.load().get(upstream).copied()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load().len()
    }

    /// From now on this client is for that upstream.
    pub fn insert(&self, upstream: &str, client: TlsClientId) {
        self.0.rcu(|names| {
            let mut names = HashMap::clone(names);
            names.insert(upstream.to_owned(), client);
            names
        });
    }
}
