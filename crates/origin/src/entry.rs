//! What is known of one name of the site: its representations with their field lines built once, or that there is nothing.
//!
//! An entry is immutable but for three marks. It remembers everything that was looked at to make it ([`Probe`]: the file, its
//! compressed siblings, the index files that were tried), so that "has anything changed?" is answered by looking at the same again.
//!
//! **Young files.** A file may change twice within one tick of the file system's clock, and then nothing tells the second version from the first.
//! So as long as a file changed less than [`YOUNG_SECONDS`] before it was read, its tag is weak (RFC 9110, 8.8.1), its date is not a
//! strong validator (8.8.2.2), and its entry is made anew at every check.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use breme_base::{Instant, UnixSeconds};
use breme_http1::FieldBlock;
use bytes::Bytes;

use crate::conditional::{Validators, format_date};
use crate::encodings::Coding;
use crate::media_types;
use crate::root::{Content, OpenError, Opened, Root, Stamp};
use crate::settings::Settings;

/// How long after its last change a file may still change unnoticed. The coarsest clocks of file systems tick in two seconds.
const YOUNG_SECONDS: u64 = 2;
/// How often a file that changes while it is read is read again, before it is sent from where it is.
const READ_ATTEMPTS_MAX: usize = 3;
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

/// What a name leads to.
#[derive(Debug)]
pub(crate) enum Outcome {
    File(SiteFile),
    /// A directory that was named without its slash.
    Moved,
    /// A directory without an index file.
    Directory,
    /// Nothing that can be served.
    Refused(OpenError),
}

/// A file with its compressed siblings.
#[derive(Debug)]
pub(crate) struct SiteFile {
    /// The file itself first, then its siblings.
    pub(crate) representations: Vec<Representation>,
    /// Coding and length of the siblings, in their order.
    pub(crate) siblings: Vec<(Coding, u64)>,
}

/// One content to send, with its lines.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) validators: Validators,
    pub(crate) length: u64,
    pub(crate) media_type: &'static str,
    pub(crate) body: StoredBody,
    /// For 200 and 206.
    pub(crate) lines: FieldBlock,
    /// The same without Content-Type, for multipart 206, which has its own.
    pub(crate) untyped_lines: FieldBlock,
    /// For 304: what RFC 9110, 15.4.5 asks for.
    pub(crate) brief_lines: FieldBlock,
}

/// Where a content is.
#[derive(Clone, Debug)]
pub(crate) enum StoredBody {
    Memory(Bytes),
    File(Arc<File>),
}

/// Something that was looked at, and what was there.
#[derive(Debug)]
struct Probe {
    name: String,
    found: Result<Stamp, OpenError>,
}

impl Entry {
    /// Looks at everything that belongs to `name` (canonical, see [`crate::path`]).
    pub(crate) fn read(name: &str, root: &dyn Root, settings: &Settings, now: Instant, wall: UnixSeconds) -> Self {
        let mut reader = Reader { root, settings, wall, probes: Vec::new(), is_young: false };
        let outcome = match name.strip_suffix('/') {
            Some(directory) => reader.read_directory(directory),
            None if name.is_empty() => reader.read_directory(""),
            None => reader.read_name(name),
        };
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
        !self.is_young && self.probes.iter().all(|probe| found(&root.open(&probe.name)) == probe.found)
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

impl Representation {
    fn memory_bytes(&self) -> usize {
        match &self.body {
            StoredBody::Memory(bytes) => bytes.len(),
            StoredBody::File(_) => 0,
        }
    }
}

fn is_within(checked: u64, trusted_for_ns: u64, now: Instant) -> bool {
    trusted_for_ns > 0 && now.as_nanos() < checked.saturating_add(trusted_for_ns)
}

fn found(opened: &Result<Opened, OpenError>) -> Result<Stamp, OpenError> {
    match opened {
        Ok(opened) if matches!(opened.content, Content::Directory) => Ok(Stamp {
            // What changes inside a directory does not change what it is.
            length: 0,
            modified_ns: 0,
            changed_ns: 0,
            ..opened.stamp
        }),
        Ok(opened) => Ok(opened.stamp),
        Err(error) => Err(*error),
    }
}

/// Opens what belongs to one name and keeps the minutes.
struct Reader<'a> {
    root: &'a dyn Root,
    settings: &'a Settings,
    wall: UnixSeconds,
    probes: Vec<Probe>,
    is_young: bool,
}

impl Reader<'_> {
    fn open(&mut self, name: &str) -> Result<Opened, OpenError> {
        let opened = self.root.open(name);
        self.probes.push(Probe { name: name.to_owned(), found: found(&opened) });
        opened
    }

    fn read_name(&mut self, name: &str) -> Outcome {
        match self.open(name) {
            Ok(opened) if matches!(opened.content, Content::Directory) => Outcome::Moved,
            Ok(opened) => self.read_file(name, opened),
            Err(error) => Outcome::Refused(error),
        }
    }

    fn read_directory(&mut self, directory: &str) -> Outcome {
        let settings = self.settings;
        for index_name in &settings.index_names {
            let name = if directory.is_empty() { index_name.clone() } else { format!("{directory}/{index_name}") };
            match self.open(&name) {
                Ok(opened) if !matches!(opened.content, Content::Directory) => return self.read_file(&name, opened),
                Err(error @ (OpenError::NoResources | OpenError::Failed)) => return Outcome::Refused(error),
                _ => {}
            }
        }
        match self.open(directory) {
            Ok(opened) if matches!(opened.content, Content::Directory) => Outcome::Directory,
            Ok(_) => Outcome::Refused(OpenError::NotFound),
            Err(error) => Outcome::Refused(error),
        }
    }

