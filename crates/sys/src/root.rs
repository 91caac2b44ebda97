//! Opens files below one directory. No name escapes it: not by `..`, not by symbolic links, not by a link that is
//! created concurrently.
//!
//! On Linux this is one call, `openat2` with `RESOLVE_BENEATH` (since 5.6). Elsewhere, or if a sandbox forbids it, each
//! component is opened separately without following links. Anything but regular files and directories is refused, and
//! opening never blocks (`O_NONBLOCK`: a FIFO without a writer would).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Attempts of an `openat2`, which fails with `EAGAIN` if the tree is changed concurrently.
#[cfg(target_os = "linux")]
const RESOLVE_ATTEMPTS_MAX: usize = 8;

/// An open directory and its rules for opening files.
#[derive(Debug)]
pub struct RootDirectory {
    folder: OwnedFd,
    follow_links: bool,
    resolver: PathResolver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathResolver {
    /// `openat2`.
    #[cfg(target_os = "linux")]
    Kernel,
    /// Component by component.
    Steps,
}

/// Why a name cannot be opened.
#[derive(Debug)]
pub enum RootError {
    /// There is no such file, or no file can have this name.
    NotFound,
    /// Not readable, outside the directory, a link, or neither a regular file nor a directory.
    Forbidden,
    /// File descriptors or memory are short.
    NoResources,
    /// The file system failed.
    Failed(io::Error),
}

/// Entries of a directory.
#[derive(Debug, Default)]
pub struct FoundEntries {
    /// Regular files and directories with UTF-8 names, unordered.
    pub entries: Vec<FoundEntry>,
    /// There were more than requested.
    pub truncated: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// Without its directory.
    pub name: String,
    /// Otherwise a regular file.
    pub is_directory: bool,
    /// In bytes.
    pub length: u64,
    /// Unix time in nanoseconds.
    pub modified_ns: i128,
}

impl From<Errno> for RootError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Self::NotFound,
            // XDEV: refused by RESOLVE_BENEATH. LOOP: a link that must not be followed, or a cycle. NXIO: a socket.
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP | Errno::NXIO => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::NoResources,
            other => Self::Failed(other.into()),
        }
    }
}

impl RootDirectory {
    /// With `follow_links`, symbolic links are followed if they stay below the directory (only where the kernel can
    /// check it).
    ///
    /// # Errors
    /// If it cannot be opened or listed, or is not a directory.
    pub fn open_folder(path: &Path, follow_links: bool) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let mut root = Self { folder, follow_links, resolver: PathResolver::Steps };
        #[cfg(target_os = "linux")]
        if root.open_by_kernel(".").is_ok() {
            root.resolver = PathResolver::Kernel;
        }
        Ok(root)
    }

    /// Opens a regular file or directory below the root, which itself is `""`.
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn open(&self, name: &str) -> Result<(File, Metadata), RootError> {
        let file = File::from(self.open_any(name)?);
        let metadata = file.metadata().map_err(RootError::Failed)?;
        if metadata.is_file() || metadata.is_dir() { Ok((file, metadata)) } else { Err(RootError::Forbidden) }
    }

    /// Lists a directory, up to `entries_max` of the names that are to be listed.
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn list(
        &self,
        name: &str,
        entries_max: usize,
        is_listed: impl Fn(&str) -> bool,
    ) -> Result<FoundEntries, RootError> {
        let directory = self.open_any(name)?;
        let mut found = FoundEntries::default();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            let Ok(entry_name) = std::str::from_utf8(bytes) else { continue };
            if matches!(entry_name, "." | "..") || !is_listed(entry_name) {
                continue;
            }
            if found.entries.len() >= entries_max {
                found.truncated = true;
                break;
            }
            found.entries.extend(self.inspect(name, directory.as_fd(), entry_name));
        }
        Ok(found)
    }

    /// None if the entry is to be skipped.
    fn inspect(&self, directory_name: &str, directory: BorrowedFd<'_>, name: &str) -> Option<FoundEntry> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => Some(found_entry(name, &stat)),
            FileType::Symlink if self.follow_links => {
                let path = if directory_name.is_empty() { name.to_owned() } else { format!("{directory_name}/{name}") };
                let (file, _) = self.open(&path).ok()?;
                Some(found_entry(name, &rustix::fs::fstat(file).ok()?))
            }
            _ => None,
        }
    }

    fn open_any(&self, name: &str) -> Result<OwnedFd, RootError> {
        // The kernel would accept `a/../b`, which stays below the root, but no real client requests that.
        let is_refused = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        if !name.is_empty() && name.split('/').any(is_refused) {
            return Err(RootError::Forbidden);
        }
        let name = if name.is_empty() { "." } else { name };
        match self.resolver {
            #[cfg(target_os = "linux")]
            PathResolver::Kernel => Ok(self.open_by_kernel(name)?),
            PathResolver::Steps => Ok(self.open_by_steps(name)?),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_by_kernel(&self, name: &str) -> Result<OwnedFd, Errno> {
        use rustix::fs::ResolveFlags;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.follow_links);
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..RESOLVE_ATTEMPTS_MAX {
            outcome = rustix::fs::openat2(&self.folder, name, OPEN_FLAGS, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }

    fn open_by_steps(&self, name: &str) -> Result<OwnedFd, Errno> {
        let mut place: Option<OwnedFd> = None;
        let (directories, last) = name.rsplit_once('/').map_or((None, name), |(all, last)| (Some(all), last));
        for part in directories.into_iter().flat_map(|all| all.split('/')) {
            let from = place.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd);
            place = Some(open_step(from, part, OPEN_FLAGS | OFlags::DIRECTORY)?);
        }
        open_step(place.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd), last, OPEN_FLAGS)
    }
}

