//! Which of the driver's TLS clients connects to which upstream.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use breme_node::TlsClientId;

/// The driver's TLS clients by upstream name. Clones share the table. It may grow at any time; an upstream must be
/// inserted before the balancer chooses it.
#[derive(Clone, Debug, Default)]
pub struct TlsClientIds(Arc<ArcSwap<HashMap<String, TlsClientId>>>);

impl TlsClientIds {
    #[must_use]
    pub fn client(&self, upstream: &str) -> Option<TlsClientId> {
        self.0.load().get(upstream).copied()
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load().len()
    }

    pub fn insert(&self, upstream: &str, client: TlsClientId) {
        self.0.rcu(|ids| {
            let mut ids = HashMap::clone(ids);
            ids.insert(upstream.to_owned(), client);
            ids
        });
    }
}
