//! An error in a file: its position, the line with a mark below it, and the likely remedy. All errors are collected, so
//! that they are reported together.

use std::fmt;
use std::ops::Range;

use breme_base::{SourceText, TextPosition};

/// The maximum number of errors that are reported together.
pub const DIAGNOSTICS_MAX: usize = 30;
/// The longest part of a line that is shown.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// Bytes of the file.
pub type Span = Range<usize>;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its position; none if it concerns no part of the file.
    pub place: Option<TextPosition>,
    /// What is wrong, and what is expected.
    pub problem: String,
    pub line: String,
    /// The number of characters to mark.
    pub length: usize,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(TextPosition { line, column }) = self.place else { return formatter.write_str(&self.problem) };
        write!(formatter, "line {line}, column {column}: {}", self.problem)?;
        // A long line is shown from a little before the position.
        let first = if column > SHOWN_CHARACTERS_MAX - 20 { column - 20 } else { 1 };
        let shown: String = self.line.chars().skip(first - 1).take(SHOWN_CHARACTERS_MAX).collect();
        let room = (shown.chars().count() + 1).saturating_sub(column - first).max(1);
        let number = line.to_string();
        let (before, mark) = (" ".repeat(column - first), "^".repeat(self.length.clamp(1, room)));
        let tabs: String = shown.chars().map(|character| if character == '\t' { ' ' } else { character }).collect();
        write!(formatter, "\n  {number} | {tabs}\n  {} | {before}{mark}", " ".repeat(number.len()))
    }
}

/// All errors in a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            write!(formatter, "{}{diagnostic}", if index > 0 { "\n\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Collects the errors of a file, at most one for each position and at most [`DIAGNOSTICS_MAX`].
#[derive(Debug)]
pub struct Collector {
    text: String,
    /// Number of errors reported, including repetitions.
    count: usize,
    diagnostics: Vec<Diagnostic>,
}

impl Collector {
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), count: 0, diagnostics: Vec::new() }
    }

    /// Reports an error in the part of the file at `span`.
    pub fn note(&mut self, span: &Span, problem: impl fmt::Display) {
        let diagnostic = self.diagnostic(span, problem);
        self.push(diagnostic);
    }

    /// Reports an error in the part of the file at `span`, which therefore has no value.
    pub fn reject<T>(&mut self, span: &Span, problem: impl fmt::Display) -> Option<T> {
        self.note(span, problem);
        None
    }

    /// Reports an error at a column (from 1) of `value`, a string whose literal is at `span`.
    pub fn note_within(&mut self, span: &Span, value: &str, column: usize, length: usize, problem: impl fmt::Display) {
        let diagnostic = self.diagnostic_within(span, value, column, length, problem);
        self.push(diagnostic);
    }

    /// Reports an error that has no position in the file.
    pub fn note_at_large(&mut self, problem: impl fmt::Display) {
        self.push(Diagnostic { place: None, problem: problem.to_string(), line: String::new(), length: 0 });
    }

    /// An error in the part of the file at `span`, without reporting it.
    #[must_use]
    pub fn diagnostic(&self, span: &Span, problem: impl fmt::Display) -> Diagnostic {
        let written = self.text.get(span.clone()).unwrap_or_default();
        let length = written.lines().next().unwrap_or_default().chars().count();
        self.at(self.source().position(span.start), length, problem.to_string())
    }

    /// An error at a column (from 1) of `value`, a string whose literal is at `span`, without reporting it.
    #[must_use]
    pub fn diagnostic_within(
        &self,
        span: &Span,
        value: &str,
        column: usize,
        length: usize,
        problem: impl fmt::Display,
    ) -> Diagnostic {
        let place = self.source().position_within(span, value, column);
        let is_exact = place != self.source().position(span.start);
        self.at(place, if is_exact { length } else { 1 }, problem.to_string())
    }

    fn at(&self, place: TextPosition, length: usize, problem: String) -> Diagnostic {
        Diagnostic { place: Some(place), problem, line: self.source().line(place.line).to_owned(), length }
    }

    fn source(&self) -> SourceText<'_> {
        SourceText(&self.text)
    }

    /// Reports an error.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.count += 1;
        // An error at a position is often found again, at other levels of a factor for example; the first is enough.
        let is_known = self.diagnostics.iter().any(|known| {
            known.place == diagnostic.place && (known.place.is_some() || known.problem == diagnostic.problem)
        });
        if self.diagnostics.len() < DIAGNOSTICS_MAX && !is_known {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Number of errors reported so far, including repetitions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether further errors are discarded.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.diagnostics.len() == DIAGNOSTICS_MAX
    }

    /// The errors, in the order of the file.
    #[must_use]
    pub fn into_diagnostics(mut self) -> Diagnostics {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.place);
        Diagnostics(self.diagnostics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_with_its_line_and_a_mark() {
        let text = "title = \"x\"\nblokcs = 3 # ö\n";
        let mut collector = Collector::new(text);
        collector.note(&(12..18), "there is no key `blokcs`");
        collector.note(&(12..18), "there is no key `blokcs`");
        collector.note_within(&(8..11), "x", 1, 1, "no");
        collector.note_at_large("no position");
        let diagnostics = collector.into_diagnostics().to_string();
        let expected = "no position\n\nline 1, column 10: no\n  1 | title = \"x\"\n    |          ^\n\nline 2, column 1: there is no key `blokcs`\n  2 | blokcs = 3 # ö\n    | ^^^^^^";
        assert_eq!(diagnostics, expected);
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{}wrong{}", "a".repeat(500), "b".repeat(500));
        let mut collector = Collector::new(&text);
        collector.note(&(500..505), "no");
        let shown = collector.into_diagnostics().to_string();
        assert!(shown.lines().all(|line| line.len() < 140), "{shown}");
        let (line, mark) = (shown.lines().nth(1).unwrap(), shown.lines().nth(2).unwrap());
        assert_eq!(line.find("wrong"), mark.find("^^^^^"), "{shown}");
    }
}
