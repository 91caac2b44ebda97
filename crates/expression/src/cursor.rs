//! A text read from left to right that tracks the current column.

use std::fmt;

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct ExpressionError {
    /// Column of the first character, from 1.
    pub column: usize,
    /// Length in characters.
    pub length: usize,
    /// The error and the expected syntax.
    pub problem: String,
    /// A level is named that exists in the experiment, but not in this profile.
    pub is_left_out: bool,
}

/// Columns from `start` up to, but not including, `end`, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub start: usize,
    pub end: usize,
}

impl Stretch {
    pub(crate) fn fault(self, problem: impl fmt::Display) -> ExpressionError {
        let length = self.end.saturating_sub(self.start).max(1);
        ExpressionError { column: self.start + 1, length, problem: problem.to_string(), is_left_out: false }
    }
}

pub(crate) struct Cursor {
    characters: Vec<char>,
    at: usize,
}

impl Cursor {
    pub(crate) fn new(text: &str) -> Self {
        Self { characters: text.chars().collect(), at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn go_back(&mut self, to: usize) {
        self.at = to;
    }

    /// The next character after any spaces.
    pub(crate) fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.at).is_some_and(|character| character.is_whitespace()) {
            self.at += 1;
        }
        self.next_as_it_is()
    }

    /// The next character, including a space.
    pub(crate) fn next_as_it_is(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    /// Skips `text` if it is next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        self.peek();
        let is_next = text.chars().enumerate().all(|(index, want)| self.characters.get(self.at + index) == Some(&want));
        if is_next {
            self.at += text.chars().count();
        }
        is_next
    }

    /// Skips a whole word if it is next.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let start = self.at;
        let is_next = self.take(word)
            && !self.next_as_it_is().is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '(');
        if !is_next {
            self.at = start;
        }
        is_next
    }

    /// Reads the characters for which `is_part` holds.
    pub(crate) fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.next_as_it_is().is_some_and(&is_part) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    /// Reads a name: bare (characters for which `is_part` holds), or in double or single quotes; none if there is
    /// neither.
    pub(crate) fn take_name(
        &mut self,
        is_part: impl Fn(char) -> bool,
    ) -> Result<Option<(String, Stretch)>, ExpressionError> {
        let (start, quote) = match self.peek() {
            Some(quote @ ('"' | '\'')) => (self.at, quote),
            Some(first) if is_part(first) => {
                let start = self.at;
                let name = self.take_while(is_part);
                return Ok(Some((name, Stretch { start, end: self.at })));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        let mut name = String::new();
        loop {
            let next = self.next_as_it_is();
            self.at += 1;
            match next {
                Some(next) if next == quote => return Ok(Some((name, Stretch { start, end: self.at }))),
                Some('\\') if self.next_as_it_is().is_some_and(|next| next == quote || next == '\\') => {
                    name.extend(self.next_as_it_is());
                    self.at += 1;
                }
                Some(character) => name.push(character),
                None => {
                    self.at = self.characters.len();
                    return Err(Stretch { start, end: self.at }.fault("this quote is not closed"));
                }
            }
        }
    }

    /// The word or character at this position, for a message.
    pub(crate) fn describe(&mut self) -> (String, Stretch) {
        let Some(first) = self.peek() else { return ("the end".to_owned(), Stretch { start: self.at, end: self.at }) };
        let start = self.at;
        let is_of_word = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
        let mut end = start + 1;
        while is_of_word(first) && self.characters.get(end).copied().is_some_and(is_of_word) {
            end += 1;
        }
        let text: String = self.characters[start..end].iter().collect();
        (format!("{text:?}"), Stretch { start, end })
    }
}
