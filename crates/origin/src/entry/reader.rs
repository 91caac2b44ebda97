//! Examines the files that belong to a name, and records what it found.
//!
//! **Young files.** A file may change twice within one tick of the file system's clock; nothing then distinguishes the
//! versions. So while a file's last change is less than [`YOUNG_SECONDS`] old when it is read, its tag is weak (RFC
//! 9110, 8.8.1), its date is not a strong validator (8.8.2.2), and its entry is rebuilt at every validation. Programs
//! may set a file's date, but not the time of its last change, so the tag contains both.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use breme_base::UnixSeconds;
use breme_http::media_type;
use bytes::Bytes;

use super::representation::{Representation, SiteFile, StoredBody, brief_lines, representation_lines};
use crate::conditional::Validators;
use crate::encodings::Coding;
use crate::root::{FileContent, FileStamp, OpenError, OpenedFile, Root};
use crate::settings::Settings;

/// The age below which a file may change undetected. The coarsest file system clocks tick every two seconds.
const YOUNG_SECONDS: u64 = 2;
/// Attempts to read a file that changes meanwhile, before it is sent from disk.
const READ_ATTEMPTS_MAX: usize = 3;

/// What a name refers to.
#[derive(Debug)]
pub(crate) enum EntryOutcome {
    File(SiteFile),
    /// A directory named without its slash.
    Moved,
    /// A directory without an index file.
    Directory,
    /// Nothing that can be served.
    Refused(OpenError),
}

/// A file that was examined, and what was found.
#[derive(Debug)]
pub(super) struct FileProbe {
    name: String,
    found: Result<FileStamp, OpenError>,
}

impl FileProbe {
    /// Whether the file system still has the same.
    pub(super) fn is_unchanged(&self, root: &dyn Root) -> bool {
        found(&root.open(&self.name)) == self.found
    }
}

/// Opens what belongs to one name and records the probes.
pub(super) struct EntryReader<'a> {
    root: &'a dyn Root,
    settings: &'a Settings,
    wall: UnixSeconds,
    pub(super) probes: Vec<FileProbe>,
    pub(super) is_young: bool,
}

impl<'a> EntryReader<'a> {
    pub(super) fn new(root: &'a dyn Root, settings: &'a Settings, wall: UnixSeconds) -> Self {
        Self { root, settings, wall, probes: Vec::new(), is_young: false }
    }

    /// Examines everything that belongs to `name`.
    pub(super) fn read(&mut self, name: &str) -> EntryOutcome {
        match name.strip_suffix('/') {
            Some(directory) => self.read_directory(directory),
            None if name.is_empty() => self.read_directory(""),
            None => self.read_name(name),
        }
    }

    fn open(&mut self, name: &str) -> Result<OpenedFile, OpenError> {
        let opened = self.root.open(name);
        self.probes.push(FileProbe { name: name.to_owned(), found: found(&opened) });
        opened
    }

    fn read_name(&mut self, name: &str) -> EntryOutcome {
        match self.open(name) {
            Ok(opened) if matches!(opened.content, FileContent::Directory) => EntryOutcome::Moved,
            Ok(opened) => self.read_file(name, opened),
            Err(error) => EntryOutcome::Refused(error),
        }
    }

    fn read_directory(&mut self, directory: &str) -> EntryOutcome {
        let settings = self.settings;
        for index_name in &settings.index_names {
            let name = if directory.is_empty() { index_name.clone() } else { format!("{directory}/{index_name}") };
            match self.open(&name) {
                Ok(opened) if !matches!(opened.content, FileContent::Directory) => {
                    return self.read_file(&name, opened);
                }
                Err(error @ (OpenError::NoResources | OpenError::Failed)) => return EntryOutcome::Refused(error),
                _ => {}
            }
        }
        match self.open(directory) {
            Ok(opened) if matches!(opened.content, FileContent::Directory) => EntryOutcome::Directory,
            Ok(_) => EntryOutcome::Refused(OpenError::NotFound),
            Err(error) => EntryOutcome::Refused(error),
        }
    }

    fn read_file(&mut self, name: &str, opened: OpenedFile) -> EntryOutcome {
        let media_type = media_type::from_name(name);
        let siblings = self.open_siblings(name, media_type, &opened.stamp);
        let varies = !siblings.is_empty();
        let plain = self.represent(opened, media_type, None, varies);
        let mut file = SiteFile { representations: vec![plain], siblings: Vec::new() };
        for (coding, opened) in siblings {
            let sibling = self.represent(opened, media_type, Some(coding), varies);
            file.siblings.push((coding, sibling.length));
            file.representations.push(sibling);
        }
        EntryOutcome::File(file)
    }

    /// The compressed siblings that are not older than the file; an older one was made from another version. A search
    /// costs three system calls.
    fn open_siblings(&mut self, name: &str, media_type: &str, original: &FileStamp) -> Vec<(Coding, OpenedFile)> {
        let mut siblings = Vec::new();
        if !self.settings.precompressed || !media_type::is_compressible(media_type) {
            return siblings;
        }
        for coding in Coding::ALL {
            let Ok(opened) = self.open(&format!("{name}{}", coding.suffix())) else { continue };
            let is_directory = matches!(opened.content, FileContent::Directory);
            if !is_directory && opened.stamp.modified_ns >= original.modified_ns {
                siblings.push((coding, opened));
            }
        }
        siblings
    }

