//! GitHub Actions: annotations of the job, and a summary on its page.
//!
//! Workflow commands are also recognised on standard error, so standard output has the result only.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

use breme_base::many_lines;

use super::{CheckResult, Checks, markdown};

/// GitHub shows ten annotations of each level per step.
const ANNOTATIONS_MAX: usize = 10;

/// Annotates the job, if this is one of GitHub Actions.
pub fn annotate(checks: &Checks) {
    if env::var_os("GITHUB_ACTIONS").is_none_or(|value| value != "true") {
        return;
    }
    commands(checks).iter().for_each(|command| breme_base::error_line!("{command}"));
    let Some(path) = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(markdown(checks).as_bytes())) {
        breme_base::error_line!("$GITHUB_STEP_SUMMARY: {}: cannot be written: {error}", path.display());
    }
}

fn commands(checks: &Checks) -> Vec<String> {
    let of = |wanted: CheckResult, level: &'static str| {
        let found = checks.all.iter().filter(move |check| check.result == wanted);
        found
            .take(ANNOTATIONS_MAX)
            .map(move |check| format!("::{level} title={}::{}", property(&check.name), data(&check.detail)))
    };
    let mut commands: Vec<String> =
        of(CheckResult::Failed, "error").chain(of(CheckResult::NoVerdict, "warning")).collect();
    if commands.is_empty() {
        commands.push(format!("::notice title={}::{}", property(&checks.title), data(&checks.sentence)));
    }
    commands
}

fn data(text: &str) -> String {
    many_lines(text).replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::checks;

    #[test]
    fn failures_are_errors_and_missing_verdicts_warnings() {
        use CheckResult::{Failed, NoVerdict, Passed};
        let lines = commands(&checks(&[Passed, NoVerdict, Failed]));
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("::error title=p99(user) < 2 ms & <more>::5 ms%0Aand \"more\" 10 %25"),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("::warning title="), "{lines:?}");
        assert!(!lines[0].contains('\u{1b}'), "{lines:?}");
        assert_eq!(commands(&checks(&[Passed])), ["::notice title=a|b::So it is."]);
        assert_eq!(commands(&checks(&[Failed; 30])).len(), ANNOTATIONS_MAX);
    }
}
