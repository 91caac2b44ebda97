//! Files named by flags.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The path in a flag, unless an experiment fills it in later: `${folder}/cert.pem`.
pub fn known(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.to_string_lossy().contains("${"))
}

/// The files of a folder that are not hidden, by name.
pub fn visible_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && !entry.path().is_dir() {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}
