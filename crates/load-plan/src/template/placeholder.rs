//! Parsing and rendering of placeholders.

use std::io::Write;

use breme_base::Random;
use thiserror::Error;

use crate::encoding::{Encoding, UnknownEncoding, split_encoding};
use crate::zipf::{self, Zipf};

/// The most random characters of one placeholder.
pub(crate) const RANDOM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The length of the mark of a version. It is fixed, so that a request's Content-Length is known before its mark is.
pub const MARK_BYTES: usize = 52;
/// The digits of the largest number.
const NUMBER_BYTES_MAX: usize = 20;
/// What `{page_version}` becomes, until the mark takes its place.
pub const MARK_BLANK: [u8; MARK_BYTES] = [0; MARK_BYTES];

/// The placeholders of a request target, without their arguments. In content there is also `{page_version}`.
pub const TARGET_PLACEHOLDERS: [&str; 4] = ["seq", "uniform", "zipf", "random"];
/// Part of error messages.
const KNOWN: &str = "known are {seq}, {uniform:A:B}, {zipf:N:S}, {random:BYTES}, {page_version} and the variables defined with --var; for a brace write {{ or }}";
/// Their prefixes.
pub(super) const OPENINGS: [&str; 5] = ["{seq}", "{uniform:", "{zipf:", "{random:", "{page_version}"];
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZab";

/// A parsed placeholder.
#[derive(Clone, Debug)]
pub(crate) enum Placeholder {
    Sequence,
    Uniform(u64, u64),
    Zipf(Box<Zipf>),
    Random(usize),
    Session,
    Variable(usize, Encoding),
    /// The mark of a version, which is known once the request's target is.
    PageVersion,
}

/// What is wrong with a placeholder, with a correction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceholderError {
    #[error("'}}' closes nothing; {known}", known = KNOWN)]
    Unopened,
    #[error("'{{' is not closed; {known}", known = KNOWN)]
    Unclosed,
    #[error("{{{0}}} is not a placeholder; {known}", known = KNOWN)]
    Unknown(String),
    /// In a scenario.
    #[error("{{{name}}} is neither a variable nor a placeholder; {remedy}", remedy = remedy(.name, .nearest.as_deref()))]
    UnknownVariable {
        name: String,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },
    #[error("{{uniform:{low}:{high}}} needs two whole numbers, the smaller first, as in {{uniform:1:100}}")]
    Uniform { low: String, high: String },
    #[error(
        "{{zipf:{count}:{exponent}}} needs a count from 1 to {count_max} and an exponent from 0 to {exponent_max}, as in {{zipf:1000:0.9}}",
        count_max = zipf::COUNT_MAX,
        exponent_max = zipf::EXPONENT_MAX
    )]
    Zipf { count: String, exponent: String },
    #[error("{{random:{0}}} needs a number of bytes up to {max}, as in {{random:16}}", max = RANDOM_BYTES_MAX)]
    Random(String),
    #[error(transparent)]
    Encoding(#[from] UnknownEncoding),
}

/// The inputs of a rendered template.
pub struct Inputs<'a> {
    /// The request's number, from 1.
    pub sequence: u64,
    /// The session's number, from 1.
    pub session: u64,
    pub random: &'a mut Random,
    /// The values of the variables.
    pub values: &'a [Vec<u8>],
}

impl Placeholder {
    /// Parses a name in a scenario.
    pub(super) fn parse_variable(name: &str, variables: &[String]) -> Result<Self, PlaceholderError> {
        let (base, encoding) = split_encoding(name);
        let Some(index) = variables.iter().position(|variable| variable == base) else {
            return match base {
                "session" if encoding.is_empty() => Ok(Self::Session),
                "page_version" => Self::parse_known(name),
                _ if TARGET_PLACEHOLDERS.contains(&base) => Self::parse_known(name),
                _ => Err(unknown_variable(base, variables)),
            };
        };
        Ok(Self::Variable(index, Encoding::parse(base, encoding)?))
    }

