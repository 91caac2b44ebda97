//! Reloading of settings: the shared state is rebuilt, and each shard switches to it when woken with [`RELOADED`]. So
//! requests pay nothing for it, and no call of a node sees two versions.

use std::sync::Arc;

use breme_cache::Cache;
use parking_lot::Mutex;

use crate::parts::{Parts, SettingsError};
use crate::settings::Settings;
use crate::shared_state::{Role, SharedState};

/// No exchange has this message, since tables are never that large.
pub(crate) const RELOADED: u64 = u64::MAX;

/// The current shared state.
#[derive(Debug)]
pub(crate) struct CurrentState(Mutex<Arc<SharedState>>);

impl CurrentState {
    pub(crate) fn new(shared: SharedState) -> Self {
        Self(Mutex::new(Arc::new(shared)))
    }

    pub(crate) fn shared(&self) -> Arc<SharedState> {
        self.0.lock().clone()
    }

    pub(crate) fn reload(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<(), SettingsError> {
        let mut shared = self.0.lock();
        *shared = Arc::new(shared.reloaded(settings, cache)?);
        Ok(())
    }
}

impl SharedState {
    /// The same with other settings. Counters, clients and the queue are kept.
    pub(crate) fn reloaded(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<Self, SettingsError> {
        let (group, resolver) = match &self.role {
            Role::Reverse { group, .. } => (Some(group.clone()), None),
            Role::Forward { resolver, .. } => (None, Some(resolver.clone())),
        };
        let parts = Parts {
            settings,
            group,
            resolver,
            tls_clients: self.tls_clients.clone(),
            access_log: self.access_log.clone(),
            cache: cache.or_else(|| self.cache.clone()),
            clock: self.clock.clone(),
        };
        let (counters, clients) = (self.counters.clone(), self.clients.clone());
        let (queue, retry_budget) = (self.queue.clone(), self.retry_budget.clone());
        Ok(Self { counters, clients, queue, retry_budget, ..Self::new(parts)? })
    }
}
