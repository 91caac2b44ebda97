//! The checks of a response: a fast wrong response is no result.

use std::fmt;
use std::ops::RangeInclusive;

use memchr::memmem::Finder;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// What the user expects of every response.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// The status; none: 200 to 399.
    pub status: Option<StatusSet>,
    /// The length of the content in bytes.
    pub content_bytes: Option<u64>,
    /// The SHA-256 of the content.
    pub content_sha256: Option<[u8; 32]>,
    /// Bytes that the content must contain.
    pub contains: Option<Needle>,
}

/// Statuses: `200`, `200,304`, `2xx`, `200-299`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet(Vec<RangeInclusive<u16>>);

/// A text that names something other than statuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a status code; write 200, a list 200,304, a class 2xx or a range 200-299")]
pub struct StatusSetError(String);

/// A text that is no SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a SHA-256 digest; write its 64 hexadecimal digits, as sha256sum prints them")]
pub struct DigestError(String);

/// Bytes to search in content that arrives in pieces.
#[derive(Clone, Debug)]
pub struct Needle {
    finder: Finder<'static>,
    /// For each length of a matched prefix, the longest shorter prefix that is also its suffix (Knuth, Morris, Pratt).
    fallback: Vec<u32>,
}

/// The state of the checks of one response.
#[derive(Clone, Debug, Default)]
pub struct CheckState {
    hash: Option<Sha256>,
    matched: u32,
    found: bool,
}

impl Expectations {
    /// Whether any check was configured.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.status.is_some() || self.content_bytes.is_some() || self.reads_content()
    }

    /// Whether the content must be read, and not only counted.
    #[must_use]
    pub const fn reads_content(&self) -> bool {
        self.content_sha256.is_some() || self.contains.is_some()
    }

    /// Whether a response with this status is as expected.
    #[inline]
    #[must_use]
    pub fn accepts_status(&self, status: u16) -> bool {
        self.status.as_ref().map_or((200..400).contains(&status), |set| set.contains(status))
    }

    /// Begins the checks of a response.
    #[inline]
    pub fn begin(&self, state: &mut CheckState) {
        *state = CheckState { hash: self.content_sha256.map(|_| Sha256::new()), matched: 0, found: false };
    }

    /// Checks the next part of the response's content.
    #[inline]
    pub fn feed(&self, state: &mut CheckState, bytes: &[u8]) {
        if let Some(hash) = &mut state.hash {
            hash.update(bytes);
        }
        if let Some(needle) = &self.contains
            && !state.found
        {
            state.found = needle.feed(&mut state.matched, bytes);
        }
    }

    /// Whether the content is as expected; its length is this one. `state`: if the content was read.
    #[inline]
    #[must_use]
    pub fn accepts_content(&self, state: Option<&CheckState>, content_bytes: u64) -> bool {
        let length_fits = self.content_bytes.is_none_or(|expected| expected == content_bytes);
        let content_fits = state.is_none_or(|state| {
            let hash = state.hash.clone().map(Sha256::finalize);
            let hash_fits =
                self.content_sha256.is_none_or(|expected| hash.is_some_and(|hash| hash[..] == expected[..]));
            hash_fits && self.contains.as_ref().is_none_or(|needle| state.found || needle.is_empty())
        });
        length_fits && content_fits
    }
}

impl StatusSet {
    /// Parses `200`, `200,304`, `2xx`, `200-299`.
    ///
    /// # Errors
    /// Names the invalid part and what is expected.
    pub fn parse(text: &str) -> Result<Self, StatusSetError> {
        text.split(',').map(|part| parse_statuses(part.trim())).collect::<Result<Vec<_>, _>>().map(Self)
    }

    #[inline]
    fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (low, high) = (range.start(), range.end());
            if low == high { write!(formatter, "{comma}{low}")? } else { write!(formatter, "{comma}{low}-{high}")? }
        }
        Ok(())
    }
}

fn parse_statuses(part: &str) -> Result<RangeInclusive<u16>, StatusSetError> {
    let fault = || StatusSetError(part.to_owned());
    let status = |text: &str| {
        text.parse::<u16>().ok().filter(|code| (100..=999).contains(code) && text.len() == 3).ok_or_else(fault)
    };
    if let Some(class) = part.strip_suffix("xx") {
        let low = status(&format!("{class}00"))?;
        return Ok(low..=low + 99);
    }
    let (low, high) = part.split_once('-').unwrap_or((part, part));
    let range = status(low)?..=status(high)?;
    if range.is_empty() { Err(fault()) } else { Ok(range) }
}

