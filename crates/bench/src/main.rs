//! What a request costs.
//!
//! Machines are shared and noisy, so a single time says little. Here two **arms** (ours and a peer) are measured in turn,
//! inside blocks, in random order, each side pinned to a CPU of its own, and what counts is the ratio of their CPU time per
//! request within each block; printed are its median and its spread over the blocks.
//!
//! ```text
//! breme-bench [--blocks N] [--seconds S] [NAME…]     names: see `comparisons.rs`; none = all
//! breme-bench demo                                    a short look: breme load on breme site and nginx
//! breme-bench memory                                  10,000 connections for a minute
//! ```

mod comparisons;
mod cpu;
mod demo;
mod generators;
mod memory;
mod servers;

use std::process::ExitCode;

use comparisons::{Comparison, Plan};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("demo") => demo::run(),
        Some("memory") => memory::run(),
        _ => plan(&arguments).and_then(|(plan, names)| compare(&plan, &names)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn plan(arguments: &[String]) -> Result<(Plan, Vec<String>), String> {
    let mut plan = Plan::default();
    let mut names = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|value| value.parse().ok());
            value.ok_or_else(|| format!("{argument} takes a whole number"))
        };
        match argument.as_str() {
            "--blocks" => plan.blocks = number()?,
            "--seconds" => plan.seconds = number()?,
            "--seed" => plan.seed = number()?,
            name => names.push(name.to_owned()),
        }
    }
    Ok((plan, names))
}

fn compare(plan: &Plan, names: &[String]) -> Result<(), String> {
    let all = comparisons::all();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|comparison| comparison.name == name.as_str())) {
        let known: Vec<_> = all.iter().map(|comparison| comparison.name).collect();
        return Err(format!("there is no comparison {unknown:?}; there are: {}", known.join(", ")));
    }
    cpu::describe_machine();
    println!("{} blocks of {} s an arm, seed {}\n", plan.blocks, plan.seconds, plan.seed);
    println!("{}", Comparison::HEADER);
    for comparison in all.iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.name)) {
        println!("{}", comparison.run(plan)?);
    }
    Ok(())
}
