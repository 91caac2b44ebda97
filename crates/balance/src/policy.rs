//! Load-balancing policies, for requests without affinity.
//!
//! - **Round robin**: the next slot of a prepared cycle ([`crate::rotation`]).
//! - **Least outstanding**: the fewest outstanding requests per weight; among equals one at random, in proportion to
//!   the weights, so that weights also hold on an idle group.
//! - **Two choices** (Mitzenmacher, 2001): of two random upstreams the one with the smaller cost, latency ×
//!   (outstanding + 1) ÷ weight. This is nearly as good as the best of all, and does not send all requests to the same
//!   one at the same time.
//! - **Consistent hashing**: each upstream gets a number from the key, and the largest wins (rendezvous hashing; Thaler
//!   and Ravishankar, 1998; weights by −log(u) ÷ weight, Schindelhauer and Schomaker, 2005). When an upstream leaves,
//!   only its own keys move; when one joins, only those that become its own. An upstream above its bounded share
//!   (Mirrokni, Thorup and Zadimoghaddam, 2018) is skipped, and the next choice differs by key, so that the overflow is
//!   spread. A ring would need hundreds of points per upstream to be half as even.

use std::sync::atomic::AtomicU32;

use breme_base::{Instant, Random};

use crate::snapshot::{Candidate, Snapshot};
use crate::{Policy, UpstreamId};

/// Slots of the cycle that are skipped before the list is searched.
const TURNS_PASSED_MAX: usize = 8;
/// Pairs drawn before all candidates are compared.
const PAIRS_MAX: usize = 3;
/// The latency (in units of the estimate) of an upstream that has not responded yet and has a request outstanding:
/// above all known ones.
const LATENCY_UNKNOWN: u64 = 1 << 34;

pub(crate) struct Selection<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Instant,
    pub(crate) key: u64,
    pub(crate) tried: &'a [UpstreamId],
}

