//! Files that flags name, and standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_load_plan::{PlanError, Scenarios, Target, Variables};

use super::LoadArgs;
use crate::stdin;

/// Limit of a file or standard input.
const INPUT_BYTES_MAX: u64 = 256 * 1024 * 1024;

impl LoadArgs {
    pub(super) fn read_targets(&self) -> Result<Vec<Target>, Failure> {
        match (self.urls.as_slice(), &self.targets) {
            ([number, ..], _) if self.quiet && number.parse::<f64>().is_ok() => {
                Err(Failure::usage(format!("-q hides the progress, and has no value; to set the rate: -R {number}")))
            }
            ([_, _, ..], _) if self.scenario.is_none() => Err(Failure::usage(
                "several URLs are the hosts of a --scenario; to request several URLs in turn, write them to a file for --targets",
            )),
            ([_, ..], _) => Ok(self.urls.iter().map(|url| Target::url(url)).collect()),
            ([], Some(path)) => {
                let name = path.display();
                let file = read_path(path).map_err(|problem| Failure::usage(format!("--targets {name}: {problem}")))?;
                Target::parse_file(&file).map_err(|error| Failure::usage(format!("--targets {name}: {error}")))
            }
            ([], None) if self.scenario.is_some() => Ok(Vec::new()),
            ([], None) => Err(Failure::usage("no target; give a URL")),
        }
    }

    pub(super) fn read_scenarios(&self, variables: &Variables) -> Result<Option<Scenarios>, Failure> {
        let Some(path) = &self.scenario else { return Ok(None) };
        let name = path.display();
        let file = read_path(path).map_err(|problem| Failure::usage(format!("--scenario {name}: {problem}")))?;
        let text = String::from_utf8(file).map_err(|error| {
            Failure::usage(format!("--scenario {name}: not valid UTF-8 at byte {}", error.utf8_error().valid_up_to()))
        })?;
        Scenarios::parse(&text, self.think, variables)
            .map(Some)
            .map_err(|errors| Failure::usage(format!("--scenario {name} cannot be used:\n\n{errors}")))
    }

    /// The message of an error, with the file that it concerns.
    pub(crate) fn locate(&self, error: &PlanError) -> String {
        match (error, &self.targets) {
            (PlanError::Target(error), Some(path)) => format!("--targets {}: {error}", path.display()),
            (PlanError::Scenario(error), _) => {
                let path = self.scenario.as_deref().unwrap_or(Path::new("-"));
                format!("--scenario {} cannot be used:\n\n{error}", path.display())
            }
            _ => error.to_string(),
        }
    }

    /// Standard input has one reader: the second would get nothing.
    pub(super) fn check_stdin(&self) -> Result<(), Failure> {
        let mut readers = self.start_on_line.then_some("--start-on-line").into_iter().chain(self.input_flags());
        match (readers.next(), readers.next()) {
            (Some(first), Some(second)) => {
                Err(Failure::usage(format!("{first} and {second} both read standard input; give {second} a file")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the end of standard input ends the run.
    pub(crate) fn watches_stdin(&self) -> bool {
        self.until_stopped && self.input_flags().next().is_none() && stdin::is_held()
    }

    /// The flags that read standard input to its end.
    fn input_flags(&self) -> impl Iterator<Item = &'static str> {
        let is_stdin = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        let named = [
            ("--targets -", is_stdin(&self.targets)),
            ("--scenario -", is_stdin(&self.scenario)),
            ("--body @-", self.body.as_deref() == Some("@-")),
            ("-D -", is_stdin(&self.body_file)),
        ];
        named.into_iter().filter(|(_, is_named)| *is_named).map(|(flag, _)| flag)
    }
}

/// The content of `--body`: the text, or the file that it names.
pub(super) fn read_content(text: &str) -> Result<Vec<u8>, Failure> {
    let content = match text.strip_prefix('@') {
        None => return Ok(text.as_bytes().to_vec()),
        Some(path) => read_path(Path::new(path)),
    };
    content.map_err(|problem| Failure::usage(format!("--body {text}: {problem}")))
}

/// A file, or standard input if it is `-`.
pub(super) fn read_path(path: &Path) -> Result<Vec<u8>, String> {
    if path == Path::new("-") { read_bounded(std::io::stdin().lock()) } else { read_file(path) }
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?)
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let count = reader
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if count as u64 > INPUT_BYTES_MAX { Err(format!("is longer than {INPUT_BYTES_MAX} bytes")) } else { Ok(content) }
}
