//! What ends a command before it has done its work, and the exit status that tells it.

use std::process::ExitCode;

/// The command could not do its work.
pub const FAILED: u8 = 1;
/// The command was used wrongly.
pub const USAGE: u8 = 2;
/// What was to hold does not: an expectation, a hypothesis, a comparison.
pub const AGAINST: u8 = 3;

/// Something that ends a command.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    pub fn run(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

/// The status of `breme COMMAND`; a failure is told.
pub fn exit(command: &str, done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| {
        eprintln!("breme {command}: {}", failure.message);
        ExitCode::from(failure.code)
    })
}

/// What clap has to say, without usage and colours.
pub fn in_a_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information")).collect();
    said.join("; ").trim_start_matches("error: ").to_owned()
}