/// Parses 64 hexadecimal digits.
///
/// # Errors
/// States what is expected.
pub fn parse_sha256(text: &str) -> Result<[u8; 32], DigestError> {
    let fault = || DigestError(text.to_owned());
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(fault());
    }
    for (byte, index) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[index..index + 2], 16).map_err(|_| fault())?;
    }
    Ok(digest)
}

impl Needle {
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut fallback = vec![0; bytes.len() + 1];
        let mut length = 0_u32;
        for index in 1..bytes.len() {
            while length > 0 && bytes[length as usize] != bytes[index] {
                length = fallback[length as usize];
            }
            length += u32::from(bytes[length as usize] == bytes[index]);
            fallback[index + 1] = length;
        }
        Self { finder: Finder::new(bytes).into_owned(), fallback }
    }

    fn is_empty(&self) -> bool {
        self.finder.needle().is_empty()
    }

    /// Searches the next piece. Returns whether the bytes have been found. `matched` bytes of the needle were at the
    /// end of the pieces before.
    ///
    /// The fast search is used within the piece; the automaton only across the boundaries of pieces.
    fn feed(&self, matched: &mut u32, bytes: &[u8]) -> bool {
        let needle = self.finder.needle();
        let mut position = 0;
        while *matched > 0 && position < bytes.len() {
            self.step(matched, bytes[position]);
            position += 1;
            if *matched as usize == needle.len() {
                return true;
            }
        }
        if self.finder.find(&bytes[position..]).is_some() {
            return true;
        }
        let seam = position.max((bytes.len() + 1).saturating_sub(needle.len()));
        bytes[seam.min(bytes.len())..].iter().for_each(|&byte| self.step(matched, byte));
        false
    }

    fn step(&self, matched: &mut u32, byte: u8) {
        let needle = self.finder.needle();
        while *matched > 0 && needle[*matched as usize] != byte {
            *matched = self.fallback[*matched as usize];
        }
        *matched += u32::from(needle[*matched as usize] == byte);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(needle: &[u8], pieces: &[&[u8]]) -> bool {
        let needle = Needle::new(needle);
        let mut matched = 0;
        pieces.iter().any(|piece| needle.feed(&mut matched, piece))
    }

    proptest! {
        #[test]
        fn finds_what_a_search_of_the_whole_finds(
            content in "[ab]{0,40}",
            needle in "[ab]{1,6}",
            cuts in proptest::collection::vec(0..40_usize, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(content.len())).collect();
            cuts.extend([0, content.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &content.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(found(needle.as_bytes(), &pieces), content.contains(&needle), "{:?}", pieces);
        }
    }

    #[test]
    fn statuses_are_read() {
        let set = StatusSet::parse("200, 3xx,404-406").unwrap();
        let accepted: Vec<u16> = (100..1000).filter(|&status| set.contains(status)).collect();
        let expected: Vec<u16> = [200].into_iter().chain(300..400).chain(404..407).collect();
        assert_eq!(accepted, expected);
        assert_eq!(set.to_string(), "200,300-399,404-406");
        for bad in ["", "20", "2x", "abc", "299-200", "1000", "-", "200,"] {
            assert!(StatusSet::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn without_expectations_success_and_redirection_count() {
        let none = Expectations::default();
        let accepted: Vec<bool> =
            [199, 200, 399, 400, 503].into_iter().map(|status| none.accepts_status(status)).collect();
        assert_eq!(accepted, [false, true, true, false, false]);
    }

    #[test]
    fn content_is_judged_by_length_digest_and_bytes() {
        let digest = parse_sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        let all = Expectations {
            status: None,
            content_bytes: Some(3),
            content_sha256: Some(digest),
            contains: Some(Needle::new(b"bc")),
        };
        let judged = |content: &[u8]| {
            let mut state = CheckState::default();
            all.begin(&mut state);
            content.iter().for_each(|byte| all.feed(&mut state, std::slice::from_ref(byte)));
            all.accepts_content(Some(&state), content.len() as u64)
        };
        assert!(judged(b"abc"));
        assert!(!judged(b"abd"));
        assert!(!judged(b"abcd"));
        assert!(!judged(b""));
    }

    #[test]
    fn digests_are_read() {
        assert!(parse_sha256("12").unwrap_err().to_string().contains("64 hexadecimal digits"));
        assert!(parse_sha256(&"g".repeat(64)).is_err());
        assert!(parse_sha256(&"+1".repeat(32)).is_err(), "a sign is no digit");
    }
}
