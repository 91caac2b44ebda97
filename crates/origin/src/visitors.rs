//! Recognises returning visitors by a cookie, and counts their requests.
//!
//! Two visitors never share an id:
//!
//! - An id is 128 random bits from the operating system, used once; it is not derived from a counter that could wrap or
//!   restart.
//! - The cookie carries an HMAC of the id (SHA-256, truncated to 128 bits), so that a forged id is not accepted: its
//!   sender gets a new one.
//! - Cookies set over TLS are `Secure`: they are not returned over unencrypted connections.
//! - A count has 64 bits and saturates.
//! - The table is bounded. When it is full, the least recently seen visitor is evicted. **Its id is not reused**; if it
//!   returns with its cookie it keeps the id, and its count restarts at 1. Evictions are counted.
//!
//! ```text
//!   Cookie: breme-visitor=<id, 32 hex digits>.<mac, 32 hex digits>
//! ```

use std::collections::HashMap;
use std::fmt::Write;

use breme_base::{Metric, metrics};
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};

pub(crate) const COOKIE: &str = "breme-visitor";
/// 400 days, to which browsers cut a longer age.
const COOKIE_MAX_AGE_SECONDS: u32 = 400 * 24 * 3600;
/// Hexadecimal digits of an id, and of its MAC, in a cookie.
const DIGITS: usize = 32;
/// Bytes of a MAC: the first half of an HMAC-SHA-256 (RFC 2104, 5).
const MAC_BYTES: usize = 16;
/// Bytes of a block of SHA-256, which is the key of the HMAC.
const BLOCK_BYTES: usize = 64;
/// Minimum length of the key, in bytes.
pub const VISITOR_KEY_BYTES_MIN: usize = 16;
/// Visitors listed in the report.
const REPORTED_MAX: usize = 100;
/// Tables with a lock each, to reduce contention.
const TABLE_COUNT: usize = 16;
/// Below this many visitors per table there is only one table, so that the limit is exact.
const TABLE_VISITORS_MIN: usize = 1024;

/// 128 random bits from the operating system; None if it has none.
pub type RandomSource = Box<dyn Fn() -> Option<u128> + Send + Sync>;

/// The visitors of a site, recognised by their cookies.
pub struct Visitors {
    mac: Hmac<Sha256>,
    random: RandomSource,
    tables: Vec<Mutex<VisitorTable>>,
}

/// The result of a request's cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// The cookie is valid; the number of requests with it, including this one.
    Returning(u64),
    /// Set-Cookie for a new visitor.
    New(String),
    /// No random bits for a new id.
    Uncounted,
}

/// The key is too short to prevent forged cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a visitor key needs at least {min} bytes", min = VISITOR_KEY_BYTES_MIN)]
pub struct ShortKey;

impl Visitors {
    /// An empty table for `visitors_max` visitors.
    ///
    /// # Errors
    /// If `key` has fewer than [`VISITOR_KEY_BYTES_MIN`] bytes.
    pub fn new(key: &[u8], visitors_max: usize, random: RandomSource) -> Result<Self, ShortKey> {
        if key.len() < VISITOR_KEY_BYTES_MIN {
            return Err(ShortKey);
        }
        // A key of any length is hashed.
        let digest = Sha256::digest(key);
        let mut block = [0; BLOCK_BYTES];
        block[..digest.len()].copy_from_slice(&digest);
        let table_count = if visitors_max >= TABLE_COUNT * TABLE_VISITORS_MIN { TABLE_COUNT } else { 1 };
        let tables =
            (0..table_count).map(|_| Mutex::new(VisitorTable::new((visitors_max / table_count).max(1)))).collect();
        Ok(Self { mac: Hmac::new(&block.into()), random, tables })
    }

