//! A running subject.

use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::trial::{ProcessSpec, SubjectKind, SubjectSpec};

use super::faults::Frozen;
use super::launch::{Launcher, StartError};
use super::ports::Ports;
use super::template::PlaceholderNames;
use super::token::BearerToken;
use crate::keeping::{ExitInfo, StopError, SupervisedProcess};

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

    /// Restarts it after it was killed, in its folder and on its ports.
    ///
    /// # Errors
    /// If it is not ready in time.
    pub fn start(&mut self, launcher: &Launcher, others: &PlaceholderNames) -> Result<(), StartError> {
        *self = launcher.start_again(&self.spec, &self.folder, &self.cpus, others, &self.ports)?;
        Ok(())
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
