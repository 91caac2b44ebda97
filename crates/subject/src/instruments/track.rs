//! Samples of one thing during a trial, in bounded memory: when there are too many, every second one is dropped, and
//! the stride doubles. The first and the last are always kept.

const SAMPLES_MAX: usize = 4_096;

/// A sample with its instant, and the interpolation between two.
pub(super) trait Sample: Clone {
    /// On the monotonic clock.
    fn at_ns(&self) -> u64;
    /// Counts at a `share` (0 to 1) of the way from `earlier` to `later`; amounts held as at the nearer one.
    fn between(earlier: &Self, later: &Self, share: f64) -> Self;
}

/// The samples, in chronological order.
#[derive(Clone, Debug)]
pub(super) struct Track<S> {
    kept: Vec<S>,
    /// The newest, if it is not kept.
    newest: Option<S>,
    /// One of this many samples is kept.
    stride: u32,
    /// Samples since the last one that was kept.
    passed: u32,
}

impl<S> Default for Track<S> {
    fn default() -> Self {
        Self { kept: Vec::new(), newest: None, stride: 1, passed: 0 }
    }
}

impl<S: Sample> Track<S> {
    pub(super) fn push(&mut self, sample: S) {
        self.passed += 1;
        if !self.kept.is_empty() && self.passed < self.stride {
            self.newest = Some(sample);
            return;
        }
        (self.passed, self.newest) = (0, None);
        self.kept.push(sample);
        // An odd number of them, so that the last one stays.
        if self.kept.len() > SAMPLES_MAX {
            let mut is_dropped = true;
            self.kept.retain(|_| {
                is_dropped = !is_dropped;
                !is_dropped
            });
            self.stride *= 2;
        }
    }

    pub(super) fn samples(&self) -> impl DoubleEndedIterator<Item = &S> {
        self.kept.iter().chain(&self.newest)
    }

    /// The samples from `from_ns` to `to_ns`.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &S> {
        self.samples().filter(move |sample| (from_ns..=to_ns).contains(&sample.at_ns()))
    }

    /// The interpolated sample at an instant; before the first sample the first, after the last the last.
    pub(super) fn at(&self, at_ns: u64) -> Option<S> {
        let later = self.samples().find(|sample| sample.at_ns() >= at_ns);
        let earlier = self.samples().rfind(|sample| sample.at_ns() <= at_ns);
        match (earlier, later) {
            (Some(earlier), Some(later)) if later.at_ns() > earlier.at_ns() => {
                let share = (at_ns - earlier.at_ns()) as f64 / (later.at_ns() - earlier.at_ns()) as f64;
                Some(S::between(earlier, later, share))
            }
            (earlier, later) => earlier.or(later).cloned(),
        }
    }
}

/// The nearer one of two samples, with its `counts` at a `share` of the way from `earlier` to `later`.
pub(super) fn interpolate<S: Copy, const N: usize>(
    mut earlier: S,
    mut later: S,
    share: f64,
    counts: fn(&mut S) -> [&mut u64; N],
) -> S {
    let mut sample = if share < 0.5 { earlier } else { later };
    for ((count, from), to) in counts(&mut sample).into_iter().zip(counts(&mut earlier)).zip(counts(&mut later)) {
        *count = *from + (to.saturating_sub(*from) as f64 * share).round() as u64;
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sample for (u64, u64) {
        fn at_ns(&self) -> u64 {
            self.0
        }

        fn between(earlier: &Self, later: &Self, share: f64) -> Self {
            interpolate(*earlier, *later, share, |sample| [&mut sample.0, &mut sample.1])
        }
    }

    #[test]
    fn values_between_two_samples_are_interpolated() {
        let mut track = Track::default();
        assert_eq!(track.at(5), None);
        [(10, 100), (20, 200), (40, 240)].into_iter().for_each(|sample| track.push(sample));
        let check = |at_ns, expected| assert_eq!(track.at(at_ns).unwrap().1, expected, "{at_ns}");
        check(0, 100);
        check(10, 100);
        check(15, 150);
        check(20, 200);
        check(30, 220);
        check(99, 240);
        assert_eq!(track.within(11, 40).count(), 2);
    }

    #[test]
    fn memory_is_bounded_and_the_ends_stay() {
        let mut track = Track::default();
        for number in 0..100_003 {
            track.push((number, number * 2));
            assert_eq!(track.samples().next_back().unwrap().0, number);
        }
        assert!(track.kept.len() <= SAMPLES_MAX && track.kept.len() > SAMPLES_MAX / 4);
        assert_eq!(track.samples().next(), Some(&(0, 0)));
        assert_eq!(track.at(77_777).unwrap().1, 155_554);
        let distances: Vec<u64> = track.kept.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(distances.iter().all(|&distance| distance == distances[0]), "evenly spaced");
    }
}