    /// Counts a request with these cookie values; the first valid one identifies the visitor.
    pub(crate) fn visit<'a>(&self, values: impl Iterator<Item = &'a [u8]>, is_secured: bool) -> Visit {
        for value in values {
            if let Some(count) = self.count_returning(value) {
                return Visit::Returning(count);
            }
        }
        self.add_visitor(is_secured)
    }

    /// The number of requests of the visitor including this one; None if the value is invalid.
    fn count_returning(&self, value: &[u8]) -> Option<u64> {
        let (id, mac) = parse_value(value)?;
        let mut table = self.table(id);
        // For a visitor in the table the HMAC need only be compared.
        if let Some(known_mac) = table.mac(id) {
            return same(known_mac, mac).then(|| table.count(id, mac));
        }
        drop(table);
        same(self.authenticate(id), mac).then(|| self.table(id).count(id, mac))
    }

    fn add_visitor(&self, is_secured: bool) -> Visit {
        let Some(id) = (self.random)() else { return Visit::Uncounted };
        let mac = self.authenticate(id);
        self.table(id).count(id, mac);
        let secure = if is_secured { "; Secure" } else { "" };
        Visit::New(format!(
            "{COOKIE}={id:032x}.{mac:032x}; Path=/; Max-Age={COOKIE_MAX_AGE_SECONDS}; HttpOnly; SameSite=Lax{secure}"
        ))
    }

    fn authenticate(&self, id: u128) -> u128 {
        let mut mac = self.mac.clone();
        mac.update(&id.to_be_bytes());
        mac.finalize().into_bytes().iter().take(MAC_BYTES).fold(0, |bits, &byte| bits << 8 | u128::from(byte))
    }

    fn table(&self, id: u128) -> MutexGuard<'_, VisitorTable> {
        // Ids are random, so their low bits are evenly distributed.
        let table = &self.tables[id as usize % self.tables.len()];
        table.lock()
    }

    pub(crate) fn totals(&self) -> VisitorTotals {
        let mut totals = VisitorTotals::default();
        for table in &self.tables {
            totals.add(&table.lock());
        }
        totals
    }

    /// The counts as text: totals, then the most recently seen visitors. Ids are truncated, since they are half a
    /// secret.
    pub(crate) fn report(&self) -> String {
        let mut totals = VisitorTotals::default();
        let mut lines = String::new();
        for table in &self.tables {
            let table = table.lock();
            totals.add(&table);
            for slot in table.newest_first().take(REPORTED_MAX / self.tables.len()) {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "visitor {:08x} {}", (slot.id >> 96) as u32, slot.count);
            }
        }
        let VisitorTotals { visitors, requests, forgotten } = totals;
        format!("visitors {visitors}\nrequests {requests}\nforgotten {forgotten}\n{lines}")
    }
}

impl std::fmt::Debug for Visitors {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Visitors").finish_non_exhaustive()
    }
}

/// The counts of all visitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitorTotals {
    /// Visitors in the tables.
    pub visitors: u64,
    /// Requests of all visitors.
    pub requests: u64,
    /// Visitors evicted from the tables.
    pub forgotten: u64,
}

impl VisitorTotals {
    /// The metrics of these counters.
    pub const METRICS: &[Metric<Self>] = metrics! {
        Gauge "visitors" "Visitors remembered." => |totals: &Self| totals.visitors;
        Counter "visits" "Requests by visitors." => |totals: &Self| totals.requests;
        Counter "visitors_forgotten" "Visitors forgotten to make room." => |totals: &Self| totals.forgotten;
    };
}

impl VisitorTotals {
    fn add(&mut self, table: &VisitorTable) {
        self.visitors += table.index.len() as u64;
        self.requests = self.requests.saturating_add(table.requests);
        self.forgotten += table.forgotten;
    }
}

/// Compares in constant time.
fn same(one: u128, other: u128) -> bool {
    std::hint::black_box(one ^ other) == 0
}

fn parse_value(value: &[u8]) -> Option<(u128, u128)> {
    if value.len() != DIGITS + 1 + DIGITS || value[DIGITS] != b'.' {
        return None;
    }
    Some((parse_hex(&value[..DIGITS])?, parse_hex(&value[DIGITS + 1..])?))
}

/// Lower-case hex digits only, so that an id has one spelling.
fn parse_hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

const NONE: u32 = u32::MAX;

/// Visitors in a list ordered by last visit, so that the oldest is found at once.
#[derive(Debug)]
struct VisitorTable {
    visitors_max: usize,
    index: HashMap<u128, u32>,
    slots: Vec<VisitorSlot>,
    newest: u32,
    oldest: u32,
    requests: u64,
    forgotten: u64,
}

#[derive(Clone, Copy, Debug)]
struct VisitorSlot {
    id: u128,
    mac: u128,
    count: u64,
    newer: u32,
    older: u32,
}

impl VisitorTable {
    fn new(visitors_max: usize) -> Self {
        Self {
            visitors_max: visitors_max.min(NONE as usize),
            index: HashMap::new(),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
            requests: 0,
            forgotten: 0,
        }
    }

    fn mac(&self, id: u128) -> Option<u128> {
        Some(self.slots[*self.index.get(&id)? as usize].mac)
    }

    /// Counts a request of visitor `id`, who is added if necessary. Returns the count.
    fn count(&mut self, id: u128, mac: u128) -> u64 {
        self.requests = self.requests.saturating_add(1);
        let place = match self.index.get(&id) {
            Some(&place) => {
                self.unlink(place);
                place
            }
            None => self.free_slot(),
        };
        let is_known = self.index.insert(id, place).is_some();
        let slot = &mut self.slots[place as usize];
        let count = if is_known { slot.count.saturating_add(1) } else { 1 };
        *slot = VisitorSlot { id, mac, count, newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = place,
            newest => self.slots[newest as usize].newer = place,
        }
        self.newest = place;
        count
    }

    fn free_slot(&mut self) -> u32 {
        if self.slots.len() < self.visitors_max {
            self.slots.push(VisitorSlot { id: 0, mac: 0, count: 0, newer: NONE, older: NONE });
            return self.slots.len() as u32 - 1;
        }
        let place = self.oldest;
        self.unlink(place);
        self.index.remove(&self.slots[place as usize].id);
        self.forgotten += 1;
        place
    }

