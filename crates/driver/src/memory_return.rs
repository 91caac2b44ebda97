//! When memory goes back to the system.
//!
//! An allocator keeps what is freed, for the next one who asks. Where many connections have gone, that may be all that
//! they had: so a thread asks the allocator for it when the number of its connections has fallen by half and stays
//! there for a moment. Where connections come and go all the time, nothing is returned that will be wanted again.

use std::time::Duration;

use breme_base::Instant;

use crate::Kind;
use crate::engine::RECEIPT_BYTES_MAX;

/// Fewer connections than this leave nothing behind that is worth the time.
const GONE_MIN: usize = 64;
/// The number must stay low for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Sets how much the allocator keeps by itself. A pool has many threads, whose buffers should go back as soon as they
/// are given up; a shard's are used all the time.
pub(crate) fn bound(kind: Kind) {
    match kind {
        Kind::Threads => breme_sys::bound_unused_memory(128 * 1024, RECEIPT_BYTES_MAX as i32),
        Kind::Events | Kind::Uring => breme_sys::bound_unused_memory(512 * 1024, 1024 * 1024),
    }
}

#[derive(Debug, Default)]
pub(crate) struct MemoryReturn {
    /// The most connections since memory was returned last.
    peak: usize,
    due: Option<Instant>,
}

impl MemoryReturn {
    /// When to look again, if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Whether [`is_due`](Self::is_due) should be asked at once. `count`: connections that are open.
    pub(crate) fn has_fallen(&mut self, count: usize) -> bool {
        self.peak = self.peak.max(count);
        self.peak - count >= GONE_MIN.max(count)
    }

    /// Whether memory is to be returned now.
    pub(crate) fn is_due(&mut self, count: usize, now: Instant) -> bool {
        if !self.has_fallen(count) {
            self.due = None;
            return false;
        }
        if *self.due.get_or_insert(now + PAUSE) > now {
            return false;
        }
        *self = Self { peak: count, due: None };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_when_half_of_the_connections_have_gone_for_good() {
        let mut memory = MemoryReturn::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for (count, millis, is_due) in [
            (1_000, 0, false),
            (501, 1, false),
            (501, 5_000, false),
            (500, 5_001, false),
            (700, 5_900, false),
            (400, 6_000, false),
            (400, 6_999, false),
            (300, 7_000, true),
            (300, 9_000, false),
            (200, 9_001, false),
            (150, 9_002, false),
            (150, 10_002, true),
            (87, 20_000, false),
            (87, 30_000, false),
        ] {
            assert_eq!(memory.is_due(count, at(millis)), is_due, "{count} connections at {millis} ms");
        }
        assert_eq!(memory.deadline(), None);
    }
}
