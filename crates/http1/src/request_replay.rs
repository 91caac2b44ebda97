//! A cache of request heads, compared byte for byte.
//!
//! Browsers, crawlers and gateways repeat the same heads. A server stores recent heads with what it has derived from
//! each, and skips parsing when one is repeated. The owner of the cache decides which heads to insert and how long an
//! entry is valid. A head is inserted at its second miss, so that heads that never repeat (each with its own cookie,
//! for example) cost only a lookup.

use std::fmt::Debug;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use memchr::memmem::Finder;

/// Lookups after which the hit rate is evaluated.
const SAMPLE_LOOKUPS: u32 = 512;
/// A miss costs about an eighth of what a hit saves, so fewer hits than this are not worth the lookups.
const LOOKUPS_PER_HIT_MAX: u32 = 8;
/// Requests that are not looked up after too low a hit rate.
const PAUSE_REQUESTS: u32 = 15 * SAMPLE_LOOKUPS;
/// Longer heads are not cached. In bytes.
const HEAD_BYTES_MAX: usize = 1024;
/// Memory of an entry in addition to its head and its value, in bytes.
const ENTRY_BYTES: usize = 256;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// The cached request heads of one shard, at most one per slot.
#[derive(Debug)]
pub struct ReplayCache<K, const SLOTS: usize> {
    hasher: FixedState,
    head_end: Finder<'static>,
    /// Empty until the first cacheable request.
    slots: Vec<Slot<K>>,
    /// Index of the last hit: most requests repeat several times in a row.
    last: usize,
    bytes: usize,
    bytes_max: usize,
    /// The next slot to evict when memory is short.
    hand: usize,
    hit_rate: HitRate,
}

/// Decides whether lookups are worth their cost. While they are not, only samples are looked up, to detect when heads
/// begin to repeat.
#[derive(Debug, Default)]
struct HitRate {
    lookups: u32,
    hits: u32,
    /// Requests left without lookups.
    pause: u32,
}

/// A cached head, with what its owner derived from it.
#[derive(Debug)]
pub struct ReplayEntry<K> {
    head: Box<[u8]>,
    cost_bytes: usize,
    pub value: K,
}

#[derive(Debug)]
struct Slot<K> {
    /// Hash of the last head that missed here.
    last_miss: u64,
    entry: Option<Box<ReplayEntry<K>>>,
}

