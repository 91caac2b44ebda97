//! `.hlog`: a histogram for each interval of a run.
//!
//! The format is HdrHistogram's log 1.3 with tags, which the family's other tools read, merge and plot: a run's tail
//! can be inspected second by second, and runs can be merged later. Readers must accept files of other writers and of
//! killed ones, so each error has its line and byte position.

mod interval;
mod reader;
mod writer;

pub use interval::Interval;
pub use reader::{LINE_BYTES_MAX, Problem, ReadError, Reader, read};
pub use writer::write;

#[cfg(test)]
mod test_logs;
