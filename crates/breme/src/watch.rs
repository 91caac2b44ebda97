//! `breme watch`: periodic measurements of targets for hours, days or weeks.
//!
//! `load` measures, in this process; `breme-watch` stores and evaluates the results. This module has the clocks, the
//! journal's folder, signals, alerts and admin pages.

mod alerts;
mod export;
mod journal_folder;
mod pages;
mod prober;
mod status;
mod watch_loop;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use breme_command::failure::{Failure, exit};
use breme_command::serving::ProcessFlags;
use breme_command::units;
use clap::Subcommand;
use export::{ExportFormat, RowSpan};

const AFTER_HELP: &str = "Examples:
  breme watch shop.toml                            # until SIGTERM; journal in shop.watch
  breme watch shop.toml --for 1h                   # gate: status 3 if the objective is missed
  breme watch shop.toml --admin :9100              # /watch (page), /metrics
  breme watch report shop.watch                    # findings and outages, also during the watch
  breme watch report shop.watch --format html --output shop.html

Exit status:
  0  stopped by a signal, or with --for: every target met its objective
  1  the watch could not start
  2  wrong usage, or an error in the watch file
  3  with --for: a target missed its objective
  4  with --for: a target has no up or down interval
Documentation: docs/WATCH.md.";

/// Measure targets periodically for hours, days or weeks: uptime, response times, resources, findings, alerts
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct WatchArgs {
    /// Watch file (TOML; schemas/watch.schema.json)
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,

    /// Folder of the journal; an existing journal is continued [default: FILE with the extension .watch]
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Stop after this time (1h, 7d); the exit status says whether the objective was met
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    length: Option<Duration>,

    #[command(flatten)]
    process: ProcessFlags,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print findings, a page or the intervals of a journal, also during the watch.
    Report(ReportArgs),
}

/// Print findings, a page or the intervals of a journal, also during the watch
#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Folder of the journal
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ExportFormat,

    /// Time span of a row of csv and hlog
    #[arg(long, value_name = "SPAN", default_value = "interval")]
    per: RowSpan,

    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &WatchArgs) -> ExitCode {
    exit("watch", carry_out(args))
}

fn carry_out(args: &WatchArgs) -> Result<ExitCode, Failure> {
    match (&args.command, &args.file) {
        (Some(Command::Report(report)), _) => export::report(report).map(|()| ExitCode::SUCCESS),
        (None, Some(file)) => watch_loop::watch(args, file),
        (None, None) => Err(Failure::usage("the watch file is missing: breme watch FILE")),
    }
}
