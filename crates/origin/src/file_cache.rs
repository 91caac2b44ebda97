//! The file cache: one bounded store for all shards, and a table of recent entries for each shard, without a lock.
//!
//! ```text
//!   target as received ─► RecentEntries (one shard, no lock, no decoding) ─► store (all shards) ─► Root (system calls)
//! ```
//!
//! An entry is fresh for [`revalidate_after`](crate::FileCacheLimits::revalidate_after); the next request after that
//! revalidates it. The store marks an entry that it evicts or replaces, so that shards that still hold it look it up
//! again.
//!
//! Eviction is second chance (CLOCK): the oldest entry goes unless it was used since it was last considered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, UnixSeconds};
use foldhash::fast::FixedState;
use parking_lot::RwLock;

use crate::counters::{CachedFiles, ShardCounts, Source};
use crate::entry::{Entry, EntryOutcome};
use crate::path::{PathError, site_name};
use crate::root::Root;
use crate::settings::Settings;

/// Evicted entries that one shard may still hold until it sweeps its recent entries.
pub const EVICTED_HELD_MAX: u64 = 64;
/// Sets of a shard's recent entries (a set-associative table).
const RECENT_SETS: usize = 256;
/// Entries per set.
const RECENT_WAYS: usize = 4;
/// Entries of longer paths are not kept there. In bytes.
const RECENT_PATH_BYTES_MAX: usize = 256;

pub(crate) struct FileCache {
    root: Arc<dyn Root>,
    present: RwLock<EntryTable>,
    /// Names without a file are stored separately, so that requests for many of them evict no files.
    absent: RwLock<EntryTable>,
    replaced_count: AtomicU64,
}

impl FileCache {
    pub(crate) fn new(root: Arc<dyn Root>, settings: &Settings) -> Self {
        let limits = &settings.files;
        let present =
            CacheBounds { entries: limits.entries_max, bytes: limits.bytes_max, descriptors: limits.descriptors_max };
        let absent = CacheBounds { entries: limits.absent_max, bytes: limits.bytes_max, descriptors: 0 };
        let table = |bounds| RwLock::new(EntryTable::new(bounds, settings.seed));
        Self { root, present: table(present), absent: table(absent), replaced_count: AtomicU64::new(0) }
    }

    pub(crate) fn root(&self) -> &dyn Root {
        &*self.root
    }

    /// The entry of a canonical name, revalidated if necessary.
    fn find(
        &self,
        name: &str,
        settings: &Settings,
        now: Instant,
        wall: impl FnOnce() -> UnixSeconds,
    ) -> (Arc<Entry>, Source) {
        let known = [&self.present, &self.absent].into_iter().find_map(|table| table.read().find(name));
        match known {
            Some(entry) => self.revalidated(name, entry, settings, now, wall),
            None => (self.read(name, settings, now, wall()), Source::Root),
        }
    }

    /// This entry, or a new one if the files have changed.
    fn revalidated(
        &self,
        name: &str,
        entry: Arc<Entry>,
        settings: &Settings,
        now: Instant,
        wall: impl FnOnce() -> UnixSeconds,
    ) -> (Arc<Entry>, Source) {
        if !entry.is_check_due(now, settings.files.revalidate_after_ns()) || entry.is_unchanged(&*self.root) {
            entry.touch();
            return (entry, Source::Cache);
        }
        (self.read(name, settings, now, wall()), Source::Root)
    }

    /// Whether holders of entries should drop evicted ones, and records that they do.
    pub(crate) fn is_sweep_due(&self, swept_at: &mut u64) -> bool {
        let replaced_count = self.replaced_count.load(Ordering::Relaxed);
        let is_due = replaced_count - *swept_at >= EVICTED_HELD_MAX;
        if is_due {
            *swept_at = replaced_count;
        }
        is_due
    }

    pub(crate) fn kept(&self) -> CachedFiles {
        let mut kept = CachedFiles::default();
        for table in [&self.present, &self.absent] {
            let table = table.read();
            kept.names += table.entries.len();
            kept.bytes += table.bytes;
            kept.open_files += table.descriptors;
        }
        kept
    }

