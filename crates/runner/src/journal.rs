//! The journal of a run: an append-only folder.
//!
//! ```text
//! run.json          the head: machine, versions, seed
//! plan.toml         the experiment when the run began, profile and files included
//! trials.jsonl      a line per finished trial, synced to disk before the next one begins
//! instruments.csv   samples, second by second
//! end.json          how the run ended and after how many blocks; absent while it runs or if it was killed
//! trials/0007/      what the generators and subjects of trial 7 wrote
//! report.html
//! ```
//!
//! So a run may be killed at any instant: finished trials are kept, the one in progress is repeated. Only the last line
//! can be damaged by an interrupted write; it is dropped, and this is reported. Damage elsewhere has another cause and
//! is an error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use breme_experiment::record::{RunEnd, RunHead, TrialRecord, VERSION};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const HEAD: &str = "run.json";
const PLAN: &str = "plan.toml";
const TRIALS: &str = "trials.jsonl";
const INSTRUMENTS: &str = "instruments.csv";
const END: &str = "end.json";
/// Folder of the preparation, shared by all trials.
const SHARED: &str = "shared";
const RAW: &str = "trials";
const REPORT: &str = "report.html";

/// Free disk space needed to attribute a failure to the subject: a trial writes 10 to 100 kB.
const FREE_BYTES_MIN: u64 = 128 << 10;
/// The largest journal that is read. A record takes about 20 kB.
const TRIALS_BYTES_MAX: u64 = 4 << 30;

/// A run as read from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub folder: PathBuf,
    pub head: RunHead,
    /// Its plan, as text.
    pub plan: String,
    /// Its trials, in the order of execution.
    pub trials: Vec<TrialRecord>,
    /// How it ended; none if it did not.
    pub end: Option<RunEnd>,
    /// The damage of its last line, if any.
    pub damage: Option<String>,
    /// Bytes of `trials.jsonl` before the damage.
    whole_bytes: u64,
}

/// A run that is being written.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    trials: Locked,
    /// The run has ended before, and its end is still recorded.
    has_end: bool,
}

/// A journal that cannot be read or written.
#[derive(Debug, Error)]
#[error("{path}: {problem}")]
pub struct JournalError {
    pub path: PathBuf,
    #[source]
    pub problem: JournalProblem,
}

impl JournalError {
    /// Whether a new run has the name of something that exists.
    #[must_use]
    pub fn is_of_existing_folder(&self) -> bool {
        matches!(self.problem, JournalProblem::IsRun { .. } | JournalProblem::Exists)
    }
}

/// What is wrong with a journal, and how to fix it.
#[derive(Debug, Error)]
pub enum JournalProblem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("is a run already; resume it (--resume {folder}) or choose another --name")]
    IsRun { folder: PathBuf },
    #[error("exists and is not a run; choose another --name or --runs")]
    Exists,
    #[error("cannot create the folder: {0}; choose another place with --runs")]
    Folder(#[source] io::Error),
    #[error("there is no run here (no {head}); give the folder of a run, or its name in `runs`", head = HEAD)]
    NoRun,
    #[error("has layout {0}, and this breme reads layouts up to {last}; use a newer breme", last = VERSION)]
    LaterLayout(u32),
    #[error("has {0} bytes; at most {max} are read", max = TRIALS_BYTES_MAX)]
    TooLong(u64),
    #[error("line {number} {problem}")]
    Line { number: usize, problem: LineProblem },
    #[error("is in use by another breme")]
    InUse,
    #[error("the disk is full ({free} bytes left), so the last trial was not recorded; free some space")]
    DiskFull { free: u64 },
}

