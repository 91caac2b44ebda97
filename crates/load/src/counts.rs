//! Counts that are known while the run goes on.

use std::collections::BTreeMap;

use crate::tally::{ErrorKind, Tally};

/// Responses by status and errors by kind; only those that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub statuses: BTreeMap<u16, u64>,
    pub errors: BTreeMap<ErrorKind, u64>,
}

impl Counts {
    /// Replaces them by those of a shard.
    pub(crate) fn set(&mut self, tally: &Tally) {
        let statuses = (0..).zip(tally.statuses.iter().copied()).filter(|(_, count)| *count > 0);
        self.statuses = statuses.collect();
        let errors =
            ErrorKind::ALL.into_iter().map(|kind| (kind, tally.errors_of(kind))).filter(|(_, count)| *count > 0);
        self.errors = errors.collect();
    }

    /// Adds those of another shard.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        other.errors.iter().for_each(|(kind, count)| *self.errors.entry(*kind).or_default() += count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_added() {
        let mut tally = Tally::new();
        tally.statuses[200] = 5;
        tally.count(ErrorKind::Reset, 2);
        let mut counts = Counts::default();
        counts.set(&tally);
        counts.merge(&counts.clone());
        assert_eq!(counts, Counts { statuses: [(200, 10)].into(), errors: [(ErrorKind::Reset, 4)].into() });
    }
}
