//! Writing a log: its head, then an interval at a time.

use std::io::{self, Write};
use std::time::SystemTime;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use super::interval::Interval;

const VERSION_LINE: &str = "#[Histogram log format version 1.3]";
const LEGEND_LINE: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";
/// The column "Interval_Max" is for people: in milliseconds, like that of other writers.
const MAX_DIVISOR: f64 = 1_000_000.0;

/// Writes a whole log: its head, then every interval as it arrives, each flushed at once.
///
/// `intervals` may be the receiving end of a channel: then this returns when the last sender is dropped.
///
/// # Errors
///
/// Those of `out`; or [`io::ErrorKind::InvalidInput`] for a tag that the format cannot represent (a comma, white
/// space).
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
            format!("tag {tag:?} contains a comma or white space; use letters, digits, '-'"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{interval, written};
    use super::*;

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
