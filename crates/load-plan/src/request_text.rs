//! A request as text, in scenarios and experiments: `POST /page`, or `/page`.

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestText<'a> {
    pub method: Option<&'a str>,
    /// Path and query; may contain placeholders.
    pub target: &'a str,
}

/// What is wrong with such a text, with a correction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestTextError {
    #[error("{0:?} is not a request; write a method and a path that begins with '/', as in \"GET /page\"")]
    Form(String),
    #[error("{character:?} is not allowed in a path; percent-encode it")]
    Character {
        /// In characters from 1.
        column: usize,
        character: char,
    },
}

impl<'a> RequestText<'a> {
    /// Splits a text whose target begins with one of these characters.
    ///
    /// # Errors
    /// If the target begins with another one, or contains one that must be percent-encoded.
    pub fn parse(text: &'a str, beginnings: &[char]) -> Result<Self, RequestTextError> {
        let (method, target) = match text.split_once(' ') {
            Some((method, target)) if !method.starts_with('/') => (Some(method), target.trim_start()),
            _ => (None, text),
        };
        if !target.starts_with(beginnings) {
            return Err(RequestTextError::Form(text.to_owned()));
        }
        let before = text[..text.len() - target.len()].chars().count();
        match check_target(target) {
            Err(RequestTextError::Character { column, character }) => {
                Err(RequestTextError::Character { column: before + column, character })
            }
            checked => checked.map(|()| Self { method, target }),
        }
    }
}

/// Checks the characters of a target.
///
/// # Errors
/// [`RequestTextError::Character`]
pub fn check_target(target: &str) -> Result<(), RequestTextError> {
    match target.chars().enumerate().find(|(_, character)| !character.is_ascii_graphic()) {
        Some((index, character)) => Err(RequestTextError::Character { column: index + 1, character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_target_and_may_have_a_method() {
        let parse = |text| RequestText::parse(text, &['/']);
        assert_eq!(parse("/a?b"), Ok(RequestText { method: None, target: "/a?b" }));
        assert_eq!(parse("PUT  /{seq}"), Ok(RequestText { method: Some("PUT"), target: "/{seq}" }));
        assert_eq!(parse("GET a"), Err(RequestTextError::Form("GET a".to_owned())));
        assert_eq!(parse("/a b"), Err(RequestTextError::Character { column: 3, character: ' ' }));
        assert_eq!(parse("PUT /ä"), Err(RequestTextError::Character { column: 6, character: 'ä' }));
        assert!(parse("{page}").is_err() && RequestText::parse("{page}", &['/', '{']).is_ok());
    }
}
