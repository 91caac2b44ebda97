//! The source of a site's files: the operating system, or memory in tests and in the simulation.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// A folder that no name can leave.
///
/// Names are relative, without `.`, `..`, empty segments or a final slash; the root itself is `""`. An implementation
/// must stay in its folder for any name, including links.
pub trait Root: Send + Sync {
    /// Opens a regular file or a directory.
    ///
    /// # Errors
    /// See [`OpenError`].
    fn open(&self, name: &str) -> Result<OpenedFile, OpenError>;

    /// The entries of a directory in any order, without `.` and `..`: at most `entries_max` of those whose names are
    /// to be listed, and whether that was all.
    ///
    /// # Errors
    /// See [`OpenError`].
    fn list(
        &self,
        name: &str,
        entries_max: usize,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Result<DirectoryListing, OpenError>;
}

/// An open file or directory.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Its version.
    pub stamp: FileStamp,
    pub content: FileContent,
}

/// What was opened.
#[derive(Clone, Debug)]
pub enum FileContent {
    Directory,
    File(Arc<File>),
    /// A file in memory.
    Memory(Bytes),
}

/// A version of a file: equal stamps mean equal content, as far as the file system can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    pub device: u64,
    pub inode: u64,
    pub length: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Last change of content or attributes. Detects a file replaced by one with the same date (`cp -p`, `touch -d`).
    pub changed_ns: i128,
}

impl FileStamp {
    /// The stamp of an open file.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
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
    /// Not readable, outside the root, or neither a regular file nor a directory.
    Forbidden,
    /// Too few file descriptors or too little memory; transient.
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

/// A directory, or its beginning.
#[derive(Clone, Debug, Default)]
pub struct DirectoryListing {
    pub entries: Vec<DirectoryEntry>,
    /// Whether there were more.
    pub truncated: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Without its directory.
    pub name: String,
    /// A directory, otherwise a regular file.
    pub is_directory: bool,
    pub length: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i128,
}

/// Files in memory, for tests and the simulation. They can change while they are served.
#[derive(Debug, Default)]
pub struct MemoryRoot {
    files: Mutex<BTreeMap<String, (FileStamp, Bytes)>>,
}

impl MemoryRoot {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or changes a file. `modified_ns` counts from 1970.
    pub fn write(&self, name: &str, content: impl Into<Bytes>, modified_ns: i128) {
        let content = content.into();
        let mut files = self.files.lock();
        let inode = files.get(name).map_or(files.len() as u64 + 1, |(stamp, _)| stamp.inode);
        let stamp = FileStamp { device: 1, inode, length: content.len() as u64, modified_ns, changed_ns: modified_ns };
        files.insert(name.to_owned(), (stamp, content));
    }

    pub fn remove(&self, name: &str) {
        self.files.lock().remove(name);
    }
}

impl Root for MemoryRoot {
    fn open(&self, name: &str) -> Result<OpenedFile, OpenError> {
        let files = self.files.lock();
        if let Some((stamp, content)) = files.get(name) {
            return Ok(OpenedFile { stamp: *stamp, content: FileContent::Memory(content.clone()) });
        }
        let folder = folder_prefix(name);
        if name.is_empty() || files.keys().any(|file| file.starts_with(&folder)) {
            return Ok(OpenedFile { stamp: FileStamp::default(), content: FileContent::Directory });
        }
        Err(OpenError::NotFound)
    }

    fn list(
        &self,
        name: &str,
        entries_max: usize,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Result<DirectoryListing, OpenError> {
        let files = self.files.lock();
        let folder = folder_prefix(name);
        let mut listed = DirectoryListing::default();
        for (path, (stamp, _)) in files.iter() {
            let Some(below) = path.strip_prefix(&folder) else { continue };
            let (first, is_directory) = below.split_once('/').map_or((below, false), |(first, _)| (first, true));
            if !is_listed(first) || listed.entries.iter().any(|entry| entry.name == first) {
                continue;
            }
            if listed.entries.len() == entries_max {
                listed.truncated = true;
                break;
            }
            listed.entries.push(DirectoryEntry {
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
