//! Byte strings that are kept on the stack while short, so that a hit does not allocate.

const INLINE_BYTES: usize = 256;

#[derive(Clone)]
pub(crate) struct InlineBytes {
    inline: [u8; INLINE_BYTES],
    length: usize,
    /// The whole string, once it exceeds the inline buffer.
    spilled: Vec<u8>,
}

impl std::fmt::Debug for InlineBytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.as_slice().escape_ascii())
    }
}

impl InlineBytes {
    pub(crate) const fn new() -> Self {
        Self { inline: [0; INLINE_BYTES], length: 0, spilled: Vec::new() }
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.is_spilled() {
            self.spilled.extend_from_slice(bytes);
        } else if let Some(free) = self.inline.get_mut(self.length..self.length + bytes.len()) {
            free.copy_from_slice(bytes);
            self.length += bytes.len();
        } else {
            self.spill(bytes);
        }
    }

    pub(crate) fn extend_lowercase(&mut self, bytes: &[u8]) {
        let start = self.as_slice().len();
        self.extend(bytes);
        let all = if self.is_spilled() { &mut self.spilled[..] } else { &mut self.inline[..self.length] };
        all[start..].make_ascii_lowercase();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.is_spilled() { &self.spilled } else { &self.inline[..self.length] }
    }

    fn is_spilled(&self) -> bool {
        !self.spilled.is_empty()
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        self.spilled.reserve(self.length + bytes.len());
        self.spilled.extend_from_slice(&self.inline[..self.length]);
        self.spilled.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_to_heap() {
        for length in [0, 1, 255, 256, 257, 1000] {
            let (mut found, mut expected) = (InlineBytes::new(), Vec::new());
            while expected.len() < length {
                let piece = &b"AbC"[..(length - expected.len()).min(3)];
                found.extend_lowercase(piece);
                expected.extend_from_slice(&piece.to_ascii_lowercase());
            }
            assert_eq!(found.as_slice(), expected);
        }
    }
}
