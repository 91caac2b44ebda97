//! Control through standard input by a parent program: a line starts the run, and the end of input stops it.
//!
//! A pipe is closed when all processes with its other end have closed it or have died in any way. So it is the one stop
//! signal that works without a live sender.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

use breme_command::failure::Failure;

/// Whether another program may hold the other end: the end of a terminal, a file or `/dev/null` means nothing.
pub(super) fn is_held() -> bool {
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = file.and_then(|file| file.metadata()).map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// Waits for the end of input; everything before it is ignored.
pub(super) fn wait_for_end() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// Waits for a line with any content.
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