impl<K, const SLOTS: usize> ReplayCache<K, SLOTS> {
    /// An empty cache. `bytes_max` limits heads and values together; 0 disables the cache.
    #[must_use]
    pub fn new(seed: u64, bytes_max: usize) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            head_end: Finder::new(HEAD_END),
            slots: Vec::new(),
            last: 0,
            bytes: 0,
            bytes_max,
            hand: 0,
            hit_rate: HitRate::default(),
        }
    }

    /// The valid entry for the request at the start of `input`, and its index.
    #[inline]
    pub fn find(&mut self, input: &[u8], is_valid: impl Fn(&K) -> bool) -> Option<(usize, &mut ReplayEntry<K>)> {
        let is_last = self.slots.get(self.last)?.begins(input, &is_valid);
        if !is_last && !self.hit_rate.should_look_up() {
            return None;
        }
        let index = if is_last { self.last } else { self.index_of(self.head_of(input)?) };
        let slot = self.slots.get_mut(index)?;
        let is_found = is_last || slot.begins(input, &is_valid);
        self.hit_rate.count(is_found);
        if !is_found {
            return None;
        }
        self.last = index;
        Some((index, slot.entry.as_deref_mut()?))
    }

    /// The entry at an index that [`find`](Self::find) or [`insert`](Self::insert) has returned.
    #[inline]
    pub fn entry(&mut self, index: usize) -> Option<&mut ReplayEntry<K>> {
        self.slots.get_mut(index)?.entry.as_deref_mut()
    }

    /// Whether to insert a request that missed: it missed before, with no other miss in its slot since, and no entry
    /// with this head must be kept.
    pub fn should_insert(&mut self, head: &[u8], stays: impl Fn(&K) -> bool) -> bool {
        // The connection counts an empty line before a request; it is not part of the head.
        let is_head_alone = head.first().is_some_and(u8::is_ascii_graphic);
        if self.hit_rate.pause > 0 || head.len() > HEAD_BYTES_MAX || !is_head_alone || self.bytes_max == 0 {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::empty);
        }
        let hash = self.hasher.hash_one(head);
        let slot = &mut self.slots[hash as usize % SLOTS];
        let is_kept = slot.entry.as_ref().is_some_and(|entry| *entry.head == *head && stays(&entry.value));
        !is_kept && std::mem::replace(&mut slot.last_miss, hash) == hash
    }

    /// Inserts an entry, replacing the one in its slot, and returns its index. `value_bytes` is the memory of the
    /// value. None if the entry alone exceeds the cache.
    pub fn insert(&mut self, head: &[u8], value: K, value_bytes: usize) -> Option<usize> {
        let cost_bytes = ENTRY_BYTES.saturating_add(head.len()).saturating_add(value_bytes);
        let index = self.index_of(head);
        self.remove(index);
        self.evict_for(cost_bytes);
        let slot = self.slots.get_mut(index)?;
        if self.bytes.saturating_add(cost_bytes) > self.bytes_max {
            return None;
        }
        self.bytes += cost_bytes;
        slot.entry = Some(Box::new(ReplayEntry { head: head.into(), cost_bytes, value }));
        Some(index)
    }

    /// Removes the entry at this index.
    pub fn remove(&mut self, index: usize) {
        if let Some(entry) = self.slots.get_mut(index).and_then(|slot| slot.entry.take()) {
            self.bytes -= entry.cost_bytes;
        }
    }

    /// Removes all entries whose value `is_over`.
    pub fn remove_if(&mut self, is_over: impl Fn(&K) -> bool) {
        for index in 0..self.slots.len() {
            if self.slots[index].entry.as_ref().is_some_and(|entry| is_over(&entry.value)) {
                self.remove(index);
            }
        }
    }

    fn evict_for(&mut self, wanted_bytes: usize) {
        for _ in 0..SLOTS {
            if self.bytes.saturating_add(wanted_bytes) <= self.bytes_max {
                return;
            }
            self.remove(self.hand);
            self.hand = (self.hand + 1) % SLOTS;
        }
    }

    /// The bytes that may be a head. Whether they are one was decided when the entry was inserted.
    fn head_of<'a>(&self, input: &'a [u8]) -> Option<&'a [u8]> {
        let front = &input[..input.len().min(HEAD_BYTES_MAX)];
        Some(&front[..self.head_end.find(front)? + HEAD_END.len()])
    }

    fn index_of(&self, head: &[u8]) -> usize {
        self.hasher.hash_one(head) as usize % SLOTS
    }
}

impl HitRate {
    #[inline]
    fn should_look_up(&mut self) -> bool {
        let should_look_up = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        should_look_up
    }

    #[inline]
    fn count(&mut self, is_found: bool) {
        self.lookups += 1;
        self.hits += u32::from(is_found);
        if self.lookups >= SAMPLE_LOOKUPS {
            let is_worth_it = self.hits >= SAMPLE_LOOKUPS / LOOKUPS_PER_HIT_MAX;
            *self = Self { pause: if is_worth_it { 0 } else { PAUSE_REQUESTS }, ..Self::default() };
        }
    }
}

impl<K> Slot<K> {
    const fn empty() -> Self {
        Self { last_miss: 0, entry: None }
    }

    /// Whether `input` begins with this entry's head. A head ends with its first empty line, so no longer head has it
    /// as prefix.
    #[inline]
    fn begins(&self, input: &[u8], is_valid: impl Fn(&K) -> bool) -> bool {
        self.entry.as_ref().is_some_and(|entry| input.starts_with(&entry.head) && is_valid(&entry.value))
    }
}

impl<K> ReplayEntry<K> {
    /// The length of the head, in bytes.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 8;

    fn head(name: &str) -> Vec<u8> {
        format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
    }

    /// The value cached for the request at the start of `input`.
    fn value(table: &mut ReplayCache<u32, SLOTS>, input: &[u8]) -> Option<u32> {
        table.find(input, |_| true).map(|(_, entry)| entry.value)
    }

    /// Misses twice, then inserts.
    fn insert(table: &mut ReplayCache<u32, SLOTS>, name: &str, number: u32, bytes: usize) -> Option<usize> {
        let head = head(name);
        let should_insert = [(); 2].map(|()| table.should_insert(&head, |_| false));
        assert_eq!(should_insert, [false, true]);
        table.insert(&head, number, bytes)
    }

