//! What a program that has started this one tells it by standard input: to begin, and (by its end) to stop.
//!
//! A pipe is closed when all who hold its other end have closed it or have died, however they died. So it is the one
//! way of saying "stop" that also works when nobody is left to say it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

use crate::failure::Failure;

/// Whether another program may hold the other end: a terminal, a file or `/dev/null` say nothing by their end.
pub(super) fn is_held() -> bool {
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = file.and_then(|file| file.metadata()).map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// Waits until there is no more input; what comes until then says nothing.
pub(super) fn wait_for_end() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// Waits for a line, whatever it says.
pub(super) fn wait_for_line() -> Result<(), Failure> {
    let mut byte = [0];
    loop {
        match io::stdin().lock().read(&mut byte) {
            Ok(0) => {
                let problem = "--start-on-line: standard input ended without the line that starts the run";
                return Err(Failure::run(problem));
            }
            Ok(_) if byte == *b"\n" => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::run(format!("--start-on-line: cannot read standard input: {error}"))),
        }
    }
}
