//! Simulates how often 95 % intervals contain the true value on a disturbed machine: unsteady trials discarded and
//! repeated, or kept. Prints the table of docs/STATISTICS.md; the argument is the number of experiments per row.

#![allow(dead_code, reason = "the tests use the rest")]
#![allow(clippy::unwrap_used, reason = "a fault of the simulation ends it")]

#[path = "../tests/judgement/fixture.rs"]
mod fixture;
#[path = "../tests/judgement/interference.rs"]
mod interference;

use interference::{Rule, WORLDS};

const BLOCKS: u32 = 8;
const DRAWS: usize = 100_000;

fn main() {
    let experiments = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000);
    println!(
        "| disturbance | not steady | discarded: covered | error | of means | kept: covered | error | of means | width |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for world in WORLDS {
        let truth = world.truth(DRAWS);
        let kept = world.shown(Rule::Keep, truth, BLOCKS, experiments);
        let discarded = world.shown(Rule::Discard, truth, BLOCKS, experiments);
        print!("| {} | {:.0} % |", world.name, kept.unsteady * 100.0);
        for shown in [discarded, kept] {
            let of_means = shown.bias + truth - world.truth_of_means();
            let [covered, bias, of_means] = [shown.covered, shown.bias, of_means].map(|share| share * 100.0);
            print!(" {covered:.1} % | {bias:+.1} % | {of_means:+.1} % |");
        }
        println!(" {:.0} % |", kept.width * 100.0);
    }
}
