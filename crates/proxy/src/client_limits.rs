//! Limits of each client: connections, and the rate of requests.
//!
//! A client is an address; of IPv6 the first 64 bits, since the owner of one such address has its whole network. The
//! clients of Unix sockets, which have no address (None below), count as one.
//!
//! Clients are kept in a bounded table shared by all proxy shards, split into shards with a lock each. A client without
//! connections and with a full bucket equals an unknown one, so it is removed when its shard is full. If a shard is
//! full of other clients, new ones are not limited: with 65,536 limited clients at once the limit is no defence any
//! more, and rejecting unknown clients would help an attacker.
//!
//! Rates are kept as one instant per client, the *theoretical arrival time* of the generic cell rate algorithm (ITU-T
//! I.371): when its bucket will be full again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_base::Instant;
use foldhash::fast::FixedState;
use parking_lot::{Mutex, MutexGuard};
use std::hash::BuildHasher;

use crate::settings::ClientLimits;

pub(crate) const CLIENTS_MAX: usize = 65_536;
/// Shards of the table.
const SHARD_COUNT: usize = 16;
const SHARD_CLIENTS_MAX: usize = CLIENTS_MAX / SHARD_COUNT;
/// Shortest interval between sweeps of a full shard.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct ClientTable {
    hasher: FixedState,
    shards: Box<[Mutex<TableShard>]>,
    /// Requests rejected with 429.
    requests_limited: AtomicU64,
    /// Connections closed at once.
    connections_limited: AtomicU64,
}

#[derive(Debug)]
struct TableShard {
    clients: HashMap<ClientNetwork, ClientBucket, FixedState>,
    swept: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClientNetwork(u128);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClientBucket {
    connections: u32,
    /// When its bucket will be full.
    full_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Accepted; report its [end](ClientTable::leave).
    Counted,
    /// Accepted; not subject to a limit.
    Uncounted,
    /// The client has too many connections.
    Closed,
}

/// The limit is exceeded; `wait` until the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimited {
    pub(crate) wait: Duration,
}

impl RateLimited {
    /// For Retry-After (RFC 9110, 10.2.3).
    pub(crate) fn seconds(self) -> u64 {
        self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)
    }
}

impl ClientTable {
    pub(crate) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let table_shard =
            || Mutex::new(TableShard { clients: HashMap::with_hasher(hasher.clone()), swept: Instant::ZERO });
        Self {
            shards: (0..SHARD_COUNT).map(|_| table_shard()).collect(),
            requests_limited: AtomicU64::new(0),
            connections_limited: AtomicU64::new(0),
            hasher,
        }
    }

    pub(crate) fn admit(&self, now: Instant, address: Option<IpAddr>, limits: &ClientLimits) -> Admission {
        let max = limits.connections_max;
        if max == 0 {
            return Admission::Uncounted;
        }
        let (key, mut table_shard) = self.table_shard(address);
        let Some(client) = table_shard.client(now, key) else { return Admission::Uncounted };
        if client.connections < max {
            client.connections += 1;
            return Admission::Counted;
        }
        self.connections_limited.fetch_add(1, Ordering::Relaxed);
        Admission::Closed
    }

    /// A counted connection was closed.
    pub(crate) fn leave(&self, address: Option<IpAddr>) {
        let (key, mut table_shard) = self.table_shard(address);
        if let Some(client) = table_shard.clients.get_mut(&key) {
            client.connections = client.connections.saturating_sub(1);
            if *client == ClientBucket::default() {
                table_shard.clients.remove(&key);
            }
        }
    }

    pub(crate) fn check_rate(
        &self,
        now: Instant,
        address: Option<IpAddr>,
        limits: &ClientLimits,
    ) -> Result<(), RateLimited> {
        let Some(interval) = interval(limits) else { return Ok(()) };
        let (key, mut table_shard) = self.table_shard(address);
        let Some(client) = table_shard.client(now, key) else { return Ok(()) };
        let debt_max = interval.saturating_mul(limits.burst.max(1) - 1);
        let debt = client.full_at - now;
        if debt > debt_max {
            self.requests_limited.fetch_add(1, Ordering::Relaxed);
            return Err(RateLimited { wait: debt - debt_max });
        }
        client.full_at = now + debt + interval;
        Ok(())
    }

    pub(crate) fn requests_limited(&self) -> u64 {
        self.requests_limited.load(Ordering::Relaxed)
    }

    pub(crate) fn connections_limited(&self) -> u64 {
        self.connections_limited.load(Ordering::Relaxed)
    }

    fn table_shard(&self, address: Option<IpAddr>) -> (ClientNetwork, MutexGuard<'_, TableShard>) {
        let key = ClientNetwork::from_address(address);
        let table_shard = &self.shards[(self.hasher.hash_one(key) >> 32) as usize % SHARD_COUNT];
        (key, table_shard.lock())
    }
}

impl TableShard {
    /// A client's entry; None if it has none and the shard is full.
    fn client(&mut self, now: Instant, key: ClientNetwork) -> Option<&mut ClientBucket> {
        if self.clients.len() >= SHARD_CLIENTS_MAX && !self.clients.contains_key(&key) {
            self.sweep(now);
            if self.clients.len() >= SHARD_CLIENTS_MAX {
                return None;
            }
        }
        Some(self.clients.entry(key).or_default())
    }

