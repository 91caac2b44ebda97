//! Deadlines of the machine's parts.

use std::collections::BTreeSet;

use breme_base::Instant;

use super::messages::RequestNumber;
use crate::id::SessionKey;
use crate::name::NodeName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    Membership,
    Node(NodeName),
    Session(SessionKey),
    Request(RequestNumber),
}

/// Deadlines in order. Each owner remembers its own, so that it can be removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda(BTreeSet<(Instant, Timer)>);

impl Agenda {
    /// Moves a deadline; [`Instant::FAR`] means none.
    pub(crate) fn set(&mut self, timer: Timer, before: Instant, after: Instant) {
        if before == after {
            return;
        }
        self.0.remove(&(before, timer));
        if after != Instant::FAR {
            self.0.insert((after, timer));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes one that is due. Its owner must set it again.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some(timer)
    }
}
