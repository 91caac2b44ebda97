//! Where a site's files come from: the operating system in the product, memory in tests and in the simulation.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// A folder out of which nothing leads.
///
/// Names are relative, without `.`, `..`, empty segments or a slash at the end; the root itself is `""`.
/// An implementation must keep to its folder whatever the name is, links included.
pub trait Root: Send + Sync {
    /// Opens a regular file or a directory, without waiting.
    ///
    /// # Errors
    /// What [`OpenError`] tells.
    fn open(&self, name: &str) -> Result<Opened, OpenError>;

    /// What stands in a directory, in no order, without `.` and `..`: at most `entries_max`, and whether that was all.
    ///
    /// # Errors
    /// What [`OpenError`] tells.
    fn list(&self, name: &str, entries_max: usize) -> Result<Listed, OpenError>;
}

/// An open file or directory.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Which version of which file it is.
    pub stamp: Stamp,
    /// Its content.
    pub content: Content,
}

/// What was opened.
#[derive(Clone, Debug)]
pub enum Content {
    /// A directory.
    Directory,
    /// A regular file.
    File(Arc<File>),
    /// A file that is in memory.
    Memory(Bytes),
}

/// One version of one file: if nothing of this changed, the content did not change either, as far as the file system
/// can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
    /// Bytes.
    pub length: u64,
    /// Last change of the content: nanoseconds since 1970.
    pub modified_ns: i128,
    /// Last change of content or attributes. Tells a file that was replaced by one with the same date (`cp -p`,
    /// `touch -d`).
    pub changed_ns: i128,
}

impl Stamp {
    /// The stamp of an open file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.size(),
            modified_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Why a name cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenError {
    /// There is no such file.
    NotFound,
    /// It may not be read, leads out of the root, or is neither a regular file nor a directory.
    Forbidden,
    /// Too few file descriptors or too little memory; it may go better later.
    NoResources,
    /// The file system failed.
    Failed,
}

impl OpenError {
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::Forbidden => 403,
            Self::NoResources => 503,
            Self::Failed => 500,
        }
    }
}

/// A part of a directory, or all of it.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// What stands in it.
    pub entries: Vec<ListedEntry>,
    /// Whether there was more.
    pub truncated: bool,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Without its directory.
    pub name: String,
    /// A directory, else a regular file.
    pub is_directory: bool,
    /// Bytes.
    pub length: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i128,
}

/// Files in memory, for tests and the simulation. They can be changed while they are served.
#[derive(Debug, Default)]
pub struct MemoryRoot {
    files: Mutex<BTreeMap<String, (Stamp, Bytes)>>,
}

impl MemoryRoot {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, or changes it. `modified_ns` counts from 1970.
    pub fn write(&self, name: &str, content: impl Into<Bytes>, modified_ns: i128) {
        let content = content.into();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = files.get(name).map_or(files.len() as u64 + 1, |(stamp, _)| stamp.inode);
        let stamp = Stamp { device: 1, inode, length: content.len() as u64, modified_ns, changed_ns: modified_ns };
        files.insert(name.to_owned(), (stamp, content));
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Root for MemoryRoot {
    fn open(&self, name: &str) -> Result<Opened, OpenError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((stamp, content)) = files.get(name) {
            return Ok(Opened { stamp: *stamp, content: Content::Memory(content.clone()) });
        }
        let folder = folder_prefix(name);
        if name.is_empty() || files.keys().any(|file| file.starts_with(&folder)) {
            return Ok(Opened { stamp: Stamp::default(), content: Content::Directory });
        }
        Err(OpenError::NotFound)
    }

    fn list(&self, name: &str, entries_max: usize) -> Result<Listed, OpenError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = folder_prefix(name);
        let mut listed = Listed::default();
        for (path, (stamp, _)) in files.iter() {
            let Some(below) = path.strip_prefix(&folder) else { continue };
            let (first, is_directory) = below.split_once('/').map_or((below, false), |(first, _)| (first, true));
            if listed.entries.iter().any(|entry| entry.name == first) {
                continue;
            }
            if listed.entries.len() == entries_max {
                listed.truncated = true;
                break;
            }
            listed.entries.push(ListedEntry {
                name: first.to_owned(),
                is_directory,
                length: stamp.length,
                modified_ns: stamp.modified_ns,
            });
        }
        Ok(listed)
    }
}

fn folder_prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}/") }
}
