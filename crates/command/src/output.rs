//! Standard output of commands that print a result. A reader that closes the pipe (`head`) is no failure.

use std::env;
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::failure::Failure;

/// Whether the terminal can only print text, according to `TERM`.
pub fn is_dumb_terminal() -> bool {
    is_dumb(env::var_os("TERM").as_deref().map(OsStr::as_encoded_bytes))
}

fn is_dumb(term: Option<&[u8]>) -> bool {
    matches!(term, None | Some(b"" | b"dumb"))
}

/// Whether the user wants colours (<https://no-color.org>).
pub fn wants_colours() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether this output shows colours, and the user wants them.
pub fn has_colours(out: &impl IsTerminal) -> bool {
    out.is_terminal() && wants_colours() && !is_dumb_terminal()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_dumb_unless_it_has_a_type() {
        assert!(is_dumb(None) && is_dumb(Some(b"")) && is_dumb(Some(b"dumb")));
        assert!(!is_dumb(Some(b"xterm-256color")));
    }
}
