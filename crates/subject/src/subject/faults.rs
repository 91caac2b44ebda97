//! Faults injected into a subject's processes under load: killing, restarting, suspending. [`Subject::thaw`], which a
//! stop needs too, resumes them.
//!
//! A whole subject is suspended by its control group of version 2, which includes processes started meanwhile. Without
//! one, and for a part of its processes, SIGSTOP is used.

use std::fs;

use rustix::process::Signal;
use thiserror::Error;

use super::instance::{Frozen, Subject};
use super::launch::{Launcher, StartError};
use super::template::PlaceholderNames;
use crate::control_group::{self, FreezeError};
use crate::keeping::StopError;
use crate::process_table::{Stat, descendants_of, everyone, signal};

/// Limit of searches for processes that were started while others were suspended.
const ROUNDS_MAX: usize = 100;

/// A fault that could not be injected.
#[derive(Debug, Error)]
pub enum FaultError {
    #[error("it has no processes here")]
    RunsElsewhere,
    #[error("it has ended")]
    Ended,
    #[error("none of its processes has {words:?} in its command line; they are {}", .lines.join(", "))]
    NoSuchProcess { words: String, lines: Vec<String> },
    #[error(transparent)]
    Kill(#[from] StopError),
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Subject {
    /// Kills all its processes, or those whose command line contains these words, with their children. Returns their
    /// number.
    ///
    /// # Errors
    /// If there is none, or one could not be killed.
    pub fn kill(&mut self, words: Option<&str>) -> Result<usize, FaultError> {
        let processes = self.processes(words)?;
        match (&mut self.kept, words) {
            (Some(kept), None) => {
                kept.kill()?;
                self.frozen.clear();
            }
            _ => processes.iter().for_each(|process| signal(process, Signal::KILL)),
        }
        Ok(processes.len())
    }

    /// Restarts it after it was killed, in its folder and on its ports.
    ///
    /// # Errors
    /// If it is not ready in time.
    pub fn start(&mut self, launcher: &Launcher, others: &PlaceholderNames) -> Result<(), StartError> {
        *self = launcher.start_again(&self.spec, &self.folder, &self.cpus, others, &self.ports)?;
        Ok(())
    }

    /// Suspends them. Returns their number.
    ///
    /// # Errors
    /// If there is none, or the kernel does not suspend them.
    pub fn freeze(&mut self, words: Option<&str>) -> Result<usize, FaultError> {
        let mut processes = self.processes(words)?;
        let groups = self.kept.as_ref().map_or(&[][..], |kept| kept.control_groups());
        let is_group = words.is_none() && control_group::freeze(groups)?;
        if !is_group {
            for _ in 0..ROUNDS_MAX {
                processes.iter().for_each(|process| signal(process, Signal::STOP));
                let found = self.processes(words)?;
                let is_known = |process: &Stat| processes.iter().any(|known| known.is_same(process));
                if found.iter().all(is_known) {
                    break;
                }
                processes = found;
            }
        }
        let count = processes.len();
        self.frozen.push(Frozen { words: words.map(str::to_owned), is_group, processes });
        Ok(count)
    }

    /// Its living processes whose command lines contain the words.
    fn processes(&self, words: Option<&str>) -> Result<Vec<Stat>, FaultError> {
        let kept = self.kept.as_ref().ok_or(FaultError::RunsElsewhere)?;
        let everyone = everyone();
        let all = descendants_of(kept.keeper_pid(), &everyone).into_iter().filter(|stat| !stat.is_zombie());
        let all: Vec<&Stat> = all.collect();
        let Some(words) = words else {
            return if all.is_empty() { Err(FaultError::Ended) } else { Ok(all.into_iter().cloned().collect()) };
        };
        let is_meant = |stat: &&&Stat| contains_words(&command_line(stat.pid), words);
        let mut chosen: Vec<Stat> = Vec::new();
        for top in all.iter().filter(is_meant) {
            for process in [*top].into_iter().chain(descendants_of(top.pid, &everyone)) {
                if !process.is_zombie() && !chosen.iter().any(|known| known.pid == process.pid) {
                    chosen.push(process.clone());
                }
            }
        }
        if chosen.is_empty() {
            let lines = all.iter().map(|stat| format!("`{}`", command_line(stat.pid).join(" "))).collect();
            return Err(FaultError::NoSuchProcess { words: words.to_owned(), lines });
        }
        Ok(chosen)
    }
}

/// Its arguments. A program may have replaced the first by a title of several words (`nginx: worker process`).
fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut arguments = text.trim_end_matches('\0').split('\0');
    let title = arguments.next().unwrap_or_default().split_ascii_whitespace();
    title.chain(arguments).map(str::to_owned).collect()
}

/// Compares whole consecutive arguments: neither `--name n12` nor a script that contains these words matches `--name
/// n1`.
fn contains_words(line: &[String], words: &str) -> bool {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    !words.is_empty() && line.windows(words.len()).any(|some| some == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_arguments() {
        let line = ["/usr/bin/breme", "session", "--name", "n1", "run n3 again", "127.0.0.1:0"].map(str::to_owned);
        for words in ["--name n1", "session", "/usr/bin/breme", " n1 ", "127.0.0.1:0"] {
            assert!(contains_words(&line, words), "{words}");
        }
        for words in ["--name n", "n1 --name", "breme", "0", "n3", "session n1", " "] {
            assert!(!contains_words(&line, words), "{words}");
        }
    }
}