    fn read(&self, name: &str, settings: &Settings, now: Instant, wall: UnixSeconds) -> Arc<Entry> {
        let entry = Arc::new(Entry::read(name, &*self.root, settings, now, wall));
        let (table, other) =
            if entry.is_absent() { (&self.absent, &self.present) } else { (&self.present, &self.absent) };
        let mut replaced_count = other.write().remove(name);
        let mut table = table.write();
        if entry.is_transient() {
            replaced_count += table.remove(name);
            entry.replace();
        } else {
            replaced_count += table.insert(name, &entry);
        }
        self.replaced_count.fetch_add(replaced_count, Ordering::Relaxed);
        entry
    }
}

impl std::fmt::Debug for FileCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileCache").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
struct CacheBounds {
    entries: usize,
    bytes: usize,
    descriptors: usize,
}

/// A bounded table of entries.
#[derive(Debug)]
struct EntryTable {
    bounds: CacheBounds,
    entries: HashMap<Arc<str>, Arc<Entry>, FixedState>,
    /// Each name once, oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
    descriptors: usize,
}

impl EntryTable {
    fn new(bounds: CacheBounds, seed: u64) -> Self {
        Self {
            bounds,
            entries: HashMap::with_hasher(FixedState::with_seed(seed)),
            order: VecDeque::new(),
            bytes: 0,
            descriptors: 0,
        }
    }

    fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.entries.get(name).cloned()
    }

    /// Inserts or replaces an entry, and evicts others as necessary. Returns how many were marked as replaced.
    fn insert(&mut self, name: &str, entry: &Arc<Entry>) -> u64 {
        if entry.cost_bytes() > self.bounds.bytes
            || entry.cost_descriptors() > self.bounds.descriptors
            || self.bounds.entries == 0
        {
            entry.replace();
            return self.remove(name) + 1;
        }
        self.bytes += entry.cost_bytes();
        self.descriptors += entry.cost_descriptors();
        let mut replaced_count = 0;
        match self.entries.get_mut(name) {
            Some(place) => {
                let older = std::mem::replace(place, entry.clone());
                replaced_count += 1;
                self.release(&older);
            }
            None => {
                let name: Arc<str> = name.into();
                self.order.push_back(name.clone());
                self.entries.insert(name, entry.clone());
            }
        }
        replaced_count + self.evict()
    }

    fn remove(&mut self, name: &str) -> u64 {
        let Some(entry) = self.entries.remove(name) else { return 0 };
        self.order.retain(|other| &**other != name);
        self.release(&entry);
        1
    }

    fn release(&mut self, entry: &Entry) {
        entry.replace();
        self.bytes -= entry.cost_bytes();
        self.descriptors -= entry.cost_descriptors();
    }

    fn evict(&mut self) -> u64 {
        let mut replaced_count = 0;
        // Other shards may mark entries as used meanwhile, so the chances are limited.
        let mut chances = self.order.len();
        while self.is_over() {
            let Some(name) = self.order.pop_front() else { break };
            let is_spared = chances > 0 && self.entries.get(&name).is_some_and(|entry| entry.take_used());
            chances = chances.saturating_sub(1);
            if is_spared {
                self.order.push_back(name);
            } else if let Some(entry) = self.entries.remove(&name) {
                self.release(&entry);
                replaced_count += 1;
            }
        }
        replaced_count
    }

    fn is_over(&self) -> bool {
        self.entries.len() > self.bounds.entries
            || self.bytes > self.bounds.bytes
            || self.descriptors > self.bounds.descriptors
    }
}

/// A shard's recent entries by target as received.
///
/// A set-associative table of a fixed size. It holds only files in memory: names without a file cannot displace them,
/// and open files are counted exactly by the store.
#[derive(Debug)]
pub(crate) struct RecentEntries {
    hasher: FixedState,
    /// Allocated with the first entry.
    slots: Vec<Option<RecentSlot>>,
    next_way: usize,
    /// The store's count of replaced entries at the last sweep.
    swept_at: u64,
    counts: Arc<ShardCounts>,
}

#[derive(Debug)]
struct RecentSlot {
    hash: u64,
    path: Box<str>,
    name: Box<str>,
    entry: Arc<Entry>,
}

impl RecentEntries {
    pub(crate) fn new(seed: u64, counts: Arc<ShardCounts>) -> Self {
        Self { hasher: FixedState::with_seed(seed), slots: Vec::new(), next_way: 0, swept_at: 0, counts }
    }

