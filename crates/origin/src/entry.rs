//! What is known of one name of the site: its representations with their field lines built once, or that there is
//! nothing.
//!
//! An entry is immutable but for three marks. It remembers everything that was looked at to make it ([`Probe`]: the
//! file, its compressed siblings, the index files that were tried), so that "has anything changed?" is answered by
//! looking at the same again.

mod reading;
mod representation;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use breme_base::{Instant, UnixSeconds};
use reading::{Probe, Reader};

pub(crate) use reading::Outcome;
pub(crate) use representation::{Representation, SiteFile, StoredBody, line};

use crate::root::{OpenError, Root};
use crate::settings::Settings;

/// What an entry costs besides its files' bytes: names, field lines, places in tables.
const ENTRY_BYTES: usize = 1024;

/// What is known of one name.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) outcome: Outcome,
    probes: Vec<Probe>,
    is_young: bool,
    /// When its probes were last looked at, in nanoseconds of the run.
    checked: AtomicU64,
    /// The store has let go of it, or has a newer one: who still holds it must ask again.
    replaced: AtomicBool,
    /// Asked for since the store last looked for something to let go.
    used: AtomicBool,
}

impl Entry {
    /// Looks at everything that belongs to `name` (canonical, see [`crate::path`]).
    pub(crate) fn read(name: &str, root: &dyn Root, settings: &Settings, now: Instant, wall: UnixSeconds) -> Self {
        let mut reader = Reader::new(root, settings, wall);
        let outcome = reader.read(name);
        Self {
            outcome,
            probes: reader.probes,
            is_young: reader.is_young,
            checked: AtomicU64::new(now.as_nanos()),
            replaced: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// Whether this shard must look at the probes again now. Only one of all shards is told so.
    pub(crate) fn is_check_due(&self, now: Instant, trusted_for_ns: u64) -> bool {
        let checked = self.checked.load(Ordering::Relaxed);
        if is_within(checked, trusted_for_ns, now) {
            return false;
        }
        let won = self.checked.compare_exchange(checked, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Without trust everybody looks for himself.
        won || trusted_for_ns == 0
    }

    /// Whether nobody must look at the probes now.
    pub(crate) fn is_believed(&self, now: Instant, trusted_for_ns: u64) -> bool {
        is_within(self.checked.load(Ordering::Relaxed), trusted_for_ns, now)
    }

    /// Whether everything is still as it was.
    pub(crate) fn is_unchanged(&self, root: &dyn Root) -> bool {
        !self.is_young && self.probes.iter().all(|probe| probe.is_unchanged(root))
    }

    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Notes a use; seldom writes, so that shards which send the same file do not meet here.
    pub(crate) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used since this was last asked.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// There is nothing that could be served under this name.
    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }

    /// A lack of resources is over soon and must not be remembered.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(OpenError::NoResources | OpenError::Failed))
    }

    pub(crate) fn cost_bytes(&self) -> usize {
        self.representations().map(Representation::memory_bytes).sum::<usize>() + ENTRY_BYTES
    }

    pub(crate) fn cost_descriptors(&self) -> usize {
        self.representations().filter(|one| matches!(one.body, StoredBody::File(_))).count()
    }

    fn representations(&self) -> impl Iterator<Item = &Representation> {
        match &self.outcome {
            Outcome::File(file) => file.representations.iter(),
            _ => [].iter(),
        }
    }
}

fn is_within(checked: u64, trusted_for_ns: u64, now: Instant) -> bool {
    trusted_for_ns > 0 && now.as_nanos() < checked.saturating_add(trusted_for_ns)
}

#[cfg(test)]
mod tests {
    use breme_http1::FieldBlock;

    use super::*;
    use crate::encodings::Coding;
    use crate::root::MemoryRoot;

    const THEN: i128 = 784_111_777_000_000_123;
    const NOW: UnixSeconds = UnixSeconds(800_000_000);

    fn read(name: &str, root: &MemoryRoot) -> Entry {
        Entry::read(name, root, &Settings::default(), Instant::ZERO, NOW)
    }

    fn file(entry: &Entry) -> &SiteFile {
        let Outcome::File(file) = &entry.outcome else { panic!("{:?} is not a file", entry.outcome) };
        file
    }

    fn text(lines: &FieldBlock) -> &str {
        std::str::from_utf8(lines.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_has_its_lines() {
        let root = MemoryRoot::new();
        root.write("a.html", "hello", THEN);
        let entry = read("a.html", &root);
        let plain = &file(&entry).representations[0];
        assert_eq!(
            text(&plain.lines),
            "Content-Type: text/html; charset=utf-8\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Accept-Ranges: bytes\r\nETag: \"ae1b981bc490a7b-5-1\"\r\n"
        );
        assert_eq!(text(&plain.brief_lines), "ETag: \"ae1b981bc490a7b-5-1\"\r\n");
        assert_eq!(entry.cost_bytes(), ENTRY_BYTES + 5);
        assert_eq!(entry.cost_descriptors(), 0);
    }

    #[test]
    fn siblings_that_are_older_or_of_media_are_not_taken() {
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
    fn names_of_directories() {
        let root = MemoryRoot::new();
        root.write("docs/index.html", "index", THEN);
        root.write("bare/file", "x", THEN);
        assert!(matches!(read("docs", &root).outcome, Outcome::Moved));
        assert!(matches!(read("docs/", &root).outcome, Outcome::File(_)));
        assert!(matches!(read("bare/", &root).outcome, Outcome::Directory));
        assert!(matches!(read("", &root).outcome, Outcome::Directory));
        assert!(matches!(read("bare/file/", &root).outcome, Outcome::Refused(OpenError::NotFound)));
        assert!(matches!(read("none/", &root).outcome, Outcome::Refused(OpenError::NotFound)));
        assert!(matches!(read("none", &root).outcome, Outcome::Refused(OpenError::NotFound)));
    }

    #[test]
    fn any_change_of_what_was_looked_at_is_seen() {
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
    fn a_young_file_is_weak_and_read_again() {
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
    fn a_check_is_due_once_for_all_shards() {
        let entry = read("none", &MemoryRoot::new());
        let at = Instant::from_nanos;
        assert!(!entry.is_check_due(at(9), 10));
        assert!(entry.is_check_due(at(10), 10));
        assert!(!entry.is_check_due(at(10), 10));
        assert!(entry.is_check_due(at(20), 10));
        assert!(entry.is_check_due(at(20), 0) && entry.is_check_due(at(20), 0));
    }
}
