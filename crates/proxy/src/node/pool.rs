//! Connections to upstreams that wait for their next request.
//!
//! The one that came last is taken first: the others may grow old and be closed, so that there are never many more than
//! are needed. Only what is provably clean comes in: its last answer was complete, it may stay, and no byte came behind
//! it. What does come while it waits ends it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;

use super::tables::{EndpointKey, ServerKey};

/// Connections that wait in a shard, whatever they were opened to.
const IDLE_MAX: usize = 1024;
/// The same of those that wait for one client.
const OWN_IDLE_MAX: usize = 1024;

/// The pools of a shard.
#[derive(Debug)]
pub(crate) struct Pools {
    by_endpoint: HashMap<EndpointKey, Pool, FixedState>,
    idle_count: usize,
    /// Idle connections that one client has for itself; they are in no pool.
    own_count: usize,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<ServerKey>,
    /// Connections that are open to this endpoint, idle or not.
    open_count: usize,
}

impl Pools {
    pub(crate) fn new(seed: u64) -> Self {
        Self { by_endpoint: HashMap::with_hasher(FixedState::with_seed(seed)), idle_count: 0, own_count: 0 }
    }

    /// A connection is there.
    pub(crate) fn opened(&mut self, endpoint: EndpointKey) {
        self.by_endpoint.entry(endpoint).or_default().open_count += 1;
    }

    /// A connection is gone; it is not idle.
    pub(crate) fn closed(&mut self, endpoint: EndpointKey) {
        if let Entry::Occupied(mut entry) = self.by_endpoint.entry(endpoint) {
            entry.get_mut().open_count -= 1;
            if entry.get().open_count == 0 {
                entry.remove();
            }
        }
    }

    /// The idle connection that was used last.
    pub(crate) fn take(&mut self, endpoint: EndpointKey) -> Option<ServerKey> {
        let key = self.by_endpoint.get_mut(&endpoint)?.idle.pop()?;
        self.idle_count -= 1;
        Some(key)
    }

    /// Keeps a connection for later; false if there are `idle_max` of its kind, or enough of all.
    pub(crate) fn put(&mut self, endpoint: EndpointKey, key: ServerKey, idle_max: usize) -> bool {
        let Some(pool) = self.by_endpoint.get_mut(&endpoint) else { return false };
        if pool.idle.len() >= idle_max || self.idle_count >= IDLE_MAX {
            return false;
        }
        pool.idle.push(key);
        self.idle_count += 1;
        true
    }

    /// One more connection waits for one client only; false if enough do, or none may wait at all.
    pub(crate) fn keep_own(&mut self, idle_max: usize) -> bool {
        let may_stay = idle_max > 0 && self.own_count < OWN_IDLE_MAX;
        self.own_count += usize::from(may_stay);
        may_stay
    }

    /// One of them waits no more.
    pub(crate) fn release_own(&mut self) {
        self.own_count -= 1;
    }

    /// Takes out a connection, if it is idle. Tells whether it was.
    pub(crate) fn remove(&mut self, endpoint: EndpointKey, key: ServerKey) -> bool {
        if let Some(pool) = self.by_endpoint.get_mut(&endpoint)
            && let Some(place) = pool.idle.iter().position(|&idle| idle == key)
        {
            pool.idle.remove(place);
            self.idle_count -= 1;
            return true;
        }
        false
    }

    /// All that are idle.
    pub(crate) fn idle(&self) -> Vec<ServerKey> {
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
    fn the_last_one_is_taken_first_and_only_for_its_endpoint() {
        let mut pools = Pools::new(1);
        let keys = [0, 1, 2].map(ServerKey::of);
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
    fn an_endpoint_is_forgotten_with_its_last_connection() {
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
