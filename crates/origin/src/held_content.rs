//! Content held for echoes, within a limit for all connections of a site.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Received content that is sent back later. It counts in the site's total until it is dropped, hence also while the
/// driver sends it.
#[derive(Debug)]
pub(crate) struct HeldContent {
    bytes: Vec<u8>,
    counted_bytes: usize,
    /// Bytes held by all connections.
    total: Arc<AtomicUsize>,
}

impl HeldContent {
    pub(crate) const fn new(total: Arc<AtomicUsize>) -> Self {
        Self { bytes: Vec::new(), counted_bytes: 0, total }
    }

    /// Adds received bytes, unless all connections would then hold more than `total_max`.
    pub(crate) fn push(&mut self, bytes: &[u8], total_max: usize) -> bool {
        let grown = |total: usize| total.checked_add(bytes.len()).filter(|&grown| grown <= total_max);
        let has_room = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if has_room {
            self.counted_bytes += bytes.len();
            self.bytes.extend_from_slice(bytes);
        }
        has_room
    }

    /// Takes the bytes, which count until this is dropped.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl AsRef<[u8]> for HeldContent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for HeldContent {
    fn drop(&mut self) {
        self.total.fetch_sub(self.counted_bytes, Ordering::Relaxed);
    }
}