    fn sweep(&mut self, now: Instant) {
        if now >= self.swept + SWEEP_INTERVAL {
            self.swept = now;
            self.clients.retain(|_, client| client.connections > 0 || client.full_at > now);
        }
    }
}

impl ClientNetwork {
    /// The lower half of an IPv6 network is 0.
    const UNIX: Self = Self(u128::MAX);

    fn from_address(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => Self(address.to_ipv6_mapped().to_bits()),
            Some(IpAddr::V6(address)) => Self(network(address)),
            None => Self::UNIX,
        }
    }
}

fn network(address: Ipv6Addr) -> u128 {
    address.to_bits() & !u128::from(u64::MAX)
}

/// The interval between requests at the full rate; None: unlimited.
fn interval(limits: &ClientLimits) -> Option<Duration> {
    (limits.requests_per_second > 0).then(|| Duration::from_secs(1) / limits.requests_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// A table with its limits.
    struct Limited(ClientTable, ClientLimits);

    impl Limited {
        fn admit(&self, address: IpAddr) -> Admission {
            self.0.admit(at(0), Some(address), &self.1)
        }

        fn check_rate(&self, now: Instant, address: IpAddr) -> Result<(), RateLimited> {
            self.0.check_rate(now, Some(address), &self.1)
        }

        fn count(&self) -> usize {
            self.0.shards.iter().map(|table_shard| table_shard.lock().clients.len()).sum()
        }
    }

    fn limited(connections_max: u32, requests_per_second: u32, burst: u32) -> Limited {
        Limited(ClientTable::new(1), ClientLimits { connections_max, requests_per_second, burst })
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn counts_connections_per_client() {
        let table = limited(2, 0, 0);
        assert_eq!(
            [ONE, ONE, ONE].map(|one| table.admit(one)),
            [Admission::Counted, Admission::Counted, Admission::Closed]
        );
        assert_eq!(table.admit(OTHER), Admission::Counted);
        assert_eq!(table.0.connections_limited(), 1);
        table.0.leave(Some(ONE));
        assert_eq!(table.admit(ONE), Admission::Counted);
        [ONE, ONE, OTHER].into_iter().for_each(|address| table.0.leave(Some(address)));
        assert_eq!(table.count(), 0, "who is gone is forgotten");
    }

    #[test]
    fn rate_limit_allows_burst_then_rate() {
        let table = limited(0, 10, 3);
        let mut passed = Vec::new();
        for millis in 0..1_000 {
            if table.check_rate(at(millis), ONE).is_ok() {
                passed.push(millis);
            }
        }
        assert_eq!(passed, [0, 1, 2, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(table.0.requests_limited(), 1_000 - 12);
        assert_eq!(table.check_rate(at(999), OTHER), Ok(()), "others have buckets of their own");
        assert!(
            (0..3).all(|_| table.check_rate(at(9_000), ONE).is_ok()),
            "a pause fills the bucket, and no more than that"
        );
        assert_eq!(table.check_rate(at(9_000), ONE), Err(RateLimited { wait: Duration::from_millis(100) }));
    }

    #[test]
    fn zero_burst_allows_single_requests() {
        let table = limited(0, 1, 0);
        assert_eq!(table.check_rate(at(0), ONE), Ok(()));
        let too_many = table.check_rate(at(1), ONE).unwrap_err();
        assert_eq!((too_many.wait, too_many.seconds()), (Duration::from_millis(999), 1));
        assert_eq!(table.check_rate(at(1_000), ONE), Ok(()));
    }

    #[test]
    fn no_limits_no_entries() {
        let table = limited(0, 0, 0);
        assert!((0..100).all(|_| table.admit(ONE) == Admission::Uncounted && table.check_rate(at(0), ONE).is_ok()));
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn ipv6_prefix_and_mapped_addresses_are_one_client() {
        let key = |text: &str| ClientNetwork::from_address(Some(text.parse().unwrap()));
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        let unix = ClientNetwork::from_address(None);
        assert!(["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "127.0.0.1"].iter().all(|text| key(text) != unix));
    }

    #[test]
    fn table_is_bounded_and_swept() {
        let table = limited(0, 1, 1);
        let address = |index: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0A00_0000 + index));
        (0..2 * CLIENTS_MAX as u32).for_each(|index| assert_eq!(table.check_rate(at(0), address(index)), Ok(())));
        assert!(table.count() <= CLIENTS_MAX);
        assert!(table.check_rate(at(1), address(0)).is_err(), "who is known stays known");
        // A second later all buckets are full, so a new client finds space.
        assert_eq!(table.check_rate(at(1_001), address(3 * CLIENTS_MAX as u32)), Ok(()));
        assert!(table.check_rate(at(1_001), address(3 * CLIENTS_MAX as u32)).is_err(), "and is counted");
        assert!(table.count() <= CLIENTS_MAX - SHARD_CLIENTS_MAX + 1);
    }
}
