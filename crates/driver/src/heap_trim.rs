//! When freed memory is returned to the operating system.
//!
//! The allocator keeps freed memory, which may be all that many closed connections had used. A thread trims the heap
//! when its number of connections has halved and stays low for a moment; under constant churn, memory that is needed
//! again is not returned.

use std::time::Duration;

use breme_base::Instant;

use crate::settings::{DriverKind, RECEIVE_CHUNK_BYTES_MAX};

/// Fewer closed connections are not worth the time.
const CLOSED_MIN: usize = 64;
/// How long the number of connections must stay low.
const PAUSE: Duration = Duration::from_secs(1);

/// What the allocator retains per arena: little for a pool of many threads, more for shards, which reuse their buffers
/// all the time.
const POOL_RETAINED_BYTES_MAX: i32 = 128 * 1024;
const SHARD_RETAINED_BYTES_MAX: i32 = 512 * 1024;
/// Larger allocations are mapped separately, and so returned when they are freed.
const POOL_MAPPED_BYTES_MIN: i32 = RECEIVE_CHUNK_BYTES_MAX as i32;
const SHARD_MAPPED_BYTES_MIN: i32 = 1024 * 1024;

/// Limits what the allocator retains.
pub(crate) fn configure_allocator(kind: DriverKind) {
    let (retained_bytes_max, mapped_bytes_min) = match kind {
        DriverKind::Threads => (POOL_RETAINED_BYTES_MAX, POOL_MAPPED_BYTES_MIN),
        DriverKind::Events | DriverKind::Uring => (SHARD_RETAINED_BYTES_MAX, SHARD_MAPPED_BYTES_MIN),
    };
    breme_sys::limit_retained_memory(retained_bytes_max, mapped_bytes_min);
}

#[derive(Debug, Default)]
pub(crate) struct HeapTrim {
    /// Most connections since the last trim.
    peak: usize,
    /// When to trim, if the number of connections stays low.
    due: Option<Instant>,
}

impl HeapTrim {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Whether so many of the connections have closed that [`is_due`](Self::is_due) is to be called. `count`: the open
    /// ones.
    pub(crate) fn has_fallen(&mut self, count: usize) -> bool {
        self.peak = self.peak.max(count);
        self.peak - count >= CLOSED_MIN.max(count)
    }

    /// Whether to trim the heap now.
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
    fn trims_after_connections_halve() {
        let mut heap_trim = HeapTrim::default();
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
            assert_eq!(heap_trim.is_due(count, at(millis)), is_due, "{count} connections at {millis} ms");
        }
        assert_eq!(heap_trim.deadline(), None);
    }
}
