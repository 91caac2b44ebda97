//! Events of a group, for logs and metrics, in a bounded list.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;

use crate::CheckOutcome;

/// Limit of the changes not yet taken; beyond it the oldest are dropped.
pub const CHANGES_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Instant,
    /// None: the group.
    pub upstream: Option<Arc<str>>,
    pub event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    Added,
    Removed,
    /// It gets no new clients.
    Drained,
    /// It gets new clients again.
    Undrained,
    /// Its health checks failed; this is the last outcome.
    Down(CheckOutcome),
    /// Its health checks succeed again.
    Up,
    /// It was ejected for failed requests.
    Ejected {
        reason: EjectionReason,
        duration: Duration,
    },
    /// Its ejection ended.
    Restored,
    /// Its addresses changed.
    Moved,
    /// Only drained upstreams are healthy, so they get all requests.
    OnlyDrained,
    /// No upstream is healthy, so all that are not drained get requests.
    OnlyUnhealthy,
    /// No upstream may get requests of new clients: all are drained or without an address.
    NoneUsable,
    /// There is a healthy, undrained upstream again.
    HealthyAgain,
}

/// Why an upstream was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EjectionReason {
    /// Consecutive failures.
    FailuresInRow(u32),
    /// The share of failures in a window.
    FailureShare {
        /// Failed requests.
        failed: u64,
        of: u64,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.upstream {
            Some(upstream) => write!(formatter, "upstream {upstream} {}", self.event),
            None => write!(formatter, "{}", self.event),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Added => "was added",
            Self::Removed => "was removed",
            Self::Drained => "is draining: it gets no new clients, only those whose cookie names it",
            Self::Undrained => "is no longer draining",
            Self::Down(outcome) => return write!(formatter, "is down: its health check {outcome}"),
            Self::Up => "is up",
            Self::Ejected { reason, duration } => {
                return write!(formatter, "is ejected for {} s: {reason}", duration.as_secs_f64());
            }
            Self::Restored => "is back after its ejection",
            Self::Moved => "has new addresses",
            Self::OnlyDrained => {
                "only drained upstreams are healthy: they get all requests until another upstream is healthy"
            }
            Self::OnlyUnhealthy => "no upstream is healthy: all upstreams that are not drained get requests",
            Self::NoneUsable => {
                "no upstream can be used: each one is drained or has no address; requests of new clients get 503"
            }
            Self::HealthyAgain => {
                "there is a healthy upstream again: only healthy, undrained upstreams get new clients"
            }
        })
    }
}

impl fmt::Display for EjectionReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailuresInRow(count) => write!(formatter, "{count} failures in a row"),
            Self::FailureShare { failed, of } => write!(formatter, "{failed} of {of} requests failed"),
        }
    }
}

/// The changes not yet taken.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    waiting: VecDeque<Change>,
}

impl ChangeLog {
    pub(crate) fn push(&mut self, at: Instant, upstream: Option<&Arc<str>>, event: Event) {
        if self.waiting.len() == CHANGES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Change { at, upstream: upstream.cloned(), event });
    }

    pub(crate) fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.waiting).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_oldest_changes() {
        let mut changes = ChangeLog::default();
        for nanos in 0..CHANGES_MAX as u64 + 3 {
            changes.push(Instant::from_nanos(nanos), None, Event::OnlyUnhealthy);
        }
        let taken = changes.take();
        assert_eq!((taken.len(), taken[0].at), (CHANGES_MAX, Instant::from_nanos(3)));
        assert!(changes.take().is_empty());
    }

    #[test]
    fn describes_changes() {
        let text = |event| Change { at: Instant::ZERO, upstream: Some(Arc::from("a:1")), event }.to_string();
        let reason = EjectionReason::FailureShare { failed: 7, of: 10 };
        let ejected = Event::Ejected { reason, duration: Duration::from_millis(1_500) };
        assert_eq!(text(ejected), "upstream a:1 is ejected for 1.5 s: 7 of 10 requests failed");
        let down = Event::Down(CheckOutcome::Responded { status: 503 });
        assert_eq!(text(down), "upstream a:1 is down: its health check returned status 503");
        assert_eq!(
            text(Event::Ejected { reason: EjectionReason::FailuresInRow(5), duration: Duration::from_secs(10) }),
            "upstream a:1 is ejected for 10 s: 5 failures in a row"
        );
    }
}
