//! Data sent and expected. Long data is a pattern computed from the position, so that it needs no memory, and lost,
//! repeated or misplaced bytes are detected.

use breme_base::Random;
use bytes::Bytes;

const WORD: u64 = 8;

#[derive(Clone, Debug)]
pub enum TestContent {
    /// These bytes.
    Exactly(Bytes),
    /// Part of a seed's pattern.
    Pattern {
        seed: u64,
        /// Offset in the pattern.
        start: u64,
        /// In bytes.
        length: u64,
    },
}

impl TestContent {
    pub const NOTHING: Self = Self::Exactly(Bytes::new());

    #[must_use]
    pub const fn pattern(seed: u64, length: u64) -> Self {
        Self::Pattern { seed, start: 0, length }
    }

    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Exactly(bytes) => bytes.len() as u64,
            Self::Pattern { length, .. } => *length,
        }
    }

    /// `length` bytes from `from`, or up to the end.
    #[must_use]
    pub fn part(&self, from: u64, length: u64) -> Self {
        let end = (from + length).min(self.length());
        let from = from.min(end);
        match self {
            Self::Exactly(bytes) => Self::Exactly(bytes.slice(from as usize..end as usize)),
            Self::Pattern { seed, start, .. } => Self::Pattern { seed: *seed, start: start + from, length: end - from },
        }
    }

    /// Appends `length` bytes from `from`, or up to the end.
    pub fn append(&self, from: u64, length: u64, to: &mut Vec<u8>) {
        let end = (from + length).min(self.length());
        match self {
            Self::Exactly(bytes) => to.extend_from_slice(&bytes[from.min(end) as usize..end as usize]),
            Self::Pattern { seed, start, .. } => append_pattern(*seed, start + from, start + end, to),
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.length() as usize);
        self.append(0, self.length(), &mut bytes);
        bytes.into()
    }

    /// The index in `bytes` of the first difference from what is expected at `from`. Bytes after the end differ.
    #[must_use]
    pub fn first_difference(&self, from: u64, bytes: &[u8]) -> Option<usize> {
        let mut expected = Vec::with_capacity(bytes.len());
        self.append(from, bytes.len() as u64, &mut expected);
        if expected == bytes {
            return None;
        }
        let place = expected.iter().zip(bytes).position(|(left, right)| left != right);
        Some(place.unwrap_or(expected.len()))
    }
}

fn append_pattern(seed: u64, from: u64, end: u64, to: &mut Vec<u8>) {
    let mut position = from;
    while position < end {
        let word = Random::new(seed ^ (position / WORD).wrapping_mul(0x9E6C_63D0_876A_9A47)).next_u64().to_le_bytes();
        let skipped = position % WORD;
        let length = (WORD - skipped).min(end - position);
        to.extend_from_slice(&word[skipped as usize..(skipped + length) as usize]);
        position += length;
    }
}

impl From<&'static str> for TestContent {
    fn from(text: &'static str) -> Self {
        Self::Exactly(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Bytes> for TestContent {
    fn from(bytes: Bytes) -> Self {
        Self::Exactly(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_position_independent() {
        let content = TestContent::pattern(3, 100);
        let whole = content.to_bytes();
        assert_eq!(whole.len(), 100);
        for from in 0..100 {
            let mut rest = Vec::new();
            content.append(from, 1_000, &mut rest);
            assert_eq!(rest, &whole[from as usize..]);
            assert_eq!(content.first_difference(from, &rest), None);
            assert_eq!(content.part(from, 10).to_bytes(), rest[..rest.len().min(10)]);
        }
    }

    #[test]
    fn finds_first_difference() {
        let content = TestContent::pattern(3, 100);
        let mut bytes = content.to_bytes().to_vec();
        bytes[37] ^= 1;
        assert_eq!(content.first_difference(0, &bytes), Some(37));
        assert_eq!(content.first_difference(30, &bytes[30..]), Some(7));
        assert_eq!(TestContent::from("abc").first_difference(0, b"abcd"), Some(3), "more than expected");
    }

    #[test]
    fn pattern_detects_shifts() {
        let bytes = TestContent::pattern(5, 4_096).to_bytes();
        for shift in 1..64 {
            assert_ne!(bytes[..1_024], bytes[shift..shift + 1_024]);
        }
    }
}
