//! `breme compare`: a stored run against an earlier one, and the history of many. A gate for continuous integration.

mod selection;

use std::io::{self, Write};
use std::path::PathBuf;

use breme_base::{markdown_prose, one_line};
use breme_command::checks::{self, CheckResult, Checks, NamedCheck};
use breme_command::failure::Failure;
use breme_command::output;
use breme_command::units;
use breme_experiment::plan::{Gate, Plan};
use breme_judge::{
    CompareRules, GateVerdict, History, HistoryBuilder, RecordedRun, RunComparison, RunRole, RunRow, RunVerdict,
    compare as compare_runs,
};
use breme_report::{HistoryPage, history_markdown, history_text};
use clap::ValueEnum;

use self::selection::{SelectedRun, Selection};
use super::stored_run::{self, Unjudged};
use super::{experiment, report};

/// Gate a later run against an earlier one: pass only if it is shown to be no worse. With more runs, show their history
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Two runs, the earlier and then the later one: their folders, or their names in `runs`. With more runs, or with
    /// --baseline, the newest is judged and the others are shown as its history
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Judge the newest run against this one, or with branch:NAME against the newest earlier run of that git branch
    /// (same title and profile, nothing uncommitted) [default: the first of two runs, or the oldest of several]
    #[arg(long, value_name = "RUN|branch:NAME")]
    baseline: Option<PathBuf>,

    /// Gate this measure, instead of the experiment's gate; a margin of its own follows `within`: 'p99(user) within
    /// 20%'; repeatable [default: the experiment's gate, or rate, mean and errors of each foreground workload]
    #[arg(long = "gate", value_name = "MEASURE")]
    gated: Vec<String>,

    /// How much worse a gated measure may be, in % of its earlier value, if it has no margin of its own [default: the
    /// experiment's, or 10%; error shares: 0.1 percentage points]
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    margin: Option<f64>,

    /// Exit with status 0 instead of 4 if there is no verdict
    #[arg(long)]
    allow_undecided: bool,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ComparisonFormat,

    /// Write the comparison to FILE as a page with charts that opens offline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const AFTER_HELP: &str = "Examples:
  breme compare main-1 branch-1
  breme compare main-1 branch-1 --margin 5%
  breme compare main-1 branch-1 --format junit --gate 'p99(user) within 20%' > gate.xml
  breme compare branch-1 --baseline branch:main
  breme compare runs/main-* --html history.html

Exit status:
  0  not worse in any gated measure
  1  a run cannot be read, or the baseline's branch has no run
  2  wrong usage
  3  worse in at least one gated measure
  4  no verdict: undecided, no data, nothing in common, or too few blocks";

/// How a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonFormat {
    /// For a terminal.
    Text,
    /// For a pull request.
    Markdown,
    /// Every row with its numbers; schema: breme schema comparison.
    Json,
    /// A test case for each gated row, for CI servers.
    Junit,
}

fn margin(text: &str) -> Result<f64, String> {
    let share = units::share(text)?;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err("a margin is more than 0% and less than 100%".to_owned()) }
}

pub(super) fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let selection = Selection::new(&args.runs, args.baseline.as_deref())?;
    let before = stored_run::read_unjudged(&selection.baseline.folder)?;
    let after = stored_run::read_unjudged(&selection.judged.folder)?;
    let rules = CompareRules {
        confidence: after.question.confidence,
        equal_within: after.question.equal_within,
        gate: gate_of_flags(args, &after)?,
    };
    let mut comparison = compare_runs(&run_of(&before), &run_of(&after), &rules);
    let runs = selection.in_order();
    let mut page = None;
    if runs.len() > 2 || args.html.is_some() {
        let history = read_history(&runs, [&before, &after], &comparison, &rules)?;
        page = args.html.as_ref().map(|path| (path, HistoryPage { comparison: &comparison, history: &history }.html()));
        comparison.history = (runs.len() > 2).then_some(history);
    }
    let checks = checks_of(&comparison, args.allow_undecided);
    output::write(|out| match args.format {
        ComparisonFormat::Text => write_text(&comparison, out),
        ComparisonFormat::Markdown => write_markdown(&comparison, &checks, out),
        ComparisonFormat::Junit => out.write_all(checks::junit(&checks).as_bytes()),
        ComparisonFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, &comparison)?;
            writeln!(out)
        }
    })?;
    checks::annotate(&checks);
    // Last: a full disk may cost the page, but not the result.
    if let Some((path, page)) = page {
        report::write_page(&page, path)?;
    }
    Ok(checks.exit_status())
}

/// The history of all runs; only the two that are compared stay in memory.
fn read_history(
    runs: &[(RunRole, &SelectedRun)],
    [before, after]: [&Unjudged; 2],
    comparison: &RunComparison,
    rules: &CompareRules,
) -> Result<History, Failure> {
    let mut history = HistoryBuilder::new(&comparison.rows, rules);
    for &(role, run) in runs {
        match role {
            RunRole::Baseline => history.push(&run_of(before), role),
            RunRole::Judged => history.push(&run_of(after), role),
            RunRole::Shown => history.push(&run_of(&stored_run::read_unjudged(&run.folder)?), role),
        }
    }
    Ok(history.finish())
}

