//! Messages between the laboratory and a keeper: one JSON value per line, over a socket pair that is the keeper's
//! standard input.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What to start, and how. The first line that a keeper reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) command: Vec<String>,
    /// In addition to the keeper's own.
    pub(super) environment: Vec<(String, String)>,
    pub(super) folder: PathBuf,
    pub(super) cpus: Vec<usize>,
    pub(super) open_files: Option<u64>,
    pub(super) processes: Option<u64>,
    /// Folders of control groups that it enters. The keeper removes them after the last process has exited.
    pub(super) control_groups: Vec<PathBuf>,
}

/// A request to the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Wish {
    /// Send this signal, and kill what is left after this time.
    Stop { signal: i32, within_ms: u64 },
    /// Kill all immediately.
    Kill,
}

/// A report of the keeper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The program runs.
    Started { pid: u32 },
    /// The program could not be started.
    Failed { errno: Option<i32>, what: String },
    /// The program has exited: its exit code, or the signal that killed it. A program that exited with success and left
    /// processes behind (a daemon) counts as exited when those have.
    Ended { code: Option<i32>, signal: Option<i32>, out_of_memory_kills: u64 },
    /// No process is left; the CPU time of all.
    Gone { cpu_user_us: u64, cpu_system_us: u64 },
    /// Some processes could not be killed.
    Stuck { pids: Vec<u32> },
}

/// The longest line. Arguments and environment of a process have a limit of about that size.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Splits received bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    /// Receives once, blocking if nothing is available. Returns whether the other side is still connected.
    pub(super) fn receive(&mut self, source: &mut impl Read) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let count = match source.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            outcome => outcome?,
        };
        self.buffer.extend_from_slice(&piece[..count]);
        if self.buffer.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        Ok(count > 0)
    }

    /// The next complete message.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let message = serde_json::from_slice(&self.buffer[..end])?;
        self.buffer.drain(..=end);
        Ok(Some(message))
    }
}

pub(super) fn send(message: &impl Serialize, mut to: impl Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_whatever_the_pieces() {
        let mut bytes = Vec::new();
        let program = Program { command: vec!["a\nb".into(), "ü".into()], ..Program::default() };
        send(&program, &mut bytes).unwrap();
        send(&Wish::Kill, &mut bytes).unwrap();
        let mut lines = Lines::default();
        let mut received = Vec::new();
        for byte in &bytes {
            assert!(lines.receive(&mut &[*byte][..]).unwrap());
            if received.is_empty() {
                received.extend(lines.next::<Program>().unwrap());
            }
        }
        assert_eq!(received, [program]);
        assert_eq!(lines.next().unwrap(), Some(Wish::Kill));
        assert!(!lines.receive(&mut &[][..]).unwrap());
    }

    #[test]
    fn a_line_has_a_bound() {
        let mut lines = Lines { buffer: vec![b' '; LINE_BYTES_MAX] };
        assert!(lines.receive(&mut &b"x"[..]).is_err());
    }
}