    /// The entry of a target's path, revalidated if necessary.
    ///
    /// # Errors
    /// The path is malformed, or no file of a site can have it.
    pub(crate) fn find(
        &mut self,
        path: &str,
        cache: &FileCache,
        settings: &Settings,
        now: Instant,
        wall: impl FnOnce() -> UnixSeconds,
    ) -> Result<Arc<Entry>, PathError> {
        self.sweep(cache);
        let hash = std::hash::BuildHasher::hash_one(&self.hasher, path);
        let set = (hash as usize % RECENT_SETS) * RECENT_WAYS;
        let known = self.slots.get(set..set + RECENT_WAYS).and_then(|ways| {
            ways.iter().flatten().find(|slot| slot.hash == hash && *slot.path == *path && !slot.entry.is_replaced())
        });
        if let Some(slot) = known {
            let (trusted, source) = cache.revalidated(&slot.name, slot.entry.clone(), settings, now, wall);
            self.counts.count_lookup(source);
            if source == Source::Cache {
                return Ok(trusted);
            }
            let name = slot.name.clone();
            self.keep(set, hash, path, &name, &trusted);
            return Ok(trusted);
        }
        let name = site_name(path, settings.hidden)?;
        let (entry, source) = cache.find(&name, settings, now, wall);
        self.counts.count_lookup(source);
        self.keep(set, hash, path, &name, &entry);
        Ok(entry)
    }

    fn keep(&mut self, set: usize, hash: u64, path: &str, name: &str, entry: &Arc<Entry>) {
        let is_kept = matches!(entry.outcome, EntryOutcome::File(_)) && entry.cost_descriptors() == 0;
        if !is_kept || entry.is_replaced() || path.len() > RECENT_PATH_BYTES_MAX {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(RECENT_SETS * RECENT_WAYS, || None);
        }
        let ways = &mut self.slots[set..set + RECENT_WAYS];
        // Prefers the slot of the same path, then a free or stale one.
        let same =
            ways.iter().position(|way| way.as_ref().is_some_and(|slot| slot.hash == hash && *slot.path == *path));
        let free = || ways.iter().position(|way| way.as_ref().is_none_or(|slot| slot.entry.is_replaced()));
        let way = same.or_else(free).unwrap_or_else(|| {
            self.next_way = (self.next_way + 1) % RECENT_WAYS;
            self.next_way
        });
        ways[way] = Some(RecentSlot { hash, path: path.into(), name: name.into(), entry: entry.clone() });
    }

