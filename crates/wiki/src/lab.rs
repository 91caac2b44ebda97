//! Pages for laboratories: names 1, 2, 3 …, and random text.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use breme_base::{QuantityError, Random};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Condition, Content, Write, WriteAction};
use breme_wiki_database::{Database, DatabaseError};
use thiserror::Error;

use crate::calendar::now;

const WORD_LETTERS_MAX: u64 = 10;
/// The seed of the texts: every run has the same pages.
const SEED: u64 = 1;

/// The length of a page's text in bytes: `5000`, or uniformly distributed over `100..10000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageBytes(RangeInclusive<u64>);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PageBytesError {
    #[error(transparent)]
    Size(#[from] QuantityError),
    #[error("{0:?}: the smaller size comes first")]
    Reversed(String),
}

impl FromStr for PageBytes {
    type Err = PageBytesError;

    fn from_str(text: &str) -> Result<Self, PageBytesError> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let range = breme_base::parse_bytes(low)?..=breme_base::parse_bytes(high)?;
        if range.is_empty() {
            return Err(PageBytesError::Reversed(text.to_owned()));
        }
        Ok(Self(range))
    }
}

impl fmt::Display for PageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (low, high) if low == high => write!(f, "{low}"),
            (low, high) => write!(f, "{low}..{high}"),
        }
    }
}

/// Creates the pages 1 to `count` with random text, unless the wiki has pages.
///
/// # Errors
///
/// If the database fails.
pub async fn fill(database: &dyn Database, count: u64, bytes: &PageBytes) -> Result<(), DatabaseError> {
    if !database.list(None, 1).await?.is_empty() {
        return Ok(());
    }
    let mut random = Random::stream(SEED, 0);
    let (low, high) = (*bytes.0.start(), *bytes.0.end());
    let writes = (1..=count).filter_map(move |number| {
        let length = random.between(low, high);
        Some(page(Name::parse(&number.to_string()).ok()?, text(&mut random, length)))
    });
    database.import(Box::new(writes)).await.map(|_| ())
}

fn page(name: Name, text: String) -> Write {
    let content = Content { text, ..Content::default() };
    Write {
        name,
        condition: Condition::Any,
        action: WriteAction::Save { content, links: Vec::new() },
        author: None,
        comment: "Page for measurements".to_owned(),
        time: now(),
    }
}

/// Words of random letters, `length` bytes in all.
fn text(random: &mut Random, length: u64) -> String {
    let mut text = String::new();
    while (text.len() as u64) < length {
        let letters = random.between(1, WORD_LETTERS_MAX).min(length - text.len() as u64);
        text.extend((0..letters).map(|_| char::from(b'a' + random.below(26) as u8)));
        if (text.len() as u64) < length {
            text.push(' ');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_length() {
        let mut random = Random::stream(1, 0);
        for length in [0, 1, 2, 100, 5000] {
            assert_eq!(text(&mut random, length).len() as u64, length);
        }
    }

    #[test]
    fn sizes_are_one_or_a_range() {
        let size = |text: &str| text.parse::<PageBytes>().map(|size| size.to_string());
        assert_eq!(size("5000"), Ok("5000".to_owned()));
        assert_eq!(size("100..10kB"), Ok("100..10000".to_owned()));
        assert!(size("10..1").is_err() && size("many").is_err());
    }
}
