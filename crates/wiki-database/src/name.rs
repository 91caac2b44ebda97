//! Names of pages and attachments.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use unicode_normalization::UnicodeNormalization;

use crate::digest::sha256;

/// Limit of a name in bytes of UTF-8: a file `NAME.md` of an export fits into 255 bytes.
pub const NAME_BYTES_MAX: usize = 240;

/// The study's request counter; a page cannot have its name.
const COUNTER: &str = "stevec";

/// The key of [`Name::pseudonym`] among the values of the database.
pub(crate) const PSEUDONYM_KEY: &str = "pseudonym-key";

/// What takes the place of an erased name begins with this, and continues with so many digits.
const PSEUDONYM: &str = "Erased ";
const PSEUDONYM_DIGITS: usize = 32;

/// The name of a page or of an attachment: in Unicode NFC, with single spaces, without control characters, and safe as
/// a path segment and as a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Only white space.
    #[error("a name needs at least one character")]
    Empty,
    #[error("a name has at most {max} bytes of UTF-8", max = NAME_BYTES_MAX)]
    TooLong,
    #[error("a name cannot contain {0:?}")]
    Character(char),
    #[error("the name {counter} is reserved for the request counter", counter = COUNTER)]
    Reserved,
    #[error("a name cannot begin with a dot")]
    LeadingDot,
}

impl Name {
    /// Normalises `text`: NFC, runs of white space and underscores become one space, none at the ends.
    ///
    /// # Errors
    ///
    /// See [`NameError`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = plain(text).unwrap_or_else(|| normal(text));
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        if let Some(c) = name.chars().find(|c| is_forbidden(*c)) {
            return Err(NameError::Character(c));
        }
        if name.starts_with('.') {
            return Err(NameError::LeadingDot);
        }
        if name.eq_ignore_ascii_case(COUNTER) {
            return Err(NameError::Reserved);
        }
        Ok(Self(name.into()))
    }

    /// The first character that is invisible, and so makes the name look like another one. Names that earlier versions
    /// accepted have such characters, and remain readable; no new page should have one.
    #[must_use]
    pub fn invisible(&self) -> Option<char> {
        self.as_str().chars().find(|c| IGNORABLE.iter().any(|range| range.contains(c)))
    }

    /// What takes the place of the name when it is erased: always the same, so that a new page of the name is known as
    /// such, but nobody can compute it or guess the name without the key. A pseudonym is its own.
    pub(crate) fn pseudonym(&self, key: &str) -> Self {
        if self.is_pseudonym() {
            return self.clone();
        }
        let digest = sha256(format!("{key} {self}").as_bytes());
        Self(format!("{PSEUDONYM}{}", &digest[..PSEUDONYM_DIGITS]).into())
    }

    /// Whether it has the form of a pseudonym; no new page can have such a name.
    pub(crate) fn is_pseudonym(&self) -> bool {
        let digits = self.as_str().strip_prefix(PSEUDONYM);
        digits.is_some_and(|digits| digits.len() == PSEUDONYM_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn normal(text: &str) -> String {
    let composed: String = text.nfc().collect();
    let words: Vec<&str> = composed.split(|c: char| c.is_whitespace() || c == '_').filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

/// Normalises letters, digits, and single spaces or underscores between them, many times as fast; `None` for other
/// texts.
fn plain(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' | b'_' if !name.is_empty() && !name.ends_with(' ') => name.push(' '),
            b'-' | b'.' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => return None,
        }
    }
    (!name.ends_with(' ')).then_some(name)
}

/// Characters with a meaning in paths, links, HTML or terminals, and those that make two different names look alike.
fn is_forbidden(c: char) -> bool {
    const SYNTAX: &str = "/\\?#[]{}|<>\"*:";
    const DIRECTION: [RangeInclusive<char>; 3] =
        ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    const INVISIBLE: &str = "\u{ad}\u{200b}\u{2060}\u{feff}";
    c.is_control() || SYNTAX.contains(c) || INVISIBLE.contains(c) || DIRECTION.iter().any(|range| range.contains(&c))
}

/// Unicode's Default_Ignorable_Code_Point, except those that are forbidden, and those of ordinary spelling: the joiners
/// of Persian, Indic scripts and emoji (U+200C, U+200D), and the variation selectors of emoji (U+FE00 to U+FE0F).
const IGNORABLE: [RangeInclusive<char>; 13] = [
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2061}'..='\u{2065}',
    '\u{206a}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::parse(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        Name::parse(text).unwrap().into()
    }

    #[test]
    fn spellings_of_one_name_are_one_name() {
        assert_eq!(name("  Ljubljanski__grad "), "Ljubljanski grad");
        assert_eq!(name("cafe\u{301}"), "café");
        assert_eq!(name("東京 タワー"), "東京 タワー");
    }

    #[test]
    fn the_short_way_gives_the_normal_form() {
        for text in ["", "a", "Ab_c 9-x.y", " a", "a ", "a__b", "a_ b", "_", "a\tb", "č", ".a", "stevec"] {
            assert!(plain(text).is_none_or(|name| name == normal(text)), "{text:?}");
        }
        assert_eq!(plain("Main_Page 2").as_deref(), Some("Main Page 2"));
    }

    #[test]
    fn invisible_characters_are_found() {
        for invisible in ['\u{2061}', '\u{61c}', '\u{3164}', '\u{e0041}'] {
            assert_eq!(Name::parse(&format!("a{invisible}b")).unwrap().invisible(), Some(invisible));
        }
        for visible in ["a b", "می\u{200c}خواهم", "❤\u{fe0f}", "👩\u{200d}🚀", "東京"] {
            assert_eq!(Name::parse(visible).unwrap().invisible(), None, "{visible}");
        }
    }

    #[test]
    fn a_pseudonym_depends_on_the_name_and_the_key() {
        let pseudonym = |text: &str, key: &str| Name::parse(text).unwrap().pseudonym(key);
        let first = pseudonym("Ana", "key");
        assert_eq!(Name::parse(first.as_str()), Ok(first.clone()));
        assert!(first.is_pseudonym() && first.as_str().len() == 39, "{first}");
        assert_eq!(first, pseudonym("Ana", "key"));
        assert_eq!(first, first.pseudonym("other key"), "to erase it again changes nothing");
        assert!(first != pseudonym("Ana", "other key") && first != pseudonym("Bor", "key"));
        for name in ["Erased", "Erased pages", "Erased 0123", "Erased z123456789abcdef0123456789abcdef"] {
            assert!(!Name::parse(name).unwrap().is_pseudonym(), "{name}");
        }
    }

    #[test]
    fn unsafe_names_are_refused() {
        for text in [
            "",
            " \t_",
            ".",
            "..",
            ".git",
            "a/b",
            "a\\b",
            "a\0b",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{ad}b",
            "Stevec",
            "a\nb\u{7}",
        ] {
            assert!(Name::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(Name::parse(&"ž".repeat(121)), Err(NameError::TooLong));
    }
}
