//! The commands of the laboratory: `breme demo`, `init`, `run`, `versus`, `compare`, `report` and `runs`.
//!
//! ```text
//!  file ──► plan ──► runner::conduct ──► journal ──► judge ──► report
//! ```
//!
//! Results go to standard output and, complete, to the run's folder.

mod compare;
mod demo;
mod experiment;
mod init;
mod progress;
mod report;
mod roles;
mod run;
mod runs;
mod status;
mod stored_run;
mod versus;

use std::process::ExitCode;

use breme_command::failure::{Failure, exit};
pub use compare::CompareArgs;
pub use demo::DemoArgs;
pub use init::InitArgs;
pub use report::ReportArgs;
pub use run::RunArgs;
pub use runs::RunsArgs;
pub use versus::VersusArgs;

/// `breme run`.
pub fn run(args: &RunArgs) -> ExitCode {
    finish("run", run::run(args))
}

/// `breme demo`.
pub fn demo(args: &DemoArgs) -> ExitCode {
    finish("demo", demo::demo(args))
}

/// `breme init`.
pub fn init(args: &InitArgs) -> ExitCode {
    finish("init", init::init(args))
}

/// `breme versus`.
pub fn versus(args: &VersusArgs) -> ExitCode {
    finish("versus", versus::versus(args))
}

/// `breme compare`.
pub fn compare(args: &CompareArgs) -> ExitCode {
    finish("compare", compare::compare(args))
}

/// `breme report`.
pub fn report(args: &ReportArgs) -> ExitCode {
    finish("report", report::report(args))
}

/// `breme runs`.
pub fn runs(args: &RunsArgs) -> ExitCode {
    finish("runs", runs::list(args))
}

/// Runs the supervisor of a subject's processes; only the laboratory starts it.
pub fn keep() -> ExitCode {
    breme_subject::keep()
}

fn finish(command: &str, result: Result<u8, Failure>) -> ExitCode {
    exit(command, result.map(ExitCode::from))
}
