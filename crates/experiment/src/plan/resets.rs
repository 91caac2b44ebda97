//! Actions on subjects before each trial: `SUBJECT.ACTION`, where the action is defined by the experiment, supported by
//! every server of the role, or a restart.

use super::resolver::Resolver;
use super::roles::{ResetReadiness, Role, RoleReset, key_of};
use super::subject::{Subject, check_url};
use crate::file;
use crate::file::positions::At;
use crate::file::values::Command;
use crate::trial::{AdminToken, Reset, ResetAction, SubjectKind};
use breme_base::suggest_or_list;

/// Supported by every subject that is started here.
const RESTART: &str = "restart";

impl<'a> Resolver<'a, '_> {
    /// The resets of the design that apply at this combination of levels.
    pub(super) fn resets(&mut self, names: &[At<String>], subjects: &[Subject]) -> Vec<Reset> {
        names.iter().filter_map(|name| self.reset_of(name, subjects)).collect()
    }

    fn reset_of(&mut self, at: &At<String>, subjects: &[Subject]) -> Option<Reset> {
        let Some((subject_name, name)) = at.value.split_once('.') else {
            return self.collector.reject(
                &at.span,
                format!(
                    "{:?} is not a reset; write SUBJECT.ACTION, as in \"edge.cache\" or \"edge.restart\"",
                    at.value
                ),
            );
        };
        let Some(subject) = subjects.iter().find(|subject| subject.spec.name == subject_name) else {
            let known = subjects.iter().map(|subject| subject.spec.name.as_str());
            return self.collector.reject(
                &at.span,
                format!("there is no subject `{subject_name}`; {}", suggest_or_list(subject_name, known)),
            );
        };
        let action = self.action(at, name, subject)?;
        Some(Reset { subject: subject_name.to_owned(), name: name.to_owned(), action })
    }

    /// Definitions of the experiment take precedence over those of the role.
    fn action(&mut self, at: &At<String>, name: &str, subject: &Subject) -> Option<ResetAction> {
        let of_role: &[RoleReset] = self.role_of(subject).map_or(&[], |role| role.resets.as_slice());
        let can_restart = subject.spec.kind.process().is_some();
        if let Some((_, action)) = subject.resets.iter().find(|(known, _)| known == name) {
            return Some(action.clone());
        }
        if let Some(reset) = of_role.iter().find(|reset| reset.name == name) {
            return self.role_action(at, reset, subject);
        }
        if name == RESTART && can_restart {
            return Some(ResetAction::Restart);
        }
        let described = subject.resets.iter().map(|(known, _)| known.as_str());
        let known = described.chain(of_role.iter().map(|reset| reset.name.as_str()));
        let known: Vec<&str> = known.chain(can_restart.then_some(RESTART)).collect();
        let hint = suggest_or_list(name, known.iter().copied());
        self.collector.reject(&at.span, format!("subject `{}` has no reset `{name}`; {hint}", subject.spec.name))
    }

    fn role_of(&self, subject: &Subject) -> Option<&'a Role> {
        match &subject.spec.kind {
            SubjectKind::Own { role, .. } => self.roles.find(role),
            _ => None,
        }
    }

    /// Also none if this level has nothing to reset: a cache of 0 bytes is empty.
    fn role_action(&mut self, at: &At<String>, reset: &RoleReset, subject: &Subject) -> Option<ResetAction> {
        let SubjectKind::Own { arguments, token, .. } = &subject.spec.kind else { return None };
        let (reset_name, name) = (&at.value, &subject.spec.name);
        match reset.readiness(arguments) {
            ResetReadiness::Off => return None,
            ResetReadiness::Lacking(flag) => {
                let key = key_of(flag);
                let problem = format!(
                    "`{reset_name}` needs `{key}` in subject `{name}`; write [subject.{name}] {key} = …, or remove the reset"
                );
                return self.collector.reject(&at.span, problem);
            }
            ResetReadiness::Ready => {}
        }
        if reset.needs_token() && *token == AdminToken::None {
            let problem = format!(
                "`{reset_name}` needs the token of subject `{name}`, but its `config` file may set another one; write admin_token_file = \"FILE\" in the subject, with a file made by `openssl rand -hex 32`"
            );
            return self.collector.reject(&at.span, problem);
        }
        Some(reset.action.clone())
    }

    /// An action defined by the experiment.
    pub(super) fn reset(&mut self, name: &At<String>, reset: &At<file::Reset>) -> Option<(String, ResetAction)> {
        let At { value: file, span } = reset;
        if name.value == RESTART {
            self.collector.note(&name.span, "`restart` is a built-in reset; choose another name");
        }
        let request = match (&file.get, &file.post, &file.purge, &file.request) {
            (Some(path), None, None, None) => Some(("GET", path.as_str())),
            (None, Some(path), None, None) => Some(("POST", path.as_str())),
            (None, None, Some(path), None) => Some(("PURGE", path.as_str())),
            (None, None, None, Some(request)) => Some(request.split_once(' ').unwrap_or(("GET", request))),
            _ => None,
        };
        let action = match (request, &file.command) {
            (Some((method, url)), None) => {
                if !url.starts_with('/')
                    && !url.starts_with("${")
                    && let Err(problem) = check_url(url)
                {
                    self.collector.note(
                        span,
                        format!("{url:?} is neither a path nor a URL: {problem}; write for example \"PURGE /\""),
                    );
                }
                let headers =
                    file.headers.0.iter().map(|(name, value)| (name.value.clone(), value.0.clone())).collect();
                ResetAction::Request { method: method.to_owned(), url: url.to_owned(), headers }
            }
            (None, Some(Command(command))) => ResetAction::Command(command.clone()),
            _ => {
                return self.collector.reject(span, "a reset is one request or one command: { post = \"/reset\" }, { purge = \"/\" }, { request = \"BAN /\" } or { command = [\"PROGRAM\"] }");
            }
        };
        Some((name.value.clone(), action))
    }
}
