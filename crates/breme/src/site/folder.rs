//! The site's folder, adapted to the origin server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use breme_origin::{DirectoryEntry, DirectoryListing, FileContent, FileStamp, OpenError, OpenedFile, Root};
use breme_sys::{FoundEntry, RootDirectory, RootError};

/// A folder of the operating system; no path leads outside.
#[derive(Debug)]
pub struct Folder(RootDirectory);

impl Folder {
    pub fn open(path: &Path, follow_symlinks: bool) -> io::Result<Self> {
        RootDirectory::open_folder(path, follow_symlinks).map(Self)
    }
}

impl Root for Folder {
    fn open(&self, name: &str) -> Result<OpenedFile, OpenError> {
        let (file, metadata) = self.0.open(name).map_err(|error| open_error(&error))?;
        let content = if metadata.is_dir() { FileContent::Directory } else { FileContent::File(Arc::new(file)) };
        Ok(OpenedFile { stamp: FileStamp::from_metadata(&metadata), content })
    }

    fn list(
        &self,
        name: &str,
        entries_max: usize,
        is_listed: &dyn Fn(&str) -> bool,
    ) -> Result<DirectoryListing, OpenError> {
        let found = self.0.list(name, entries_max, is_listed).map_err(|error| open_error(&error))?;
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
