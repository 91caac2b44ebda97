//! What is known of the site's names, kept within bounds and shared by all shards; and what each shard used last,
//! without a lock.
//!
//! ```text
//!   target as sent ─► Recent (one shard, no lock, no decoding) ─► Store (all shards) ─► Root (system calls)
//! ```
//!
//! An entry is believed for [`trusted_for`](crate::FileCacheLimits::trusted_for); then the next request that wants it
//! looks whether anything has changed. When the store lets go of an entry or replaces it, it marks it, so that a shard
//! which still has it in its recent ones asks the store again.
//!
//! The store lets go by second chance: the oldest entry goes, unless it was used since it was last looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use breme_base::{Instant, UnixSeconds};
use foldhash::fast::FixedState;

use crate::counters::{ShardCounts, Source};
use crate::entry::{Entry, Outcome};
use crate::path::{PathError, site_name};
use crate::root::Root;
use crate::settings::Settings;

/// Entries that the store has let go of and one shard may still hold, until it looks through its recent ones.
pub const EVICTED_HELD_MAX: u64 = 64;
/// Sets and ways of a shard's table of recent entries.
const RECENT_SETS: usize = 256;
const RECENT_WAYS: usize = 4;
/// Longer targets are not kept among the recent ones.
const RECENT_PATH_BYTES_MAX: usize = 256;

/// The files of a site, for all shards.
pub(crate) struct FileCache {
    root: Arc<dyn Root>,
    present: RwLock<Shelf>,
    /// Names without anything behind them stand apart, so that asking for many of those costs no file its place.
    absent: RwLock<Shelf>,
    /// Entries that were marked as replaced, ever.
    replaced_count: AtomicU64,
}

impl FileCache {
    pub(crate) fn new(root: Arc<dyn Root>, settings: &Settings) -> Self {
        let limits = &settings.files;
        let present =
            Bounds { entries: limits.entries_max, bytes: limits.bytes_max, descriptors: limits.descriptors_max };
        let absent = Bounds { entries: limits.absent_max, bytes: limits.bytes_max, descriptors: 0 };
        let shelf = |bounds| RwLock::new(Shelf::new(bounds, settings.seed));
        Self { root, present: shelf(present), absent: shelf(absent), replaced_count: AtomicU64::new(0) }
    }

    pub(crate) fn root(&self) -> &dyn Root {
        &*self.root
    }

    /// What stands behind a canonical name, not older than it is believed.
    fn find(
        &self,
        name: &str,
        settings: &Settings,
        now: Instant,
        wall: impl FnOnce() -> UnixSeconds,
    ) -> (Arc<Entry>, Source) {
        let known = [&self.present, &self.absent]
            .into_iter()
            .find_map(|shelf| shelf.read().unwrap_or_else(PoisonError::into_inner).find(name));
        match known {
            Some(entry) => self.checked(name, entry, settings, now, wall),
            None => (self.read(name, settings, now, wall()), Source::Root),
        }
    }

    /// This entry, or a new one if the files have changed.
    fn checked(
        &self,
        name: &str,
        entry: Arc<Entry>,
        settings: &Settings,
        now: Instant,
        wall: impl FnOnce() -> UnixSeconds,
    ) -> (Arc<Entry>, Source) {
        if !entry.is_check_due(now, settings.files.trusted_for_ns()) || entry.is_unchanged(&*self.root) {
            entry.touch();
            return (entry, Source::Kept);
        }
        (self.read(name, settings, now, wall()), Source::Root)
    }

    /// Whether who holds entries beside the store should look which ones it has let go of, since it last was told so.
    pub(crate) fn is_sweep_due(&self, swept_at: &mut u64) -> bool {
        let replaced_count = self.replaced_count.load(Ordering::Relaxed);
        let is_due = replaced_count - *swept_at >= EVICTED_HELD_MAX;
        if is_due {
            *swept_at = replaced_count;
        }
        is_due
    }

    /// Names, bytes and open files that are kept.
    pub(crate) fn kept(&self) -> KeptFiles {
        let mut kept = KeptFiles::default();
        for shelf in [&self.present, &self.absent] {
            let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
            kept.names += shelf.entries.len();
            kept.bytes += shelf.bytes;
            kept.open_files += shelf.descriptors;
        }
        kept
    }

