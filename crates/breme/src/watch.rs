//! `breme watch`: measures targets periodically, for hours, days or weeks, and reports what that shows.
//!
//! Measuring is `load`'s, in this process; what is kept and found is `breme-watch`'s. Here are the clocks, the folder
//! of the journal, signals, alerts and the admin pages.

mod alerts;
mod exporting;
mod folder;
mod pages;
mod probing;
mod status;
mod watching;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use crate::failure::{Failure, exit};
use crate::load::units;
use crate::serving::ProcessFlags;
use exporting::{Format, Per};

const AFTER_HELP: &str = "Examples:
  breme watch shop.toml                            # until SIGTERM; journal in ./shop.watch
  breme watch shop.toml --for 1h                   # gate: status 3 if the objective is missed
  breme watch shop.toml --admin :9100              # /watch (page), /metrics
  breme watch report shop.watch                    # what it shows, also while it is written
  breme watch report shop.watch --format html --output shop.html

Exit status:
  0  stopped, or with --for: every target met its objective
  1  the watch could not start
  2  wrong usage, or an error in the watch file
  3  with --for: a target missed its objective
  4  with --for: nothing was measured of a target
Documentation: docs/WATCH.md.";

/// Measure targets periodically for hours, days or weeks: uptime, response times, resources; with findings and alerts
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// Watch file (TOML; schemas/watch.schema.json)
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,

    /// Folder of the journal; a journal that is there is continued [default: FILE with the ending .watch]
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Stop after this time (1h, 7d), and judge it
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    length: Option<Duration>,

    #[command(flatten)]
    process: ProcessFlags,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what a journal shows: findings, a page, or its intervals; also while it is written.
    Report(ReportArgs),
}

/// Print what a journal shows: findings, a page, or its intervals; also while it is written
#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Folder of the journal
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Rows of csv and hlog
    #[arg(long, value_name = "SPAN", default_value = "interval")]
    per: Per,

    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Carries out the command.
pub fn run(args: &Args) -> ExitCode {
    exit("watch", carry_out(args))
}

fn carry_out(args: &Args) -> Result<ExitCode, Failure> {
    match (&args.command, &args.file) {
        (Some(Command::Report(report)), _) => exporting::report(report).map(|()| ExitCode::SUCCESS),
        (None, Some(file)) => watching::watch(args, file),
        (None, None) => Err(Failure::usage("the watch file is missing: breme watch FILE")),
    }
}