    /// Drops evicted entries from time to time, which bounds the memory of all shards.
    fn sweep(&mut self, cache: &FileCache) {
        if !cache.is_sweep_due(&mut self.swept_at) {
            return;
        }
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|slot| slot.entry.is_replaced()) {
                *slot = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::entry::StoredBody;
    use crate::root::{DirectoryListing, MemoryRoot, OpenError, OpenedFile};
    use crate::settings::FileCacheLimits;

    const THEN: i128 = 784_111_777_000_000_123;
    const WALL: UnixSeconds = UnixSeconds(800_000_000);

    /// Counts accesses to the file system.
    #[derive(Default)]
    struct CountedRoot {
        files: MemoryRoot,
        opened_count: AtomicUsize,
    }

    impl Root for CountedRoot {
        fn open(&self, name: &str) -> Result<OpenedFile, OpenError> {
            self.opened_count.fetch_add(1, Ordering::Relaxed);
            self.files.open(name)
        }

        fn list(
            &self,
            name: &str,
            entries_max: usize,
            is_listed: &dyn Fn(&str) -> bool,
        ) -> Result<DirectoryListing, OpenError> {
            self.files.list(name, entries_max, is_listed)
        }
    }

    struct Site {
        root: Arc<CountedRoot>,
        cache: FileCache,
        settings: Settings,
        shards: [RecentEntries; 2],
        now: Instant,
    }

    impl Site {
        fn new(files: FileCacheLimits) -> Self {
            let settings = Settings { files, precompressed: false, ..Settings::default() };
            let root = Arc::new(CountedRoot::default());
            let cache = FileCache::new(root.clone(), &settings);
            Self {
                root,
                cache,
                settings,
                shards: [1, 2].map(|seed| RecentEntries::new(seed, Arc::default())),
                now: Instant::ZERO,
            }
        }

        fn get(&mut self, shard: usize, path: &str) -> Option<String> {
            let entry = self.shards[shard].find(path, &self.cache, &self.settings, self.now, || WALL).unwrap();
            match &entry.outcome {
                EntryOutcome::File(file) => match &file.representations[0].body {
                    StoredBody::Memory(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
                    StoredBody::File(_) => None,
                },
                _ => None,
            }
        }

        fn opened_count(&self) -> usize {
            self.root.opened_count.swap(0, Ordering::Relaxed)
        }
    }

    #[test]
    fn fresh_entry_needs_no_system_call() {
        let mut site = Site::new(FileCacheLimits::default());
        site.root.files.write("a", "one", THEN);
        for shard in [0, 1, 0, 1] {
            assert_eq!(site.get(shard, "/a").as_deref(), Some("one"));
            assert_eq!(site.get(shard, "/%61").as_deref(), Some("one"));
        }
        assert_eq!(site.opened_count(), 1);
    }

    #[test]
    fn all_shards_see_changes_after_revalidation() {
        let mut site = Site::new(FileCacheLimits::default());
        site.root.files.write("a", "one", THEN);
        assert_eq!(site.get(0, "/a").as_deref(), Some("one"));
        assert_eq!(site.get(1, "/a").as_deref(), Some("one"));
        site.root.files.write("a", "two", THEN + 1);
        assert_eq!(site.get(0, "/a").as_deref(), Some("one"));
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.get(0, "/a").as_deref(), Some("two"));
        assert_eq!(site.get(1, "/a").as_deref(), Some("two"));
        site.root.files.remove("a");
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.get(1, "/a"), None);
        assert_eq!(site.get(0, "/a"), None);
        site.root.files.write("a", "three", THEN);
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.get(0, "/a").as_deref(), Some("three"));
        assert_eq!(site.get(1, "/a").as_deref(), Some("three"));
    }

    #[test]
    fn zero_period_revalidates_each_request() {
        let mut site = Site::new(FileCacheLimits { revalidate_after: Duration::ZERO, ..FileCacheLimits::default() });
        for (version, content) in (0..).zip(["one", "two", "three"]) {
            site.root.files.write("a", content, THEN + version);
            assert_eq!(site.get(0, "/a").as_deref(), Some(content));
        }
    }

    #[test]
    fn absent_names_are_bounded_separately() {
        let mut site = Site::new(FileCacheLimits { absent_max: 10, ..FileCacheLimits::default() });
        site.root.files.write("a", "one", THEN);
        site.get(0, "/a");
        for number in 0..100 {
            assert_eq!(site.get(0, &format!("/none{number}")), None);
        }
        assert_eq!(site.opened_count(), 101);
        assert_eq!(site.get(0, "/none99"), None);
        site.get(0, "/a");
        assert_eq!(site.opened_count(), 0);
        let absent = site.cache.absent.read();
        assert_eq!((absent.entries.len(), absent.order.len()), (10, 10));
    }

    #[test]
    fn limits_hold_and_used_entries_stay() {
        let limits = FileCacheLimits { bytes_max: 20_000, ..FileCacheLimits::default() };
        let mut site = Site::new(limits);
        for number in 0..100 {
            site.root.files.write(&format!("f{number}"), "x".repeat(1000), THEN);
        }
        for number in 0..100 {
            site.get(0, &format!("/f{number}"));
            site.get(0, "/f0");
            let present = site.cache.present.read();
            assert!(present.bytes <= limits.bytes_max);
            let sum: usize = present.entries.values().map(|entry| entry.cost_bytes()).sum();
            assert_eq!(sum, present.bytes);
            assert_eq!(present.order.len(), present.entries.len());
        }
        assert_eq!(site.opened_count(), 100);
        let held = site.shards[0].slots.iter().flatten().filter(|slot| slot.entry.is_replaced()).count();
        assert!(held as u64 <= EVICTED_HELD_MAX, "{held}");
    }

    #[test]
    fn zero_bytes_disable_the_cache() {
        let mut site = Site::new(FileCacheLimits { bytes_max: 0, ..FileCacheLimits::default() });
        site.root.files.write("a", "one", THEN);
        for _ in 0..3 {
            assert_eq!(site.get(0, "/a").as_deref(), Some("one"));
        }
        assert_eq!(site.opened_count(), 3);
        assert!(site.shards[0].slots.iter().flatten().next().is_none());
    }
}
