//! Standard output of commands that print a result. A reader that closes the pipe (`head`) is no failure.

use std::io::{self, BufWriter, StdoutLock, Write};

use crate::failure::Failure;

/// # Errors
/// If standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    write(|out| out.write_all(text.as_bytes()))
}

/// Writes the output of `write_to`.
///
/// # Errors
/// If standard output cannot be written.
pub fn write(write_to: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write_to(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
