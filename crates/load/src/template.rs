//! Text with placeholders, which differs from request to request.
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{seq}` | the request's number in the run, from 1; no two requests of a run have the same |
//! | `{uniform:A:B}` | a whole number from A to B, each as likely |
//! | `{zipf:N:S}` | a whole number from 1 to N by Zipf's law with exponent S: 1 is the most popular |
//! | `{random:BYTES}` | that many random letters and digits |
//! | `{{`, `}}` | `{`, `}` |
//!
//! A template is compiled once, when the plan is made; rendering one appends to a buffer and allocates nothing.

use std::fmt;
use std::io::Write;

use breme_base::Random;

use crate::zipf::{self, Zipf};

/// The most random characters that one placeholder may ask for.
pub const RANDOM_BYTES_MAX: usize = 16 * 1024 * 1024;

const KNOWN: &str = "{seq}, {uniform:A:B}, {zipf:N:S} and {random:BYTES} are known; a brace itself is written {{ or }}";
const OPENINGS: [&str; 4] = ["{seq}", "{uniform:", "{zipf:", "{random:"];
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZab";

/// A compiled text.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<u8>),
    Placeholder(Placeholder),
}

#[derive(Clone, Debug)]
pub(crate) enum Placeholder {
    Sequence,
    Uniform(u64, u64),
    Zipf(Box<Zipf>),
    Random(usize),
}

/// A placeholder that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Where it begins, in characters from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "column {}: {}", self.column, self.problem)
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Compiles a text in which every brace means something, as in a URL (which cannot hold braces of its own).
    ///
    /// # Errors
    /// At the first brace that belongs to no placeholder.
    pub fn parse(text: &[u8]) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut position = 0;
        while let Some(&byte) = text.get(position) {
            let fault = |problem: String| TemplateError { column: column_of(text, position), problem };
            let doubled = text.get(position + 1) == Some(&byte);
            match byte {
                b'{' | b'}' if doubled => {
                    literal.push(byte);
                    position += 2;
                }
                b'}' => return Err(fault(format!("'}}' closes nothing; {KNOWN}"))),
                b'{' => {
                    let end = memchr::memchr(b'}', &text[position..])
                        .ok_or_else(|| fault(format!("'{{' is not closed; {KNOWN}")))?;
                    let name = String::from_utf8_lossy(&text[position + 1..position + end]);
                    let placeholder = Placeholder::parse(&name).map_err(fault)?;
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Placeholder(placeholder));
                    position += end + 1;
                }
                _ => {
                    literal.push(byte);
                    position += 1;
                }
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }

    /// Compiles a text that is a template only if it holds one of the placeholders, as in a field or content: there braces are
    /// common (JSON), and a text without placeholders is taken as it stands.
    ///
    /// # Errors
    /// As [`Template::parse`], if there is a placeholder.
    pub fn parse_if_any(text: &[u8]) -> Result<Self, TemplateError> {
        let any = OPENINGS.iter().any(|opening| memchr::memmem::find(text, opening.as_bytes()).is_some());
        if any { Self::parse(text) } else { Ok(Self::literal(text)) }
    }

    fn literal(text: &[u8]) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Literal(text.to_vec())] };
        Self { pieces }
    }

    /// The text, if it is the same for every request.
    #[must_use]
    pub fn as_fixed(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(b""),
            [Piece::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Appends the text of request number `sequence`.
    pub fn render(&self, sequence: u64, random: &mut Random, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Placeholder(placeholder) => placeholder.render(sequence, random, out),
            }
        }
    }

    /// The text with each placeholder replaced by what `marker` gives for it.
    pub(crate) fn with_markers(&self, mut marker: impl FnMut(&Placeholder) -> String) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => text.extend_from_slice(bytes),
                Piece::Placeholder(placeholder) => text.extend_from_slice(marker(placeholder).as_bytes()),
            }
        }
        text
    }
}

impl Placeholder {
    fn parse(name: &str) -> Result<Self, String> {
        let mut parts = name.split(':');
        let (kind, arguments) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        match (kind, arguments.as_slice()) {
            ("seq", []) => Ok(Self::Sequence),
            ("uniform", [low, high]) => Self::uniform(low, high),
            ("zipf", [count, exponent]) => Self::zipf(count, exponent),
            ("random", [length]) => Self::random(length),
            _ => Err(format!("{{{name}}} is not a placeholder; {KNOWN}")),
        }
    }

    fn uniform(low: &str, high: &str) -> Result<Self, String> {
        match (low.parse(), high.parse()) {
            (Ok(low), Ok(high)) if low <= high => Ok(Self::Uniform(low, high)),
            _ => Err(format!(
                "{{uniform:{low}:{high}}} needs two whole numbers, the smaller first, as in {{uniform:1:100}}"
            )),
        }
    }

    fn zipf(count: &str, exponent: &str) -> Result<Self, String> {
        match (count.parse(), exponent.parse()) {
            (Ok(count), Ok(exponent))
                if (1..=zipf::COUNT_MAX).contains(&count) && (0.0..=zipf::EXPONENT_MAX).contains(&exponent) =>
            {
                Ok(Self::Zipf(Box::new(Zipf::new(count, exponent))))
            }
            _ => Err(format!(
                "{{zipf:{count}:{exponent}}} needs a count from 1 to {} and an exponent from 0 to {}, as in {{zipf:1000:0.9}}",
                zipf::COUNT_MAX,
                zipf::EXPONENT_MAX
            )),
        }
    }

    fn random(length: &str) -> Result<Self, String> {
        match length.parse() {
            Ok(length) if length <= RANDOM_BYTES_MAX => Ok(Self::Random(length)),
            _ => Err(format!(
                "{{random:{length}}} needs a number of bytes up to {RANDOM_BYTES_MAX}, as in {{random:16}}"
            )),
        }
    }

    pub(crate) fn render(&self, sequence: u64, random: &mut Random, out: &mut Vec<u8>) {
        match self {
            Self::Sequence => push_number(sequence, out),
            Self::Uniform(low, high) => push_number(random.between(*low, *high), out),
            Self::Zipf(zipf) => push_number(zipf.draw(random), out),
            Self::Random(length) => push_random(*length, random, out),
        }
    }
}

pub(crate) fn push_number(number: u64, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
}

/// Six bits a character; the two letters that stand twice in the alphabet are drawn again, so that all are equally likely.
fn push_random(length: usize, random: &mut Random, out: &mut Vec<u8>) {
    let end = out.len() + length;
    out.reserve(length);
    while out.len() < end {
        let mut bits = random.next_u64();
        for _ in 0..10 {
            let index = (bits & 63) as usize;
            bits >>= 6;
            if index < 62 && out.len() < end {
                out.push(ALPHABET[index]);
            }
        }
    }
}

fn column_of(text: &[u8], position: usize) -> usize {
    String::from_utf8_lossy(&text[..position]).chars().count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, sequence: u64) -> String {
        let mut out = Vec::new();
        Template::parse(text.as_bytes()).unwrap().render(sequence, &mut Random::new(5), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn error(text: &str) -> TemplateError {
        Template::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn placeholders_become_what_they_say() {
        assert_eq!(rendered("/page/{seq}?x={{{seq}}}", 42), "/page/42?x={42}");
        assert_eq!(rendered("{uniform:7:7}", 1), "7");
        assert_eq!(rendered("{zipf:1:1.0}", 1), "1");
        assert_eq!(rendered("{random:0}", 1), "");
        let random = rendered("{random:300}", 1);
        assert!(random.len() == 300 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(rendered("", 1), "");
    }

    #[test]
    fn random_characters_are_all_equally_likely() {
        let mut out = Vec::new();
        push_random(620_000, &mut Random::new(1), &mut out);
        for letter in &ALPHABET[..62] {
            let count = out.iter().filter(|&byte| byte == letter).count();
            assert!((9_500..10_500).contains(&count), "{} {count}", *letter as char);
        }
    }

    #[test]
    fn uniform_keeps_and_reaches_its_bounds() {
        let template = Template::parse(b"{uniform:3:5}").unwrap();
        let mut random = Random::new(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut out = Vec::new();
            template.render(0, &mut random, &mut out);
            seen.insert(String::from_utf8(out).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["3", "4", "5"]);
    }

    #[test]
    fn faults_name_the_column_and_the_remedy() {
        let cases = [
            ("/a{sek}", 3, "{sek} is not a placeholder"),
            ("/ä{seq", 3, "'{' is not closed"),
            ("/a}b", 3, "'}' closes nothing"),
            ("{uniform:9:1}", 1, "the smaller first"),
            ("{uniform:a:b}", 1, "two whole numbers"),
            ("{zipf:0:1}", 1, "a count from 1"),
            ("{zipf:10:-1}", 1, "an exponent from 0"),
            ("{zipf:10:NaN}", 1, "an exponent from 0"),
            ("{random:99999999999}", 1, "a number of bytes up to"),
            ("{seq:1}", 1, "not a placeholder"),
        ];
        for (text, column, problem) in cases {
            let error = error(text);
            assert_eq!(error.column, column, "{text}");
            assert!(error.problem.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn content_with_braces_of_its_own_is_left_alone() {
        let json = br#"{"a":{"b":1}}"#;
        assert_eq!(Template::parse_if_any(json).unwrap().as_fixed(), Some(&json[..]));
        assert!(Template::parse_if_any(br#"{"a":"{seq}"}"#).is_err(), "now every brace counts");
        assert!(Template::parse_if_any(br#"{{"a":"{seq}"}}"#).unwrap().as_fixed().is_none());
    }
}
