//! What is done to a subject between trials, so that each begins in the same state.

use std::time::Duration;

use breme_experiment::trial::ResetAction;

use super::launch::Launcher;
use super::running::Subject;
use super::template::Names;
use crate::asking::with_path;

/// How long a subject may take to answer a reset.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

impl Subject {
    /// Carries out a reset. Texts may use the names of `others` beside its own.
    ///
    /// # Errors
    /// When it is not answered well, does not end well, or the subject cannot be started anew.
    pub fn reset(&mut self, action: &ResetAction, launcher: &Launcher, others: &Names) -> Result<(), String> {
        let named = |why| format!("subject {}: reset: {why}", self.spec.name);
        match action {
            ResetAction::Restart => self.restart(launcher, others),
            ResetAction::Request { method, url, headers } => {
                self.request(launcher, method, url, headers, &self.all_names(others)).map_err(named)
            }
            ResetAction::Command(command) => {
                let command = self.all_names(others).fill_all(command, "command").map_err(named)?;
                launcher.run(&command, &self.folder, &self.folder.join("reset.log"), &self.cpus).map_err(named)
            }
        }
    }

    /// Ends it and starts it anew, on the same ports.
    ///
    /// # Errors
    /// When it does not end or is not ready again.
    pub fn restart(&mut self, launcher: &Launcher, others: &Names) -> Result<(), String> {
        self.stop()?;
        let started = launcher.start_again(&self.spec, &self.folder, &self.cpus, others, &self.ports);
        *self = started.map_err(|fault| fault.0)?;
        Ok(())
    }

    fn all_names(&self, others: &Names) -> Names {
        let mut names = others.clone();
        names.extend("", &self.names);
        names
    }

    fn request(
        &self,
        launcher: &Launcher,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        names: &Names,
    ) -> Result<(), String> {
        let url = with_path(&self.url, &names.fill(url, "url")?);
        let fill = |(name, value): &(String, String)| Ok((name.clone(), names.fill(value, &format!("field {name}"))?));
        let headers: Vec<_> = headers.iter().map(fill).collect::<Result<_, String>>()?;
        let answer = launcher.asker.ask(method, &url, &headers, ANSWER_WITHIN)?;
        if (200..400).contains(&answer.status) {
            return Ok(());
        }
        Err(format!("{method} {url} was answered with {}; expected is a status from 200 to 399", answer.status))
    }
}
