//! The driver's TLS clients by upstream.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use breme_node::TlsClientId;

/// The driver's TLS clients by upstream name. Copies share the table. It may grow at any time: a name must be inserted
/// before the balancer chooses it.
#[derive(Clone, Debug, Default)]
pub struct TlsNames(Arc<ArcSwap<HashMap<String, TlsClientId>>>);

impl TlsNames {
    #[must_use]
    pub fn client(&self, upstream: &str) -> Option<TlsClientId> {
        self.0.load().get(upstream).copied()
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load().len()
    }

    pub fn insert(&self, upstream: &str, client: TlsClientId) {
        self.0.rcu(|names| {
            let mut names = HashMap::clone(names);
            names.insert(upstream.to_owned(), client);
            names
        });
    }
}
