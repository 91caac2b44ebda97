//! Working folders of processes, and the files written into them. No name may lead outside.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

const FILE_BYTES_MAX: usize = 64 << 20;
/// The mode of a file, before the umask.
const EVERYBODY: u32 = 0o666;
const THIS_USER: u32 = 0o600;

/// A folder or a file in it that cannot be written.
#[derive(Debug, Error)]
pub enum FolderError {
    #[error("the folder {path} cannot be made: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("file {path} cannot be written: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("file {name:?} has {bytes} bytes; at most {max} are written", max = FILE_BYTES_MAX)]
    TooLong { name: String, bytes: usize },
    #[error("file {0:?} is outside the subject's folder; write a name such as conf/nginx.conf")]
    Outside(String),
}

/// Creates the folder. Returns its absolute path.
pub(crate) fn make(folder: &Path) -> Result<PathBuf, FolderError> {
    let refused = |source| FolderError::Folder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(refused)?;
    folder.canonicalize().map_err(refused)
}

/// Writes a file into a folder, replacing an existing one. Its name may contain folders, which are created.
///
/// # Errors
/// The name leads outside, the content is too long, or the file cannot be written.
pub fn write(folder: &Path, name: &str, content: &str) -> Result<(), FolderError> {
    write_for(folder, name, content, EVERYBODY).map(drop)
}

/// The same, never readable by other users. Returns its path.
pub(crate) fn write_secret(folder: &Path, name: &str, content: &str) -> Result<PathBuf, FolderError> {
    write_for(folder, name, content, THIS_USER)
}

fn write_for(folder: &Path, name: &str, content: &str, mode: u32) -> Result<PathBuf, FolderError> {
    let path = folder.join(inside(name)?);
    if content.len() > FILE_BYTES_MAX {
        return Err(FolderError::TooLong { name: name.to_owned(), bytes: content.len() });
    }
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        // Creates a new file, so that a symbolic link placed by the subject is not followed.
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        file.write_all(content.as_bytes())
    });
    match written {
        Ok(()) => Ok(path),
        Err(source) => Err(FolderError::File { path, source }),
    }
}

/// A name that stays within the folder.
fn inside(name: &str) -> Result<&Path, FolderError> {
    let path = Path::new(name);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_inside && path.file_name().is_some() { Ok(path) } else { Err(FolderError::Outside(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_written_below_the_folder_and_only_there() {
        let outer = tempfile::tempdir().unwrap();
        let folder = make(&outer.path().join("a/b")).unwrap();
        write(&folder, "conf/./x.conf", "1").unwrap();
        write(&folder, "conf/x.conf", "2").unwrap();
        assert_eq!(fs::read_to_string(folder.join("conf/x.conf")).unwrap(), "2");
        for name in ["../x", "/tmp/x", "a/../../x", "", ".", "..", "conf/"] {
            let outcome = write(&folder, name, "");
            assert!(outcome.is_err(), "{name:?}");
        }
        assert!(!outer.path().join("a/x").exists());
    }

    #[test]
    fn a_secret_is_for_this_user_only() {
        let outer = tempfile::tempdir().unwrap();
        write(outer.path(), "x", "open").unwrap();
        let path = write_secret(outer.path(), "x", "secret").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "secret");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = make(&outer.path().join("in")).unwrap();
        let victim = outer.path().join("victim");
        fs::write(&victim, "old").unwrap();
        std::os::unix::fs::symlink(&victim, folder.join("x")).unwrap();
        write(&folder, "x", "new").unwrap();
        assert_eq!(fs::read_to_string(victim).unwrap(), "old");
    }
}