/// What is wrong with the record of a trial.
#[derive(Debug, Error)]
pub enum LineProblem {
    #[error("was not written to its end ({0} bytes)")]
    Torn(usize),
    #[error("is damaged: {0}")]
    Json(#[from] serde_json::Error),
}

impl Journal {
    /// Creates a run in `folder`, which must not exist.
    ///
    /// # Errors
    /// I/O errors.
    pub fn create(folder: &Path, head: &RunHead, plan: &str) -> Result<Self, JournalError> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|error| cannot_be_made(parent, error))?;
        }
        fs::create_dir(folder).map_err(|error| cannot_be_made(folder, error))?;
        fs::create_dir(folder.join(RAW)).map_err(at(folder))?;
        write_durably(&folder.join(PLAN), plan.as_bytes())?;
        let trials_path = folder.join(TRIALS);
        let trials = OpenOptions::new().create_new(true).append(true).open(&trials_path).map_err(at(&trials_path))?;
        let trials = Locked::new(trials, &trials_path)?;
        // The head is written last: a folder without it is not a run.
        let head = serde_json::to_vec_pretty(head).map_err(|error| fault(folder, error))?;
        write_durably(&folder.join(HEAD), &head)?;
        sync_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), trials, has_end: false })
    }

    /// Continues a run: a damaged last line is cut off.
    ///
    /// # Errors
    /// Not a run; damaged elsewhere; in use by another process.
    pub fn resume(folder: &Path) -> Result<(Self, StoredRun), JournalError> {
        read_head(folder)?;
        let path = folder.join(TRIALS);
        let trials = OpenOptions::new().append(true).open(&path).map_err(at(&path))?;
        let trials = Locked::new(trials, &path)?;
        let run = read(folder)?;
        trials.0.set_len(run.whole_bytes).and_then(|()| trials.0.sync_all()).map_err(at(&path))?;
        Ok((Self { folder: folder.to_owned(), trials, has_end: true }, run))
    }

    /// Appends a trial, and syncs it to disk. A run that had ended has not ended any more.
    ///
    /// # Errors
    /// I/O errors; then the trial was not appended.
    pub fn append(&mut self, trial: &TrialRecord) -> Result<(), JournalError> {
        self.remove_end()?;
        let path = self.folder.join(TRIALS);
        let mut line = serde_json::to_vec(trial).map_err(|error| fault(&path, error))?;
        line.push(b'\n');
        self.trials.0.write_all(&line).and_then(|()| self.trials.0.sync_data()).map_err(at(&path))
    }

    fn remove_end(&mut self) -> Result<(), JournalError> {
        if std::mem::take(&mut self.has_end) {
            let end = self.folder.join(END);
            match fs::remove_file(&end) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&end)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a failed trial may be attributed to its subject: on a full disk, everything fails.
    ///
    /// # Errors
    /// If less than [`FREE_BYTES_MIN`] is left; then the trial is not recorded, and is repeated on resume.
    pub(crate) fn check_space(&self) -> Result<(), JournalError> {
        let disk = rustix::fs::statvfs(&self.folder).map_err(|error| at(&self.folder)(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= FREE_BYTES_MIN {
            return Ok(());
        }
        Err(fault(&self.folder, JournalProblem::DiskFull { free }))
    }

    /// Records how the run ended.
    ///
    /// # Errors
    /// I/O errors.
    pub fn end(&mut self, end: RunEnd, blocks: u32) -> Result<(), JournalError> {
        let ended = serde_json::to_vec(&Ended { end, blocks }).map_err(|error| fault(&self.folder, error))?;
        replace(&self.folder.join(END), &ended)
    }

    /// Replaces the plan of an extended run, which has not ended any more.
    ///
    /// # Errors
    /// I/O errors; then the old plan is kept.
    pub fn replace_plan(&mut self, plan: &str) -> Result<(), JournalError> {
        self.remove_end()?;
        replace(&self.folder.join(PLAN), plan.as_bytes())
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty folder for the output of a trial's processes. Its path is absolute, since it is their working
    /// directory.
    pub(crate) fn trial_folder(&self, number: u32) -> Result<PathBuf, JournalError> {
        empty(&self.folder.join(RAW).join(format!("{number:04}")))
    }

    /// Creates an empty folder for files that are prepared once and used by all trials.
    pub(crate) fn shared_folder(&self) -> Result<PathBuf, JournalError> {
        empty(&self.folder.join(SHARED))
    }

    /// The file of the instruments.
    pub(crate) fn instruments_path(&self) -> PathBuf {
        instruments_path(&self.folder)
    }
}

/// Empties or creates the folder. Returns its absolute path.
fn empty(folder: &Path) -> Result<PathBuf, JournalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(folder)(error)),
        _ => {}
    }
    fs::create_dir_all(folder).and_then(|()| folder.canonicalize()).map_err(at(folder))
}

/// The file of a run's samples.
#[must_use]
pub fn instruments_path(run: &Path) -> PathBuf {
    run.join(INSTRUMENTS)
}

/// The file of a run's report.
#[must_use]
pub fn report_path(run: &Path) -> PathBuf {
    run.join(REPORT)
}

/// Reads a stored run without changing it.
///
/// # Errors
/// Not a run; of a later version; damaged elsewhere than at its end.
pub fn read(folder: &Path) -> Result<StoredRun, JournalError> {
    let head = read_head(folder)?;
    let plan_path = folder.join(PLAN);
    let plan = fs::read_to_string(&plan_path).map_err(at(&plan_path))?;
    let Lines { trials, whole_bytes, damage } = read_trials(&folder.join(TRIALS))?;
    // Only informs readers, so an error in it does not block the run.
    let end = fs::read(folder.join(END)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let end = end.map(|Ended { end, .. }| end);
    Ok(StoredRun { folder: folder.to_owned(), head, plan, trials, end, damage, whole_bytes })
}

/// The heads of all runs in a folder, the newest first. Other entries are skipped.
///
/// # Errors
/// I/O errors of the folder.
pub fn list(folder: &Path) -> Result<Vec<(PathBuf, RunHead)>, JournalError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut runs: Vec<_> = paths.filter_map(|path| read_head(&path).ok().map(|head| (path, head))).collect();
    runs.sort_by_key(|(path, head)| (std::cmp::Reverse(head.started_unix_ms), path.clone()));
    Ok(runs)
}

