//! What each client may take: connections at a time, and requests a second.
//!
//! A client is an address; of IPv6 the first 64 bits, since whoever has one such address has all of its network's. What
//! is known of clients stands in a bounded table that all shards share, cut into parts with a lock each. A client that
//! has no connection and whose debt is paid is the same as one that was never seen, so it can be forgotten, and is when
//! a part is full. If a part is full of others, new clients are not limited: a limit for each of 65,536 clients at once
//! is no defence any more, and refusing strangers would help an attacker.
//!
//! Rates are kept as one instant for each client, the *theoretical arrival time* of the generic cell rate algorithm
//! (ITU-T I.371): the instant at which its bucket will be full again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breme_base::Instant;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

use crate::settings::ClientLimits;

/// Clients that are remembered.
pub(crate) const CLIENTS_MAX: usize = 65_536;
/// Parts of the table.
const PART_COUNT: usize = 16;
const PART_CLIENTS_MAX: usize = CLIENTS_MAX / PART_COUNT;
/// A full part is searched for clients to forget at most so often.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// All clients, of all shards.
#[derive(Debug)]
pub(crate) struct ClientTable {
    hasher: FixedState,
    parts: Box<[Mutex<Part>]>,
    /// Requests that were answered with 429.
    requests_limited: AtomicU64,
    /// Connections that were closed at once.
    connections_limited: AtomicU64,
}

#[derive(Debug)]
struct Part {
    clients: HashMap<ClientKey, Client, FixedState>,
    swept: Instant,
}

/// Whom addresses belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClientKey(u128);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Client {
    connections: u32,
    /// When its bucket will be full.
    full_at: Instant,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// It may stay, and its end is to be [told](ClientTable::leave).
    Counted,
    /// It may stay.
    Uncounted,
    /// Its client has too many.
    Closed,
}

/// Past the limit; so long until the next request may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) wait: Duration,
}

impl TooMany {
    /// For Retry-After (RFC 9110, 10.2.3).
    pub(crate) fn seconds(self) -> u64 {
        self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)
    }
}

