//! Finds files that would block a reload: those that are not regular, such as pipes, and those on a network mount that
//! does not respond.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use super::files::visible_files;

/// How long a file may take to be read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Larger files are rejected by those that use them.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Limit of threads that wait for a file.
const WAITING_MAX: usize = 8;

/// Reads each file on a thread of its own first.
#[derive(Debug)]
pub struct FileCheck {
    patience: Duration,
    read: fn(&Path) -> Result<(), String>,
    /// Files whose reading has not ended in time.
    waiting: Vec<(PathBuf, Receiver<Result<(), String>>)>,
}

impl Default for FileCheck {
    fn default() -> Self {
        Self { patience: PATIENCE, read, waiting: Vec::new() }
    }
}

impl FileCheck {
    /// Whether all can be read without blocking. A missing file is no problem here: its user reports it.
    ///
    /// # Errors
    /// The first that cannot, with its path.
    pub fn check<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), String> {
        paths.into_iter().try_for_each(|path| self.check_one(path))
    }

    fn check_one(&mut self, path: &Path) -> Result<(), String> {
        self.waiting.retain(|(_, outcome)| matches!(outcome.try_recv(), Err(TryRecvError::Empty)));
        let fault = |why: &str| format!("{} cannot be read: {why}", path.display());
        if self.waiting.len() >= WAITING_MAX || self.waiting.iter().any(|(waiting, _)| waiting == path) {
            return Err(fault("an earlier attempt is still waiting for it"));
        }
        let (sender, outcome) = channel();
        let (file, read) = (path.to_owned(), self.read);
        thread::Builder::new()
            .name("file-check".to_owned())
            .spawn(move || drop(sender.send(read(&file))))
            .map_err(|error| fault(&format!("cannot start a thread: {error}")))?;
        outcome.recv_timeout(self.patience).unwrap_or_else(|_| {
            self.waiting.push((path.to_owned(), outcome));
            Err(fault(&format!("no response for {} s; is its file system available?", self.patience.as_secs())))
        })
    }
}

/// Reads a file, or those of a folder.
fn read(path: &Path) -> Result<(), String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    if metadata.is_dir() {
        return visible_files(path).unwrap_or_default().iter().try_for_each(|file| read(file));
    }
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file, and cannot be read again", path.display()));
    }
    // An error is reported by the file's user.
    let _ = File::open(path).and_then(|file| io::copy(&mut file.take(READ_BYTES_MAX), &mut io::sink()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let [file, missing, pages] = ["file", "missing", "pages"].map(|name| folder.path().join(name));
        fs::write(&file, "text").unwrap();
        fs::create_dir(&pages).unwrap();
        let mut check = FileCheck::default();
        assert_eq!(check.check([&file, &missing, &pages]), Ok(()));
        let pipe = pages.join("503.html");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&pipe, &pages] {
            let problem = format!("{} is not a regular file, and cannot be read again", pipe.display());
            assert_eq!(check.check([&file, path]), Err(problem));
        }
    }

    /// A pipe that nobody writes to stands for a network mount that does not respond.
    #[test]
    fn a_file_that_does_not_respond_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, file] = ["pipe", "file"].map(|name| folder.path().join(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::write(&file, "text").unwrap();
        let read = |path: &Path| fs::read(path).map(drop).map_err(|error| error.to_string());
        let mut check = FileCheck { patience: Duration::ZERO, read, ..FileCheck::default() };
        let path = pipe.display();
        let late = format!("{path} cannot be read: no response for 0 s; is its file system available?");
        assert_eq!(check.check([&pipe]), Err(late));
        let waiting = format!("{path} cannot be read: an earlier attempt is still waiting for it");
        assert_eq!(check.check([&pipe]), Err(waiting));
        check.patience = Duration::from_secs(600);
        assert_eq!(check.check([&file]), Ok(()), "others are not affected");
        // The waiting thread opens the pipe when a writer does, and reads until that has closed it.
        drop(fs::OpenOptions::new().write(true).open(&pipe).unwrap());
        check.waiting.pop().unwrap().1.recv().unwrap().unwrap();
        fs::remove_file(&pipe).unwrap();
        fs::write(&pipe, "text").unwrap();
        assert_eq!(check.check([&pipe]), Ok(()));
    }
}
