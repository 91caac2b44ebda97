//! A subject from when it is ready until it has ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::trial::{ProcessSpec, SubjectKind, SubjectSpec};

use super::faults::Frozen;
use super::launch::Launcher;
use super::ports::Ports;
use super::template::Names;
use super::token::Token;
use crate::keeping::{Ending, Kept};

/// How long a program may take to end, if the experiment does not say.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// A system under test that is ready. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Subject {
    pub(super) spec: SubjectSpec,
    pub(super) folder: PathBuf,
    pub(super) cpus: Vec<usize>,
    pub(super) ports: Ports,
    pub(super) names: Names,
    pub(super) url: String,
    pub(super) metrics_url: Option<String>,
    pub(super) token: Option<Token>,
    pub(super) kept: Option<Kept>,
    pub(super) frozen: Vec<Frozen>,
    pub(super) stop_signal: i32,
    pub(super) ready_after: Duration,
}

impl Subject {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Where it is asked.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its counters are read, if they are.
    #[must_use]
    pub fn metrics_url(&self) -> Option<&str> {
        self.metrics_url.as_deref()
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its ports, by name.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// What its texts may say: `port`, `url`, `folder`, …
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Its processes; none if it runs somewhere else.
    #[must_use]
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// How long it took from its start until it was ready.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ending> {
        self.kept.as_ref()?.ended()
    }

    /// Waits for its end, at most so long. One that runs somewhere else never ends.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> Option<Ending> {
        match &self.kept {
            Some(kept) => kept.wait_ended(timeout),
            None => {
                std::thread::sleep(timeout);
                None
            }
        }
    }

    /// The end of what it has printed.
    #[must_use]
    pub fn printed(&self) -> String {
        self.kept.as_ref().map(Kept::printed).unwrap_or_default()
    }

    /// Asks it to end, and kills what is left of it when its time is over. How it ended; nothing if it runs somewhere
    /// else.
    ///
    /// # Errors
    /// When a process is left that could not be killed.
    pub fn stop(&mut self) -> Result<Option<Ending>, String> {
        self.thaw(None);
        let within = self.process().and_then(|process| process.stop_within).unwrap_or(STOP_WITHIN);
        match &mut self.kept {
            Some(kept) => kept.stop(self.stop_signal, within).map(Some),
            None => Ok(None),
        }
    }

    /// Starts it again after it was killed, in its folder and on its ports.
    ///
    /// # Errors
    /// When it is not ready again.
    pub fn start(&mut self, launcher: &Launcher, others: &Names) -> Result<(), String> {
        let started = launcher.start_again(&self.spec, &self.folder, &self.cpus, others, &self.ports);
        *self = started.map_err(|fault| fault.0)?;
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
