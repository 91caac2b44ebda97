//! Bounds retries, to the same upstream or another.
//!
//! A retry saves a request; but if everything fails, retries double the load and keep a recovering upstream down. So
//! they are limited to a share of the requests that go upstream: each request adds a part of a retry to a token bucket
//! shared by all shards, each retry takes a whole one. The bucket also fills slowly with time, so that low traffic can
//! retry too, and holds few tokens, so that an hour without failures does not pay for a storm. (Finagle and gRPC limit
//! retries in this way; Envoy by outstanding requests.)
//!
//! This costs requests nothing: their number is read from the counters when a retry is needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_base::Instant;
use parking_lot::Mutex;

/// Tokens of one retry, so that a percent of a request is 1.
const TOKENS_PER_RETRY: u64 = 100;
/// Ten retries per second.
const TOKENS_PER_MILLISECOND: u64 = 1;
/// Capacity of the bucket.
const TOKENS_MAX: u64 = 100 * TOKENS_PER_RETRY;

/// The token bucket of all shards.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    bucket: Mutex<TokenBucket>,
    denied: AtomicU64,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: u64,
    /// When it was last filled.
    filled: Instant,
    requests: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        let bucket = TokenBucket { tokens: TOKENS_MAX, filled: Instant::ZERO, requests: 0 };
        Self { bucket: Mutex::new(bucket), denied: AtomicU64::new(0) }
    }
}

impl RetryBudget {
    /// Takes a retry; denials are counted. `requests`: the number sent upstream so far, each counted once; `percent` of
    /// them may be retried (0: unlimited).
    pub(crate) fn take(&self, now: Instant, percent: u32, requests: impl FnOnce() -> u64) -> bool {
        if percent == 0 {
            return true;
        }
        let mut bucket = self.bucket.lock();
        bucket.fill(now, u64::from(percent), requests());
        let rest = bucket.tokens.checked_sub(TOKENS_PER_RETRY);
        match rest {
            Some(rest) => bucket.tokens = rest,
            None => drop(self.denied.fetch_add(1, Ordering::Relaxed)),
        }
        rest.is_some()
    }

    /// Returns an unused retry.
    pub(crate) fn give_back(&self) {
        let mut bucket = self.bucket.lock();
        bucket.tokens = (bucket.tokens + TOKENS_PER_RETRY).min(TOKENS_MAX);
    }

    /// Retries denied.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }
}

impl TokenBucket {
    fn fill(&mut self, now: Instant, percent: u64, requests: u64) {
        let milliseconds = now.nanos_since(self.filled) / 1_000_000;
        let more = requests.saturating_sub(self.requests).saturating_mul(percent);
        let with_time = milliseconds.saturating_mul(TOKENS_PER_MILLISECOND);
        self.tokens = self.tokens.saturating_add(more).saturating_add(with_time).min(TOKENS_MAX);
        self.requests = self.requests.max(requests);
        // The rest of a millisecond counts the next time.
        self.filled = self.filled + Duration::from_millis(milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Takes retries until none is left.
    fn spend(budget: &RetryBudget, now: Instant, percent: u32, requests: u64) -> u64 {
        let mut spent = 0;
        while spent < 10_000 && budget.take(now, percent, || requests) {
            spent += 1;
        }
        spent
    }

    #[test]
    fn budget_follows_the_share_of_requests() {
        let budget = RetryBudget::default();
        assert_eq!(spend(&budget, at(0), 20, 0), 100, "what is saved up");
        assert_eq!(spend(&budget, at(0), 20, 50), 10);
        assert_eq!(spend(&budget, at(0), 20, 52), 0);
        assert_eq!(spend(&budget, at(0), 20, 55), 1, "parts are added up");
        assert_eq!(spend(&budget, at(0), 20, 1_000_000), 100, "no more is saved up than that");
        assert_eq!(budget.denied(), 5);
    }

    #[test]
    fn shards_share_the_budget() {
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
    fn budget_refills_with_time() {
        let budget = RetryBudget::default();
        spend(&budget, at(0), 20, 0);
        assert_eq!(spend(&budget, at(99), 20, 0), 0);
        assert_eq!(spend(&budget, at(1_000), 20, 0), 10);
        // Another shard's clock may be slightly behind.
        assert_eq!(spend(&budget, at(999), 20, 0), 0);
        assert_eq!(spend(&budget, at(1_100), 20, 0), 1);
    }

    #[test]
    fn fractions_of_milliseconds_accumulate() {
        let budget = RetryBudget::default();
        spend(&budget, at(0), 20, 0);
        let moments = (1..=1_000).map(|number| Instant::ZERO + Duration::from_micros(1_900) * number);
        assert_eq!(moments.map(|moment| spend(&budget, moment, 20, 0)).sum::<u64>(), 19, "in 1.9 seconds");
    }

    #[test]
    fn zero_percent_means_unlimited() {
        let budget = RetryBudget::default();
        assert_eq!(spend(&budget, at(0), 0, 0), 10_000);
        assert_eq!(budget.denied(), 0);
    }
}
