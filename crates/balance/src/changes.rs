//! What changed in a group, for logs and metrics: a bounded list that somebody empties.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;

use crate::CheckOutcome;

/// Changes that wait to be taken; past it the oldest are dropped, and counted.
pub const CHANGES_MAX: usize = 1024;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// Whose; none: the group's.
    pub upstream: Option<Arc<str>>,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It came into the list.
    Added,
    /// It left the list.
    Removed,
    /// It gets no new clients.
    Drained,
    /// It gets new clients again.
    Undrained,
    /// Its checks failed; this is how the last one ended.
    WentDown(CheckOutcome),
    /// Its checks are good again.
    CameUp,
    /// It failed too many requests and is left out.
    Ejected {
        /// Why.
        reason: EjectionReason,
        /// For how long.
        duration: Duration,
    },
    /// The time of its ejection is over.
    Returned,
    /// It is at other addresses now.
    Moved,
    /// Only drained upstreams are healthy, so they get all requests.
    OnlyDrained,
    /// No upstream is healthy, so all that are not drained get requests.
    OnlyUnhealthy,
    /// No upstream may get requests of new clients: all are drained or without an address.
    NobodyLeft,
    /// There is a healthy upstream that is not drained again.
    HealthyAgain,
}

/// Why an upstream is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EjectionReason {
    /// So many requests failed one after another.
    FailuresInRow(u32),
    /// So many of so many requests of a window failed.
    FailureShare {
        /// Failed.
        failed: u64,
        /// All.
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
            Self::WentDown(outcome) => return write!(formatter, "is down: its health check {outcome}"),
            Self::CameUp => "is up",
            Self::Ejected { reason, duration } => {
                return write!(formatter, "is ejected for {} s: {reason}", duration.as_secs_f64());
            }
            Self::Returned => "is back after its ejection",
            Self::Moved => "has new addresses",
            Self::OnlyDrained => {
                "only drained upstreams are healthy: they get all requests until another upstream is healthy"
            }
            Self::OnlyUnhealthy => "no upstream is healthy: all upstreams that are not drained get requests",
            Self::NobodyLeft => {
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

/// The changes that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Change>,
    pub(crate) dropped: u64,
}

impl Changes {
    pub(crate) fn push(&mut self, at: Instant, upstream: Option<&Arc<str>>, event: Event) {
        if self.waiting.len() == CHANGES_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
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
    fn changes_that_nobody_takes_are_bounded_and_counted() {
        let mut changes = Changes::default();
        for nanos in 0..CHANGES_MAX as u64 + 3 {
            changes.push(Instant::from_nanos(nanos), None, Event::OnlyUnhealthy);
        }
        assert_eq!(changes.dropped, 3);
        let taken = changes.take();
        assert_eq!((taken.len(), taken[0].at), (CHANGES_MAX, Instant::from_nanos(3)));
        assert!(changes.take().is_empty());
    }

    #[test]
    fn changes_are_told_in_sentences() {
        let told = |event| Change { at: Instant::ZERO, upstream: Some(Arc::from("a:1")), event }.to_string();
        let reason = EjectionReason::FailureShare { failed: 7, of: 10 };
        let ejected = Event::Ejected { reason, duration: Duration::from_millis(1_500) };
        assert_eq!(told(ejected), "upstream a:1 is ejected for 1.5 s: 7 of 10 requests failed");
        let down = Event::WentDown(CheckOutcome::Answered { status: 503 });
        assert_eq!(told(down), "upstream a:1 is down: its health check returned status 503");
        assert_eq!(
            told(Event::Ejected { reason: EjectionReason::FailuresInRow(5), duration: Duration::from_secs(10) }),
            "upstream a:1 is ejected for 10 s: 5 failures in a row"
        );
    }
}
