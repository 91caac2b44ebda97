//! Passes a run's intervals from the generator's threads to a thread that writes or shows them.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use breme_base::Instant;
use breme_load::{Interval, Observed};

/// Limit of queued intervals. Beyond it they are merged into longer intervals: nothing is lost, and no shard waits.
const QUEUE_MAX: usize = 32;

/// Passes the intervals of a run to a thread, never waiting for it during the run.
pub(super) struct Feed {
    sender: SyncSender<Times>,
    /// Merged intervals that found the queue full.
    waiting: Option<Times>,
}

/// A queued interval.
pub(super) struct Times {
    pub run_started: Instant,
    pub start: Duration,
    pub length: Duration,
    pub interval: Interval,
}

impl Feed {
    /// A feed, and its receiving end.
    pub(super) fn new() -> (Self, Receiver<Times>) {
        Self::with_bound(QUEUE_MAX)
    }

    fn with_bound(queue_max: usize) -> (Self, Receiver<Times>) {
        let (sender, receiver) = sync_channel(queue_max);
        (Self { sender, waiting: None }, receiver)
    }

    pub(super) fn offer(&mut self, observed: Observed<'_>) {
        let times = match self.waiting.take() {
            Some(waiting) => waiting.with(observed),
            None => Times::from_observed(observed),
        };
        // A reader that has failed reports it at the end.
        if let Err(TrySendError::Full(times)) = self.sender.try_send(times) {
            self.waiting = Some(times);
        }
    }
}

impl Drop for Feed {
    /// After the run, waiting for the reader is allowed.
    fn drop(&mut self) {
        if let Some(times) = self.waiting.take() {
            let _ = self.sender.send(times);
        }
    }
}

impl Times {
    fn from_observed(observed: Observed<'_>) -> Self {
        let Observed { run_started, start, length, interval } = observed;
        Self { run_started, start, length, interval: interval.clone() }
    }

    /// Merges the following interval.
    fn with(mut self, next: Observed<'_>) -> Self {
        self.length = (next.start + next.length).saturating_sub(self.start);
        self.interval.merge(next.interval);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(sample: u64) -> Interval {
        let mut interval = Interval::default();
        interval.service.record(sample);
        interval.first_byte.record(sample);
        interval
    }

    #[test]
    fn a_slow_reader_gets_longer_intervals_and_loses_nothing() {
        let (mut feed, receiver) = Feed::with_bound(1);
        let second = Duration::from_secs(1);
        for number in 0..5 {
            let interval = interval(u64::from(number) + 1);
            let run_started = Instant::ZERO;
            feed.offer(Observed { run_started, start: second * number, length: second, interval: &interval });
        }
        let reader = std::thread::spawn(move || receiver.into_iter().collect::<Vec<_>>());
        drop(feed);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].length, all[0].interval.service.count()), (second, 1));
        assert_eq!((all[1].start, all[1].length, all[1].interval.service.count()), (second, second * 4, 4));
    }
}
