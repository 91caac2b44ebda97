//! Whether memory grows without end: a leak.
//!
//! Every server grows with its first connections, and levels off. A leak does not: it grows in each quarter of the
//! trial, and in the last as much as before. Growth by less than [`RISE_MIN_BYTES`] in a trial, or by
//! [`RISE_MIN_SHARE`], may have any cause. A cache that fills looks the same, so the result is a remark and no verdict.

/// Minimum number of samples to form quarters.
const SAMPLES_MIN: usize = 8;
/// Minimum growth in a trial.
const RISE_MIN_BYTES: f64 = 1024.0 * 1024.0;
/// Minimum growth as a share of the initial value.
const RISE_MIN_SHARE: f64 = 0.02;
/// Minimum growth of the last quarter as a share of the mean growth from one quarter to the next.
const LAST_SHARE_MIN: f64 = 0.5;
const PARTS: usize = 4;

/// Bytes per second, of samples (instant in ns, bytes) in chronological order; 0 unless it grew to the end.
pub(super) fn growth_per_s(samples: &[(u64, u64)]) -> f64 {
    let (Some(&(begin, first)), Some(&(end, _))) = (samples.first(), samples.last()) else { return 0.0 };
    if samples.len() < SAMPLES_MIN || end <= begin {
        return 0.0;
    }
    let length = end - begin;
    let part_of = |at: u64| ((u128::from(at - begin) * PARTS as u128 / u128::from(length)) as usize).min(PARTS - 1);
    let mut sums = [(0.0, 0.0); PARTS];
    for &(at, bytes) in samples {
        let (sum, count) = &mut sums[part_of(at)];
        (*sum, *count) = (*sum + bytes as f64, *count + 1.0);
    }
    if sums.iter().any(|(_, count)| *count == 0.0) {
        return 0.0;
    }
    let means = sums.map(|(sum, count)| sum / count);
    let rises: Vec<f64> = means.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rise = means[PARTS - 1] - means[0];
    let grows_to_the_end = rises.iter().all(|&rise| rise > 0.0)
        && rises[PARTS - 2] >= LAST_SHARE_MIN * rise / rises.len() as f64
        && rise > RISE_MIN_BYTES.max(RISE_MIN_SHARE * first as f64);
    // From the middle of the first part to the middle of the last.
    let time_s = length as f64 / 1e9 * (PARTS - 1) as f64 / PARTS as f64;
    if grows_to_the_end { rise / time_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// One sample a second for `seconds`.
    fn growth(seconds: u64, bytes: impl Fn(u64) -> u64) -> f64 {
        let samples: Vec<(u64, u64)> = (0..=seconds).map(|second| (second * 1_000_000_000, bytes(second))).collect();
        growth_per_s(&samples)
    }

    #[test]
    fn a_leak_is_measured() {
        let per_s = growth(60, |second| 30 * MIB + second * MIB / 4);
        assert!((per_s / (MIB as f64 / 4.0) - 1.0).abs() < 0.05, "{per_s}");
        // In steps, as allocators request memory.
        assert!(growth(60, |second| 30 * MIB + second / 7 * 2 * MIB) > 0.0);
    }

    #[test]
    fn memory_that_levels_off_or_hardly_grows_is_no_leak() {
        assert_eq!(growth(60, |second| 30 * MIB + second.min(20) * MIB), 0.0, "a warm-up");
        assert_eq!(growth(60, |second| 130 * MIB - 100 * MIB / (second + 1)), 0.0, "it comes to rest");
        assert_eq!(growth(60, |second| 30 * MIB + second * 1024), 0.0, "too little");
        assert_eq!(growth(60, |second| 9_000 * MIB + second * MIB), 0.0, "too little of it");
        assert_eq!(growth(60, |second| 30 * MIB + second % 3 * MIB), 0.0);
        assert_eq!(growth(60, |second| 900 * MIB - second * MIB), 0.0);
    }

    #[test]
    fn too_few_samples_say_nothing() {
        assert_eq!(growth(6, |second| 30 * MIB + second * MIB), 0.0);
        assert_eq!(growth_per_s(&[]), 0.0);
        let at_once: Vec<(u64, u64)> = (0..20).map(|index| (5, index * MIB)).collect();
        assert_eq!(growth_per_s(&at_once), 0.0);
    }
}
