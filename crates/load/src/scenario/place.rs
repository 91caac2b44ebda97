//! Faults in a scenario file, with the line and the column that they are about.

use std::fmt;
use std::ops::Range;

/// A likeness from which a misspelt name is worth a suggestion.
const LIKENESS_MIN: f64 = 0.75;

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
        let before = &self.0[..floor(self.0, span.start)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ScenarioError { line, column, problem: problem.into() }
    }

    /// A fault at a column (from 1) of a text that stands in the file. Where the text is written with escapes or over several lines,
    /// the place is that of the text.
    pub(super) fn fault_within(
        self,
        span: &Range<usize>,
        text: &str,
        column: usize,
        problem: impl Into<String>,
    ) -> ScenarioError {
        let written = self.0.get(span.clone()).unwrap_or_default();
        let is_plain = written.len() == text.len() + 2 && written.get(1..=text.len()) == Some(text);
        let error = self.fault(span, problem);
        if is_plain { ScenarioError { column: error.column + column, ..error } } else { error }
    }

    /// A fault that the reader of TOML found.
    pub(super) fn fault_of_reader(self, error: &toml::de::Error) -> ScenarioError {
        let message = error.message().trim_end_matches('\n').replace('\n', "; ");
        let suggestion = suggestion(&message).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        let span = error.span().unwrap_or(0..0);
        self.fault(&span, format!("{message}{suggestion}"))
    }
}

fn floor(text: &str, mut position: usize) -> usize {
    position = position.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

/// The message of serde names the wrong word first and the right ones behind it, all in back quotes.
fn suggestion(message: &str) -> Option<&str> {
    let mut names = message.starts_with("unknown").then(|| message.split('`').skip(1).step_by(2))?;
    let wrong = names.next()?;
    let likeness = |name: &&str| strsim::jaro_winkler(wrong, name);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&nearest) > LIKENESS_MIN).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters() {
        let source = Source("a\näö = \"x{y}\"\n");
        let place = |error: ScenarioError| (error.line, error.column);
        assert_eq!(place(source.fault(&(0..1), "")), (1, 1));
        let value = source.0.find('"').unwrap();
        assert_eq!(place(source.fault(&(value..value + 6), "")), (2, 6));
        assert_eq!(place(source.fault_within(&(value..value + 6), "x{y}", 2, "")), (2, 8));
        assert_eq!(place(source.fault(&(999..1000), "")), (3, 1));
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest() {
        assert_eq!(suggestion("unknown field `stpe`, expected one of `name`, `step`"), Some("step"));
        assert_eq!(suggestion("unknown field `xyz`, expected `name`"), None);
        assert_eq!(suggestion("missing field `name`"), None);
    }
}
