//! What is wrong with an experiment file: the place, the line itself with a mark below it, and the likely remedy. All
//! of it at once.

use std::fmt;
use std::ops::Range;

use breme_base::{Place, Source};

/// The most faults that are told at once.
pub const FAULTS_MAX: usize = 30;
/// The longest part of a line that is shown.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// Bytes of the file.
pub(crate) type Span = Range<usize>;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where; none if it is about no place of the file.
    pub place: Option<Place>,
    /// What is wrong, and what would be right.
    pub problem: String,
    /// The line of the file.
    pub line: String,
    /// How many characters it is about.
    pub length: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Place { line, column }) = self.place else { return formatter.write_str(&self.problem) };
        write!(formatter, "line {line}, column {column}: {}", self.problem)?;
        // A long line is shown from a little before the place.
        let first = if column > SHOWN_CHARACTERS_MAX - 20 { column - 20 } else { 1 };
        let shown: String = self.line.chars().skip(first - 1).take(SHOWN_CHARACTERS_MAX).collect();
        let room = (shown.chars().count() + 1).saturating_sub(column - first).max(1);
        let number = line.to_string();
        let (before, mark) = (" ".repeat(column - first), "^".repeat(self.length.clamp(1, room)));
        let tabs: String = shown.chars().map(|character| if character == '\t' { ' ' } else { character }).collect();
        write!(formatter, "\n  {number} | {tabs}\n  {} | {before}{mark}", " ".repeat(number.len()))
    }
}

/// All that is wrong with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            write!(formatter, "{}{fault}", if index > 0 { "\n\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Where the faults of a file are noted, each place once.
pub(crate) struct Notebook {
    text: String,
    /// How often something was noted, be it anew.
    count: usize,
    faults: Vec<(Option<Place>, Fault)>,
}

impl Notebook {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), count: 0, faults: Vec::new() }
    }

    pub(crate) fn note(&mut self, span: &Span, problem: impl Into<String>) {
        let place = self.source().place(span.start);
        let written = self.text.get(span.clone()).unwrap_or_default();
        let length = written.lines().next().unwrap_or_default().chars().count();
        self.push(Some(place), length, problem.into());
    }

    /// A fault at a column (from 1) of a text that stands at `span`.
    pub(crate) fn note_within(
        &mut self,
        span: &Span,
        text: &str,
        column: usize,
        length: usize,
        problem: impl Into<String>,
    ) {
        let place = self.source().place_within(span, text, column);
        let is_exact = place != self.source().place(span.start);
        let length = if is_exact { length } else { 1 };
        self.push(Some(place), length, problem.into());
    }

    /// A fault that has no place in the file.
    pub(crate) fn note_at_large(&mut self, problem: impl Into<String>) {
        self.push(None, 0, problem.into());
    }

    fn source(&self) -> Source<'_> {
        Source(&self.text)
    }

    fn push(&mut self, place: Option<Place>, length: usize, problem: String) {
        let line = place.map_or("", |place| self.source().line(place.line)).to_owned();
        self.count += 1;
        // What is wrong at a place is often found again at other levels; the first of it is enough.
        let is_known =
            self.faults.iter().any(|(known, fault)| *known == place && (place.is_some() || fault.problem == problem));
        if self.faults.len() < FAULTS_MAX && !is_known {
            self.faults.push((place, Fault { place, problem, line, length }));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() == FAULTS_MAX
    }

    /// What was noted, in the order of the file.
    pub(crate) fn into_faults(mut self) -> Faults {
        self.faults.sort_by_key(|(place, _)| *place);
        Faults(self.faults.into_iter().map(|(_, fault)| fault).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_shown_with_its_line_and_a_mark() {
        let text = "title = \"x\"\nblokcs = 3 # ö\n";
        let mut book = Notebook::new(text);
        book.note(&(12..18), "there is no key `blokcs`");
        book.note(&(12..18), "there is no key `blokcs`");
        book.note_within(&(8..11), "x", 1, 1, "no");
        book.note_at_large("all is lost");
        let faults = book.into_faults().to_string();
        let expected = "all is lost\n\nline 1, column 10: no\n  1 | title = \"x\"\n    |          ^\n\nline 2, column 1: there is no key `blokcs`\n  2 | blokcs = 3 # ö\n    | ^^^^^^";
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{}wrong{}", "a".repeat(500), "b".repeat(500));
        let mut book = Notebook::new(&text);
        book.note(&(500..505), "no");
        let shown = book.into_faults().to_string();
        assert!(shown.lines().all(|line| line.len() < 140), "{shown}");
        let (line, mark) = (shown.lines().nth(1).unwrap(), shown.lines().nth(2).unwrap());
        assert_eq!(line.find("wrong"), mark.find("^^^^^"), "{shown}");
    }
}
