//! The cached state of one name of the site: its representations with prepared header lines, or that it does not exist.
//!
//! An entry is immutable except for three marks. It records everything that was examined to build it ([`FileProbe`]:
//! the file, its compressed siblings, the index files tried), so that revalidation examines the same again.

mod reader;
mod representation;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use breme_base::{Instant, UnixSeconds};
use reader::{EntryReader, FileProbe};

pub(crate) use reader::EntryOutcome;
pub(crate) use representation::{Representation, SiteFile, StoredBody, line};

use crate::root::{OpenError, Root};
use crate::settings::Settings;

/// Memory of an entry besides its files, in bytes: names, header lines, table slots.
const ENTRY_BYTES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) outcome: EntryOutcome,
    probes: Vec<FileProbe>,
    /// One of the files may change without a change of its stamp; see [`reader`].
    is_young: bool,
    /// When it was last validated, in nanoseconds of the run.
    revalidated: AtomicU64,
    /// Evicted from the store or superseded: holders must look it up again.
    replaced: AtomicBool,
    /// Used since the store last looked for a victim.
    used: AtomicBool,
}

impl Entry {
    /// Examines everything that belongs to `name` (canonical, see [`crate::path`]).
    pub(crate) fn read(name: &str, root: &dyn Root, settings: &Settings, now: Instant, wall: UnixSeconds) -> Self {
        let mut reader = EntryReader::new(root, settings, wall);
        let outcome = reader.read(name);
        Self {
            outcome,
            probes: reader.probes,
            is_young: reader.is_young,
            revalidated: AtomicU64::new(now.as_nanos()),
            replaced: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// Whether this shard must revalidate the entry now; true for only one shard.
    pub(crate) fn is_check_due(&self, now: Instant, revalidate_after_ns: u64) -> bool {
        let revalidated = self.revalidated.load(Ordering::Relaxed);
        if is_within(revalidated, revalidate_after_ns, now) {
            return false;
        }
        let won = self
            .revalidated
            .compare_exchange(revalidated, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        // With a period of 0, each request revalidates.
        won || revalidate_after_ns == 0
    }

    /// Whether no revalidation is due.
    pub(crate) fn is_fresh(&self, now: Instant, revalidate_after_ns: u64) -> bool {
        is_within(self.revalidated.load(Ordering::Relaxed), revalidate_after_ns, now)
    }

    /// Whether all probes still find the same.
    pub(crate) fn is_unchanged(&self, root: &dyn Root) -> bool {
        !self.is_young && self.probes.iter().all(|probe| probe.is_unchanged(root))
    }

    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Marks the entry as used; rarely writes, so that shards that send the same file do not contend.
    pub(crate) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Reads and clears the used mark.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Nothing can be served under this name.
    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self.outcome, EntryOutcome::Refused(_))
    }

    /// The error is transient, such as a lack of descriptors, and must not be cached.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(self.outcome, EntryOutcome::Refused(OpenError::NoResources | OpenError::Failed))
    }

    pub(crate) fn cost_bytes(&self) -> usize {
        self.representations().map(Representation::memory_bytes).sum::<usize>() + ENTRY_BYTES
    }

    pub(crate) fn cost_descriptors(&self) -> usize {
        self.representations().filter(|one| matches!(one.body, StoredBody::File(_))).count()
    }

    fn representations(&self) -> impl Iterator<Item = &Representation> {
        match &self.outcome {
            EntryOutcome::File(file) => file.representations.iter(),
            _ => [].iter(),
        }
    }
}

fn is_within(revalidated: u64, revalidate_after_ns: u64, now: Instant) -> bool {
    revalidate_after_ns > 0 && now.as_nanos() < revalidated.saturating_add(revalidate_after_ns)
}

#[cfg(test)]
mod tests {
    use breme_http::FieldBlock;

    use super::*;
    use crate::encodings::Coding;
    use crate::root::MemoryRoot;

    const THEN: i128 = 784_111_777_000_000_123;
    const NOW: UnixSeconds = UnixSeconds(800_000_000);

    fn read(name: &str, root: &MemoryRoot) -> Entry {
        Entry::read(name, root, &Settings::default(), Instant::ZERO, NOW)
    }

    fn file(entry: &Entry) -> &SiteFile {
        let EntryOutcome::File(file) = &entry.outcome else { panic!("{:?} is not a file", entry.outcome) };
        file
    }

    fn text(lines: &FieldBlock) -> &str {
        std::str::from_utf8(lines.as_bytes()).unwrap()
    }

