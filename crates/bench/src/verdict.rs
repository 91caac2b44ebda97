//! From blocks to words: ratios with intervals, who wins, whether a goal is reached.

use breme_stats::{Estimate, paired_ratio};

use crate::sample::Sample;

/// How sure the intervals are.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Who is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    OursWins,
    RivalWins,
    /// The interval holds 1, or the difference is not larger than the one between ours and ours.
    Undecided,
}

/// Ours ÷ other, block by block.
pub(crate) fn ratio(ours: &[Sample], other: &[Sample], value: impl Fn(&Sample) -> f64) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> = ours.iter().zip(other).map(|(ours, other)| (value(ours), value(other))).collect();
    paired_ratio(&pairs, CONFIDENCE)
}

/// The noise: how far from 1 the ratio of ours to ours may be, as a factor.
pub(crate) fn noise(again: Option<&Estimate>) -> f64 {
    again.map_or(1.0, |ratio| ratio.high.max(1.0 / ratio.low).max(1.0))
}

/// Who is better at something of which less is better.
pub(crate) fn standing(ratio: &Estimate, noise: f64) -> Standing {
    let is_sure = ratio.confidence >= CONFIDENCE;
    if is_sure && ratio.high < 1.0 && ratio.center < 1.0 / noise {
        Standing::OursWins
    } else if is_sure && ratio.low > 1.0 && ratio.center > noise {
        Standing::RivalWins
    } else {
        Standing::Undecided
    }
}

/// Whether the goal is reached; in doubt when the interval has ends on both sides of it, or is none.
pub(crate) fn goal_in_words(ratio: &Estimate, goal: f64) -> &'static str {
    let is_sure = ratio.confidence >= CONFIDENCE;
    match (ratio.center <= goal, ratio.low <= goal, ratio.high <= goal) {
        (true, _, true) if is_sure => "reached",
        (true, _, _) => "reached, but uncertain",
        (false, false, _) if is_sure => "**missed**",
        (false, _, _) => "**missed**, but uncertain",
    }
}

/// `0.83 (0.79–0.88)`; with how sure that is if it is less than it should be.
pub(crate) fn ratio_in_words(ratio: &Estimate) -> String {
    let Estimate { center, low, high, confidence } = *ratio;
    if confidence <= 0.0 {
        return format!("{} (one block)", ratio_number(center));
    }
    // All three with the digits of the one in the middle.
    let digits = ratio_digits(center);
    let interval = format!("{center:.digits$} ({low:.digits$}–{high:.digits$}");
    if confidence < CONFIDENCE { format!("{interval}, only {:.0} %)", confidence * 100.0) } else { interval + ")" }
}

pub(crate) fn ratio_number(ratio: f64) -> String {
    format!("{ratio:.*}", ratio_digits(ratio))
}

fn ratio_digits(ratio: f64) -> usize {
    if ratio < 0.15 { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(center: f64, low: f64, high: f64) -> Estimate {
        Estimate { center, low, high, confidence: 0.953 }
    }

    #[test]
    fn a_difference_must_exceed_the_noise() {
        assert_eq!(standing(&estimate(0.8, 0.7, 0.9), 1.05), Standing::OursWins);
        assert_eq!(standing(&estimate(1.3, 1.2, 1.4), 1.05), Standing::RivalWins);
        assert_eq!(standing(&estimate(0.98, 0.97, 0.99), 1.05), Standing::Undecided);
        assert_eq!(standing(&estimate(1.04, 1.02, 1.1), 1.05), Standing::Undecided);
        assert_eq!(standing(&estimate(0.9, 0.7, 1.1), 1.0), Standing::Undecided);
        let unsure = Estimate { confidence: 0.75, ..estimate(0.5, 0.4, 0.6) };
        assert_eq!(standing(&unsure, 1.0), Standing::Undecided);
    }

    #[test]
    fn the_noise_is_the_farther_end() {
        assert_eq!(noise(None), 1.0);
        assert_eq!(noise(Some(&estimate(1.0, 0.8, 1.1))), 1.25);
        assert_eq!(noise(Some(&estimate(1.1, 1.05, 1.2))), 1.2);
    }

    #[test]
    fn goals() {
        assert_eq!(goal_in_words(&estimate(0.8, 0.7, 0.85), 0.85), "reached");
        assert_eq!(goal_in_words(&estimate(0.8, 0.7, 0.9), 0.85), "reached, but uncertain");
        assert_eq!(goal_in_words(&estimate(0.9, 0.8, 1.0), 0.85), "**missed**, but uncertain");
        assert_eq!(goal_in_words(&estimate(0.9, 0.86, 1.0), 0.85), "**missed**");
        let unsure = Estimate { confidence: 0.5, ..estimate(0.5, 0.4, 0.6) };
        assert_eq!(goal_in_words(&unsure, 0.85), "reached, but uncertain");
        assert_eq!(goal_in_words(&unsure, 0.3), "**missed**, but uncertain");
    }

    #[test]
    fn ratios_in_words() {
        assert_eq!(ratio_in_words(&estimate(0.831, 0.79, 0.884)), "0.83 (0.79–0.88)");
        assert_eq!(ratio_in_words(&estimate(0.0712, 0.0699, 0.21)), "0.071 (0.070–0.210)");
        let few = Estimate { confidence: 0.75, ..estimate(1.0, 0.9, 1.1) };
        assert_eq!(ratio_in_words(&few), "1.00 (0.90–1.10, only 75 %)");
        let one = Estimate { confidence: 0.0, ..estimate(1.0, 1.0, 1.0) };
        assert_eq!(ratio_in_words(&one), "1.00 (one block)");
    }
}
