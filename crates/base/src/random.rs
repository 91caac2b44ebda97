//! Seeded random numbers: all random choices of a run can be repeated from its seed.

/// A small, fast, seeded generator (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
///
/// For workloads, simulations and ordering; **not** for keys or identifiers, which come from the operating system.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator of a stream of a seed; streams do not overlap.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut mixer = Self::new(seed ^ stream.wrapping_mul(0xD605_1A77_9D5B_F1C5));
        Self::new(mixer.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A uniform number below `bound`; 0 if `bound` is 0.
    ///
    /// Multiplication with rejection (Lemire, 2019): no modulo bias.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        if span == u64::MAX { self.next_u64() } else { low + self.below(span + 1) }
    }

    /// A uniform number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability (0 to 1).
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_reference_sequence() {
        // The first outputs of the reference implementation of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn ranges_are_inclusive_and_covered() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[random.below(6) as usize] += 1;
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(4, 4), 4);
    }

    #[test]
    fn streams_are_independent() {
        assert_ne!(Random::stream(1, 0).next_u64(), Random::stream(1, 1).next_u64());
    }
}
