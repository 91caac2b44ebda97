//! `breme run`, `versus`, `compare`, `report` and `runs`: the laboratory on the command line.
//!
//! ```text
//!  file ──► plan ──► runner::conduct ──► journal ──► judge ──► report
//! ```
//!
//! Results go to standard output and, complete, to the run's folder.

mod comparing;
mod experiment;
mod listing;
mod output;
mod progress;
mod reporting;
mod roles;
mod running;
mod stored;
mod versus;

use std::process::ExitCode;

pub use comparing::Args as CompareArgs;
pub use listing::Args as RunsArgs;
pub use reporting::Args as ReportArgs;
pub use running::Args as RunArgs;
pub use versus::Args as VersusArgs;

use crate::failure::{Failure, exit};

impl From<breme_runner::journal::JournalError> for Failure {
    fn from(error: breme_runner::journal::JournalError) -> Self {
        Self::run(error.to_string())
    }
}

/// `breme run`.
pub fn run(args: &RunArgs) -> ExitCode {
    told("run", running::run(args))
}

/// `breme versus`.
pub fn versus(args: &VersusArgs) -> ExitCode {
    told("versus", versus::versus(args))
}

/// `breme compare`.
pub fn compare(args: &CompareArgs) -> ExitCode {
    told("compare", comparing::compare(args))
}

/// `breme report`.
pub fn report(args: &ReportArgs) -> ExitCode {
    told("report", reporting::report(args))
}

/// `breme runs`.
pub fn runs(args: &RunsArgs) -> ExitCode {
    told("runs", listing::list(args))
}

/// Keeps the processes of a subject; only the laboratory starts this.
pub fn keep() -> ExitCode {
    breme_runner::keep()
}

fn told(command: &str, result: Result<u8, Failure>) -> ExitCode {
    exit(command, result.map(ExitCode::from))
}
