//! Compares the cost of a request with that of peers.
//!
//! Machines are shared and noisy, so a single time says little. Several **arms** (ours and its rivals) are measured in
//! **blocks**, in random order, each side pinned to its own processor; the result is the ratio of their CPU time per
//! request within each block.
//!
//! | module | what |
//! |---|---|
//! | `questions` | the table of what is compared |
//! | `blocks`, `trial` | all arms in turn; one arm, once |
//! | `servers`, `generators`, `idle`, `kept` | the programs under test: their output, connections and cached objects |
//! | `processes`, `instruments`, `workbench`, `machine` | processes, CPU time and memory, temporary folder and machine |
//! | `verdict`, `document` | verdicts and Markdown |

mod blocks;
mod document;
mod generators;
mod idle;
mod instruments;
mod kept;
mod machine;
mod processes;
mod questions;
mod sample;
mod servers;
mod trial;
mod verdict;
mod workbench;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use blocks::{Deadline, Plan};
use document::Outcome;
use machine::Machine;
use questions::Question;
use workbench::Workbench;

/// Measure the cost of breme's requests and connections against its peers
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Cli {
    /// Measure breme against the peers that have a goal, and print the results
    Bench(BenchArguments),
    /// Measure breme against all peers, and write docs/PEERS.md
    Peers(PeersArguments),
}

#[derive(Debug, clap::Args)]
struct Driver {
    /// I/O driver of breme: uring, events or threads [default: that of breme]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Names of the questions to measure [default: all]
    names: Vec<String>,

    /// Length of each trial in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Random seed of the order of the arms in each block
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    #[command(flatten)]
    driver: Driver,
}

#[derive(Debug, clap::Args)]
struct BenchArguments {
    /// Number of blocks per question; a 95 % interval needs at least 6
    #[arg(long, value_name = "N", default_value = "6", value_parser = blocks_in_range())]
    blocks: u64,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct PeersArguments {
    /// Least number of blocks per question; wide intervals get up to three times as many within --budget
    #[arg(long, value_name = "N", default_value = "7", value_parser = blocks_in_range())]
    blocks: u64,

    /// Time limit for all questions together, in minutes
    #[arg(long, value_name = "MINUTES", default_value = "30")]
    budget: f64,

    /// File to write if all questions were measured [default: docs/PEERS.md]
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,

    #[command(flatten)]
    common: Common,
}

/// Hundreds of blocks are a mistake.
fn blocks_in_range() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=200)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let driver = match &cli {
        Cli::Bench(arguments) => &arguments.common.driver,
        Cli::Peers(arguments) => &arguments.common.driver,
    };
    let done = Workbench::new(driver.driver.clone()).map(|workbench| {
        let done = match cli {
            Cli::Bench(arguments) => bench(&arguments, &workbench),
            Cli::Peers(arguments) => peers(&arguments, &workbench),
        };
        // The workbench cleans up before this program ends.
        (done, workbench.processes.interrupted_by())
    });
    match done {
        Ok((_, Some(signal))) => {
            eprintln!("interrupted; nothing was written");
            ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)))
        }
        Ok((Ok(()), None)) => ExitCode::SUCCESS,
        Ok((Err(message), None)) | Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &BenchArguments, workbench: &Workbench) -> Result<(), String> {
    let common = &arguments.common;
    let questions = chosen(&common.names)?;
    let blocks = arguments.blocks as usize;
    let plan = Plan { blocks, blocks_max: blocks, seconds: common.seconds, seed: common.seed, whole: false };
    println!("{}\n", Machine::look(workbench, root())?.in_short());
    let outcomes = ask(&questions, &plan, workbench, None)?;
    match outcomes.iter().find_map(|(question, outcome)| Some((question.name, outcome.as_ref().err()?))) {
        Some((name, why)) if !common.names.is_empty() => Err(format!("{name}: {why}")),
        _ => Ok(()),
    }
}

fn peers(arguments: &PeersArguments, workbench: &Workbench) -> Result<(), String> {
    let common = &arguments.common;
    let questions = chosen(&common.names)?;
    let blocks = arguments.blocks as usize;
    let plan = Plan { blocks, blocks_max: blocks * 3, seconds: common.seconds, seed: common.seed, whole: true };
    let budget = Duration::try_from_secs_f64(arguments.budget * 60.0)
        .map_err(|_| format!("--budget {}: must be a number of minutes", arguments.budget))?;
    let machine = Machine::look(workbench, root())?;
    println!("{}\n", machine.in_short());
    let begun = Instant::now();
    let outcomes = ask(&questions, &plan, workbench, Some(begun + budget))?;
    if !common.names.is_empty() {
        eprintln!("Only some questions were measured, so the document is unchanged.");
        return Ok(());
    }
    let path = arguments.document.clone().unwrap_or_else(|| root().join("docs/PEERS.md"));
    let text = document::write(&machine, &plan, begun.elapsed(), &outcomes);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

/// By how much a question may exceed its share of the time for the blocks that an interval needs.
const OVERTIME: f64 = 1.3;

/// Asks one question after another and prints what each showed. The time until `end` is shared out by what the
/// questions cost; what one leaves over goes to those after it.
fn ask(
    questions: &[Question],
    plan: &Plan,
    workbench: &Workbench,
    end: Option<Instant>,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let rest: Duration = questions[index..].iter().map(|question| plan.cost(question)).sum();
        let share = plan.cost(question).as_secs_f64() / rest.as_secs_f64();
        let deadline = end.map(|end| {
            let now = Instant::now();
            let time = end.saturating_duration_since(now).mul_f64(share);
            Deadline { for_more: now + time, for_any: now + time.mul_f64(OVERTIME) }
        });
        let outcome = plan.ask(question, workbench, deadline);
        if workbench.processes.interrupted_by().is_some() {
            return Err(String::from("interrupted"));
        }
        println!("{}", document::section(question, &outcome));
        outcomes.push((question.clone(), outcome));
    }
    Ok(outcomes)
}

fn chosen(names: &[String]) -> Result<Vec<Question>, String> {
    let all = questions::all();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|question| question.name == name.as_str())) {
        let known: Vec<_> = all.iter().map(|question| question.name).collect();
        return Err(format!("there is no question {unknown:?}; the questions are: {}", known.join(", ")));
    }
    let is_chosen = |question: &Question| names.is_empty() || names.iter().any(|name| name == question.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The folder of the sources.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_unknown_question_is_answered_with_the_known_ones() {
        let message = chosen(&[String::from("site-14")]).unwrap_err();
        assert!(message.contains("site-14") && message.contains("site-13"), "{message}");
        assert_eq!(chosen(&[]).unwrap().len(), questions::all().len());
    }
}
