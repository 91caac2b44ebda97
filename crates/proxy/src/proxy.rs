//! A proxy as its program sees it: checked settings, and the factory of its nodes.

use std::sync::Arc;

use breme_cache::Cache;
use breme_node::Shard;

use crate::counters::ProxyCounts;
use crate::node::ProxyNode;
use crate::parts::{Parts, SettingsError};
use crate::renewal::{InForce, RENEWED};
use crate::settings::Settings;
use crate::shared::Shared;

/// A proxy for any number of shards.
#[derive(Clone, Debug)]
pub struct Proxy {
    in_force: Arc<InForce>,
}

impl Proxy {
    /// A proxy of these parts.
    ///
    /// # Errors
    /// When a setting cannot work, or a part is missing that its mode needs.
    pub fn new(parts: Parts) -> Result<Self, SettingsError> {
        Shared::new(parts).map(|shared| Self { in_force: Arc::new(InForce::new(shared)) })
    }

    /// The node of one shard.
    #[must_use]
    pub fn node(&self, shard: Shard) -> ProxyNode {
        ProxyNode::new(self.in_force.clone(), shard)
    }

    /// The message by which a shard takes the settings that have been [renewed](Self::renew).
    pub const RENEWED: u64 = RENEWED;

    /// Whether these settings can work in this proxy.
    ///
    /// # Errors
    /// When they cannot.
    pub fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        self.in_force.shared().renewed(settings.clone(), None).map(drop)
    }

    /// Takes other settings, which hold in a shard from when it is woken with [`Proxy::RENEWED`]; and another cache, if
    /// there is one, which must be [the same with other settings](Cache::with_settings). The mode stays what it is, but
    /// for its rules.
    ///
    /// # Errors
    /// When they cannot work; then nothing changes.
    pub fn renew(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<(), SettingsError> {
        self.in_force.renew(settings, cache)
    }

    /// All that the shards have counted. It disturbs none of them.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        let shared = self.in_force.shared();
        let Shared { clients, queue, counters, retry_budget, .. } = &*shared;
        ProxyCounts {
            retries_denied: retry_budget.denied(),
            requests_limited: clients.requests_limited(),
            connections_limited: clients.connections_limited(),
            requests_queued: queue.joined(),
            queue_length: queue.length(),
            ..counters.counts()
        }
    }
}
