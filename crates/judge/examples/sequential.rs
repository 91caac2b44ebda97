//! Simulates how often runs that end as soon as their hypothesis has a verdict are wrong, and how many blocks they
//! take. Prints the table of docs/STATISTICS.md.
//!
//! ```text
//! cargo run --release -p breme-judge --example sequential [RUNS]
//! ```

#![allow(clippy::unwrap_used, reason = "a fault of the simulation ends it")]
#![expect(clippy::print_stdout, reason = "it prints a table")]

#[path = "../tests/judgement/fixture.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests use the rest")]
mod fixture;
#[path = "../tests/judgement/sequential_design.rs"]
mod sequential_design;

use breme_judge::judgement::Verdict;
use fixture::Noise;
use sequential_design::{FASTER, Grown, experiment, grow};

const NOISE: [(Noise, &str); 5] = [
    (Noise::Normal, "normal"),
    (Noise::HeavyTailed, "heavy tails"),
    (Noise::Autocorrelated, "drifting"),
    (Noise::Blocked, "shared by the block"),
    (Noise::Trend, "ever slower"),
];

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(10_000);
    println!("{FASTER}; {runs} runs each; in % of runs, and blocks\n");
    println!(
        "| true ratio | trials vary by | noise | different | equal | undecided | misses | blocks: median | 9 of 10 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for ratio in [1.0, 1.05, 1.10, 1.50] {
        for size in [0.01, 0.03] {
            NOISE.into_iter().for_each(|(noise, name)| row(noise, name, size, ratio, runs));
        }
    }
}

fn row(noise: Noise, name: &str, size: f64, ratio: f64, runs: u64) {
    let experiment = experiment(noise, size);
    let grown: Vec<Grown> = (0..runs).map(|seed| grow(&experiment, seed, ratio)).collect();
    let share = |is: &dyn Fn(&Grown) -> bool| 100.0 * grown.iter().filter(|run| is(run)).count() as f64 / runs as f64;
    let misses =
        |run: &Grown| run.effect.low.is_some_and(|low| low > ratio) || run.effect.high.is_some_and(|high| high < ratio);
    let mut blocks: Vec<u32> = grown.iter().map(|run| run.blocks).collect();
    blocks.sort_unstable();
    println!(
        "| {ratio:.2} | {:.0} % | {name} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} |",
        size * 100.0,
        share(&Grown::is_difference),
        share(&|run| run.verdict == Verdict::PracticallyEqual),
        share(&|run| matches!(run.verdict, Verdict::Undecided { .. })),
        share(&misses),
        blocks[blocks.len() / 2],
        blocks[blocks.len() * 9 / 10],
    );
}
