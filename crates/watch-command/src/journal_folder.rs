//! The folder of a journal: segments, `watch.json`, `alerts.json`, and a lock against a second writer. Others may not
//! read its files: URLs can contain tokens.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_watch::history::{JournalInfo, StoredInfo, TargetInfo};
use breme_watch::journal::Storage;
use breme_watch::{File as WatchFile, IntervalLengths};

const INFO_FILE: &str = "watch.json";
const ALERTS_FILE: &str = "alerts.json";
const LOCK: &str = "lock";
/// Version of the layout of the folder.
const VERSION: u32 = 1;
/// Longest `watch.json`.
const INFO_BYTES_MAX: u64 = 1 << 20;
/// Open segments: one of each kind.
const OPEN_MAX: usize = 3;

/// A journal's folder.
#[derive(Debug)]
pub(crate) struct JournalFolder {
    path: PathBuf,
    open: BTreeMap<String, File>,
    /// Held by the writer.
    _lock: Option<File>,
}

impl JournalFolder {
    /// Opens it for reading.
    pub(crate) fn open_read(path: &Path) -> Result<Self, Failure> {
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
    pub(crate) fn open_write(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::run(format!("{}: cannot be written: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let lock = private().append(true).open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), open: BTreeMap::new(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(Failure::run(format!(
                "{} is in use by another breme watch; stop it, or name another folder with --journal",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The latest alerts, which it does not hold.
    pub(crate) fn alerts_file(&self) -> PathBuf {
        self.path.join(ALERTS_FILE)
    }

    /// Describes the journal.
    pub(crate) fn info(&self) -> Result<JournalInfo, Failure> {
        self.read_info().map(|info| info.journal)
    }

    /// Lengths of the journal's intervals; empty in a new journal.
    pub(crate) fn intervals(&self) -> Result<IntervalLengths, Failure> {
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

    /// The description with the targets of `file`, which keep their index; new ones are appended.
    pub(crate) fn info_of(&self, file: &WatchFile, concurrency: &[u64]) -> Result<JournalInfo, Failure> {
        let mut targets = if self.path.join(INFO_FILE).exists() { self.info()?.targets } else { Vec::new() };
        targets.iter_mut().for_each(|target| target.is_removed = true);
        for (target, &concurrency) in file.targets.iter().zip(concurrency) {
            let (name, url) = (target.name.clone(), target.url.clone());
            let info = TargetInfo { name, url, concurrency, is_removed: false };
            match targets.iter_mut().find(|known| known.name == target.name) {
                Some(known) => *known = info,
                None => targets.push(info),
            }
        }
        Ok(JournalInfo {
            version: VERSION,
            interval_ms: u64::try_from(file.interval.as_millis()).unwrap_or(u64::MAX),
            time_zone: file.time_zone.clone().unwrap_or_default(),
            availability: file.objective.availability,
            within_ms: u64::try_from(file.objective.within.as_millis()).unwrap_or(u64::MAX),
            certificate_within_s: file.alert.certificate_expires_within.as_secs(),
            targets,
        })
    }

    /// Writes `watch.json`.
    pub(crate) fn write_info(&self, journal: JournalInfo, intervals: IntervalLengths) -> Result<(), Failure> {
        let path = self.path.join(INFO_FILE);
        let failed = |problem: String| Failure::run(format!("{}: {problem}", path.display()));
        let info = StoredInfo { journal, intervals: Some(intervals) };
        let bytes = serde_json::to_vec_pretty(&info).map_err(|error| failed(error.to_string()))?;
        if bytes.len() as u64 > INFO_BYTES_MAX {
            return Err(failed(String::from("the journal has had too many targets; begin another one with --journal")));
        }
        write_private(&path, &bytes).map_err(|error| failed(format!("cannot be written: {error}")))
    }

    fn segment(&mut self, name: &str) -> io::Result<&mut File> {
        if !self.open.contains_key(name) {
            while self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let path = self.path.join(name);
            let is_new = !path.exists();
            let file = private().append(true).open(path)?;
            if is_new {
                // Makes the name durable.
                File::open(&self.path)?.sync_all()?;
            }
            self.open.insert(name.to_owned(), file);
        }
        self.open.get_mut(name).ok_or_else(|| io::Error::other("the segment was closed"))
    }
}

/// To create a file that only this user may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Replaces a file that only this user may read. Durable on return.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("json.unfinished");
    let mut file = private().write(true).truncate(true).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
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
        let written = journal.info_of(&file, &[1]).unwrap();
        journal.write_info(written.clone(), seconds.clone()).unwrap();
        assert_eq!((journal.info().unwrap(), journal.intervals().unwrap()), (written.clone(), seconds));
        let older = serde_json::to_vec(&written).unwrap();
        fs::write(folder.path().join(INFO_FILE), older).unwrap();
        assert_eq!(journal.intervals().unwrap(), IntervalLengths::constant(20_000));
    }

    #[test]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut journal = JournalFolder::open_write(folder.path()).unwrap();
        let file = WatchFile::parse("[[target]]\nname = 'a'\nurl = 'http://a/?token=x'\n", |_, _| Ok(())).unwrap();
        journal.write_info(journal.info_of(&file, &[1]).unwrap(), IntervalLengths::default()).unwrap();
        journal.append("raw-000000000001.log", b"x").unwrap();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        }
    }

    #[test]
    fn targets_that_the_file_no_longer_has_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let journal = JournalFolder::open_write(folder.path()).unwrap();
        let update = |names: &[&str]| {
            let text: String =
                names.iter().map(|name| format!("[[target]]\nname = '{name}'\nurl = 'http://a/'\n")).collect();
            let info = journal.info_of(&WatchFile::parse(&text, |_, _| Ok(())).unwrap(), &[1, 1]).unwrap();
            journal.write_info(info.clone(), IntervalLengths::default()).unwrap();
            info.targets.into_iter().map(|target| (target.name, target.is_removed)).collect::<Vec<_>>()
        };
        update(&["a", "b"]);
        assert_eq!(update(&["c", "b"]), [("a".into(), true), ("b".into(), false), ("c".into(), false)]);
        assert_eq!(update(&["a", "b"]), [("a".into(), false), ("b".into(), false), ("c".into(), true)]);
    }
}
