//! Ciphertext on its way out: sealed behind what is there, sent from the front.

/// Ciphertext on its way out. The memory behind its end is kept as it is, so that it need not be cleared for each
/// record.
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

    /// A place for at least `count` bytes behind those that there are; see [`Ciphertext::fill`].
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        if self.bytes.len() < self.end + count {
            self.bytes.resize(self.end + count, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// The first `count` bytes of the room have been written.
    pub(crate) fn fill(&mut self, count: usize) {
        self.end += count;
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.fill(bytes.len());
    }

    /// The first `count` bytes have left.
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
    fn what_leaves_makes_room() {
        let mut out = Ciphertext::default();
        out.append(b"hello");
        out.consume(2);
        out.append(b" you");
        assert_eq!((out.as_slice(), out.len()), (&b"llo you"[..], 7));
        out.consume(7);
        assert!(out.is_empty() && out.start == 0);
    }
}
