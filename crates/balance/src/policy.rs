//! The rules by which a request that may go anywhere gets its upstream.
//!
//! - **Round robin**: the next turn of a cycle laid out beforehand ([`crate::rotation`]).
//! - **Least outstanding**: the fewest outstanding requests for the weight; of those who are equal one at random, in
//!   proportion to the weights, so that weights also hold where nobody is busy.
//! - **Two choices** (Mitzenmacher, 2001): of two at random the one with the smaller cost, latency × (outstanding + 1)
//!   ÷ weight. Two random ones are nearly as good as the best of all and do not send everybody to the same one at the
//!   same time.
//! - **Consistent hashing**: each upstream draws a number from the key, and the largest wins (rendezvous hashing;
//!   Thaler and Ravishankar, 1998; weights by −log(u) ÷ weight, Schindelhauer and Schomaker, 2005). When an upstream
//!   goes, only its own keys move; when one comes, only those move that become its own. An upstream that has more than
//!   its bounded share (Mirrokni, Thorup and Zadimoghaddam, 2018) is passed over, and a key's next choice is another
//!   one for each key, so that the overflow is spread. A ring would need hundreds of points for each upstream to be
//!   half as even.

use std::sync::atomic::AtomicU32;

use breme_base::{Instant, Random};

use crate::roster::{Candidate, Roster};
use crate::{Policy, UpstreamId};

/// Turns that are passed over before the list is simply walked.
const TURNS_PASSED_MAX: usize = 8;
/// Pairs that are drawn before all are looked at.
const PAIRS_MAX: usize = 3;
/// The latency (in units of the estimate) of one who has not answered yet and is being asked: more than any that is
/// known.
const LATENCY_UNKNOWN: u64 = 1 << 34;

/// One request's question.
pub(crate) struct Question<'a> {
    pub(crate) roster: &'a Roster,
    pub(crate) now: Instant,
    pub(crate) key: u64,
    pub(crate) tried: &'a [UpstreamId],
}

impl<'a> Question<'a> {
    /// The candidate by the group's policy; none if none is open.
    pub(crate) fn pick(&self, turns_taken: &AtomicU32, random: &mut Random) -> Option<&'a Candidate> {
        match (self.roster.rules.policy, &*self.roster.candidates) {
            (_, []) => None,
            (_, [only]) => self.is_open(only).then_some(only),
            (Policy::RoundRobin, _) => self.round_robin(turns_taken),
            (Policy::LeastOutstanding, _) => self.least_outstanding(random),
            (Policy::TwoChoices, _) => self.two_choices(random),
            (Policy::ConsistentHash, _) => self.consistent_hash(),
        }
    }

    /// May be asked by this request: not tried yet, and not full.
    pub(crate) fn is_open(&self, candidate: &Candidate) -> bool {
        let max = self.roster.rules.outstanding_max;
        !self.was_tried(candidate) && (max == 0 || candidate.upstream.outstanding() < max)
    }

    pub(crate) fn was_tried(&self, candidate: &Candidate) -> bool {
        self.tried.contains(&candidate.upstream.id)
    }

    fn open(&self) -> impl Iterator<Item = &'a Candidate> {
        self.roster.candidates.iter().filter(|candidate| self.is_open(candidate))
    }

    fn round_robin(&self, turns_taken: &AtomicU32) -> Option<&'a Candidate> {
        let Roster { rotation, candidates, .. } = self.roster;
        let turn = rotation.next(turns_taken);
        for turn in turn..turn + TURNS_PASSED_MAX {
            let candidate = &candidates[rotation.place(turn)];
            if self.is_open(candidate) {
                return Some(candidate);
            }
        }
        let first = rotation.place(turn);
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
        let candidates = &self.roster.candidates;
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

    /// One of whom nothing is known is asked at once, and until it has answered it counts as slower than all that are
    /// known.
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
        let percent = u64::from(self.roster.rules.hash_load_percent_max);
        if percent == 0 {
            return Some(nearest);
        }
        let outstanding = |candidate: &Candidate| u64::from(candidate.upstream.outstanding());
        let total = self.roster.candidates.iter().map(outstanding).sum::<u64>() + 1;
        let has_room = |candidate: &Candidate| {
            outstanding(candidate) * 100 * self.roster.weight_sum < percent * total * u64::from(candidate.weight)
        };
        if has_room(nearest) {
            return Some(nearest);
        }
        self.nearest(|candidate| self.is_open(candidate) && has_room(candidate)).or(Some(nearest))
    }

    /// Whose draw for the key is best.
    fn nearest(&self, may_be: impl Fn(&Candidate) -> bool) -> Option<&'a Candidate> {
        let candidates = self.roster.candidates.iter().filter(|candidate| may_be(candidate));
        if self.roster.weights_are_equal {
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

/// 32 random bits as a number below `bound`, with a bias of less than 2⁻²⁰ for what is below 4096.
fn below(bits: u64, bound: u32) -> u32 {
    ((bits * u64::from(bound)) >> 32) as u32
}

/// −log₂ of 64 random bits read as a number from 0 to 1, within 0.0001. Whole powers come from the position of the
/// first bit, what is between them from a polynomial that was fitted to the logarithm (least squares at Chebyshev's
/// nodes) and is exact at both ends. It costs a fourth of the library's, and every machine computes the same.
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
    fn the_logarithm_is_near_enough_and_never_turns_back() {
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
