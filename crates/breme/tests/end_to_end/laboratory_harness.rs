//! A folder with an experiment, the program in it, and its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{breme, wait_until};

pub(crate) struct Laboratory {
    // Its canonical path, as that of a process.
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Laboratory {
    pub(crate) fn new(experiment: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::write(path.join("experiment.toml"), experiment).unwrap();
        Self { path, _folder: folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.path
    }

    /// Runs the program in this folder.
    pub(crate) fn breme(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the program in this folder.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = breme();
        command.current_dir(&self.path).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn journal(&self, run: &str) -> PathBuf {
        self.path.join("runs").join(run).join("trials.jsonl")
    }

    /// The records of a run.
    pub(crate) fn trials(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.journal(run)).unwrap();
        text.lines().map(|line| json(line.as_bytes())).collect()
    }

    /// Waits until this many trials are in the journal.
    pub(crate) fn wait_trials(&self, run: &str, count: usize) {
        wait_until("the journal does not grow", || self.trial_count(run) >= count);
    }

    /// The number of complete records in the journal.
    pub(crate) fn trial_count(&self, run: &str) -> usize {
        fs::read(self.journal(run)).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count())
    }

    /// Waits until no process runs in this folder: no server, generator or supervisor.
    pub(crate) fn wait_deserted(&self) {
        wait_until("somebody is left", || self.inhabitants().is_empty());
    }

    /// Waits until this many processes run in this folder.
    pub(crate) fn wait_inhabitants(&self, count: usize) {
        wait_until("somebody does not come", || self.inhabitants().len() >= count);
    }

    /// Processes whose working folder is this one or below it.
    pub(crate) fn inhabitants(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(&self.path)))
            .collect()
    }
}

/// CPU time of a subject or a generator. The kernel divides it into user and system time by what each clock tick hit,
/// so one of them may be 0 after some milliseconds.
pub(crate) fn cpu_ns(usage: &Value) -> u64 {
    ["cpu_user_ns", "cpu_system_ns"].iter().map(|key| usage[key].as_u64().unwrap()).sum()
}

pub(crate) fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", text_of(text)))
}

pub(crate) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
