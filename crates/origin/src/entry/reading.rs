//! Looking at what belongs to a name, with minutes of what was there.
//!
//! **Young files.** A file may change twice within one tick of the file system's clock, and then nothing tells the
//! second version from the first. So as long as a file changed less than [`YOUNG_SECONDS`] before it was read, its tag
//! is weak (RFC 9110, 8.8.1), its date is not a strong validator (8.8.2.2), and its entry is made anew at every check.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use breme_base::UnixSeconds;
use bytes::Bytes;

use super::representation::{Representation, SiteFile, StoredBody, brief_lines, representation_lines};
use crate::conditional::Validators;
use crate::encodings::Coding;
use crate::media_types;
use crate::root::{Content, OpenError, Opened, Root, Stamp};
use crate::settings::Settings;

/// How long after its last change a file may still change unnoticed. The coarsest clocks of file systems tick in two
/// seconds.
const YOUNG_SECONDS: u64 = 2;
/// How often a file that changes while it is read is read again, before it is sent from where it is.
const READ_ATTEMPTS_MAX: usize = 3;

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

/// Something that was looked at, and what was there.
#[derive(Debug)]
pub(super) struct Probe {
    name: String,
    found: Result<Stamp, OpenError>,
}

impl Probe {
    /// Whether the same is there now.
    pub(super) fn is_unchanged(&self, root: &dyn Root) -> bool {
        found(&root.open(&self.name)) == self.found
    }
}

/// Opens what belongs to one name and keeps the minutes.
pub(super) struct Reader<'a> {
    root: &'a dyn Root,
    settings: &'a Settings,
    wall: UnixSeconds,
    pub(super) probes: Vec<Probe>,
    pub(super) is_young: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a dyn Root, settings: &'a Settings, wall: UnixSeconds) -> Self {
        Self { root, settings, wall, probes: Vec::new(), is_young: false }
    }

    /// Looks at everything that belongs to `name`.
    pub(super) fn read(&mut self, name: &str) -> Outcome {
        match name.strip_suffix('/') {
            Some(directory) => self.read_directory(directory),
            None if name.is_empty() => self.read_directory(""),
            None => self.read_name(name),
        }
    }

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
