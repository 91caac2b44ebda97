//! The folder of a journal: its segments, what it says of itself, and a lock against a second writer.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use breme_watch::File as WatchFile;
use breme_watch::history::{About, AboutTarget};
use breme_watch::journal::Storage;

use crate::failure::Failure;

const ABOUT: &str = "watch.json";
const LOCK: &str = "lock";
/// Version of the layout.
const VERSION: u32 = 1;
/// Longest description.
const ABOUT_BYTES_MAX: u64 = 1 << 20;
/// Open segments: one of each kind.
const OPEN_MAX: usize = 3;

/// A journal's folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    open: BTreeMap<String, File>,
    /// Held while somebody writes.
    _lock: Option<File>,
}

impl Folder {
    /// For reading.
    pub(super) fn of_reader(path: &Path) -> Result<Self, Failure> {
        let folder = Self { path: path.to_owned(), open: BTreeMap::new(), _lock: None };
        match path.join(ABOUT).exists() {
            true => Ok(folder),
            false => Err(Failure::run(format!(
                "{} is no journal of breme watch: it has no {ABOUT}; name the folder that `breme watch FILE` writes",
                path.display()
            ))),
        }
    }

    /// For the only writer.
    pub(super) fn of_writer(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::run(format!("{}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), open: BTreeMap::new(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(Failure::run(format!(
                "{} is written by another breme watch; stop it, or choose another folder with --journal",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// What the journal says of itself.
    pub(super) fn about(&self) -> Result<About, Failure> {
        let path = self.path.join(ABOUT);
        let failed = |problem: String| Failure::run(format!("{}: {problem}", path.display()));
        let bytes = crate::files::read_bounded(&path, ABOUT_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
        let about: About = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        if about.version > VERSION {
            return Err(failed(format!("the journal has version {}, this breme knows {VERSION}", about.version)));
        }
        Ok(about)
    }

    /// Writes what this watch is about. Targets keep their numbers; new ones get the next.
    pub(super) fn describe(&self, file: &WatchFile, concurrency: &[u64]) -> Result<About, Failure> {
        let known = if self.path.join(ABOUT).exists() { self.about()?.targets } else { Vec::new() };
        let mut targets = known;
        for (target, &concurrency) in file.targets.iter().zip(concurrency) {
            let about = AboutTarget { name: target.name.clone(), url: target.url.clone(), concurrency };
            match targets.iter_mut().find(|known| known.name == target.name) {
                Some(known) => *known = about,
                None => targets.push(about),
            }
        }
        let about = About {
            version: VERSION,
            interval_ms: u64::try_from(file.interval.as_millis()).unwrap_or(u64::MAX),
            time_zone: file.time_zone.clone().unwrap_or_default(),
            availability: file.objective.availability,
            within_ms: u64::try_from(file.objective.within.as_millis()).unwrap_or(u64::MAX),
            targets,
        };
        self.write_about(&about)
            .map_err(|error| Failure::run(format!("{}: {error}", self.path.join(ABOUT).display())))?;
        Ok(about)
    }

    fn write_about(&self, about: &About) -> io::Result<()> {
        let unfinished = self.path.join("watch.json.unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(about).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(ABOUT))?;
        File::open(&self.path)?.sync_all()
    }

    fn segment(&mut self, name: &str) -> io::Result<&mut File> {
        if !self.open.contains_key(name) {
            while self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let path = self.path.join(name);
            let is_new = !path.exists();
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            if is_new {
                // The name is durable too.
                File::open(&self.path)?.sync_all()?;
            }
            self.open.insert(name.to_owned(), file);
        }
        self.open.get_mut(name).ok_or_else(|| io::Error::other("the segment was closed"))
    }
}

impl Storage for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        match fs::read(self.path.join(name)) {
            // Its retention has ended since the names were listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.segment(name)?;
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn truncate(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let file = self.segment(name)?;
        file.set_len(bytes)?;
        file.sync_data()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.remove(name);
        fs::remove_file(self.path.join(name))
    }
}
