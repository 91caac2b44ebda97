//! How many requests may be sent a second time, to the same upstream or to another.
//!
//! One retry saves a request; when everything fails, retries make two requests of each and keep down what would come up
//! again. So they are bounded by a share of the requests that go upstream: each puts a part of a retry into a bucket
//! that all shards share, each retry takes a whole one. A little is put in with time, so that seldom requests have
//! retries too, and little is saved up, so that a good hour does not pay for a storm. (Finagle and gRPC bound retries
//! in the same way, Envoy by the requests that are outstanding.)
//!
//! A request costs nothing for it: how many there were is looked up where the shards have counted them, when somebody
//! wants to retry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breme_base::Instant;

/// What one retry costs, so that a percent is 1.
const RETRY: u64 = 100;
/// Put in with each millisecond: ten retries a second.
const OF_MILLISECOND: u64 = 1;
/// Retries that may be saved up.
const SAVED_MAX: u64 = 100 * RETRY;

/// The bucket, for all shards.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    bucket: Mutex<Bucket>,
    denied: AtomicU64,
}

#[derive(Debug)]
struct Bucket {
    saved: u64,
    /// Up to here it was filled.
    filled: Instant,
    requests: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        let bucket = Bucket { saved: SAVED_MAX, filled: Instant::ZERO, requests: 0 };
        Self { bucket: Mutex::new(bucket), denied: AtomicU64::new(0) }
    }
}

impl RetryBudget {
    /// Takes a retry, if there is one; if not, that is counted. `requests`: so many have gone out so far, each counted
    /// once; `percent` of them may be repeated (0: all of them).
    pub(crate) fn take(&self, now: Instant, percent: u32, requests: impl FnOnce() -> u64) -> bool {
        if percent == 0 {
            return true;
        }
        let mut bucket = self.bucket();
        bucket.fill(now, u64::from(percent), requests());
        let rest = bucket.saved.checked_sub(RETRY);
        match rest {
            Some(rest) => bucket.saved = rest,
            None => drop(self.denied.fetch_add(1, Ordering::Relaxed)),
        }
        rest.is_some()
    }

    /// One that was taken was of no use.
    pub(crate) fn give_back(&self) {
        let mut bucket = self.bucket();
        bucket.saved = (bucket.saved + RETRY).min(SAVED_MAX);
    }

    /// Requests that were not sent again for want of it.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant, percent: u64, requests: u64) {
        let milliseconds = now.nanos_since(self.filled) / 1_000_000;
        let more = requests.saturating_sub(self.requests).saturating_mul(percent);
        let with_time = milliseconds.saturating_mul(OF_MILLISECOND);
        self.saved = self.saved.saturating_add(more).saturating_add(with_time).min(SAVED_MAX);
        self.requests = self.requests.max(requests);
        // What is left of a millisecond counts the next time.
        self.filled = self.filled + Duration::from_millis(milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Retries as long as there are any.
    fn spend(budget: &RetryBudget, now: Instant, percent: u32, requests: u64) -> u64 {
        let mut spent = 0;
        while spent < 10_000 && budget.take(now, percent, || requests) {
            spent += 1;
        }
        spent
    }

    #[test]
    fn a_share_of_the_requests_may_be_repeated() {
        let budget = RetryBudget::default();
        assert_eq!(spend(&budget, at(0), 20, 0), 100, "what is saved up");
        assert_eq!(spend(&budget, at(0), 20, 50), 10);
        assert_eq!(spend(&budget, at(0), 20, 52), 0);
        assert_eq!(spend(&budget, at(0), 20, 55), 1, "parts are added up");
        assert_eq!(spend(&budget, at(0), 20, 1_000_000), 100, "no more is saved up than that");
        assert_eq!(budget.denied(), 5);
    }

    #[test]
    fn many_shards_together_take_no_more_than_there_is() {
        let budget = RetryBudget::default();
        let spent: u64 = std::thread::scope(|scope| {
            let shards: Vec<_> = (0..8).map(|_| scope.spawn(|| spend(&budget, at(0), 20, 50))).collect();
            shards.into_iter().map(|shard| shard.join().unwrap()).sum()
        });
        assert_eq!((spent, budget.denied()), (100, 8));
        budget.give_back();
        assert_eq!(spend(&budget, at(0), 20, 50), 1);
    }

    #[test]
    fn few_requests_have_retries_too() {
        let budget = RetryBudget::default();
        spend(&budget, at(0), 20, 0);
        assert_eq!(spend(&budget, at(99), 20, 0), 0);
        assert_eq!(spend(&budget, at(1_000), 20, 0), 10);
        // Another shard's clock may be a little behind.
        assert_eq!(spend(&budget, at(999), 20, 0), 0);
        assert_eq!(spend(&budget, at(1_100), 20, 0), 1);
    }

    #[test]
    fn however_often_one_asks_no_time_is_lost() {
        let budget = RetryBudget::default();
        spend(&budget, at(0), 20, 0);
        let moments = (1..=1_000).map(|number| Instant::ZERO + Duration::from_micros(1_900) * number);
        assert_eq!(moments.map(|moment| spend(&budget, moment, 20, 0)).sum::<u64>(), 19, "in 1.9 seconds");
    }

    #[test]
    fn nobody_is_denied_where_there_is_no_bound() {
        let budget = RetryBudget::default();
        assert_eq!(spend(&budget, at(0), 0, 0), 10_000);
        assert_eq!(budget.denied(), 0);
    }
}