    fn read(&self, name: &str, settings: &Settings, now: Instant, wall: UnixSeconds) -> Arc<Entry> {
        let entry = Arc::new(Entry::read(name, &*self.root, settings, now, wall));
        let (shelf, other) =
            if entry.is_absent() { (&self.absent, &self.present) } else { (&self.present, &self.absent) };
        let mut replaced_count = other.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut shelf = shelf.write().unwrap_or_else(PoisonError::into_inner);
        if entry.is_passing() {
            replaced_count += shelf.remove(name);
            entry.replace();
        } else {
            replaced_count += shelf.insert(name, &entry);
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
struct Bounds {
    entries: usize,
    bytes: usize,
    descriptors: usize,
}

/// How much a site's cache of files holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptFiles {
    /// Names that are known, those without a file behind them too.
    pub names: usize,
    /// Bytes in memory, with what is kept about each name.
    pub bytes: usize,
    /// Files that stay open.
    pub open_files: usize,
}

/// Entries by name, within bounds.
#[derive(Debug)]
struct Shelf {
    bounds: Bounds,
    entries: HashMap<Arc<str>, Arc<Entry>, FixedState>,
    /// Every name once, the oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
    descriptors: usize,
}

impl Shelf {
    fn new(bounds: Bounds, seed: u64) -> Self {
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

    /// Puts an entry in, in the place of one of the same name, and lets others go for it. Tells how many were marked.
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
                self.leave(&older);
            }
            None => {
                let name: Arc<str> = name.into();
                self.order.push_back(name.clone());
                self.entries.insert(name, entry.clone());
            }
        }
        replaced_count + self.make_room()
    }

    fn remove(&mut self, name: &str) -> u64 {
        let Some(entry) = self.entries.remove(name) else { return 0 };
        self.order.retain(|other| &**other != name);
        self.leave(&entry);
        1
    }

    fn leave(&mut self, entry: &Entry) {
        entry.replace();
        self.bytes -= entry.cost_bytes();
        self.descriptors -= entry.cost_descriptors();
    }

