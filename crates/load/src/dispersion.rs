//! How evenly requests are sent: the index of dispersion.

use crate::merge::Merge;

/// The width of the windows in which sends are counted. Requests that reach a server within one queue for a CPU.
pub const DISPERSION_WINDOW_NS: u64 = 100_000;
/// Fewer windows are inconclusive: the index of a Poisson process scatters by `√(2 ÷ windows)`.
const WINDOW_COUNT_MIN: u64 = 1_000;
/// So are fewer sends.
const SEND_COUNT_MIN: u64 = 100;

/// Counts sends in windows of [`DISPERSION_WINDOW_NS`], in constant memory: each window adds its count and its square.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sends {
    window: u64,
    in_window: u64,
    count: u64,
    squares: u128,
}

/// The windows of all shards are combined at once, by [`dispersion`].
impl Merge for Sends {
    fn merge(&mut self, _: &Self) {}
}

impl Sends {
    /// Records a request sent at this time since the start of the run.
    #[inline]
    pub(crate) fn note(&mut self, since_start_ns: u64) {
        let window = since_start_ns / DISPERSION_WINDOW_NS;
        if window != self.window {
            self.close_window();
            self.window = window;
        }
        self.in_window += 1;
    }

    fn close_window(&mut self) {
        let count = std::mem::take(&mut self.in_window);
        self.count += count;
        self.squares += u128::from(count * count);
    }

    /// Variance and mean of the sends per window, over `elapsed_ns`.
    fn moments(mut self, elapsed_ns: u64) -> Option<(f64, f64)> {
        self.close_window();
        let windows = elapsed_ns / DISPERSION_WINDOW_NS;
        if windows < WINDOW_COUNT_MIN || self.count < SEND_COUNT_MIN {
            return None;
        }
        let mean = self.count as f64 / windows as f64;
        Some((self.squares as f64 / windows as f64 - mean * mean, mean))
    }
}

/// The index of dispersion of the sends of all shards, variance ÷ mean of their number in a window: 1 if they are
/// independent of each other (a Poisson process), *n* if they are sent *n* at a time. Shards are independent, so their
/// variances add up. None: the run was too short.
pub(crate) fn dispersion(shards: impl Iterator<Item = Sends>, elapsed_ns: u64) -> Option<f64> {
    let moments: Vec<(f64, f64)> = shards.filter_map(|sends| sends.moments(elapsed_ns)).collect();
    let (variance, mean) = moments.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (mean > 0.0).then(|| variance / mean)
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The index of one second in which batches of `size` are sent at random instants, 1,000 times.
    fn index_of_packs(size: u64) -> f64 {
        let mut random = Random::new(size);
        let mut instants: Vec<u64> = (0..1_000).map(|_| random.below(SECOND)).collect();
        instants.sort_unstable();
        let mut sends = Sends::default();
        instants.iter().for_each(|&at| (0..size).for_each(|_| sends.note(at)));
        dispersion([sends, sends].into_iter(), SECOND).unwrap()
    }

    #[test]
    fn the_index_is_the_size_of_the_packs() {
        for size in [1, 2, 13] {
            let index = index_of_packs(size);
            assert!((index / size as f64 - 1.0).abs() < 0.1, "packs of {size}: {index}");
        }
    }

    #[test]
    fn even_sends_have_no_dispersion() {
        let mut sends = Sends::default();
        (0..20_000).for_each(|number| sends.note(number * 50_000));
        assert!(dispersion([sends].into_iter(), SECOND).unwrap() < 0.01);
    }

    #[test]
    fn a_short_run_says_nothing() {
        let mut sends = Sends::default();
        (0..1_000).for_each(|number| sends.note(number * 1_000));
        assert_eq!(dispersion([sends].into_iter(), 1_000_000), None);
        assert_eq!(dispersion([Sends::default()].into_iter(), SECOND), None);
    }
}