    fn read_file(&mut self, name: &str, opened: Opened) -> Outcome {
        let media_type = media_types::of_name(name);
        let siblings = self.open_siblings(name, media_type, &opened.stamp);
        let varies = !siblings.is_empty();
        let plain = self.represent(opened, media_type, None, varies);
        let mut file = SiteFile { representations: vec![plain], siblings: Vec::new() };
        for (coding, opened) in siblings {
            let sibling = self.represent(opened, media_type, Some(coding), varies);
            file.siblings.push((coding, sibling.length));
            file.representations.push(sibling);
        }
        Outcome::File(file)
    }

    /// The compressed siblings that are not older than the file itself: one that is was made of something else.
    fn open_siblings(&mut self, name: &str, media_type: &str, original: &Stamp) -> Vec<(Coding, Opened)> {
        let mut siblings = Vec::new();
        if !self.settings.precompressed || !media_types::is_compressible(media_type) {
            return siblings;
        }
        for coding in Coding::ALL {
            let Ok(opened) = self.open(&format!("{name}{}", coding.suffix())) else { continue };
            let is_directory = matches!(opened.content, Content::Directory);
            if !is_directory && opened.stamp.modified_ns >= original.modified_ns {
                siblings.push((coding, opened));
            }
        }
        siblings
    }

    fn represent(
        &mut self,
        opened: Opened,
        media_type: &'static str,
        coding: Option<Coding>,
        varies: bool,
    ) -> Representation {
        let Opened { mut stamp, content } = opened;
        let body = match content {
            Content::Memory(bytes) => StoredBody::Memory(bytes),
            Content::File(file) => self.load(file, &mut stamp),
            Content::Directory => StoredBody::Memory(Bytes::new()),
        };
        let validators = self.validators(&stamp, coding);
        let lines =
            |with_type: bool| representation_lines(&validators, with_type.then_some(media_type), coding, varies);
        Representation {
            lines: lines(true),
            untyped_lines: lines(false),
            brief_lines: brief_lines(&validators, varies),
            length: stamp.length,
            validators,
            media_type,
            body,
        }
    }

    /// Reads a small file into memory. One that changes meanwhile is read again; `stamp` becomes that of what was read.
    fn load(&mut self, file: Arc<File>, stamp: &mut Stamp) -> StoredBody {
        for _ in 0..READ_ATTEMPTS_MAX {
            if stamp.length > self.settings.files.file_bytes_max {
                break;
            }
            let bytes = read_whole(&file, stamp.length);
            let Ok(metadata) = file.metadata() else { break };
            let stamp_after = Stamp::of(&metadata);
            let is_stable = stamp_after == *stamp;
            *stamp = stamp_after;
            if let (true, Some(bytes)) = (is_stable, bytes) {
                return StoredBody::Memory(bytes);
            }
            // What the probe saw is no longer there; be sure to look again.
            self.is_young = true;
        }
        StoredBody::File(file)
    }

    fn validators(&mut self, stamp: &Stamp, coding: Option<Coding>) -> Validators {
        let Stamp { inode, length, modified_ns, .. } = *stamp;
        let suffix = coding.map_or(String::new(), |coding| format!("-{}", coding.name()));
        let tag = format!("\"{modified_ns:x}-{length:x}-{inode:x}{suffix}\"").into_boxed_str();
        let modified = u64::try_from(modified_ns.div_euclid(1_000_000_000)).ok();
        let weak = modified.is_some_and(|modified| modified.saturating_add(YOUNG_SECONDS) > self.wall.0);
        self.is_young |= weak;
        // A date in the future is not to be sent (RFC 9110, 8.8.2.1).
        let modified = modified.filter(|&modified| modified <= self.wall.0).map(UnixSeconds);
        Validators { tag, weak, modified }
    }
}

fn read_whole(file: &File, length: u64) -> Option<Bytes> {
    let mut content = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut content, 0).ok()?;
    Some(content.into())
}

fn representation_lines(
    validators: &Validators,
    media_type: Option<&str>,
    coding: Option<Coding>,
    varies: bool,
) -> FieldBlock {
    let mut lines = FieldBlock::new();
    if let Some(media_type) = media_type {
        line(&mut lines, "Content-Type", media_type.as_bytes());
    }
    if let Some(coding) = coding {
        line(&mut lines, "Content-Encoding", coding.name().as_bytes());
    }
    if let Some(modified) = validators.modified {
        line(&mut lines, "Last-Modified", &format_date(modified));
    }
    line(&mut lines, "Accept-Ranges", b"bytes");
    push_tag_and_vary(&mut lines, validators, varies);
    lines
}

fn brief_lines(validators: &Validators, varies: bool) -> FieldBlock {
    let mut lines = FieldBlock::new();
    push_tag_and_vary(&mut lines, validators, varies);
    lines
}

fn push_tag_and_vary(lines: &mut FieldBlock, validators: &Validators, varies: bool) {
    line(lines, "ETag", validators.entity_tag().as_bytes());
    if varies {
        line(lines, "Vary", b"Accept-Encoding");
    }
}

/// Adds a line of which this crate knows that it is valid; were it not, it would be left out.
pub(crate) fn line(lines: &mut FieldBlock, name: &str, value: &[u8]) {
    let added = lines.push(name, value);
    debug_assert!(added.is_ok(), "{added:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
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
