//! The site's folder, adapted to the origin server.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use breme_origin::{DirectoryEntry, DirectoryListing, FileContent, FileStamp, OpenError, OpenedFile, Root};
use breme_sys::{FoundEntry, RootDirectory, RootError};

/// A folder of the operating system; no path leads outside. It is opened again when its path names another folder: a
/// deployment that replaces the folder, or a symbolic link to it, needs no restart.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    follow_symlinks: bool,
    opened: RwLock<OpenedFolder>,
}

#[derive(Debug)]
struct OpenedFolder {
    root: RootDirectory,
    /// Device and inode. The inode cannot be reused while the folder is open.
    identity: (u64, u64),
}

impl Folder {
    pub fn open(path: &Path, follow_symlinks: bool) -> io::Result<Self> {
        // A folder that is replaced in between is opened again before it is used.
        let identity = identity(path)?;
        let root = RootDirectory::open_folder(path, follow_symlinks)?;
        Ok(Self { path: path.to_owned(), follow_symlinks, opened: RwLock::new(OpenedFolder { root, identity }) })
    }

    /// The folder that the path names at present; the last one if it names none.
    fn current(&self) -> RwLockReadGuard<'_, OpenedFolder> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let Some(identity) = identity(&self.path).ok().filter(|identity| *identity != opened.identity) else {
            return opened;
        };
        drop(opened);
        if let Ok(root) = RootDirectory::open_folder(&self.path, self.follow_symlinks) {
            *self.opened.write().unwrap_or_else(PoisonError::into_inner) = OpenedFolder { root, identity };
        }
        self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Root for Folder {
    fn open(&self, name: &str) -> Result<OpenedFile, OpenError> {
        let (file, metadata) = self.current().root.open(name).map_err(|error| open_error(&error))?;
        let content = if metadata.is_dir() { FileContent::Directory } else { FileContent::File(Arc::new(file)) };
        Ok(OpenedFile { stamp: FileStamp::from_metadata(&metadata), content })
    }

    fn list(
        &self,
        name: &str,
        entries_max: usize,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Result<DirectoryListing, OpenError> {
        let found = self.current().root.list(name, entries_max, is_listed).map_err(|error| open_error(&error))?;
        Ok(DirectoryListing { entries: found.entries.into_iter().map(listed).collect(), truncated: found.truncated })
    }
}

fn open_error(error: &RootError) -> OpenError {
    match error {
        RootError::NotFound => OpenError::NotFound,
        RootError::Forbidden => OpenError::Forbidden,
        RootError::NoResources => OpenError::NoResources,
        RootError::Failed(_) => OpenError::Failed,
    }
}

fn listed(entry: FoundEntry) -> DirectoryEntry {
    let FoundEntry { name, is_directory, length, modified_ns } = entry;
    DirectoryEntry { name, is_directory, length, modified_ns }
}
