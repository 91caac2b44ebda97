//! `breme compare`: two stored runs, an earlier and a later one. A gate for continuous integration.

use std::io::{self, Write};
use std::path::PathBuf;

use breme_experiment::judge::{CompareRules, Run, RunComparison, RunVerdict, compare as compare_runs};

use super::output;
use super::stored::{self, Judged};
use crate::failure::{AGAINST, Failure};
use crate::load::units;

/// Judge whether a later run is worse than an earlier one; exit status 3 if it is
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The earlier run: its folder, or its name in `runs`
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The later run
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// By how much it may be worse before that is called worse
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::share)]
    max_slowdown: f64,

    /// Print the comparison as JSON; schemas/comparison.schema.json
    #[arg(long)]
    json: bool,
}

pub(super) fn compare(args: &Args) -> Result<u8, Failure> {
    let (before, after) = (stored::read(&args.before)?, stored::read(&args.after)?);
    let rules = CompareRules {
        confidence: after.question.confidence,
        equal_within: after.question.equal_within,
        slowdown_max: args.max_slowdown,
    };
    let comparison = compare_runs(&run_of(&before), &run_of(&after), &rules);
    output::write(|out| {
        if !args.json {
            return tell(&comparison, out);
        }
        serde_json::to_writer_pretty(&mut *out, &comparison)?;
        writeln!(out)
    })?;
    Ok(if comparison.verdict == RunVerdict::Worse { AGAINST } else { 0 })
}

fn run_of(judged: &Judged) -> Run<'_> {
    Run { head: &judged.run.head, plan: &judged.run.plan, question: &judged.question, records: &judged.run.trials }
}

fn tell(comparison: &RunComparison, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", comparison.sentence)?;
    for row in &comparison.rows {
        writeln!(out, "  {:<17}  {}", word(row.verdict), row.sentence)?;
    }
    comparison.warnings.iter().try_for_each(|warning| writeln!(out, "note: {warning}"))
}

const fn word(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::Worse => "WORSE",
        RunVerdict::Better => "better",
        RunVerdict::Different => "different",
        RunVerdict::PracticallyEqual => "practically equal",
        RunVerdict::Undecided => "undecided",
    }
}
