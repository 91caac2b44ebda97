//! `breme runs`: what has been run.

use std::path::PathBuf;

use breme_runner::journal;

use super::{Failure, RUNS_FOLDER};

/// List stored runs, the newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of runs
    #[arg(value_name = "DIR", default_value = RUNS_FOLDER)]
    folder: PathBuf,

    /// Print the heads of the runs as JSON, one in a line
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &Args) -> Result<u8, Failure> {
    let runs = journal::list(&args.folder)?;
    if runs.is_empty() {
        eprintln!("no run in {}", args.folder.display());
    }
    for (folder, head) in runs {
        if args.json {
            let line = serde_json::to_string(&head).map_err(|error| Failure::run(error.to_string()))?;
            println!("{line}");
        } else {
            let started =
                httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_millis(head.started_unix_ms));
            println!("{}  {}  {}", folder.display(), started, head.title);
        }
    }
    Ok(0)
}
