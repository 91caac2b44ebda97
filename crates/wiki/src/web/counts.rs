//! Counters of the wiki.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::purges::EdgeState;

/// A counter, reset only by [`Count::take`].
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns its value and resets it atomically: every request is counted exactly once.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) requests: Count,
    /// Since the study's counter was read.
    pub(crate) since_read: Count,
    responses: [Count; 5],
    pub(crate) render_hits: Count,
    pub(crate) render_misses: Count,
    pub(crate) writes: Count,
    pub(crate) conflicts: Count,
    pub(crate) rate_limited: Count,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    pub requests: u64,
    /// Responses by the first digit of their status, from 1xx to 5xx.
    pub responses: [u64; 5],
    /// Pages whose HTML was cached.
    pub render_hits: u64,
    /// Pages that were rendered.
    pub render_misses: u64,
    /// Memory of the rendered pages.
    pub rendered_bytes: u64,
    /// Committed changes.
    pub writes: u64,
    /// Changes refused because the page had changed.
    pub conflicts: u64,
    /// Requests refused because their address had sent too many.
    pub rate_limited: u64,
    /// The caches in front.
    pub edges: Vec<EdgeState>,
}

impl Counts {
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        if let Some(count) = class.checked_sub(1).and_then(|index| self.responses.get(index)) {
            count.add(1);
        }
    }

    pub(crate) fn reading(&self, rendered_bytes: u64, edges: Vec<EdgeState>) -> Reading {
        Reading {
            requests: self.requests.value(),
            responses: std::array::from_fn(|index| self.responses[index].value()),
            render_hits: self.render_hits.value(),
            render_misses: self.render_misses.value(),
            rendered_bytes,
            writes: self.writes.value(),
            conflicts: self.conflicts.value(),
            rate_limited: self.rate_limited.value(),
            edges,
        }
    }
}
