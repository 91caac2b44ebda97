//! Encoded lists of pages in the index of words: ascending numbers, each as its difference from the previous one, seven
//! bits per byte, least significant first; the last byte of a difference has no high bit.

#[derive(Debug, Default)]
pub(crate) struct Postings {
    last: u64,
    bytes: Vec<u8>,
}

impl Postings {
    /// Adds a page after all others. A repetition of the last one is ignored: then it returns false.
    pub(crate) fn push(&mut self, page: u64) -> bool {
        debug_assert!(page >= self.last.max(1), "{page} after {}", self.last);
        let mut difference = page - self.last;
        if difference == 0 {
            return false;
        }
        self.last = page;
        while difference >= 0x80 {
            self.bytes.push(difference as u8 | 0x80);
            difference >>= 7;
        }
        self.bytes.push(difference as u8);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl FromIterator<u64> for Postings {
    fn from_iter<T: IntoIterator<Item = u64>>(pages: T) -> Self {
        let mut postings = Self::default();
        for page in pages {
            postings.push(page);
        }
        postings
    }
}

/// The pages of a list; ends early if it is damaged.
#[derive(Clone, Debug)]
pub(crate) struct PostingsIter<'a> {
    last: u64,
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> PostingsIter<'a> {
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { last: 0, bytes: bytes.iter() }
    }

    /// Whether the list has ended properly: false after the end of a damaged list.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.as_slice().is_empty()
    }

    fn difference(&mut self) -> Option<u64> {
        let mut bytes = self.bytes.clone();
        let mut difference = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *bytes.next()?;
            let bits = u64::from(byte & 0x7f);
            difference |= bits << shift;
            if byte < 0x80 {
                self.bytes = bytes;
                return Some(difference).filter(|difference| *difference > 0 && (bits << shift) >> shift == bits);
            }
        }
        None
    }
}

impl Iterator for PostingsIter<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let before = self.bytes.clone();
        let next = self.difference().and_then(|difference| self.last.checked_add(difference));
        match next {
            Some(page) => self.last = page,
            None => self.bytes = before,
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        for pages in [vec![], vec![1], vec![1, 2, 128, 129, 300, 1 << 40, u64::MAX], (1..1000).collect()] {
            let postings: Postings = pages.iter().copied().collect();
            let mut read = PostingsIter::from_bytes(postings.bytes());
            assert!(read.by_ref().eq(pages.iter().copied()), "{pages:?}");
            assert!(read.is_at_end());
        }
        assert_eq!(Postings::from_iter([7, 7, 7]).bytes(), [7]);
        assert_eq!(Postings::from_iter(1..=1000).bytes().len(), 1000);
    }

    #[test]
    fn a_damaged_list_ends_early() {
        for (bytes, pages) in [
            (&[5, 0, 1][..], &[5][..]),
            (&[5, 0x80], &[5]),
            (&[0xff; 30], &[]),
            (&[3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 1], &[3]),
            (&[3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1], &[3]),
        ] {
            let mut read = PostingsIter::from_bytes(bytes);
            assert!(read.by_ref().eq(pages.iter().copied()), "{bytes:?}");
            assert!(!read.is_at_end(), "{bytes:?}");
            assert_eq!(read.next(), None);
        }
    }
}
