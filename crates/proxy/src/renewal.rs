//! Other settings while nodes work: what all shards share is made anew, and each shard takes it when it is woken with
//! [`RENEWED`].
//!
//! So a request costs nothing for it, and no call of a node sees two settings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breme_cache::Cache;

use crate::parts::{Parts, SettingsError};
use crate::settings::Settings;
use crate::shared::{Role, Shared};

/// No exchange has this message: tables are never that large.
pub(crate) const RENEWED: u64 = u64::MAX;

/// What is in force.
#[derive(Debug)]
pub(crate) struct InForce(Mutex<Arc<Shared>>);

impl InForce {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Mutex::new(Arc::new(shared)))
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.lock().clone()
    }

    pub(crate) fn renew(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<(), SettingsError> {
        let mut shared = self.lock();
        *shared = Arc::new(shared.renewed(settings, cache)?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The same with other settings; what was counted so far stays, and what is known of clients, and who waits.
    pub(crate) fn renewed(&self, settings: Settings, cache: Option<Arc<Cache>>) -> Result<Self, SettingsError> {
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