    fn kept(table: &mut ReplayCache<u32, SLOTS>, names: &[&str]) -> usize {
        names.iter().filter(|name| value(table, &head(name)).is_some()).count()
    }

    #[test]
    fn inserts_on_second_miss_and_finds_by_bytes() {
        let mut table = ReplayCache::<u32, SLOTS>::new(1, 10_000);
        let one = head("one");
        assert!(!table.should_insert(&one, |_| false));
        assert!(table.should_insert(&one, |_| false));
        assert_eq!(value(&mut table, &one), None);
        let index = table.insert(&one, 7, 0).unwrap();
        let pipelined = [one.clone(), head("two")].concat();
        assert_eq!(value(&mut table, &pipelined), Some(7));
        assert_eq!(table.entry(index).unwrap().head_bytes(), one.len());
        assert_eq!(value(&mut table, &one[..one.len() - 1]), None);
        assert_eq!(value(&mut table, &head("one?")), None);
        assert!(table.find(&one, |&number| number != 7).is_none());
        assert!(!table.should_insert(&one, |&number| number == 7));
        assert!(table.should_insert(&one, |&number| number != 7));
    }

    /// Looks up `count` requests, the nth named by `number(n)`; returns the numbers of hits and insertions.
    fn read(table: &mut ReplayCache<u32, SLOTS>, count: u32, mut number: impl FnMut(u32) -> u32) -> (u32, u32) {
        let (mut found, mut inserted) = (0, 0);
        for index in 0..count {
            let head = head(&number(index).to_string());
            let is_found = value(table, &head).is_some();
            found += u32::from(is_found);
            if !is_found && table.should_insert(&head, |_| false) {
                table.insert(&head, index, 0);
                inserted += 1;
            }
        }
        (found, inserted)
    }

    #[test]
    fn pauses_lookups_while_hits_are_rare() {
        let mut table = ReplayCache::<u32, SLOTS>::new(1, 100_000);
        let judged = SAMPLE_LOOKUPS + 2;
        assert_eq!(read(&mut table, judged, |index| index), (0, 0));
        assert_eq!(table.hit_rate.pause + 1, PAUSE_REQUESTS, "all differed");
        // A repeated head is not inserted during the pause, and hits after it.
        assert_eq!(read(&mut table, PAUSE_REQUESTS - 1, |_| 7), (0, 0));
        assert_eq!(read(&mut table, 10, |_| 7), (9, 1));
        assert_eq!(table.hit_rate.pause, 0);
    }

    #[test]
    fn ignores_long_heads_and_leading_empty_lines() {
        let mut table = ReplayCache::<u32, SLOTS>::new(1, 10_000);
        for strange in [head(&"x".repeat(HEAD_BYTES_MAX)), [b"\r\n", &*head("one")].concat(), Vec::new()] {
            assert!((0..3).all(|_| !table.should_insert(&strange, |_| false)));
        }
        let mut none = ReplayCache::<u32, SLOTS>::new(1, 0);
        assert!((0..3).all(|_| !none.should_insert(&head("one"), |_| false)));
    }

    #[test]
    fn memory_stays_within_bytes_max() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let cost_bytes = ENTRY_BYTES + head("a").len() + 100;
        let mut table = ReplayCache::<u32, SLOTS>::new(3, 2 * cost_bytes);
        for (number, name) in (0..).zip(names) {
            assert!(insert(&mut table, name, number, 100).is_some());
            assert_eq!(value(&mut table, &head(name)), Some(number));
            assert!(kept(&mut table, &names) <= 2, "{name}");
        }
        assert_eq!(insert(&mut table, "g", 6, 2 * cost_bytes), None, "too large even alone");
        assert_eq!((table.bytes, kept(&mut table, &names)), (0, 0));
    }

    #[test]
    fn evicted_entry_frees_space() {
        let mut table = ReplayCache::<u32, SLOTS>::new(1, 10_000);
        for (number, name) in (0..).zip(["a", "b", "c"]) {
            insert(&mut table, name, number, 100);
        }
        table.remove_if(|&number| number < 2);
        assert!(value(&mut table, &head("a")).is_none() && value(&mut table, &head("b")).is_none());
        let (index, _) = table.find(&head("c"), |_| true).unwrap();
        table.remove(index);
        assert_eq!((table.bytes, value(&mut table, &head("c"))), (0, None));
    }
}