    #[test]
    fn entry_prepares_header_lines() {
        let root = MemoryRoot::new();
        root.write("a.html", "hello", THEN);
        let entry = read("a.html", &root);
        let plain = &file(&entry).representations[0];
        assert_eq!(
            text(&plain.lines),
            "Content-Type: text/html; charset=utf-8\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Accept-Ranges: bytes\r\nETag: \"ae1b981bc490a7b-0-5-1\"\r\n"
        );
        assert_eq!(text(&plain.brief_lines), "ETag: \"ae1b981bc490a7b-0-5-1\"\r\n");
        assert_eq!(entry.cost_bytes(), ENTRY_BYTES + 5);
        assert_eq!(entry.cost_descriptors(), 0);
    }

    #[test]
    fn ignores_older_and_media_siblings() {
        let root = MemoryRoot::new();
        for name in ["a.css", "a.css.gz", "b.png", "b.png.gz"] {
            root.write(name, "x", THEN);
        }
        root.write("a.css.br", "y", THEN - 1);
        let entry = read("a.css", &root);
        let style = file(&entry);
        assert_eq!(style.siblings, [(Coding::Gzip, 1)]);
        assert!(text(&style.representations[0].lines).ends_with("Vary: Accept-Encoding\r\n"));
        let packed = text(&style.representations[1].lines);
        assert!(packed.starts_with("Content-Type: text/css; charset=utf-8\r\nContent-Encoding: gzip\r\n"), "{packed}");
        assert!(packed.contains("-gzip\"\r\n"), "{packed}");
        assert!(file(&read("b.png", &root)).siblings.is_empty());
    }

    #[test]
    fn resolves_directory_names() {
        let root = MemoryRoot::new();
        root.write("docs/index.html", "index", THEN);
        root.write("bare/file", "x", THEN);
        assert!(matches!(read("docs", &root).outcome, EntryOutcome::Moved));
        assert!(matches!(read("docs/", &root).outcome, EntryOutcome::File(_)));
        assert!(matches!(read("bare/", &root).outcome, EntryOutcome::Directory));
        assert!(matches!(read("", &root).outcome, EntryOutcome::Directory));
        assert!(matches!(read("bare/file/", &root).outcome, EntryOutcome::Refused(OpenError::NotFound)));
        assert!(matches!(read("none/", &root).outcome, EntryOutcome::Refused(OpenError::NotFound)));
        assert!(matches!(read("none", &root).outcome, EntryOutcome::Refused(OpenError::NotFound)));
    }

    #[test]
    fn revalidation_detects_changes() {
        let root = MemoryRoot::new();
        root.write("d/a.html", "one", THEN);
        let entries = || [read("d/a.html", &root), read("d/", &root)];
        let [file, directory] = entries();
        assert!(file.is_unchanged(&root) && directory.is_unchanged(&root));
        root.write("d/a.html.gz", "z", THEN);
        assert!(!file.is_unchanged(&root));
        root.write("d/index.html", "index", THEN);
        assert!(!directory.is_unchanged(&root));
        let [file, _] = entries();
        root.write("d/a.html", "two", THEN + 1);
        assert!(!file.is_unchanged(&root));
        let [file, _] = entries();
        root.remove("d/a.html");
        assert!(!file.is_unchanged(&root));
    }

    #[test]
    fn young_file_is_weak_and_reread() {
        let root = MemoryRoot::new();
        let age = |seconds: u64| i128::from(NOW.0 - seconds) * 1_000_000_000;
        root.write("old", "x", age(2));
        root.write("young", "x", age(1));
        root.write("future", "x", age(0) + 5_000_000_000);
        let old = read("old", &root);
        assert!(!file(&old).representations[0].validators.weak && old.is_unchanged(&root));
        let young = read("young", &root);
        assert!(text(&file(&young).representations[0].lines).contains("ETag: W/\""));
        assert!(!young.is_unchanged(&root));
        let future = read("future", &root);
        assert_eq!(file(&future).representations[0].validators.modified, None);
    }

    #[test]
    fn one_shard_revalidates() {
        let entry = read("none", &MemoryRoot::new());
        let at = Instant::from_nanos;
        assert!(!entry.is_check_due(at(9), 10));
        assert!(entry.is_check_due(at(10), 10));
        assert!(!entry.is_check_due(at(10), 10));
        assert!(entry.is_check_due(at(20), 10));
        assert!(entry.is_check_due(at(20), 0) && entry.is_check_due(at(20), 0));
    }
}