/// The gate of the judged run's experiment, unless overridden by the command line.
fn gate_of_flags(args: &CompareArgs, after: &Unjudged) -> Result<Gate, Failure> {
    let mut gate = after.question.gate.clone();
    if !args.gated.is_empty() {
        let plan: Plan = experiment::read_stored(&after.run.plan, &after.run.folder)?;
        let read = |text: &String| {
            plan.gated_measure(text).map_err(|problem| Failure::usage(format!("--gate {text:?}: {problem}")))
        };
        gate.measures = args.gated.iter().map(read).collect::<Result<_, _>>()?;
    }
    gate.margin = args.margin.unwrap_or(gate.margin);
    Ok(gate)
}

fn run_of(unjudged: &Unjudged) -> RecordedRun<'_> {
    let Unjudged { run, question } = unjudged;
    RecordedRun { head: &run.head, plan: &run.plan, question, records: &run.trials }
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
        let history = comparison.history.as_ref().and_then(|history| history.row_of(row));
        let trend = history.map(|history| format!(" {}", history.sentence)).unwrap_or_default();
        Some(NamedCheck { name: format!("{}{at}", row.measure), result, detail: format!("{}{trend}", row.sentence) })
    };
    let mut all: Vec<NamedCheck> = comparison.rows.iter().filter_map(check).collect();
    if all.is_empty() {
        let (name, detail) = ("gate".to_owned(), comparison.sentence.clone());
        all.push(NamedCheck { name, result: CheckResult::NoVerdict, detail });
    }
    let runs = comparison.history.as_ref().map(|history| format!(", {} runs", history.runs.len())).unwrap_or_default();
    let title = format!("{} → {}{runs}", comparison.before, comparison.after);
    Checks { title, sentence: comparison.sentence.clone(), allow_undecided, all }
}

fn write_text(comparison: &RunComparison, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n{}", one_line(&comparison.sentence), one_line(&comparison.gate.sentence))?;
    let (gated, others): (Vec<&RunRow>, Vec<&RunRow>) = comparison.rows.iter().partition(|row| row.gated.is_some());
    for (title, rows) in [("Gated", gated), ("Not gated", others)] {
        if !rows.is_empty() {
            writeln!(out, "\n{title}:")?;
        }
        rows.iter().try_for_each(|row| writeln!(out, "  {:<17}  {}", word(row), one_line(&row.sentence)))?;
    }
    comparison.warnings.iter().try_for_each(|warning| writeln!(out, "note: {}", one_line(warning)))?;
    match &comparison.history {
        Some(history) => write!(out, "\n{}", history_text(history, report::style())),
        None => Ok(()),
    }
}

fn write_markdown(comparison: &RunComparison, checks: &Checks, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{}\n{}\n", checks::markdown(checks), markdown_prose(&comparison.gate.sentence))?;
    let others = comparison.rows.iter().filter(|row| row.gated.is_none());
    if others.clone().next().is_some() {
        writeln!(out, "\n<details><summary>Not gated</summary>\n")?;
        others.clone().try_for_each(|row| writeln!(out, "- {}: {}", word(row), markdown_prose(&row.sentence)))?;
        writeln!(out, "\n</details>")?;
    }
    comparison.warnings.iter().try_for_each(|warning| writeln!(out, "\n> {}", markdown_prose(warning)))?;
    match &comparison.history {
        Some(history) => write!(out, "\n{}", history_markdown(history)),
        None => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Escape sequences, marks of direction, markup, a mention and a link in every text.
    fn hostile() -> RunComparison {
        let text = || "\u{1b}[2J\u{202e}a\nb <details> @user http://x".to_owned();
        let row = RunRow { measure: text(), sentence: text(), ..RunRow::default() };
        let gated = RunRow { gated: Some(breme_judge::Gated::default()), ..row.clone() };
        let gate = breme_judge::GateSummary { sentence: text(), ..Default::default() };
        RunComparison {
            sentence: text(),
            gate,
            before: text(),
            rows: vec![gated, row],
            warnings: vec![text()],
            ..RunComparison::default()
        }
    }

    #[test]
    fn foreign_text_is_harmless_on_a_terminal() {
        let mut out = Vec::new();
        write_text(&hostile(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(|c| c == '\u{202e}' || c.is_control() && c != '\n'), "{text}");
        assert_eq!(text.matches("a b <details>").count(), 5, "{text}");
    }

    #[test]
    fn foreign_text_is_no_markup_of_a_pull_request() {
        let comparison = hostile();
        let mut out = Vec::new();
        write_markdown(&comparison, &checks_of(&comparison, false), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(|c| c == '\u{202e}' || c.is_control() && c != '\n'), "{text}");
        assert!(!text.contains("@user") && !text.contains("http://"), "{text}");
        assert_eq!(text.matches("<details>").count(), 1, "only its own: {text}");
    }
}
