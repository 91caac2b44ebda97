//! `breme watch`: periodic measurements of targets for hours, days or weeks.
//!
//! `load` measures, in this process; `breme-watch` stores and evaluates the results. This module has the clocks, the
//! journal's folder, signals, alerts and admin pages.

mod alerts;
mod arguments;
mod export;
mod journal_folder;
mod pages;
mod preparation;
mod prober;
mod status;
mod watch_loop;

use std::process::ExitCode;

use arguments::Command;
pub use arguments::WatchArgs;
use breme_command::failure::{Failure, exit};

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