    /// Parses a name outside of scenarios.
    pub(super) fn parse_known(name: &str) -> Result<Self, PlaceholderError> {
        let mut parts = name.split(':');
        let (kind, arguments) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        match (kind, arguments.as_slice()) {
            ("seq", []) => Ok(Self::Sequence),
            ("uniform", [low, high]) => Self::uniform(low, high),
            ("zipf", [count, exponent]) => Self::zipf(count, exponent),
            ("random", [length]) => Self::random(length),
            ("page_version", []) => Ok(Self::PageVersion),
            _ => Err(PlaceholderError::Unknown(name.to_owned())),
        }
    }

    fn uniform(low: &str, high: &str) -> Result<Self, PlaceholderError> {
        match (low.parse(), high.parse()) {
            (Ok(low), Ok(high)) if low <= high => Ok(Self::Uniform(low, high)),
            _ => Err(PlaceholderError::Uniform { low: low.to_owned(), high: high.to_owned() }),
        }
    }

    fn zipf(count: &str, exponent: &str) -> Result<Self, PlaceholderError> {
        match (count.parse(), exponent.parse()) {
            (Ok(count), Ok(exponent))
                if (1..=zipf::COUNT_MAX).contains(&count) && (0.0..=zipf::EXPONENT_MAX).contains(&exponent) =>
            {
                Ok(Self::Zipf(Box::new(Zipf::new(count, exponent))))
            }
            _ => Err(PlaceholderError::Zipf { count: count.to_owned(), exponent: exponent.to_owned() }),
        }
    }

    fn random(length: &str) -> Result<Self, PlaceholderError> {
        match length.parse() {
            Ok(length) if length <= RANDOM_BYTES_MAX => Ok(Self::Random(length)),
            _ => Err(PlaceholderError::Random(length.to_owned())),
        }
    }

    /// The greatest length of its text; `values_max` has that of each variable.
    pub(super) fn bytes_max(&self, values_max: &[usize]) -> usize {
        match self {
            Self::Sequence | Self::Uniform(..) | Self::Zipf(_) | Self::Session => NUMBER_BYTES_MAX,
            Self::Random(length) => *length,
            Self::PageVersion => MARK_BYTES,
            Self::Variable(index, encoding) => {
                let value_max = values_max.get(*index).copied().unwrap_or_default();
                value_max.saturating_mul(encoding.bytes_per_byte_max())
            }
        }
    }

    pub(crate) fn render(&self, inputs: &mut Inputs<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Sequence => push_number(inputs.sequence, out),
            Self::Uniform(low, high) => push_number(inputs.random.between(*low, *high), out),
            Self::Zipf(zipf) => push_number(zipf.draw(inputs.random), out),
            Self::Random(length) => push_random(*length, inputs.random, out),
            Self::Session => push_number(inputs.session, out),
            Self::PageVersion => out.extend_from_slice(&MARK_BLANK),
            Self::Variable(index, encoding) => {
                let value = inputs.values.get(*index).map_or(&[][..], Vec::as_slice);
                encoding.push(value, out);
            }
        }
    }
}

fn unknown_variable(name: &str, variables: &[String]) -> PlaceholderError {
    let nearest = breme_base::nearest(name, variables.iter().map(String::as_str)).map(str::to_owned);
    PlaceholderError::UnknownVariable { name: name.to_owned(), nearest }
}

fn remedy(name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(known) => format!("did you mean {{{known}}}?"),
        None => format!(
            "define it under [variables] or capture it in an earlier step, or write {{{{{name}}}}} for the text itself"
        ),
    }
}

pub(crate) fn push_number(number: u64, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
}

/// Six bits per character; the two letters that appear twice in the alphabet are drawn again, so that all are equally
/// likely.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_characters_are_all_equally_likely() {
        let mut out = Vec::new();
        push_random(620_000, &mut Random::new(1), &mut out);
        for letter in &ALPHABET[..62] {
            let count = out.iter().filter(|&byte| byte == letter).count();
            assert!((9_500..10_500).contains(&count), "{} {count}", *letter as char);
        }
    }
}
