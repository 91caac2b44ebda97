//! Faults injected into a subject's processes under load: killing, suspending, resuming.
//!
//! A whole subject is suspended by its control group of version 2, which includes processes started meanwhile. Without
//! one, and for a part of its processes, SIGSTOP is used.

use std::fs;

use rustix::process::Signal;
use thiserror::Error;

use super::instance::Subject;
use super::launch::StartError;
use crate::control_group::{self, FreezeError};
use crate::keeping::StopError;
use crate::process_table::{Stat, descendants_of, everyone, look_at, signal};

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

/// A suspended part of a subject.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Words of its processes' command lines; none: the whole subject.
    words: Option<String>,
    /// By the control group, not one by one.
    is_group: bool,
    processes: Vec<Stat>,
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

    /// Resumes what was suspended with these words; without words, everything. Returns the number of processes.
    pub fn thaw(&mut self, words: Option<&str>) -> usize {
        let is_meant = |frozen: &mut Frozen| words.is_none() || frozen.words.as_deref() == words;
        let thawed: Vec<Frozen> = self.frozen.extract_if(.., is_meant).collect();
        for Frozen { is_group, processes, .. } in &thawed {
            if let (true, Some(kept)) = (is_group, &self.kept) {
                control_group::thaw(kept.control_groups());
            }
            let is_there = |process: &&Stat| look_at(process.pid).is_some_and(|found| found.is_same(process));
            processes.iter().filter(|_| !is_group).filter(is_there).for_each(|process| signal(process, Signal::CONT));
        }
        thawed.iter().map(|frozen| frozen.processes.len()).sum()
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
