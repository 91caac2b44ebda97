//! A running subject.

use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::trial::{ProcessSpec, SubjectKind, SubjectSpec};
use rustix::process::Signal;

use super::ports::Ports;
use super::template::PlaceholderNames;
use super::token::BearerToken;
use crate::control_group;
use crate::keeping::{ExitInfo, StopError, SupervisedProcess};
use crate::process_table::{Stat, look_at, signal};

/// Default time limit of a stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A subject that is ready. Killed with its descendants on drop.
#[derive(Debug)]
pub struct Subject {
    pub(super) spec: SubjectSpec,
    pub(super) folder: PathBuf,
    pub(super) cpus: Vec<usize>,
    pub(super) ports: Ports,
    pub(super) names: PlaceholderNames,
    pub(super) url: String,
    pub(super) metrics_url: Option<String>,
    pub(super) token: Option<BearerToken>,
    pub(super) kept: Option<SupervisedProcess>,
    pub(super) frozen: Vec<Frozen>,
    pub(super) stop_signal: i32,
}

/// A suspended part of a subject.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Words of its processes' command lines; none: the whole subject.
    pub(super) words: Option<String>,
    /// By the control group, not one by one.
    pub(super) is_group: bool,
    pub(super) processes: Vec<Stat>,
}

impl Subject {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of its counters, if there is one.
    #[must_use]
    pub fn metrics_url(&self) -> Option<&str> {
        self.metrics_url.as_deref()
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The variables of its texts: `port`, `url`, `folder`, …
    #[must_use]
    pub fn names(&self) -> &PlaceholderNames {
        &self.names
    }

    /// Its processes; None if it runs elsewhere.
    #[must_use]
    pub fn kept(&self) -> Option<&SupervisedProcess> {
        self.kept.as_ref()
    }

    /// Its exit, if it has exited.
    #[must_use]
    pub fn ended(&self) -> Option<ExitInfo> {
        self.kept.as_ref()?.ended()
    }

    /// Waits for its exit. One that runs elsewhere never exits.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> Option<ExitInfo> {
        match &self.kept {
            Some(kept) => kept.wait_ended(timeout),
            None => {
                std::thread::sleep(timeout);
                None
            }
        }
    }

    /// The end of its output.
    #[must_use]
    pub fn printed(&self) -> String {
        self.kept.as_ref().map(SupervisedProcess::printed).unwrap_or_default()
    }

    /// Stops it, and kills what is left after its time limit. None if it runs elsewhere.
    ///
    /// # Errors
    /// If a process could not be killed.
    pub fn stop(&mut self) -> Result<Option<ExitInfo>, StopError> {
        self.thaw(None);
        let within = self.process().and_then(|process| process.stop_within).unwrap_or(STOP_WITHIN);
        match &mut self.kept {
            Some(kept) => kept.stop(self.stop_signal, within).map(Some),
            None => Ok(None),
        }
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

    fn process(&self) -> Option<&ProcessSpec> {
        process_of(&self.spec.kind)
    }
}

pub(super) fn process_of(kind: &SubjectKind) -> Option<&ProcessSpec> {
    match kind {
        SubjectKind::Own { process, .. } | SubjectKind::Command { process, .. } => Some(process),
        SubjectKind::External => None,
    }
}
