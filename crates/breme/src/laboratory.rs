//! `breme run`, `compare`, `report` and `runs`: the laboratory on the command line.
//!
//! ```text
//!  file ──► plan ──► runner::conduct ──► journal ──► judge ──► report
//! ```
//!
//! Everything is said twice where it can be: in a sentence on standard output, and in the run's folder for later.

mod comparing;
mod experiment;
mod listing;
mod output;
mod progress;
mod reporting;
mod roles;
mod running;
mod stored;

use std::process::ExitCode;

pub use comparing::Args as CompareArgs;
pub use listing::Args as RunsArgs;
pub use reporting::Args as ReportArgs;
pub use running::Args as RunArgs;

/// The name of the hidden command by which this program keeps the processes of others.
pub const KEEP: &str = "keep";
/// Where runs are kept, unless the user says otherwise.
const RUNS_FOLDER: &str = "runs";

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// A hypothesis or a comparison went against the user.
const AGAINST: u8 = 3;

/// Something that ends a command before it has an answer.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    fn run(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

impl From<breme_runner::journal::JournalError> for Failure {
    fn from(error: breme_runner::journal::JournalError) -> Self {
        Self::run(error.to_string())
    }
}

/// `breme run`.
pub fn run(args: &RunArgs) -> ExitCode {
    told("run", running::run(args))
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
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("breme {command}: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}
