//! The folder of a journal: segments, `watch.json`, and a lock against a second writer.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_watch::history::{JournalInfo, StoredInfo, TargetInfo};
use breme_watch::journal::Storage;
use breme_watch::{File as WatchFile, IntervalLengths};

const INFO_FILE: &str = "watch.json";
const LOCK: &str = "lock";
/// Version of the layout of the folder.
const VERSION: u32 = 1;
/// Longest `watch.json`.
const INFO_BYTES_MAX: u64 = 1 << 20;
/// Open segments: one of each kind.
const OPEN_MAX: usize = 3;

/// A journal's folder.
#[derive(Debug)]
pub(super) struct JournalFolder {
    path: PathBuf,
    open: BTreeMap<String, File>,
    /// Held by the writer.
    _lock: Option<File>,
}

impl JournalFolder {
    /// Opens it for reading.
    pub(super) fn open_read(path: &Path) -> Result<Self, Failure> {
        let folder = Self { path: path.to_owned(), open: BTreeMap::new(), _lock: None };
        match path.join(INFO_FILE).exists() {
            true => Ok(folder),
            false => Err(Failure::run(format!(
                "{} is not a journal of breme watch: {INFO_FILE} is missing; name the folder that `breme watch FILE` writes",
                path.display()
            ))),
        }
    }

    /// Opens it for its only writer.
    pub(super) fn open_write(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::run(format!("{}: cannot be written: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let lock = OpenOptions::new().create(true).append(true).open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), open: BTreeMap::new(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(Failure::run(format!(
                "{} is in use by another breme watch; stop it, or name another folder with --journal",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Describes the journal.
    pub(super) fn info(&self) -> Result<JournalInfo, Failure> {
        self.read_info().map(|info| info.journal)
    }

    /// Lengths of the journal's intervals; empty in a new journal.
    pub(super) fn intervals(&self) -> Result<IntervalLengths, Failure> {
        if !self.path.join(INFO_FILE).exists() {
            return Ok(IntervalLengths::default());
        }
        let StoredInfo { journal, intervals } = self.read_info()?;
        Ok(intervals.unwrap_or_else(|| IntervalLengths::constant(journal.interval_ms)))
    }

    fn read_info(&self) -> Result<StoredInfo, Failure> {
        let path = self.path.join(INFO_FILE);
        let failed = |problem: String| Failure::run(format!("{}: {problem}", path.display()));
        let bytes = breme_sys::read_bounded(&path, INFO_BYTES_MAX)
            .map_err(|error| failed(format!("cannot be read: {error}")))?;
        let info: StoredInfo =
            serde_json::from_slice(&bytes).map_err(|error| failed(format!("is damaged: {error}")))?;
        if info.journal.version > VERSION {
            return Err(failed(format!(
                "the journal has version {}, this breme supports {VERSION}; use a newer breme",
                info.journal.version
            )));
        }
        Ok(info)
    }

    /// Writes `watch.json`. Targets keep their index; new ones are appended.
    pub(super) fn update_info(
        &self,
        file: &WatchFile,
        concurrency: &[u64],
        intervals: &IntervalLengths,
    ) -> Result<JournalInfo, Failure> {
        let known = if self.path.join(INFO_FILE).exists() { self.info()?.targets } else { Vec::new() };
        let mut targets = known;
        for (target, &concurrency) in file.targets.iter().zip(concurrency) {
            let info = TargetInfo { name: target.name.clone(), url: target.url.clone(), concurrency };
            match targets.iter_mut().find(|known| known.name == target.name) {
                Some(known) => *known = info,
                None => targets.push(info),
            }
        }
        let journal = JournalInfo {
            version: VERSION,
            interval_ms: u64::try_from(file.interval.as_millis()).unwrap_or(u64::MAX),
            time_zone: file.time_zone.clone().unwrap_or_default(),
            availability: file.objective.availability,
            within_ms: u64::try_from(file.objective.within.as_millis()).unwrap_or(u64::MAX),
            targets,
        };
        let path = self.path.join(INFO_FILE);
        let info = StoredInfo { journal, intervals: Some(intervals.clone()) };
        self.write_info(&info)
            .map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display())))?;
        Ok(info.journal)
    }

    fn write_info(&self, info: &StoredInfo) -> io::Result<()> {
        let unfinished = self.path.join("watch.json.unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(info).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(INFO_FILE))?;
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
                // Makes the name durable.
                File::open(&self.path)?.sync_all()?;
            }
            self.open.insert(name.to_owned(), file);
        }
        self.open.get_mut(name).ok_or_else(|| io::Error::other("the segment was closed"))
    }
}

impl Storage for JournalFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        match fs::read(self.path.join(name)) {
            // Removed since the names were listed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_intervals_survive_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let journal = JournalFolder::open_write(folder.path()).unwrap();
        assert_eq!(journal.intervals().unwrap(), IntervalLengths::default());
        let text = "interval = '20s'\n[[target]]\nname = 'a'\nurl = 'http://a/'\n";
        let file = WatchFile::parse(text, |_, _| Ok(())).unwrap();
        let seconds = IntervalLengths::constant(1_000);
        let written = journal.update_info(&file, &[1], &seconds).unwrap();
        assert_eq!((journal.info().unwrap(), journal.intervals().unwrap()), (written.clone(), seconds));
        let older = serde_json::to_vec(&written).unwrap();
        fs::write(folder.path().join(INFO_FILE), older).unwrap();
        assert_eq!(journal.intervals().unwrap(), IntervalLengths::constant(20_000));
    }
}