const OPEN_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn open_step(from: BorrowedFd<'_>, part: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(from, OsStr::from_bytes(part.as_bytes()), flags | OFlags::NOFOLLOW, Mode::empty())
}

fn found_entry(name: &str, stat: &Stat) -> FoundEntry {
    FoundEntry {
        name: name.to_owned(),
        is_directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        length: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A site with links, beside a secret.
    fn site() -> (tempfile::TempDir, std::path::PathBuf) {
        let around = tempfile::tempdir().unwrap();
        let site = around.path().join("site");
        std::fs::create_dir_all(site.join("a/b")).unwrap();
        std::fs::write(around.path().join("secret"), "secret").unwrap();
        std::fs::write(site.join("a/file"), "good").unwrap();
        for (link, target) in [
            ("out", "../secret"),
            ("absolute", "/etc/passwd"),
            ("up", ".."),
            ("a/b/out", "../../../secret"),
            ("round", "round"),
            ("magic", "/proc/self/root"),
            ("inside", "a/file"),
            ("folder", "a"),
        ] {
            symlink(target, site.join(link)).unwrap();
        }
        let socket = std::os::unix::net::UnixListener::bind(site.join("socket")).unwrap();
        drop(socket);
        rustix::fs::mknodat(rustix::fs::CWD, site.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (around, site)
    }

    fn roots(follow_links: bool) -> (tempfile::TempDir, Vec<RootDirectory>) {
        let (around, path) = site();
        let by_kernel = RootDirectory::open_folder(&path, follow_links).unwrap();
        let by_steps =
            RootDirectory { resolver: PathResolver::Steps, ..RootDirectory::open_folder(&path, follow_links).unwrap() };
        (around, vec![by_kernel, by_steps])
    }

    fn read(root: &RootDirectory, name: &str) -> Result<String, RootError> {
        let (mut file, metadata) = root.open(name)?;
        assert!(metadata.is_file());
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        Ok(content)
    }

    const LEADING_OUT: [&str; 8] =
        ["out", "absolute", "up/secret", "a/b/out", "round", "magic/etc/passwd", "folder/b/out", "up/site/out"];

    #[test]
    fn escapes_are_refused() {
        for follow_links in [false, true] {
            let (_around, roots) = roots(follow_links);
            for root in &roots {
                for name in LEADING_OUT {
                    assert!(read(root, name).is_err(), "{name} {root:?}");
                }
                for name in ["..", "../secret", "a/../a/file", "/etc/passwd", "a//file", "./a/file", "a/file\0"] {
                    assert!(matches!(root.open(name), Err(RootError::Forbidden)), "{name} {root:?}");
                }
            }
        }
    }

    #[test]
    fn follows_inner_links_if_allowed() {
        let (_around, strict) = roots(false);
        for root in &strict {
            assert_eq!(read(root, "a/file").unwrap(), "good");
            assert!(read(root, "inside").is_err() && read(root, "folder/file").is_err());
        }
        let (_around, lax) = roots(true);
        for root in lax.iter().filter(|root| root.resolver != PathResolver::Steps) {
            assert_eq!(read(root, "inside").unwrap(), "good");
            assert_eq!(read(root, "folder/file").unwrap(), "good");
        }
    }

    #[test]
    fn refuses_special_files_without_blocking() {
        let (_around, roots) = roots(false);
        for root in &roots {
            assert!(matches!(root.open("fifo"), Err(RootError::Forbidden)));
            assert!(matches!(root.open("socket"), Err(RootError::Forbidden)));
            assert!(matches!(root.open("none"), Err(RootError::NotFound)));
            assert!(matches!(root.open("a/file/x"), Err(RootError::NotFound)));
            assert!(root.open("a").unwrap().1.is_dir());
            assert!(root.open("").unwrap().1.is_dir());
        }
    }

    #[test]
    fn lists_openable_entries() {
        let names = |root: &RootDirectory, name| {
            let mut names: Vec<String> =
                root.list(name, 100, |_| true).unwrap().entries.into_iter().map(|entry| entry.name).collect();
            names.sort_unstable();
            names
        };
        let (_around, strict) = roots(false);
        for root in &strict {
            assert_eq!(names(root, ""), ["a"]);
            assert_eq!(names(root, "a"), ["b", "file"]);
            assert!(matches!(root.list("a/file", 100, |_| true), Err(RootError::NotFound)));
            let cut = root.list("a", 1, |_| true).unwrap();
            assert!(cut.truncated && cut.entries.len() == 1);
            let whole = root.list("a", 1, |name| name != "b").unwrap();
            assert!(!whole.truncated && whole.entries.len() == 1, "only listed names count");
        }
        let (_around, lax) = roots(true);
        for root in lax.iter().filter(|root| root.resolver != PathResolver::Steps) {
            assert_eq!(names(root, ""), ["a", "folder", "inside"]);
        }
    }

    #[test]
    fn root_must_be_a_directory() {
        let (around, _) = site();
        assert!(RootDirectory::open_folder(&around.path().join("secret"), false).is_err());
        assert!(RootDirectory::open_folder(&around.path().join("none"), false).is_err());
    }
}
