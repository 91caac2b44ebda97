//! A queue of encrypted records.

/// Encrypted records: appended at the end, sent from the front. The memory is reused without being cleared.
#[derive(Debug, Default)]
pub(crate) struct Ciphertext {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Ciphertext {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Space for at least `count` bytes; see [`Ciphertext::fill`].
    pub(crate) fn free(&mut self, count: usize) -> &mut [u8] {
        if self.bytes.len() < self.end + count {
            self.bytes.resize(self.end + count, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Appends the first `count` bytes written to the free space.
    pub(crate) fn fill(&mut self, count: usize) {
        self.end += count;
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.free(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.fill(bytes.len());
    }

    /// Removes `count` sent bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumed_ciphertext_frees_space() {
        let mut out = Ciphertext::default();
        out.append(b"hello");
        out.consume(2);
        out.append(b" you");
        assert_eq!((out.as_slice(), out.len()), (&b"llo you"[..], 7));
        out.consume(7);
        assert!(out.is_empty() && out.start == 0);
    }
}
