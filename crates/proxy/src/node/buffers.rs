//! Buffers kept for reuse.

const BUFFERS_KEPT: usize = 64;
/// Buffers with a larger capacity are not kept.
const BUFFER_BYTES_KEPT: usize = 4096;

/// Empty buffers, for requests and for parts of bodies.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(super) fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < BUFFERS_KEPT && (1..=BUFFER_BYTES_KEPT).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
