//! `.hlog`: a histogram for each interval of a run.
//!
//! The format is HdrHistogram's log 1.3 with tags, which the family's other tools read, merge and plot: so a run's tail can be
//! looked at second by second, and runs can be merged long after they ended. A reader must take files from other writers, so
//! each fault names its line.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, IntervalLogWriterError, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::Histogram;

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

/// A line of a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for LogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for LogError {}

/// Reads every interval of a log.
///
/// # Errors
/// At the first line that is no comment, no legend and no interval.
pub fn read(log: &[u8]) -> Result<Vec<Interval>, LogError> {
    let mut deserializer = Deserializer::new();
    let mut intervals = Vec::new();
    for (index, line) in log.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if line.starts_with(b"\"") || line.iter().all(u8::is_ascii_whitespace) {
            continue; // the legend
        }
        let fault = |problem| LogError { line: index + 1, problem };
        for entry in IntervalLogIterator::new(line) {
            let entry = entry.map_err(|_| fault("is neither a comment nor an interval"))?;
            if let LogEntry::Interval(interval) = entry {
                let bytes =
                    decode_base64(interval.encoded_histogram()).ok_or_else(|| fault("its histogram is not base64"))?;
                let counts = deserializer.deserialize::<u64, _>(&mut bytes.as_slice()).map_err(|_| {
                    fault("its histogram cannot be decoded (version 2, plain or deflated, is expected)")
                })?;
                intervals.push(Interval {
                    tag: interval.tag().map(|tag| tag.as_str().to_owned()),
                    start: interval.start_timestamp(),
                    length: interval.duration(),
                    histogram: Histogram::from_counts(&counts),
                });
            }
        }
    }
    Ok(intervals)
}

/// Standard base64 with or without padding; not worth another dependency.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut bit_count) = (0_u32, 0);
    for &digit in digits {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push((bits >> bit_count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;

    fn interval(second: u64, tag: Option<&str>, samples: &[u64]) -> Interval {
        let mut histogram = Histogram::new();
        samples.iter().for_each(|&sample| histogram.record(sample));
        Interval {
            tag: tag.map(str::to_owned),
            start: Duration::from_secs(second),
            length: Duration::from_secs(1),
            histogram,
        }
    }

    fn written(intervals: Vec<Interval>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250), intervals).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut random = Random::new(11);
        let samples: Vec<u64> = (0..5_000).map(|_| random.below(40_000_000_000) + 1).collect();
        let log =
            written(vec![interval(0, Some("service"), &samples), interval(1, None, &[]), interval(2, Some("x"), &[7])]);
        let read = read(&log).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].tag.as_deref(), Some("service"));
        assert_eq!(read[0].histogram.counts(), interval(0, None, &samples).histogram.counts());
        assert_eq!((read[1].tag.as_deref(), read[1].histogram.count()), (None, 0));
        assert_eq!(
            (read[2].start, read[2].length, read[2].histogram.max()),
            (Duration::from_secs(2), Duration::from_secs(1), 7)
        );
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
    fn reads_what_the_java_writer_wrote() {
        // A line of the reference implementation's own test log (jHiccup, version 1.2).
        let line = "0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=\n";
        let read = read(line.as_bytes()).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].start, read[0].length), (Duration::from_millis(127), Duration::from_millis(1007)));
        assert!(read[0].histogram.count() > 0);
        assert_eq!((read[0].histogram.max() as f64 / 1e6 * 1e3).round() / 1e3, 2.769, "in ms, as the column says");
    }

    #[test]
    fn a_bad_line_is_named() {
        let mut log = written(vec![interval(0, None, &[5])]);
        log.extend_from_slice(b"nonsense\n");
        let line = log.split(|&byte| byte == b'\n').count() - 1;
        assert_eq!(read(&log).unwrap_err(), LogError { line, problem: "is neither a comment nor an interval" });
        assert_eq!(read(b"0.1,1.0,2.0,AAAA\n").unwrap_err().line, 1);
        assert_eq!(read(b"0.1,1.0,2.0,A*AA\n").unwrap_err().problem, "its histogram is not base64");
    }

    #[test]
    fn a_tag_that_would_break_the_row_is_refused() {
        let error = write(&mut Vec::new(), SystemTime::UNIX_EPOCH, vec![interval(0, Some("a,b"), &[1])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
