//! Resets a subject between trials, so that each begins in the same state.

use std::time::Duration;

use breme_experiment::trial::ResetAction;
use breme_http_client::{RequestError, with_path};
use serde_json::Value;
use thiserror::Error;

use super::instance::Subject;
use super::launch::{ADMIN_PORT, CommandError, Launcher, StartError};
use super::template::{FillError, PlaceholderNames};
use crate::keeping::StopError;

/// Time limit of a response to a reset.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Characters of a server's error that a message quotes.
const SAID_CHARACTERS_MAX: usize = 200;

/// A reset that failed.
#[derive(Debug, Error)]
pub enum ResetError {
    #[error(transparent)]
    Restart(#[from] RestartError),
    #[error("subject {subject}: reset: {source}")]
    Action { subject: String, source: ResetActionError },
}

#[derive(Debug, Error)]
pub enum RestartError {
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error(transparent)]
    Start(#[from] StartError),
}

#[derive(Debug, Error)]
pub enum ResetActionError {
    #[error(transparent)]
    Text(#[from] FillError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{method} {url} returned status {status}; expected a status from 200 to 399")]
    Status { method: String, url: String, status: u16 },
    #[error("it has no admin address")]
    NoAdmin,
    #[error(
        "its admin address is read-only, since it was started without a token; write admin_token_file = \"FILE\" in the subject"
    )]
    NoToken,
    #[error("POST {url} returned status {status} ({said}); {}", remedy(*.status))]
    Refused { url: String, status: u16, said: String },
}

impl Subject {
    /// Carries out a reset. Texts may use the names of `others` in addition to its own.
    ///
    /// # Errors
    /// If its response is no success, a command fails, or the subject cannot be restarted.
    pub fn reset(
        &mut self,
        action: &ResetAction,
        launcher: &Launcher,
        others: &PlaceholderNames,
    ) -> Result<(), ResetError> {
        let done = match action {
            ResetAction::Restart => return Ok(self.restart(launcher, others)?),
            ResetAction::Request { method, url, headers } => {
                self.request(launcher, method, url, headers, &self.all_names(others))
            }
            ResetAction::Admin { path, content } => self.change(launcher, path, content),
            ResetAction::Command(command) => self.run(launcher, command, &self.all_names(others)),
        };
        done.map_err(|source| ResetError::Action { subject: self.spec.name.clone(), source })
    }

    /// Restarts it on the same ports.
    fn restart(&mut self, launcher: &Launcher, others: &PlaceholderNames) -> Result<(), RestartError> {
        self.stop()?;
        Ok(self.start(launcher, others)?)
    }

    fn all_names(&self, others: &PlaceholderNames) -> PlaceholderNames {
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
        names: &PlaceholderNames,
    ) -> Result<(), ResetActionError> {
        let url = with_path(&self.url, &names.fill(url, "url")?);
        let fill = |(name, value): &(String, String)| Ok((name.clone(), names.fill(value, &format!("header {name}"))?));
        let headers: Vec<_> = headers.iter().map(fill).collect::<Result<_, FillError>>()?;
        let response = launcher.http_client.request(method, &url, &headers, ANSWER_WITHIN)?;
        if (200..400).contains(&response.status) {
            return Ok(());
        }
        Err(ResetActionError::Status { method: method.to_owned(), url, status: response.status })
    }

    fn run(&self, launcher: &Launcher, command: &[String], names: &PlaceholderNames) -> Result<(), ResetActionError> {
        let command = names.fill_all(command, "command")?;
        Ok(launcher.run(&command, &self.folder, &self.folder.join("reset.log"), &self.cpus)?)
    }

    /// Sends a change to its admin address.
    fn change(&self, launcher: &Launcher, path: &str, content: &str) -> Result<(), ResetActionError> {
        let port = self.ports.get(ADMIN_PORT).ok_or(ResetActionError::NoAdmin)?;
        let token = self.token.as_ref().ok_or(ResetActionError::NoToken)?;
        let url = format!("http://127.0.0.1:{port}{path}");
        let response = launcher.http_client.post(&url, &[token.field()], content.as_bytes(), ANSWER_WITHIN)?;
        if (200..300).contains(&response.status) {
            return Ok(());
        }
        Err(ResetActionError::Refused { url, status: response.status, said: said(&response.content) })
    }
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "its token is not the one in its admin_token_file: that file must not change while the subject runs"
        }
        404 => "it has no such reset; a cache needs cache_memory = \"64MiB\" in the subject",
        _ => "expected a status from 200 to 299; `restart` resets the subject too",
    }
}

/// The reason in a server's response: from JSON, or the first line.
fn said(content: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(content).ok();
    let reason = json.as_ref().and_then(|json| json["error"].as_str());
    let text = String::from_utf8_lossy(content);
    let reason = reason.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    reason.chars().filter(|character| !character.is_control()).take(SAID_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_refusal_is_shortened() {
        assert_eq!(said(br#"{"error": "this needs\nthe token"}"#), "this needsthe token");
        assert_eq!(said(b"there is no such page; these are:\nGET /"), "there is no such page; these are:");
        assert_eq!(said(b""), "");
        assert_eq!(said(&[b'x'; 5000]).len(), SAID_CHARACTERS_MAX);
    }
}
