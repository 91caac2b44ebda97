//! The flags.

use std::path::PathBuf;
use std::time::Duration;

use breme_command::server::ProcessFlags;
use breme_command::units;
use clap::{Subcommand, ValueEnum};

const AFTER_HELP: &str = "Examples:
  breme watch shop.toml                            # until SIGTERM; journal in shop.watch
  breme watch shop.toml --for 1h                   # gate: status 3 if the objective is missed
  breme watch shop.toml --admin :9100              # /watch (page), /metrics
  breme watch report shop.watch                    # findings and outages, also during the watch
  breme watch report shop.watch --format html --output shop.html

SIGHUP reads the watch file again, SIGTERM ends the watch.

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
    /// Watch file (TOML; schema: breme schema watch)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,

    /// Folder of the journal; an existing journal is continued [default: FILE with the extension .watch]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,

    /// Stop after this time (1h, 7d); the exit status says whether the objective was met
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub(crate) length: Option<Duration>,

    #[command(flatten)]
    pub(crate) process: ProcessFlags,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the findings, a page or the intervals of a journal; works during the watch, too.
    Report(ReportArgs),
}

/// Print the findings, a page or the intervals of a journal; works during the watch, too
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Folder of the journal
    #[arg(value_name = "JOURNAL")]
    pub(crate) journal: PathBuf,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ExportFormat,

    /// Time span of a row in csv and hlog
    #[arg(long, value_name = "SPAN", default_value = "interval")]
    pub(crate) per: RowSpan,

    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Totals, outages and findings, for a terminal.
    Text,
    /// One file with charts that opens offline.
    Html,
    /// Totals, outages and findings.
    Json,
    /// A row per target and interval, minute or hour.
    Csv,
    /// HdrHistogram log: a histogram per target and interval, minute or hour.
    Hlog,
}

/// Time span of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowSpan {
    /// An interval of the watch.
    Interval,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}