impl<'a> Selection<'a> {
    /// None if no candidate is available.
    pub(crate) fn pick(&self, turns_taken: &AtomicU32, random: &mut Random) -> Option<&'a Candidate> {
        match (self.snapshot.rules.policy, &*self.snapshot.candidates) {
            (_, []) => None,
            (_, [only]) => self.is_open(only).then_some(only),
            (Policy::RoundRobin, _) => self.round_robin(turns_taken),
            (Policy::LeastOutstanding, _) => self.least_outstanding(random),
            (Policy::TwoChoices, _) => self.two_choices(random),
            (Policy::ConsistentHash, _) => self.consistent_hash(),
        }
    }

    /// Not tried by this request, and not full.
    pub(crate) fn is_open(&self, candidate: &Candidate) -> bool {
        let max = self.snapshot.rules.outstanding_max;
        !self.was_tried(candidate) && (max == 0 || candidate.upstream.outstanding() < max)
    }

    pub(crate) fn was_tried(&self, candidate: &Candidate) -> bool {
        self.tried.contains(&candidate.upstream.id)
    }

    fn open(&self) -> impl Iterator<Item = &'a Candidate> {
        self.snapshot.candidates.iter().filter(|candidate| self.is_open(candidate))
    }

    fn round_robin(&self, turns_taken: &AtomicU32) -> Option<&'a Candidate> {
        let Snapshot { rotation, candidates, .. } = self.snapshot;
        let turn = rotation.next(turns_taken);
        for turn in turn..turn + TURNS_PASSED_MAX {
            let candidate = &candidates[rotation.index(turn)];
            if self.is_open(candidate) {
                return Some(candidate);
            }
        }
        let first = rotation.index(turn);
        candidates[first..].iter().chain(&candidates[..first]).find(|candidate| self.is_open(candidate))
    }

    fn least_outstanding(&self, random: &mut Random) -> Option<&'a Candidate> {
        let mut open = self.open();
        let mut best = open.next()?;
        let (mut least, mut tied_weight) = (u64::from(best.upstream.outstanding()), best.weight);
        for candidate in open {
            let outstanding = u64::from(candidate.upstream.outstanding());
            let (ours, bests) = (outstanding * u64::from(best.weight), least * u64::from(candidate.weight));
            if ours > bests {
                continue;
            }
            tied_weight = if ours < bests { candidate.weight } else { tied_weight + candidate.weight };
            if ours < bests || below(random.next_u64() >> 32, tied_weight) < candidate.weight {
                (best, least) = (candidate, outstanding);
            }
        }
        Some(best)
    }

    fn two_choices(&self, random: &mut Random) -> Option<&'a Candidate> {
        let candidates = &self.snapshot.candidates;
        let count = candidates.len() as u32;
        for _ in 0..PAIRS_MAX {
            let bits = random.next_u64();
            let first = below(bits >> 32, count);
            let other = below(bits & u64::from(u32::MAX), count - 1);
            let second = other + u32::from(other >= first);
            let (first, second) = (&candidates[first as usize], &candidates[second as usize]);
            match (self.is_open(first), self.is_open(second)) {
                (true, true) => return Some(self.cheaper(first, second)),
                (true, false) => return Some(first),
                (false, true) => return Some(second),
                (false, false) => {}
            }
        }
        self.open().reduce(|best, candidate| self.cheaper(best, candidate))
    }

    fn cheaper(&self, one: &'a Candidate, other: &'a Candidate) -> &'a Candidate {
        let (ones, others) = (self.cost(one), self.cost(other));
        let is_one = ones.saturating_mul(u64::from(other.weight)) <= others.saturating_mul(u64::from(one.weight));
        if is_one { one } else { other }
    }

    /// An unknown upstream is tried at once, and until it has responded it counts as slower than all known ones.
    fn cost(&self, candidate: &Candidate) -> u64 {
        let outstanding = u64::from(candidate.upstream.outstanding());
        match u64::from(candidate.upstream.latency.units(self.now)) {
            0 if outstanding == 0 => 0,
            0 => LATENCY_UNKNOWN.saturating_mul(outstanding),
            units => units.saturating_mul(outstanding + 1),
        }
    }

    fn consistent_hash(&self) -> Option<&'a Candidate> {
        let nearest = self.nearest(|candidate| self.is_open(candidate))?;
        let percent = u64::from(self.snapshot.rules.hash_load_percent_max);
        if percent == 0 {
            return Some(nearest);
        }
        let outstanding = |candidate: &Candidate| u64::from(candidate.upstream.outstanding());
        let total = self.snapshot.candidates.iter().map(outstanding).sum::<u64>() + 1;
        let has_capacity = |candidate: &Candidate| {
            outstanding(candidate) * 100 * self.snapshot.weight_sum < percent * total * u64::from(candidate.weight)
        };
        if has_capacity(nearest) {
            return Some(nearest);
        }
        self.nearest(|candidate| self.is_open(candidate) && has_capacity(candidate)).or(Some(nearest))
    }

    /// The candidate with the best number for the key.
    fn nearest(&self, may_be: impl Fn(&Candidate) -> bool) -> Option<&'a Candidate> {
        let candidates = self.snapshot.candidates.iter().filter(|candidate| may_be(candidate));
        if self.snapshot.weights_are_equal {
            return candidates.max_by_key(|candidate| self.draw(candidate));
        }
        let distance = |candidate: &Candidate| improbability(self.draw(candidate)) * candidate.weight_inverse;
        let measured = candidates.map(|candidate| (distance(candidate), candidate));
        measured.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, candidate)| candidate)
    }

    fn draw(&self, candidate: &Candidate) -> u64 {
        Random::new(self.key ^ candidate.upstream.key).next_u64()
    }
}

/// 32 random bits as a number below `bound`, with a bias of less than 2⁻²⁰ for bounds below 4096.
fn below(bits: u64, bound: u32) -> u32 {
    ((bits * u64::from(bound)) >> 32) as u32
}

/// −log₂ of 64 random bits as a number from 0 to 1, within 0.0001. The integer part is the position of the first bit,
/// the fraction a polynomial fitted to the logarithm (least squares at Chebyshev nodes) and exact at both ends. It
/// costs a quarter of the library function, and all machines compute the same.
fn improbability(bits: u64) -> f64 {
    let zeros = bits.leading_zeros().min(63);
    let above = ((bits << zeros) & (u64::MAX >> 1)) as f64 / (1_u64 << 63) as f64;
    let bulge = 0.442_454 + above * (-0.270_160 + above * (0.152_021 - above * 0.045_842));
    f64::from(zeros + 1) - above - above * (1.0 - above) * bulge
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_is_accurate_and_monotonic() {
        let mut random = Random::new(3);
        let check = |bits: u64| {
            let expected = -((bits as f64 + 0.5) / 2.0_f64.powi(64)).log2();
            assert!((improbability(bits) - expected).abs() < 1e-4, "{bits:x}: {} and {expected}", improbability(bits));
        };
        (0..10_000).map(|_| random.next_u64() >> random.below(40)).for_each(check);
        [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 40].into_iter().for_each(check);
        let mut sorted: Vec<u64> = (0..10_000).map(|_| random.next_u64()).collect();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| improbability(pair[0]) >= improbability(pair[1])));
        assert!(improbability(0).is_finite() && improbability(u64::MAX) >= 0.0);
    }
}
