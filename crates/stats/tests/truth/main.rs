//! Whether the judgement tells the truth: thousands of simulated experiments, of which it is known what they should
//! show.

mod comparisons;
mod noise;
mod steadiness;

/// Whether a share of `trials` that were expected to be at most `most` is no more than chance allows (one in a
/// hundred).
fn at_most(found: usize, trials: usize, most: f64) -> bool {
    let (trials, found) = (trials as f64, found as f64);
    found / trials <= most + 2.33 * (most * (1.0 - most) / trials).sqrt()
}
