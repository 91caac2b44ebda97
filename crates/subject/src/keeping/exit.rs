//! How a process exited.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitInfo {
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The kernel killed it, or one of its processes, at its memory limit.
    pub is_out_of_memory: bool,
    /// The end of its output.
    pub printed: String,
}

impl ExitInfo {
    /// Whether it exited by itself with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// `exited with status 1`, `was killed by signal 9 (KILL)`.
impl fmt::Display for ExitInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(formatter, "exited with status {code}")?,
            (None, Some(signal)) => write!(formatter, "was terminated by {}", signal_name(signal))?,
            (None, None) => write!(formatter, "was lost: its supervising process was killed")?,
        }
        if self.is_out_of_memory {
            write!(formatter, " (it reached its memory limit, and the kernel killed one of its processes)")?;
        }
        Ok(())
    }
}

fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}