/// Reads the head of a stored run.
///
/// # Errors
/// Not a run; of a later version.
pub fn read_head(folder: &Path) -> Result<RunHead, JournalError> {
    let path = folder.join(HEAD);
    let text = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => fault(folder, JournalProblem::NoRun),
        _ => at(&path)(error),
    })?;
    let head: RunHead = serde_json::from_slice(&text).map_err(|error| fault(&path, error))?;
    if head.version > VERSION {
        return Err(fault(&path, JournalProblem::LaterLayout(head.version)));
    }
    Ok(head)
}

/// The content of `end.json`.
#[derive(Serialize, Deserialize)]
struct Ended {
    end: RunEnd,
    blocks: u32,
}

/// The content of `trials.jsonl`.
struct Lines {
    trials: Vec<TrialRecord>,
    whole_bytes: u64,
    damage: Option<String>,
}

fn read_trials(path: &Path) -> Result<Lines, JournalError> {
    let size = fs::metadata(path).map_err(at(path))?.len();
    if size > TRIALS_BYTES_MAX {
        return Err(fault(path, JournalProblem::TooLong(size)));
    }
    let text = fs::read(path).map_err(at(path))?;
    let mut lines = Lines { trials: Vec::new(), whole_bytes: 0, damage: None };
    let mut rest = text.split_inclusive(|&byte| byte == b'\n').peekable();
    while let Some(line) = rest.next() {
        let number = lines.trials.len() + 1;
        match read_line(line) {
            Ok(trial) => {
                lines.trials.push(trial);
                lines.whole_bytes += line.len() as u64;
            }
            Err(problem) if rest.peek().is_none() => {
                lines.damage = Some(format!("line {number}, the last one, {problem}; its trial does not count"));
            }
            Err(problem) => return Err(fault(path, JournalProblem::Line { number, problem })),
        }
    }
    Ok(lines)
}

fn read_line(line: &[u8]) -> Result<TrialRecord, LineProblem> {
    if !line.ends_with(b"\n") {
        return Err(LineProblem::Torn(line.len()));
    }
    Ok(serde_json::from_slice(line)?)
}

/// Admits one writer at a time. The lock ends with the process, however that exits.
#[derive(Debug)]
struct Locked(File);

impl Locked {
    fn new(file: File, path: &Path) -> Result<Self, JournalError> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => fault(path, JournalProblem::InUse),
            _ => at(path)(error.into()),
        })?;
        Ok(Self(file))
    }
}

impl Drop for Locked {
    /// Closing is not enough: a child process has a copy of the descriptor until its exec.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn write_durably(path: &Path, content: &[u8]) -> Result<(), JournalError> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path).map_err(at(path))?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(at(path))
}

/// Replaces a file atomically.
fn replace(path: &Path, content: &[u8]) -> Result<(), JournalError> {
    let unfinished = path.with_added_extension("unfinished");
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&unfinished, path)).map_err(at(path))
}

/// Syncs the names of new files to disk.
fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(io::Error) -> JournalError {
    move |error| fault(path, error)
}

/// Adds what can be done about it.
fn cannot_be_made(folder: &Path, error: io::Error) -> JournalError {
    let problem = match error.kind() {
        io::ErrorKind::AlreadyExists if folder.join(HEAD).exists() => {
            JournalProblem::IsRun { folder: folder.to_owned() }
        }
        io::ErrorKind::AlreadyExists => JournalProblem::Exists,
        _ => JournalProblem::Folder(error),
    };
    fault(folder, problem)
}

