//! A proxy as its program sees it.

use std::sync::Arc;

use breme_cache::Cache;
use breme_node::Shard;

use crate::counters::ProxyCounts;
use crate::node::ProxyNode;
use crate::parts::{Parts, SettingsError};
use crate::reload::{CurrentState, RELOADED};
use crate::settings::Settings;
use crate::shared_state::SharedState;

/// A proxy for any number of shards.
#[derive(Clone, Debug)]
pub struct Proxy {
    current: Arc<CurrentState>,
}

impl Proxy {
    /// # Errors
    /// If a setting is invalid, or a part is missing that its mode needs.
    pub fn new(parts: Parts) -> Result<Self, SettingsError> {
        SharedState::new(parts).map(|shared| Self { current: Arc::new(CurrentState::new(shared)) })
    }

    #[must_use]
    pub fn node(&self, shard: Shard) -> ProxyNode {
        ProxyNode::new(self.current.clone(), shard)
    }

    /// The message that makes a shard apply [reloaded](Self::reload) settings.
    pub const RELOADED: u64 = RELOADED;

    /// # Errors
    /// If the settings are invalid for this proxy.
    pub fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        self.current.shared().reloaded(settings.clone(), None).map(drop)
    }

    /// Replaces the settings; a shard applies them when it is woken with [`Proxy::RELOADED`]. A new cache must be [this
    /// one with other settings](Cache::with_settings). The mode cannot change, except for its rules.
    ///
    /// # Errors
    /// If they are invalid; then nothing changes.
    pub fn reload(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<(), SettingsError> {
        self.current.reload(settings, cache)
    }

    /// The counters of all shards, read without disturbing them.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        let shared = self.current.shared();
        let SharedState { clients, queue, counters, retry_budget, .. } = &*shared;
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
