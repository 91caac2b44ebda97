//! Subjects: systems under test, started from what the plan says, kept, and ended.
//!
//! | file | what |
//! |---|---|
//! | `launch.rs` | from a [`SubjectSpec`] to a subject that is ready |
//! | `template.rs` | `${port}` and the like in texts |
//! | `ports.rs`, `folder.rs` | free ports; the subject's own folder and its files |
//! | `ready.rs` | waiting until it is ready |
//! | `reset.rs` | what is done to it between trials |

mod launch;
mod ports;
mod ready;
mod reset;
mod template;

use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::trial::{ProcessSpec, SubjectKind, SubjectSpec};

use crate::keeping::{Ending, Kept};

pub use launch::Launcher;
pub use ports::Ports;
pub use template::Names;

/// The signal that asks a program to end, if the experiment names none.
const STOP_SIGNAL: &str = "TERM";
/// How long a program may take to end, if the experiment does not say.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The signals that an experiment may name.
const SIGNALS: [(&str, i32); 9] = {
    use signal_hook::consts as signal;
    [
        ("TERM", signal::SIGTERM),
        ("INT", signal::SIGINT),
        ("QUIT", signal::SIGQUIT),
        ("HUP", signal::SIGHUP),
        ("KILL", signal::SIGKILL),
        ("USR1", signal::SIGUSR1),
        ("USR2", signal::SIGUSR2),
        // Apache's graceful stop.
        ("WINCH", signal::SIGWINCH),
        ("ABRT", signal::SIGABRT),
    ]
};

/// A system under test that is ready. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Subject {
    spec: SubjectSpec,
    folder: PathBuf,
    cpus: Vec<usize>,
    ports: Ports,
    names: Names,
    url: String,
    metrics_url: Option<String>,
    kept: Option<Kept>,
    stop_signal: i32,
    ready_after: Duration,
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

    /// Asks it to end, and kills what is left of it when its time is over. How it ended; nothing if it runs somewhere else.
    ///
    /// # Errors
    /// When a process is left that could not be killed.
    pub fn stop(&mut self) -> Result<Option<Ending>, String> {
        let within = self.process().and_then(|process| process.stop_within).unwrap_or(STOP_WITHIN);
        match &mut self.kept {
            Some(kept) => kept.stop(self.stop_signal, within).map(Some),
            None => Ok(None),
        }
    }

    fn process(&self) -> Option<&ProcessSpec> {
        process_of(&self.spec.kind)
    }
}

fn process_of(kind: &SubjectKind) -> Option<&ProcessSpec> {
    match kind {
        SubjectKind::Own { process, .. } | SubjectKind::Command { process, .. } => Some(process),
        SubjectKind::External => None,
    }
}

/// `TERM`, `SIGTERM`, `term`.
fn signal_by_name(name: &str) -> Result<i32, String> {
    let short = name.to_ascii_uppercase();
    let short = short.strip_prefix("SIG").unwrap_or(&short);
    let known = SIGNALS.iter().find(|(known, _)| *known == short);
    known.map(|(_, signal)| *signal).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("stop signal {name:?} is not known; known are {}", names.join(", "))
    })
}

/// A path behind a URL: `http://h:1/` and `/x` make `http://h:1/x`. What is a URL itself is left alone.
fn with_path(url: &str, path: &str) -> String {
    match path {
        path if path.contains("://") => path.to_owned(),
        path => format!("{}/{}", url.trim_end_matches('/'), path.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        for name in ["TERM", "SIGTERM", "term"] {
            assert_eq!(signal_by_name(name), Ok(15));
        }
        assert_eq!(signal_by_name("QUIT"), Ok(3));
        assert!(signal_by_name("TRM").unwrap_err().contains("known are TERM, INT"));
    }

    #[test]
    fn a_path_is_the_subjects_own() {
        assert_eq!(with_path("http://h:1/", "/x"), "http://h:1/x");
        assert_eq!(with_path("http://h:1/a", "x?y"), "http://h:1/a/x?y");
        assert_eq!(with_path("http://h:1", "https://z/"), "https://z/");
    }
}
