//! Counts that are available during the run.

use std::collections::BTreeMap;

use crate::error_kind::ErrorKind;
use crate::tally::Tally;

/// Totals so far; of statuses and kinds of errors only those that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests handed to the driver, each once.
    pub sent: u64,
    /// Requests sent more than [`LATENESS_P99_MAX`](crate::LATENESS_P99_MAX) late because of the generator.
    pub late: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub errors: BTreeMap<ErrorKind, u64>,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub connections_opened: u64,
}

impl Counts {
    /// Replaces them by those of a shard.
    pub(crate) fn set(&mut self, tally: &Tally) {
        let statuses = (0..).zip(tally.statuses.0.iter().copied()).filter(|(_, count)| *count > 0);
        let errors =
            ErrorKind::ALL.into_iter().map(|kind| (kind, tally.errors_of(kind))).filter(|(_, count)| *count > 0);
        *self = Self {
            sent: tally.sent,
            late: tally.late,
            statuses: statuses.collect(),
            errors: errors.collect(),
            received_bytes: tally.bytes_received,
            sent_bytes: tally.bytes_sent,
            connections_opened: tally.connections_opened,
        };
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.late += other.late;
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        other.errors.iter().for_each(|(kind, count)| *self.errors.entry(*kind).or_default() += count);
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.connections_opened += other.connections_opened;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_added() {
        let mut tally = Tally::default();
        tally.statuses.0[200] = 5;
        (tally.sent, tally.late, tally.connections_opened) = (6, 1, 2);
        (tally.bytes_received, tally.bytes_sent) = (500, 60);
        tally.count(ErrorKind::Reset, 2);
        let mut counts = Counts::default();
        counts.set(&tally);
        counts.merge(&counts.clone());
        let expected = Counts {
            sent: 12,
            late: 2,
            statuses: [(200, 10)].into(),
            errors: [(ErrorKind::Reset, 4)].into(),
            received_bytes: 1_000,
            sent_bytes: 120,
            connections_opened: 4,
        };
        assert_eq!(counts, expected);
    }
}
