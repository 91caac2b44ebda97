//! Whether the statistics are correct: thousands of simulated experiments with known results.

mod comparisons;
mod noise;
mod steadiness;

/// Whether a share of `trials` that was expected to be at most `most` is within random variation (one in a hundred).
fn at_most(found: usize, trials: usize, most: f64) -> bool {
    let (trials, found) = (trials as f64, found as f64);
    found / trials <= most + 2.33 * (most * (1.0 - most) / trials).sqrt()
}