    fn represent(
        &mut self,
        opened: OpenedFile,
        media_type: &'static str,
        coding: Option<Coding>,
        varies: bool,
    ) -> Representation {
        let OpenedFile { mut stamp, content } = opened;
        let body = match content {
            FileContent::Memory(bytes) => StoredBody::Memory(bytes),
            FileContent::File(file) => self.load(file, &mut stamp),
            FileContent::Directory => StoredBody::Memory(Bytes::new()),
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

    /// Reads a small file into memory, again if it changes meanwhile; `stamp` becomes that of what was read.
    fn load(&mut self, file: Arc<File>, stamp: &mut FileStamp) -> StoredBody {
        for _ in 0..READ_ATTEMPTS_MAX {
            if stamp.length > self.settings.files.file_bytes_max {
                break;
            }
            let bytes = read_whole(&file, stamp.length);
            let Ok(metadata) = file.metadata() else { break };
            let stamp_after = FileStamp::from_metadata(&metadata);
            let is_stable = stamp_after == *stamp;
            *stamp = stamp_after;
            if let (true, Some(bytes)) = (is_stable, bytes) {
                return StoredBody::Memory(bytes);
            }
            // The probe's file no longer exists; forces revalidation.
            self.is_young = true;
        }
        StoredBody::File(file)
    }

    fn validators(&mut self, stamp: &FileStamp, coding: Option<Coding>) -> Validators {
        let FileStamp { inode, length, modified_ns, changed_ns, .. } = *stamp;
        let suffix = coding.map_or(String::new(), |coding| format!("-{}", coding.name()));
        // The difference is mostly 0, and short.
        let changed_after_ns = changed_ns - modified_ns;
        let tag = format!("\"{modified_ns:x}-{changed_after_ns:x}-{length:x}-{inode:x}{suffix}\"").into_boxed_str();
        let seconds = |nanoseconds: i128| u64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok();
        let changed = seconds(changed_ns.max(modified_ns));
        let weak = changed.is_some_and(|changed| changed.saturating_add(YOUNG_SECONDS) > self.wall.0);
        self.is_young |= weak;
        // Dates in the future must not be sent (RFC 9110, 8.8.2.1).
        let modified = seconds(modified_ns).filter(|&modified| modified <= self.wall.0).map(UnixSeconds);
        Validators { tag, weak, modified }
    }
}

fn read_whole(file: &File, length: u64) -> Option<Bytes> {
    let mut content = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut content, 0).ok()?;
    Some(content.into())
}

fn found(opened: &Result<OpenedFile, OpenError>) -> Result<FileStamp, OpenError> {
    match opened {
        Ok(opened) if matches!(opened.content, FileContent::Directory) => Ok(FileStamp {
            // Changes inside a directory do not change the directory's entry.
            length: 0,
            modified_ns: 0,
            changed_ns: 0,
            ..opened.stamp
        }),
        Ok(opened) => Ok(opened.stamp),
        Err(error) => Err(*error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::MemoryRoot;

    const NOW_S: u64 = 784_111_777;
    const NOW_NS: i128 = NOW_S as i128 * 1_000_000_000;
    const DAY_NS: i128 = 24 * 3_600 * 1_000_000_000;

    fn validators(modified_ns: i128, changed_ns: i128) -> Validators {
        let (root, settings) = (MemoryRoot::new(), Settings::default());
        let stamp = FileStamp { device: 1, inode: 2, length: 3, modified_ns, changed_ns };
        EntryReader::new(&root, &settings, UnixSeconds(NOW_S)).validators(&stamp, None)
    }

    #[test]
    fn file_with_a_restored_date_has_another_tag() {
        let then = NOW_NS - 2 * DAY_NS;
        let (before, after) = (validators(then, then), validators(then, NOW_NS - DAY_NS));
        assert!(!before.weak && !after.weak);
        assert_eq!(before.modified, after.modified);
        assert_ne!(before.tag, after.tag);
    }

    #[test]
    fn file_is_young_until_its_last_change_is_old() {
        let young_ns = i128::from(YOUNG_SECONDS) * 1_000_000_000;
        for (modified_ns, changed_ns, is_young) in [
            (NOW_NS - DAY_NS, NOW_NS - DAY_NS, false),
            (NOW_NS - DAY_NS, NOW_NS, true),
            (NOW_NS, NOW_NS - DAY_NS, true),
            (-DAY_NS, NOW_NS, true),
            (-DAY_NS, -DAY_NS, false),
            (NOW_NS - young_ns, NOW_NS - young_ns, false),
            (NOW_NS - young_ns, NOW_NS - young_ns + 1_000_000_000, true),
        ] {
            assert_eq!(validators(modified_ns, changed_ns).weak, is_young, "{modified_ns} {changed_ns}");
        }
    }
}
