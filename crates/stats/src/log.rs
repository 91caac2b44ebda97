//! `.hlog`: a histogram for each interval of a run.
//!
//! The format is HdrHistogram's log 1.3 with tags, which the family's other tools read, merge and plot: so a run's tail can be
//! looked at second by second, and runs can be merged long after they ended. A reader must take files from other writers, and of a writer that was killed, so
//! each fault names its line and its byte.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::Histogram;

mod reader;

pub use reader::{LINE_BYTES_MAX, Problem, ReadError, Reader, read};

const VERSION_LINE: &str = "#[Histogram log format version 1.3]";
const LEGEND_LINE: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";
/// The column "Interval_Max" is for people: in milliseconds, as the other writers have it.
const MAX_DIVISOR: f64 = 1_000_000.0;

/// The samples of one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// What is measured (`service`, `first-byte`); none for a file with one thing in it.
    pub tag: Option<String>,
    /// When the interval began, counted from the log's start time.
    pub start: Duration,
    /// How long it was.
    pub length: Duration,
    /// Its samples.
    pub histogram: Histogram,
}

/// Writes a whole log: its head, then every interval as it comes, each pushed out at once.
///
/// `intervals` may be the receiving end of a channel: then this returns when the last sender is gone.
///
/// # Errors
/// What `out` says; or [`io::ErrorKind::InvalidInput`] for a tag that the format cannot hold (a comma, white space).
pub fn write<W: Write>(
    out: &mut W,
    started: SystemTime,
    intervals: impl IntoIterator<Item = Interval>,
) -> io::Result<()> {
    let since_epoch = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    writeln!(out, "{VERSION_LINE}")?;
    writeln!(out, "#[StartTime: {:.3} (seconds since epoch)]", since_epoch.as_secs_f64())?;
    writeln!(out, "{LEGEND_LINE}")?;
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    let mut writer = builder.with_max_value_divisor(MAX_DIVISOR).begin_log_with(out, &mut serializer)?;
    for interval in intervals {
        let tag = interval.tag.as_deref().map(checked_tag).transpose()?;
        writer.write_histogram(interval.histogram.counts(), interval.start, interval.length, tag).map_err(|error| {
            match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => io::Error::other(error.to_string()),
            }
        })?;
    }
    Ok(())
}

fn checked_tag(tag: &str) -> io::Result<Tag<'_>> {
    Tag::new(tag).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("tag {tag:?} holds a comma or white space; use letters, digits, '-'"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn interval(second: u64, tag: Option<&str>, samples: &[u64]) -> Interval {
        let mut histogram = Histogram::new();
        samples.iter().for_each(|&sample| histogram.record(sample));
        Interval {
            tag: tag.map(str::to_owned),
            start: Duration::from_secs(second),
            length: Duration::from_secs(1),
            histogram,
        }
    }

    pub(super) fn written(intervals: Vec<Interval>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250), intervals).unwrap();
        out
    }

    #[test]
    fn the_head_is_that_of_version_1_3() {
        let text = String::from_utf8(written(vec![interval(3, Some("service"), &[1_500_000])])).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "#[Histogram log format version 1.3]");
        assert_eq!(lines[1], "#[StartTime: 1700000000.250 (seconds since epoch)]");
        assert_eq!(lines[2], LEGEND_LINE);
        let row = lines.last().unwrap();
        assert!(row.starts_with("Tag=service,3.000,1.000,1.5"), "{row}");
        assert!(row.contains(",HISTFAAAA"), "{row}");
    }

    #[test]
    fn a_tag_that_would_break_the_row_is_refused() {
        let error = write(&mut Vec::new(), SystemTime::UNIX_EPOCH, vec![interval(0, Some("a,b"), &[1])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
