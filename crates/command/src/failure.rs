//! Exit statuses, and the errors that end a command.

use std::fmt;
use std::process::ExitCode;

use breme_admin::AdminError;
#[cfg(target_os = "linux")]
use breme_admin::push::DeliveryError;

/// The command failed.
pub const FAILED: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// A check failed: an expectation, a hypothesis, a comparison.
pub const AGAINST: u8 = 3;
/// A check has no verdict: the data do not decide, or there are none.
pub const NO_VERDICT: u8 = 4;

/// An error that ends a command.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: USAGE, message: message.to_string() }
    }

    pub fn run(message: impl fmt::Display) -> Self {
        Self { code: FAILED, message: message.to_string() }
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        Self::run(error)
    }
}

#[cfg(target_os = "linux")]
impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        Self::run(error)
    }
}

/// The exit status of `breme COMMAND`; a failure is printed.
pub fn exit(command: &str, done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| {
        breme_base::error_line!("breme {command}: {}", failure.message);
        ExitCode::from(failure.code)
    })
}

/// An error of clap in a line, without usage and colours.
pub fn in_a_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information")).collect();
    said.join("; ").trim_start_matches("error: ").to_owned()
}
