//! `.hlog`: a histogram for each interval of a run.
//!
//! The format is HdrHistogram's log 1.3 with tags, which the family's other tools read, merge and plot: so a run's tail
//! can be looked at second by second, and runs can be merged long after they ended. A reader must take files from other
//! writers, and of a writer that was killed, so each fault names its line and its byte.

mod interval;
mod reader;
mod writer;

pub use interval::Interval;
pub use reader::{LINE_BYTES_MAX, Problem, ReadError, Reader, read};
pub use writer::write;

#[cfg(test)]
mod test_logs;
