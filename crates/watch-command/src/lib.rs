//! `breme watch`: periodic measurements of targets for hours, days or weeks ([`run`]).
//!
//! | module | content |
//! |---|---|
//! | `arguments`, `preparation` | the flags; a watch file with all that it names, checked |
//! | `watch_loop` | each interval measures all targets, and is durable before the next one begins |
//! | `prober` | one measurement of a target: a load in this process, and the resources of its processes |
//! | `journal_folder` | segments, alerts, and a lock against a second writer |
//! | `alerts` | lines of JSON in a file, POST requests to a webhook |
//! | `status`, `pages` | metrics and pages at `--admin` |
//! | `export` | `breme watch report` |
//!
//! `breme-watch` stores and evaluates the results; this crate has what that must not know: clocks, files, signals and
//! the network.

// It reads the resources of processes from /proc.
#![cfg(target_os = "linux")]
// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]

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
