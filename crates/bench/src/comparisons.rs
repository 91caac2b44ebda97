//! The comparisons, and how one is run.

use std::fmt;

use breme_base::Random;

use crate::cpu;
use crate::generators::{Generator, Load};
use crate::servers::{Kind, Server};

/// How much is measured.
pub(crate) struct Plan {
    pub(crate) blocks: u64,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { blocks: 7, seconds: 4, seed: 1 }
    }
}

/// A server, what is asked of it, and by whom.
#[derive(Clone, Debug)]
struct Arm {
    server: Kind,
    path: &'static str,
    load: Load,
}

/// Whose CPU time is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server,
    Generator,
}

/// Ours against a peer.
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    side: Side,
    ours: Arm,
    peer: Arm,
    /// The most that the ratio ours / peer may be.
    goal: f64,
}

/// Every comparison.
pub(crate) fn all() -> Vec<Comparison> {
    let load = |generator, pipeline| Load { generator, connections: 100, pipeline, seconds: 0 };
    let server = |name, path, generator, pipeline, goal| Comparison {
        name,
        side: Side::Server,
        ours: Arm { server: Kind::BremeSite, path, load: load(generator, pipeline) },
        peer: Arm { server: Kind::Nginx, path, load: load(generator, pipeline) },
        goal,
    };
    vec![
        Comparison {
            name: "load",
            side: Side::Generator,
            ours: Arm { server: Kind::Nginx, path: "/bytes/13", load: load(Generator::Breme, 1) },
            peer: Arm { server: Kind::Nginx, path: "/bytes/13", load: load(Generator::Wrk, 1) },
            goal: 1.0,
        },
        server("site-13", "/bytes/13", Generator::Wrk, 1, 1.0),
        server("site-1k", "/1k.html", Generator::Wrk, 1, 0.7),
        server("site-10k", "/10k.html", Generator::Wrk, 1, 0.7),
        server("site-pipelined", "/bytes/13", Generator::H2load, 16, 0.15),
    ]
}

/// What one arm cost, in µs of CPU time per request.
#[derive(Clone, Copy, Debug)]
struct Cost {
    server: f64,
    generator: f64,
}

/// What a comparison showed.
pub(crate) struct Verdict<'a> {
    comparison: &'a Comparison,
    ours: Vec<Cost>,
    peer: Vec<Cost>,
}

impl Comparison {
    pub(crate) const HEADER: &'static str = "| comparison | side | ours, µs/request | peer, µs/request | ratio: median (min–max) | goal | |\n|---|---|---|---|---|---|---|";

    /// Measures both arms in every block, in random order.
    pub(crate) fn run(&self, plan: &Plan) -> Result<Verdict<'_>, String> {
        let mut random = Random::new(plan.seed);
        let (ours, peer) = (Server::start(self.ours.server)?, Server::start(self.peer.server)?);
        let mut verdict = Verdict { comparison: self, ours: Vec::new(), peer: Vec::new() };
        self.ours.measure(&ours, 1)?; // warm-up, not counted
        self.peer.measure(&peer, 1)?;
        for _ in 0..plan.blocks {
            if random.chance(0.5) {
                verdict.ours.push(self.ours.measure(&ours, plan.seconds)?);
                verdict.peer.push(self.peer.measure(&peer, plan.seconds)?);
            } else {
                verdict.peer.push(self.peer.measure(&peer, plan.seconds)?);
                verdict.ours.push(self.ours.measure(&ours, plan.seconds)?);
            }
        }
        Ok(verdict)
    }
}

impl Arm {
    fn measure(&self, server: &Server, seconds: u64) -> Result<Cost, String> {
        let before = (cpu::of_process(server.pid())?, cpu::of_ended_children()?);
        let load = Load { seconds, ..self.load.clone() };
        let answered = load.run(&server.url(self.path))?;
        let after = (cpu::of_process(server.pid())?, cpu::of_ended_children()?);
        Ok(Cost { server: (after.0 - before.0) / answered, generator: (after.1 - before.1) / answered })
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { name, side, goal, .. } = self.comparison;
        let cost = |cost: &Cost| if *side == Side::Server { cost.server } else { cost.generator };
        let ours: Vec<f64> = self.ours.iter().map(cost).collect();
        let peer: Vec<f64> = self.peer.iter().map(cost).collect();
        let ratios: Vec<f64> = ours.iter().zip(&peer).map(|(ours, peer)| ours / peer).collect();
        let (low, middle, high) = spread(&ratios);
        let side = if *side == Side::Server { "server" } else { "generator" };
        let reached = if middle <= *goal { "reached" } else { "**missed**" };
        write!(
            formatter,
            "| {name} | {side} | {:.2} | {:.2} | {middle:.2} ({low:.2}–{high:.2}) | ≤ {goal} | {reached} |",
            spread(&ours).1,
            spread(&peer).1,
        )
    }
}

/// Least, median and greatest.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    };
    (sorted.first().copied().unwrap_or(f64::NAN), median, sorted.last().copied().unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
    }
}
