//! A latency estimate that rises at once and falls slowly: an exponentially weighted moving average that jumps to each
//! peak (the "peak EWMA" of Finagle, 2014).
//!
//! It decays with time even without requests, so that an upstream that was slow is tried again. Value and time share
//! one word, since separate reads could combine a value with another one's time. Integer arithmetic, so that all
//! machines compute the same.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use breme_base::{Instant, nanos};

/// The value counts in 2⁸ ns = 0.26 µs, up to 18 minutes.
const UNIT_SHIFT: u32 = 8;
/// Time in units of 2¹⁸ ns = 0.26 ms; it wraps after six days without a response.
const TICK_SHIFT: u32 = 18;
/// The half-life of a value: 2¹⁴ ticks = 2³² ns = 4.3 s.
const HALF_LIFE_SHIFT: u32 = 14;
/// Decreases are applied once per 17 ms, to save writes and rounding errors.
const FALL_TICKS_MIN: u32 = 64;

/// A latency estimate. 0: unknown.
#[derive(Debug, Default)]
pub(crate) struct LatencyEstimate(AtomicU64);

impl LatencyEstimate {
    /// Records a response's latency. Of two concurrent updates one is lost.
    pub(crate) fn observe(&self, now: Instant, latency: Duration) {
        let word = self.0.load(Relaxed);
        let (value, sample) = (word as u32, sample(latency));
        let ticks = ticks_since(word, now);
        let next = match sample.checked_sub(value) {
            Some(_) => sample,
            None if ticks < FALL_TICKS_MIN => return,
            None => sample + decayed(value - sample, ticks),
        };
        let _ = self.0.compare_exchange(word, pack(next, now), Relaxed, Relaxed);
    }

    /// Records a failure, which must not look like a fast response: the estimate does not fall, and is at least
    /// `least`.
    pub(crate) fn observe_failure(&self, now: Instant, least: Duration) {
        let word = self.0.load(Relaxed);
        let next = decayed(word as u32, ticks_since(word, now)).max(sample(least));
        let _ = self.0.compare_exchange(word, pack(next, now), Relaxed, Relaxed);
    }

    /// The current estimate in units of 256 ns; 0: unknown, or decayed.
    pub(crate) fn units(&self, now: Instant) -> u32 {
        let word = self.0.load(Relaxed);
        decayed(word as u32, ticks_since(word, now))
    }

    /// The current estimate.
    pub(crate) fn duration(&self, now: Instant) -> Option<Duration> {
        let units = self.units(now);
        (units > 0).then(|| Duration::from_nanos(u64::from(units) << UNIT_SHIFT))
    }

    pub(crate) fn forget(&self) {
        self.0.store(0, Relaxed);
    }
}

fn sample(latency: Duration) -> u32 {
    u32::try_from(nanos(latency) >> UNIT_SHIFT).unwrap_or(u32::MAX).max(1)
}

fn tick(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

fn pack(value: u32, now: Instant) -> u64 {
    u64::from(tick(now)) << 32 | u64::from(value)
}

/// Another shard's clock may be slightly ahead; then no time has passed.
fn ticks_since(word: u64, now: Instant) -> u32 {
    let ticks = tick(now).wrapping_sub((word >> 32) as u32);
    if ticks > u32::MAX / 2 { 0 } else { ticks }
}

/// Halved for each half-life, and linear between: at most 6 % off the exponential.
fn decayed(value: u32, ticks: u32) -> u32 {
    let halvings = ticks >> HALF_LIFE_SHIFT;
    if halvings >= u32::BITS {
        return 0;
    }
    let rest = u64::from(ticks & ((1 << HALF_LIFE_SHIFT) - 1));
    let halved = u64::from(value >> halvings);
    // Rounded up, or small differences would never decay.
    (halved - (halved * rest).div_ceil(2 << HALF_LIFE_SHIFT)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Duration = Duration::from_nanos(1 << (TICK_SHIFT + HALF_LIFE_SHIFT));

    fn millis(estimate: &LatencyEstimate, now: Instant) -> f64 {
        estimate.duration(now).unwrap_or_default().as_secs_f64() * 1e3
    }

    #[test]
    fn rises_at_once_and_halves_per_half_life() {
        let (estimate, start) = (LatencyEstimate::default(), Instant::ZERO + Duration::from_secs(100));
        assert_eq!(estimate.duration(start), None);
        estimate.observe(start, Duration::from_millis(8));
        assert!((millis(&estimate, start) - 8.0).abs() < 0.001);
        estimate.observe(start, Duration::from_millis(64));
        assert!((millis(&estimate, start) - 64.0).abs() < 0.001, "a peak counts at once");
        estimate.observe(start, Duration::from_millis(8));
        assert!((millis(&estimate, start) - 64.0).abs() < 0.001, "a fall takes its time");
        assert!((millis(&estimate, start + HALF_LIFE) - 32.0).abs() < 0.1, "time alone forgets");
        estimate.observe(start + HALF_LIFE, Duration::from_millis(8));
        assert!((millis(&estimate, start + HALF_LIFE) - 36.0).abs() < 0.1, "half the way from 64 to 8");
        assert_eq!(estimate.units(start + HALF_LIFE * 40), 0, "forgotten");
    }

    #[test]
    fn converges_on_steady_latency() {
        let (estimate, mut now) = (LatencyEstimate::default(), Instant::ZERO);
        estimate.observe(now, Duration::from_secs(1));
        for _ in 0..200_000 {
            now = now + Duration::from_millis(1);
            estimate.observe(now, Duration::from_micros(100));
        }
        assert!((millis(&estimate, now) - 0.1).abs() < 0.05, "{}", millis(&estimate, now));
    }

    #[test]
    fn fast_failure_does_not_lower_latency() {
        let (estimate, now) = (LatencyEstimate::default(), Instant::ZERO);
        estimate.observe(now, Duration::from_millis(500));
        estimate.observe_failure(now, Duration::from_millis(1));
        assert!((millis(&estimate, now) - 500.0).abs() < 0.001);
        estimate.observe_failure(now, Duration::from_secs(1));
        assert!((millis(&estimate, now) - 1000.0).abs() < 0.001);
    }

    #[test]
    fn tolerates_lagging_clock() {
        let (estimate, now) = (LatencyEstimate::default(), Instant::ZERO + Duration::from_secs(10));
        estimate.observe(now, Duration::from_millis(10));
        let behind = Instant::ZERO + Duration::from_millis(9_990);
        assert!((millis(&estimate, behind) - 10.0).abs() < 0.001);
        estimate.observe(now, Duration::MAX);
        assert!(millis(&estimate, now) > 1e6);
    }
}
