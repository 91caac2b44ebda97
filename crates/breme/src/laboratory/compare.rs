//! `breme compare`: two stored runs, an earlier and a later one. A gate for continuous integration.

use std::io::{self, Write};
use std::path::PathBuf;

use breme_experiment::plan::{Gate, Plan};
use breme_judge::{CompareRules, GateVerdict, Run, RunComparison, RunRow, RunVerdict, compare as compare_runs};
use clap::ValueEnum;

use super::stored_run::{self, Judged};
use super::{experiment, output};
use crate::checks::{self, Check, CheckResult, Checks};
use crate::failure::Failure;
use crate::load::units;

/// Gate a later run against an earlier one: pass only if it is demonstrably not worse
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Earlier run: its folder, or its name in `runs`
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// Later run: its folder, or its name in `runs`
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Gate this measure, in place of the experiment's gate; a margin of its own follows `within`: 'p99(user) within
    /// 20%'; repeatable [default: the experiment's gate, or rate, mean and errors of each foreground workload]
    #[arg(long = "gate", value_name = "MEASURE")]
    gated: Vec<String>,

    /// How much worse a gated measure may be, in % of its earlier value, if it has no margin of its own [default: the
    /// experiment's, or 10%; error shares: 0.1 percentage points]
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    margin: Option<f64>,

    /// Exit with status 0 instead of 4 if the data do not decide
    #[arg(long)]
    allow_undecided: bool,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

const AFTER_HELP: &str = "Examples:
  breme compare main-1 branch-1
  breme compare main-1 branch-1 --margin 5%
  breme compare main-1 branch-1 --format junit --gate 'p99(user) within 20%' > gate.xml

Exit status:
  0  not worse in any gated measure
  1  a run cannot be read
  2  wrong usage
  3  worse in at least one gated measure
  4  no verdict: undecided, no data, nothing in common, or too few blocks";

/// How a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal.
    Text,
    /// For a pull request.
    Markdown,
    /// Every row with its numbers; schemas/comparison.schema.json.
    Json,
    /// A test case for each gated row, for CI servers.
    Junit,
}

fn margin(text: &str) -> Result<f64, String> {
    let share = units::share(text)?;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err("a margin is more than 0% and less than 100%".to_owned()) }
}

pub(super) fn compare(args: &Args) -> Result<u8, Failure> {
    let (before, after) = (stored_run::read(&args.before)?, stored_run::read(&args.after)?);
    let rules = CompareRules {
        confidence: after.question.confidence,
        equal_within: after.question.equal_within,
        gate: gate(args, &after)?,
    };
    let comparison = compare_runs(&run_of(&before), &run_of(&after), &rules);
    let checks = checks_of(&comparison, args.allow_undecided);
    output::write(|out| match args.format {
        Format::Text => write_text(&comparison, out),
        Format::Markdown => write_markdown(&comparison, &checks, out),
        Format::Junit => out.write_all(checks::junit(&checks).as_bytes()),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &comparison)?;
            writeln!(out)
        }
    })?;
    checks::annotate(&checks);
    Ok(checks.exit_status())
}

/// The gate of the later run's experiment, unless overridden by the command line.
fn gate(args: &Args, after: &Judged) -> Result<Gate, Failure> {
    let mut gate = after.question.gate.clone();
    if !args.gated.is_empty() {
        let plan: Plan = experiment::read_frozen(&after.run.plan, &after.run.folder)?;
        let read = |text: &String| {
            plan.gated_measure(text).map_err(|problem| Failure::usage(format!("--gate {text:?}: {problem}")))
        };
        gate.measures = args.gated.iter().map(read).collect::<Result<_, _>>()?;
    }
    gate.margin = args.margin.unwrap_or(gate.margin);
    Ok(gate)
}

fn run_of(judged: &Judged) -> Run<'_> {
    Run { head: &judged.run.head, plan: &judged.run.plan, question: &judged.question, records: &judged.run.trials }
}

/// Each gated row; without any, a check that could not be judged.
fn checks_of(comparison: &RunComparison, allow_undecided: bool) -> Checks {
    let check = |row: &RunRow| {
        let result = match row.gated.as_ref()?.verdict {
            GateVerdict::NotWorse => CheckResult::Passed,
            GateVerdict::Worse => CheckResult::Failed,
            GateVerdict::NoVerdict => CheckResult::NoVerdict,
        };
        let levels: Vec<String> = row.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
        let at = if levels.is_empty() { String::new() } else { format!(" [{}]", levels.join(", ")) };
        Some(Check { name: format!("{}{at}", row.measure), result, detail: row.sentence.clone() })
    };
    let mut all: Vec<Check> = comparison.rows.iter().filter_map(check).collect();
    if all.is_empty() {
        let (name, detail) = ("gate".to_owned(), comparison.sentence.clone());
        all.push(Check { name, result: CheckResult::NoVerdict, detail });
    }
    let title = format!("{} → {}", comparison.before, comparison.after);
    Checks { title, sentence: comparison.sentence.clone(), allow_undecided, all }
}

fn write_text(comparison: &RunComparison, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n{}", comparison.sentence, comparison.gate.sentence)?;
    let (gated, others): (Vec<&RunRow>, Vec<&RunRow>) = comparison.rows.iter().partition(|row| row.gated.is_some());
    for (title, rows) in [("Gated", gated), ("Not gated", others)] {
        if !rows.is_empty() {
            writeln!(out, "\n{title}:")?;
        }
        rows.iter().try_for_each(|row| writeln!(out, "  {:<17}  {}", word(row), row.sentence))?;
    }
    comparison.warnings.iter().try_for_each(|warning| writeln!(out, "note: {warning}"))
}

fn write_markdown(comparison: &RunComparison, checks: &Checks, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{}\n{}\n", checks::markdown(checks), comparison.gate.sentence)?;
    let others = comparison.rows.iter().filter(|row| row.gated.is_none());
    if others.clone().next().is_some() {
        writeln!(out, "\n<details><summary>Not gated</summary>\n")?;
        others.clone().try_for_each(|row| writeln!(out, "- {}: {}", word(row), row.sentence))?;
        writeln!(out, "\n</details>")?;
    }
    comparison.warnings.iter().try_for_each(|warning| writeln!(out, "\n> {warning}"))
}

const fn word(row: &RunRow) -> &'static str {
    match (&row.gated, row.verdict) {
        (Some(gated), _) => match gated.verdict {
            GateVerdict::Worse => "WORSE",
            GateVerdict::NotWorse => "not worse",
            GateVerdict::NoVerdict => "no verdict",
        },
        (None, RunVerdict::Worse) => "worse",
        (None, RunVerdict::Better) => "better",
        (None, RunVerdict::Different) => "different",
        (None, RunVerdict::PracticallyEqual) => "practically equal",
        (None, RunVerdict::Undecided) => "undecided",
    }
}
