//! The keeper as a program of its own, so that this crate's tests can start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    breme_subject::keep()
}