    fn unlink(&mut self, place: u32) {
        let VisitorSlot { newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn newest_first(&self) -> impl Iterator<Item = &VisitorSlot> {
        std::iter::successors(self.slots.get(self.newest as usize), |slot| self.slots.get(slot.older as usize))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use breme_base::Random;

    fn visitors(visitors_max: usize) -> Visitors {
        let random = Mutex::new(Random::new(5));
        let source = move || {
            let mut random = random.lock();
            Some(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()))
        };
        Visitors::new(b"sixteen byte key", visitors_max, Box::new(source)).unwrap()
    }

    fn new_cookie(visitors: &Visitors) -> String {
        let Visit::New(field) = visitors.visit(std::iter::empty(), false) else {
            panic!("a visitor without a cookie is new")
        };
        assert!(field.ends_with("; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax"), "{field}");
        field.split(['=', ';']).nth(1).unwrap().to_owned()
    }

    fn visit(visitors: &Visitors, cookie: &str) -> Visit {
        visitors.visit(std::iter::once(cookie.as_bytes()), false)
    }

    #[test]
    fn counts_returning_visitors() {
        let visitors = visitors(10);
        let (first, second) = (new_cookie(&visitors), new_cookie(&visitors));
        assert_ne!(first[..32], second[..32]);
        for count in 2..=4 {
            assert_eq!(visit(&visitors, &first), Visit::Returning(count));
        }
        let report = visitors.report();
        let expected =
            format!("visitors 2\nrequests 5\nforgotten 0\nvisitor {} 4\nvisitor {} 1\n", &first[..8], &second[..8]);
        assert_eq!(report, expected);
    }

    #[test]
    fn rejects_forged_cookies() {
        let visitors = visitors(10);
        let good = new_cookie(&visitors);
        let swapped = |at: usize| {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            String::from_utf8(bytes).unwrap()
        };
        let other_key = Visitors::new(b"another key, 16+", 10, Box::new(|| Some(7))).unwrap();
        let foreign = new_cookie(&other_key);
        let made_up = [
            swapped(0),
            swapped(31),
            swapped(33),
            swapped(64),
            good.to_uppercase(),
            good[..64].to_owned(),
            foreign,
            String::new(),
        ];
        for cookie in made_up {
            assert!(matches!(visit(&visitors, &cookie), Visit::New(_)), "{cookie}");
        }
        assert_eq!(visit(&visitors, &good), Visit::Returning(2));
        // A valid value after a forged one is accepted.
        let values = [b"junk".as_slice(), good.as_bytes()];
        assert_eq!(visitors.visit(values.into_iter(), false), Visit::Returning(3));
    }

    #[test]
    fn evicts_least_recent_visitor() {
        let visitors = visitors(2);
        let (first, second) = (new_cookie(&visitors), new_cookie(&visitors));
        assert_eq!(visit(&visitors, &first), Visit::Returning(2));
        let third = new_cookie(&visitors);
        assert!(visitors.report().starts_with("visitors 2\nrequests 4\nforgotten 1\n"));
        assert_eq!(visit(&visitors, &second), Visit::Returning(1));
        let report = visitors.report();
        assert!(report.contains(&format!("visitor {} 1\nvisitor {} 1\n", &second[..8], &third[..8])), "{report}");
    }

    #[test]
    fn count_saturates() {
        let mut table = VisitorTable::new(1);
        table.count(1, 2);
        table.slots[0].count = u64::MAX;
        table.count(1, 2);
        assert_eq!(table.slots[0].count, u64::MAX);
    }

    #[test]
    fn reports_short_key_and_missing_randomness() {
        assert!(Visitors::new(b"short", 1, Box::new(|| None)).is_err());
        let starved = Visitors::new(&[1; 32], 1, Box::new(|| None)).unwrap();
        assert_eq!(starved.visit(std::iter::empty(), false), Visit::Uncounted);
    }

    #[test]
    fn table_matches_a_list_on_random_histories() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut table = VisitorTable::new(4);
            let mut seen: Vec<u128> = Vec::new();
            let mut counts: BTreeMap<u128, u64> = BTreeMap::new();
            for _ in 0..200 {
                let id = u128::from(random.below(8));
                table.count(id, id);
                seen.retain(|&other| other != id);
                seen.push(id);
                *counts.entry(id).or_default() += 1;
                if seen.len() > 4 {
                    counts.remove(&seen.remove(0));
                }
                let newest_first: Vec<(u128, u64)> = table.newest_first().map(|slot| (slot.id, slot.count)).collect();
                let expected: Vec<(u128, u64)> = seen.iter().rev().map(|id| (*id, counts[id])).collect();
                assert_eq!(newest_first, expected, "seed {seed}");
                assert_eq!(table.index.len(), seen.len());
            }
        }
    }
}