    fn make_room(&mut self) -> u64 {
        let mut replaced_count = 0;
        // Others may mark entries as used while we look, so chances are counted.
        let mut chances = self.order.len();
        while self.is_over() {
            let Some(name) = self.order.pop_front() else { break };
            let is_spared = chances > 0 && self.entries.get(&name).is_some_and(|entry| entry.take_used());
            chances = chances.saturating_sub(1);
            if is_spared {
                self.order.push_back(name);
            } else if let Some(entry) = self.entries.remove(&name) {
                self.leave(&entry);
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

/// A shard's view of the site: what it used last, by the target as it was sent.
///
/// A table of a fixed size, in which a new entry takes the place of another one. It holds only files in memory: names
/// without any cannot push them out, and what is open is counted exactly by the store.
#[derive(Debug)]
pub(crate) struct Recent {
    hasher: FixedState,
    /// Empty until the first entry comes.
    slots: Vec<Option<Slot>>,
    next_way: usize,
    /// The store's count of replaced entries when this table was last looked through.
    swept_at: u64,
    counts: Arc<ShardCounts>,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    path: Box<str>,
    name: Box<str>,
    entry: Arc<Entry>,
}

impl Recent {
    pub(crate) fn new(seed: u64, counts: Arc<ShardCounts>) -> Self {
        Self { hasher: FixedState::with_seed(seed), slots: Vec::new(), next_way: 0, swept_at: 0, counts }
    }

    /// What stands behind a target's path, and its canonical name where that is needed.
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
            let (trusted, source) = cache.checked(&slot.name, slot.entry.clone(), settings, now, wall);
            self.counts.count_lookup(source);
            if source == Source::Kept {
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
        let is_kept = matches!(entry.outcome, Outcome::File(_)) && entry.cost_descriptors() == 0;
        if !is_kept || entry.is_replaced() || path.len() > RECENT_PATH_BYTES_MAX {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(RECENT_SETS * RECENT_WAYS, || None);
        }
        let ways = &mut self.slots[set..set + RECENT_WAYS];
        // The place of the same path first, then one that is free or stale, then any.
        let same =
            ways.iter().position(|way| way.as_ref().is_some_and(|slot| slot.hash == hash && *slot.path == *path));
        let free = || ways.iter().position(|way| way.as_ref().is_none_or(|slot| slot.entry.is_replaced()));
        let way = same.or_else(free).unwrap_or_else(|| {
            self.next_way = (self.next_way + 1) % RECENT_WAYS;
            self.next_way
        });
        ways[way] = Some(Slot { hash, path: path.into(), name: name.into(), entry: entry.clone() });
    }

    /// Lets go of what the store let go of, every now and then: this is what keeps the memory of all shards within
    /// bounds.
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
    use crate::root::{Listed, MemoryRoot, OpenError, Opened};
    use crate::settings::FileCacheLimits;

    const THEN: i128 = 784_111_777_000_000_123;
    const WALL: UnixSeconds = UnixSeconds(800_000_000);

    /// Counts how often the file system is asked.
    #[derive(Default)]
    struct CountedRoot {
        files: MemoryRoot,
        opened_count: AtomicUsize,
    }

    impl Root for CountedRoot {
        fn open(&self, name: &str) -> Result<Opened, OpenError> {
            self.opened_count.fetch_add(1, Ordering::Relaxed);
            self.files.open(name)
        }

        fn list(&self, name: &str, entries_max: usize) -> Result<Listed, OpenError> {
            self.files.list(name, entries_max)
        }
    }

    struct Site {
        root: Arc<CountedRoot>,
        cache: FileCache,
        settings: Settings,
        shards: [Recent; 2],
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
                shards: [1, 2].map(|seed| Recent::new(seed, Arc::default())),
                now: Instant::ZERO,
            }
        }

        fn ask(&mut self, shard: usize, path: &str) -> Option<String> {
            let entry = self.shards[shard].find(path, &self.cache, &self.settings, self.now, || WALL).unwrap();
            match &entry.outcome {
                Outcome::File(file) => match &file.representations[0].body {
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
    fn a_trusted_entry_costs_no_system_call_on_any_shard() {
        let mut site = Site::new(FileCacheLimits::default());
        site.root.files.write("a", "one", THEN);
        for shard in [0, 1, 0, 1] {
            assert_eq!(site.ask(shard, "/a").as_deref(), Some("one"));
            assert_eq!(site.ask(shard, "/%61").as_deref(), Some("one"));
        }
        assert_eq!(site.opened_count(), 1);
    }

    #[test]
    fn a_change_is_seen_by_all_shards_when_trust_ends() {
        let mut site = Site::new(FileCacheLimits::default());
        site.root.files.write("a", "one", THEN);
        assert_eq!(site.ask(0, "/a").as_deref(), Some("one"));
        assert_eq!(site.ask(1, "/a").as_deref(), Some("one"));
        site.root.files.write("a", "two", THEN + 1);
        assert_eq!(site.ask(0, "/a").as_deref(), Some("one"));
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.ask(0, "/a").as_deref(), Some("two"));
        assert_eq!(site.ask(1, "/a").as_deref(), Some("two"));
        site.root.files.remove("a");
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.ask(1, "/a"), None);
        assert_eq!(site.ask(0, "/a"), None);
        site.root.files.write("a", "three", THEN);
        site.now = site.now + Duration::from_secs(1);
        assert_eq!(site.ask(0, "/a").as_deref(), Some("three"));
        assert_eq!(site.ask(1, "/a").as_deref(), Some("three"));
    }

    #[test]
    fn without_trust_every_request_looks() {
        let mut site = Site::new(FileCacheLimits { trusted_for: Duration::ZERO, ..FileCacheLimits::default() });
        for (version, content) in (0..).zip(["one", "two", "three"]) {
            site.root.files.write("a", content, THEN + version);
            assert_eq!(site.ask(0, "/a").as_deref(), Some(content));
        }
    }

    #[test]
    fn names_without_files_are_remembered_apart_and_bounded() {
        let mut site = Site::new(FileCacheLimits { absent_max: 10, ..FileCacheLimits::default() });
        site.root.files.write("a", "one", THEN);
        site.ask(0, "/a");
        for number in 0..100 {
            assert_eq!(site.ask(0, &format!("/none{number}")), None);
        }
        assert_eq!(site.opened_count(), 101);
        assert_eq!(site.ask(0, "/none99"), None);
        site.ask(0, "/a");
        assert_eq!(site.opened_count(), 0);
        let absent = site.cache.absent.read().unwrap();
        assert_eq!((absent.entries.len(), absent.order.len()), (10, 10));
    }

    #[test]
    fn the_bounds_hold_and_what_is_used_stays() {
        let limits = FileCacheLimits { bytes_max: 20_000, ..FileCacheLimits::default() };
        let mut site = Site::new(limits);
        for number in 0..100 {
            site.root.files.write(&format!("f{number}"), "x".repeat(1000), THEN);
        }
        for number in 0..100 {
            site.ask(0, &format!("/f{number}"));
            site.ask(0, "/f0");
            let present = site.cache.present.read().unwrap();
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
    fn a_cache_of_no_bytes_keeps_nothing() {
        let mut site = Site::new(FileCacheLimits { bytes_max: 0, ..FileCacheLimits::default() });
        site.root.files.write("a", "one", THEN);
        for _ in 0..3 {
            assert_eq!(site.ask(0, "/a").as_deref(), Some("one"));
        }
        assert_eq!(site.opened_count(), 3);
        assert!(site.shards[0].slots.iter().flatten().next().is_none());
    }
}
