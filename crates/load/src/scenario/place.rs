//! Faults in a scenario file, with the line and the column that they are about.

use std::fmt;
use std::ops::Range;

use breme_base::{Place, nearest};

/// A scenario file that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

impl std::error::Error for ScenarioError {}

/// The text of the file, to find places in.
#[derive(Clone, Copy)]
pub(super) struct Source<'a>(pub(super) &'a str);

impl Source<'_> {
    /// A fault at the beginning of a part of the file.
    pub(super) fn fault(self, span: &Range<usize>, problem: impl Into<String>) -> ScenarioError {
        let Place { line, column } = breme_base::Source(self.0).place(span.start);
        ScenarioError { line, column, problem: problem.into() }
    }

    /// A fault at a column (from 1) of a text that stands in the file.
    pub(super) fn fault_within(
        self,
        span: &Range<usize>,
        text: &str,
        column: usize,
        problem: impl Into<String>,
    ) -> ScenarioError {
        let Place { line, column } = breme_base::Source(self.0).place_within(span, text, column);
        ScenarioError { line, column, problem: problem.into() }
    }

    /// A fault that the reader of TOML found.
    pub(super) fn fault_of_reader(self, error: &toml::de::Error) -> ScenarioError {
        let message = error.message().trim_end_matches('\n').replace('\n', "; ");
        let suggestion = suggestion(&message).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        let span = error.span().unwrap_or(0..0);
        self.fault(&span, format!("{message}{suggestion}"))
    }
}

/// The message of serde names the wrong word first and the right ones behind it, all in back quotes.
fn suggestion(message: &str) -> Option<&str> {
    let mut names = message.starts_with("unknown").then(|| message.split('`').skip(1).step_by(2))?;
    let wrong = names.next()?;
    nearest(wrong, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest() {
        assert_eq!(suggestion("unknown field `stpe`, expected one of `name`, `step`"), Some("step"));
        assert_eq!(suggestion("unknown field `xyz`, expected `name`"), None);
        assert_eq!(suggestion("missing field `name`"), None);
    }
}
