//! Idle connections to upstreams.
//!
//! The most recently used one is taken first, so that the others age out and no more stay open than are needed. Only
//! clean connections enter: the last response was complete, the connection is persistent, and no byte followed the
//! response. Any byte received while idle closes the connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;

use super::keys::{EndpointKey, UpstreamKey};

/// Idle connections of a shard.
const IDLE_MAX: usize = 1024;
/// Idle connections of a shard that are reserved for one client.
const OWN_IDLE_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Pools {
    by_endpoint: HashMap<EndpointKey, Pool, FixedState>,
    idle_count: usize,
    /// Reserved idle connections; they are in no pool.
    own_count: usize,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<UpstreamKey>,
    /// Connections open to this endpoint, idle or not.
    open_count: usize,
}

impl Pools {
    pub(crate) fn new(seed: u64) -> Self {
        Self { by_endpoint: HashMap::with_hasher(FixedState::with_seed(seed)), idle_count: 0, own_count: 0 }
    }

    pub(crate) fn opened(&mut self, endpoint: EndpointKey) {
        self.by_endpoint.entry(endpoint).or_default().open_count += 1;
    }

    pub(crate) fn closed(&mut self, endpoint: EndpointKey) {
        if let Entry::Occupied(mut entry) = self.by_endpoint.entry(endpoint) {
            entry.get_mut().open_count -= 1;
            if entry.get().open_count == 0 {
                entry.remove();
            }
        }
    }

    pub(crate) fn take(&mut self, endpoint: EndpointKey) -> Option<UpstreamKey> {
        let key = self.by_endpoint.get_mut(&endpoint)?.idle.pop()?;
        self.idle_count -= 1;
        Some(key)
    }

    /// Adds an idle connection; false if there are `idle_max` of this endpoint, or [`IDLE_MAX`] of all.
    pub(crate) fn put(&mut self, endpoint: EndpointKey, key: UpstreamKey, idle_max: usize) -> bool {
        let Some(pool) = self.by_endpoint.get_mut(&endpoint) else { return false };
        if pool.idle.len() >= idle_max || self.idle_count >= IDLE_MAX {
            return false;
        }
        pool.idle.push(key);
        self.idle_count += 1;
        true
    }

    /// Counts a reserved connection; false if there are too many, or if connections are not kept.
    pub(crate) fn keep_own(&mut self, idle_max: usize) -> bool {
        let may_stay = idle_max > 0 && self.own_count < OWN_IDLE_MAX;
        self.own_count += usize::from(may_stay);
        may_stay
    }

    /// A reserved connection is in use or closed.
    pub(crate) fn release_own(&mut self) {
        self.own_count -= 1;
    }

    /// Removes a connection. Returns whether it was idle.
    pub(crate) fn remove(&mut self, endpoint: EndpointKey, key: UpstreamKey) -> bool {
        if let Some(pool) = self.by_endpoint.get_mut(&endpoint)
            && let Some(position) = pool.idle.iter().position(|&idle| idle == key)
        {
            pool.idle.remove(position);
            self.idle_count -= 1;
            return true;
        }
        false
    }

    pub(crate) fn idle(&self) -> Vec<UpstreamKey> {
        self.by_endpoint.values().flat_map(|pool| pool.idle.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(last: u8) -> EndpointKey {
        EndpointKey { address: ([10, 0, 0, last], 80).into(), tls: None }
    }

    #[test]
    fn reuses_the_last_connection_of_an_endpoint() {
        let mut pools = Pools::new(1);
        let keys = [0, 1, 2].map(UpstreamKey::new);
        for _ in keys {
            pools.opened(endpoint(1));
        }
        assert!(pools.put(endpoint(1), keys[0], 2) && pools.put(endpoint(1), keys[1], 2));
        assert!(!pools.put(endpoint(1), keys[2], 2), "there are enough");
        assert!(!pools.put(endpoint(2), keys[2], 2), "none is open there");
        assert_eq!(pools.take(endpoint(2)), None);
        assert_eq!(pools.take(endpoint(1)), Some(keys[1]));
        assert!(pools.remove(endpoint(1), keys[0]) && !pools.remove(endpoint(1), keys[0]));
        assert_eq!(pools.take(endpoint(1)), None);
    }

    #[test]
    fn removes_endpoint_with_its_last_connection() {
        let mut pools = Pools::new(1);
        pools.opened(endpoint(1));
        pools.opened(endpoint(1));
        pools.closed(endpoint(1));
        assert_eq!(pools.by_endpoint.len(), 1);
        pools.closed(endpoint(1));
        pools.closed(endpoint(1));
        assert!(pools.by_endpoint.is_empty());
    }
}
