//! `breme runs`: the stored runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use breme_command::failure::Failure;
use breme_command::output;
use breme_experiment::record::RunHead;
use breme_runner::journal;

use super::stored_run::RUNS_FOLDER;

/// List stored runs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunsArgs {
    /// Folder of runs
    #[arg(value_name = "DIR", default_value = RUNS_FOLDER)]
    folder: PathBuf,

    /// Print one JSON object per line, one for each run
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "Examples:
  breme runs
  breme runs /srv/runs --json";

pub(super) fn list(args: &RunsArgs) -> Result<u8, Failure> {
    let runs = journal::list(&args.folder).map_err(Failure::run)?;
    if runs.is_empty() {
        breme_base::error_line!("there are no runs in {}", args.folder.display());
    }
    output::write(|out| runs.iter().try_for_each(|(folder, head)| print_run(out, folder, head, args.json)))?;
    Ok(0)
}

fn print_run(out: &mut impl Write, folder: &Path, head: &RunHead, is_json: bool) -> io::Result<()> {
    if is_json {
        serde_json::to_writer(&mut *out, head)?;
        return writeln!(out);
    }
    let started = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(head.started_unix_ms));
    let revision = head.revision.as_ref().map(|revision| format!("{revision}  ")).unwrap_or_default();
    writeln!(out, "{}  {started}  {revision}{}", folder.display(), head.title)
}