fn fault(path: &Path, problem: impl Into<JournalProblem>) -> JournalError {
    JournalError { path: path.to_owned(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> RunHead {
        RunHead { version: VERSION, run: "first".into(), title: "Does it pay?".into(), ..RunHead::default() }
    }

    fn trial(number: u32) -> TrialRecord {
        TrialRecord { number, block: 1, ..TrialRecord::default() }
    }

    fn run_of(trials: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("runs/first");
        let mut journal = Journal::create(&run, &head(), "title = \"x\"\n").unwrap();
        (1..=trials).for_each(|number| journal.append(&trial(number)).unwrap());
        (folder, run)
    }

    fn numbers(run: &StoredRun) -> Vec<u32> {
        run.trials.iter().map(|trial| trial.number).collect()
    }

    #[test]
    fn a_written_journal_is_read() {
        let (_folder, run) = run_of(2);
        let stored = read(&run).unwrap();
        assert_eq!((stored.head.clone(), numbers(&stored), stored.damage), (head(), vec![1, 2], None));
        assert_eq!(list(run.parent().unwrap()).unwrap(), [(run.clone(), head())]);
    }

    #[test]
    fn the_end_is_known_until_the_run_goes_on_and_the_plan_can_be_extended() {
        let (_folder, run) = run_of(1);
        assert_eq!(read(&run).unwrap().end, None);
        let (mut journal, _) = Journal::resume(&run).unwrap();
        journal.end(RunEnd::Decided, 8).unwrap();
        drop(journal);
        assert_eq!(read(&run).unwrap().end, Some(RunEnd::Decided));
        drop(Journal::resume(&run).unwrap());
        assert_eq!(read(&run).unwrap().end, Some(RunEnd::Decided), "nothing was added");
        let (mut journal, _) = Journal::resume(&run).unwrap();
        journal.replace_plan("title = \"y\"\n").unwrap();
        let stored = read(&run).unwrap();
        assert_eq!((stored.end, stored.plan.as_str()), (None, "title = \"y\"\n"));
    }

    #[test]
    fn wherever_the_last_line_was_cut_the_others_are_there_and_it_goes_on() {
        let (_folder, run) = run_of(3);
        let path = run.join(TRIALS);
        let whole = fs::read(&path).unwrap();
        let last_line = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
        for length in last_line..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(read(&run).unwrap().damage.is_some(), length > last_line, "{length}");
            let (mut journal, stored) = Journal::resume(&run).unwrap();
            assert_eq!(numbers(&stored), [1, 2]);
            journal.append(&trial(3)).unwrap();
            drop(journal);
            let stored = read(&run).unwrap();
            assert_eq!((numbers(&stored), stored.damage), (vec![1, 2, 3], None));
        }
    }

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_run() {
        let (_folder, run) = run_of(1);
        let (journal, _) = Journal::resume(&run).unwrap();
        let copy = journal.trials.0.try_clone().unwrap();
        assert!(Journal::resume(&run).unwrap_err().to_string().contains("is in use by another breme"));
        drop(journal);
        assert!(Journal::resume(&run).is_ok());
        drop(copy);
    }

    #[test]
    fn a_last_line_that_was_cut_and_ended_by_an_editor_is_dropped_too() {
        let (_folder, run) = run_of(3);
        let path = run.join(TRIALS);
        let mut text = fs::read(&path).unwrap();
        text.truncate(text.len() - 10);
        text.push(b'\n');
        fs::write(&path, text).unwrap();
        let (mut journal, stored) = Journal::resume(&run).unwrap();
        assert!(stored.damage.is_some_and(|damage| damage.contains("line 3")));
        journal.append(&trial(3)).unwrap();
        assert_eq!(numbers(&read(&run).unwrap()), [1, 2, 3]);
    }

    #[test]
    fn damage_in_the_middle_names_the_line() {
        let (_folder, run) = run_of(3);
        let path = run.join(TRIALS);
        let text = fs::read_to_string(&path).unwrap().replacen("\"number\":2", "\"number\":?", 1);
        fs::write(&path, text).unwrap();
        assert!(read(&run).unwrap_err().to_string().contains("line 2 is damaged"));
    }

    #[test]
    fn only_one_writes() {
        let (_folder, run) = run_of(1);
        let (journal, _) = Journal::resume(&run).unwrap();
        assert!(Journal::resume(&run).unwrap_err().to_string().contains("another breme"));
        drop(journal);
        assert!(Journal::resume(&run).is_ok());
        let refused = Journal::create(&run, &head(), "").unwrap_err().to_string();
        assert!(refused.contains("--resume"), "a run is never overwritten: {refused}");
        let file = run.join(HEAD);
        assert!(Journal::create(&file.join("x"), &head(), "").unwrap_err().to_string().contains("--runs"));
    }

    #[test]
    fn other_folders_and_later_layouts_are_refused() {
        let (folder, run) = run_of(0);
        assert!(read(folder.path()).unwrap_err().to_string().contains("there is no run here"));
        let later = serde_json::to_vec(&RunHead { version: VERSION + 1, ..head() }).unwrap();
        fs::write(run.join(HEAD), later).unwrap();
        assert!(read(&run).unwrap_err().to_string().contains("use a newer breme"));
    }

    #[test]
    fn a_trial_that_is_run_again_finds_an_empty_folder() {
        let (_folder, run) = run_of(0);
        let (journal, _) = Journal::resume(&run).unwrap();
        let folder = journal.trial_folder(7).unwrap();
        assert!(folder.is_absolute());
        fs::write(folder.join("user.json"), "half").unwrap();
        assert_eq!(fs::read_dir(journal.trial_folder(7).unwrap()).unwrap().count(), 0);
    }
}
