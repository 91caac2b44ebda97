//! The memory budget, in bytes: charged before an allocation, released after, so that the limit is never exceeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    max: AtomicU64,
}

impl Budget {
    pub(crate) fn new(max: u64, used: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(used), max: AtomicU64::new(max) })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Current charges may exceed a lower limit until they are released.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// None if the budget is exhausted.
    pub(crate) fn try_charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let max = self.max();
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= max);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Charge { budget: Arc::clone(self), bytes })
    }

    /// Releases the bytes of a charge after [`Charge::into_bytes`].
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "{bytes} bytes given back of {before}");
    }
}

/// Charged bytes; released on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the other charge to this one.
    pub(crate) fn join(&mut self, other: Self) {
        self.bytes += other.into_bytes();
    }

    /// Splits off at most `bytes`.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: Arc::clone(&self.budget), bytes }
    }

    /// The caller must release the bytes.
    pub(crate) fn into_bytes(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_never_exceeded() {
        let budget = Budget::new(100, 0);
        let mut first = budget.try_charge(60).unwrap();
        assert!(budget.try_charge(41).is_none() && budget.try_charge(u64::MAX).is_none());
        let second = budget.try_charge(40).unwrap();
        assert_eq!(budget.used(), 100);
        first.join(second);
        let part = first.split(30);
        assert_eq!((first.bytes(), part.bytes()), (70, 30));
        drop(part);
        assert_eq!(budget.used(), 70);
        budget.release(first.into_bytes());
        assert_eq!(budget.used(), 0);
    }
}