impl ClientTable {
    pub(crate) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let part = || Mutex::new(Part { clients: HashMap::with_hasher(hasher.clone()), swept: Instant::ZERO });
        Self {
            parts: (0..PART_COUNT).map(|_| part()).collect(),
            requests_limited: AtomicU64::new(0),
            connections_limited: AtomicU64::new(0),
            hasher,
        }
    }

    /// A connection has come.
    pub(crate) fn enter(&self, now: Instant, address: IpAddr, limits: &ClientLimits) -> Entrance {
        let max = limits.connections_max;
        if max == 0 {
            return Entrance::Uncounted;
        }
        let (key, mut part) = self.part(address);
        let Some(client) = part.client(now, key) else { return Entrance::Uncounted };
        if client.connections < max {
            client.connections += 1;
            return Entrance::Counted;
        }
        self.connections_limited.fetch_add(1, Ordering::Relaxed);
        Entrance::Closed
    }

    /// A connection that was counted is gone.
    pub(crate) fn leave(&self, address: IpAddr) {
        let (key, mut part) = self.part(address);
        if let Some(client) = part.clients.get_mut(&key) {
            client.connections = client.connections.saturating_sub(1);
            if *client == Client::default() {
                part.clients.remove(&key);
            }
        }
    }

    /// A request has come.
    pub(crate) fn ask(&self, now: Instant, address: IpAddr, limits: &ClientLimits) -> Result<(), TooMany> {
        let Some(interval) = interval(limits) else { return Ok(()) };
        let (key, mut part) = self.part(address);
        let Some(client) = part.client(now, key) else { return Ok(()) };
        let debt_max = interval.saturating_mul(limits.burst.max(1) - 1);
        let debt = client.full_at - now;
        if debt > debt_max {
            self.requests_limited.fetch_add(1, Ordering::Relaxed);
            return Err(TooMany { wait: debt - debt_max });
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

    fn part(&self, address: IpAddr) -> (ClientKey, MutexGuard<'_, Part>) {
        let key = ClientKey::of(address);
        let part = &self.parts[(self.hasher.hash_one(key) >> 32) as usize % PART_COUNT];
        (key, part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Part {
    /// What is known of a client; none if it is not known and there is no room.
    fn client(&mut self, now: Instant, key: ClientKey) -> Option<&mut Client> {
        if self.clients.len() >= PART_CLIENTS_MAX && !self.clients.contains_key(&key) {
            self.sweep(now);
            if self.clients.len() >= PART_CLIENTS_MAX {
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

impl ClientKey {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self(network(address)),
        }
    }
}

fn network(address: Ipv6Addr) -> u128 {
    address.to_bits() & !u128::from(u64::MAX)
}

/// From one request to the next at the full rate; none: any rate.
fn interval(limits: &ClientLimits) -> Option<Duration> {
    (limits.requests_per_second > 0).then(|| Duration::from_secs(1) / limits.requests_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// A table, and the limits that hold.
    struct Limited(ClientTable, ClientLimits);

    impl Limited {
        fn enter(&self, address: IpAddr) -> Entrance {
            self.0.enter(at(0), address, &self.1)
        }

        fn ask(&self, now: Instant, address: IpAddr) -> Result<(), TooMany> {
            self.0.ask(now, address, &self.1)
        }

        fn count(&self) -> usize {
            self.0.parts.iter().map(|part| part.lock().unwrap().clients.len()).sum()
        }
    }

    fn limited(connections_max: u32, requests_per_second: u32, burst: u32) -> Limited {
        Limited(ClientTable::new(1), ClientLimits { connections_max, requests_per_second, burst })
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000_000 + millis)
    }

    #[test]
    fn connections_are_counted_for_each_client() {
        let table = limited(2, 0, 0);
        assert_eq!(
            [ONE, ONE, ONE].map(|one| table.enter(one)),
            [Entrance::Counted, Entrance::Counted, Entrance::Closed]
        );
        assert_eq!(table.enter(OTHER), Entrance::Counted);
        assert_eq!(table.0.connections_limited(), 1);
        table.0.leave(ONE);
        assert_eq!(table.enter(ONE), Entrance::Counted);
        [ONE, ONE, OTHER].into_iter().for_each(|address| table.0.leave(address));
        assert_eq!(table.count(), 0, "who is gone is forgotten");
    }

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let table = limited(0, 10, 3);
        let mut passed = Vec::new();
        for millis in 0..1_000 {
            if table.ask(at(millis), ONE).is_ok() {
                passed.push(millis);
            }
        }
        assert_eq!(passed, [0, 1, 2, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(table.0.requests_limited(), 1_000 - 12);
        assert_eq!(table.ask(at(999), OTHER), Ok(()), "others have buckets of their own");
        assert!((0..3).all(|_| table.ask(at(9_000), ONE).is_ok()), "a pause fills the bucket, and no more than that");
        assert_eq!(table.ask(at(9_000), ONE), Err(TooMany { wait: Duration::from_millis(100) }));
    }

    #[test]
    fn without_a_burst_requests_come_one_by_one() {
        let table = limited(0, 1, 0);
        assert_eq!(table.ask(at(0), ONE), Ok(()));
        let too_many = table.ask(at(1), ONE).unwrap_err();
        assert_eq!((too_many.wait, too_many.seconds()), (Duration::from_millis(999), 1));
        assert_eq!(table.ask(at(1_000), ONE), Ok(()));
    }

    #[test]
    fn without_limits_nothing_is_remembered() {
        let table = limited(0, 0, 0);
        assert!((0..100).all(|_| table.enter(ONE) == Entrance::Uncounted && table.ask(at(0), ONE).is_ok()));
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_a_mapped_address_its_ipv4() {
        let key = |text: &str| ClientKey::of(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_whom_it_may() {
        let table = limited(0, 1, 1);
        let address = |index: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0A00_0000 + index));
        (0..2 * CLIENTS_MAX as u32).for_each(|index| assert_eq!(table.ask(at(0), address(index)), Ok(())));
        assert!(table.count() <= CLIENTS_MAX);
        assert!(table.ask(at(1), address(0)).is_err(), "who is known stays known");
        // A second later all have paid, so the next one finds room.
        assert_eq!(table.ask(at(1_001), address(3 * CLIENTS_MAX as u32)), Ok(()));
        assert!(table.ask(at(1_001), address(3 * CLIENTS_MAX as u32)).is_err(), "and is counted");
        assert!(table.count() <= CLIENTS_MAX - PART_CLIENTS_MAX + 1);
    }
}
