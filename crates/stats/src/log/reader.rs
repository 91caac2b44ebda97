//! Reads a log interval by interval, including logs of other writers and truncated ones.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use base64::Engine;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};
use thiserror::Error;

use super::interval::Interval;
use crate::Histogram;
use crate::histogram_text::BASE64;

/// Limit of a line. The histograms of this crate take at most 400 kB; those of other writers may be finer.
pub const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The intervals of a log, in the order of its lines; those with different tags and the same time follow one another.
///
/// A log whose writer was killed may end within a line: that line is skipped, and [`Reader::cut_at`] returns its
/// position.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    line_number: usize,
    /// Position of the line.
    position: u64,
    started: Option<Duration>,
    cut_at: Option<u64>,
    has_ended: bool,
    /// None: all of them.
    wanted: Option<&'static [&'static str]>,
}

/// An invalid or unreadable log.
#[derive(Debug, Error)]
#[error("line {line} (from byte {position}): {problem}")]
pub struct ReadError {
    /// Line number, from 1.
    pub line: usize,
    /// Position of the line, in bytes from the beginning.
    pub position: u64,
    #[source]
    pub problem: Problem,
}

#[derive(Debug, Error)]
pub enum Problem {
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    #[error("is longer than {max} bytes", max = LINE_BYTES_MAX)]
    TooLong,
    #[error("is neither a comment nor an interval")]
    Line,
    #[error("its histogram is not base64")]
    Base64,
    #[error("its histogram cannot be decoded; version 2, plain or deflated, is expected")]
    Histogram,
}

/// Reads every interval of a log.
///
/// # Errors
///
/// At the first line that is no comment, legend or interval.
pub fn read(log: &[u8]) -> Result<Vec<Interval>, ReadError> {
    Reader::new(log).collect()
}

impl<R: BufRead> Reader<R> {
    pub const fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            line_number: 0,
            position: 0,
            started: None,
            cut_at: None,
            has_ended: false,
            wanted: None,
        }
    }

    /// Skips intervals with other tags without decoding their histograms, which takes most of the time.
    #[must_use]
    pub const fn only(mut self, tags: &'static [&'static str]) -> Self {
        self.wanted = Some(tags);
        self
    }

    fn is_wanted(&self, interval: &IntervalLogHistogram<'_>) -> bool {
        let has = |tags: &[&str]| interval.tag().is_some_and(|tag| tags.contains(&tag.as_str()));
        self.wanted.is_none_or(has)
    }

    /// When the log was started, since 1970-01-01 00:00:00 UTC. Available with the first interval, if the log contains
    /// it.
    #[must_use]
    pub const fn started(&self) -> Option<Duration> {
        self.started
    }

    /// The position of a truncated last line, which was skipped.
    #[must_use]
    pub const fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// The next line; false at the end.
    fn next_line(&mut self) -> Result<bool, ReadError> {
        self.position += self.line.len() as u64;
        self.line.clear();
        self.line_number += 1;
        let read = self.input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.line);
        match read {
            Ok(count) if count as u64 > LINE_BYTES_MAX => Err(self.fault(Problem::TooLong)),
            Ok(count) => Ok(count > 0),
            Err(error) => Err(self.fault(Problem::Io(error))),
        }
    }

    const fn fault(&self, problem: Problem) -> ReadError {
        ReadError { line: self.line_number, position: self.position, problem }
    }

    /// The interval in the line, if there is one.
    fn parse_line(&mut self) -> Result<Option<Interval>, Problem> {
        if self.line.starts_with(b"\"") || self.line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None); // the legend
        }
        match IntervalLogIterator::new(&self.line).next() {
            None => Ok(None),
            Some(Ok(LogEntry::Interval(interval))) if !self.is_wanted(&interval) => Ok(None),
            Some(Ok(LogEntry::Interval(interval))) => decode(&interval).map(Some),
            Some(Ok(LogEntry::StartTime(started))) => {
                self.started = Some(started);
                Ok(None)
            }
            Some(Ok(LogEntry::BaseTime(_))) => Ok(None),
            Some(Err(_)) => Err(Problem::Line),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Interval, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            match self.next_line() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
            match self.parse_line() {
                Ok(None) => {}
                Ok(Some(interval)) => return Some(Ok(interval)),
                Err(_) if !self.line.ends_with(b"\n") => {
                    self.cut_at = Some(self.position);
                    break;
                }
                Err(problem) => {
                    self.has_ended = true;
                    return Some(Err(self.fault(problem)));
                }
            }
        }
        self.has_ended = true;
        None
    }
}

fn decode(interval: &IntervalLogHistogram<'_>) -> Result<Interval, Problem> {
    let bytes = BASE64.decode(interval.encoded_histogram()).map_err(|_| Problem::Base64)?;
    Ok(Interval {
        tag: interval.tag().map(|tag| tag.as_str().to_owned()),
        start: interval.start_timestamp(),
        length: interval.duration(),
        histogram: Histogram::from_bytes(&bytes).ok_or(Problem::Histogram)?,
    })
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::super::test_logs::{interval, written};
    use super::*;

    #[test]
    fn only_the_wanted_tags_are_read() {
        let log = written(vec![
            interval(0, Some("service"), &[1]),
            interval(0, Some("response"), &[2]),
            interval(1, None, &[3]),
        ]);
        let tags = |reader: Reader<&[u8]>| reader.map(|interval| interval.unwrap().tag).collect::<Vec<_>>();
        assert_eq!(tags(Reader::new(&log[..])).len(), 3);
        assert_eq!(tags(Reader::new(&log[..]).only(&["response"])), [Some("response".to_owned())]);
    }

    #[test]
    fn a_written_log_is_read_back() {
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
    fn the_start_is_read_to_the_millisecond() {
        let log = written(vec![interval(0, None, &[5])]);
        let mut reader = Reader::new(log.as_slice());
        assert!(reader.by_ref().all(|interval| interval.is_ok()));
        assert_eq!(reader.started(), Some(Duration::from_millis(1_700_000_000_250)));
    }

    #[test]
    fn a_bad_line_is_named() {
        let mut log = written(vec![interval(0, None, &[5])]);
        let (position, line) = (log.len() as u64, log.split(|&byte| byte == b'\n').count());
        log.extend_from_slice(b"nonsense\nmore\n");
        let error = read(&log).unwrap_err();
        assert_eq!((error.line, error.position), (line, position));
        assert_eq!(
            error.to_string(),
            format!("line {line} (from byte {position}): is neither a comment nor an interval")
        );
        assert!(matches!(read(b"#x\n0.1,1.0,2.0,AAAA\n").unwrap_err().problem, Problem::Histogram));
        assert!(matches!(read(b"0.1,1.0,2.0,A*AA\n").unwrap_err().problem, Problem::Base64));
        let endless = b"0.1,1.0,2.0,HISTE/////AAAAAAAAAAAwAAAAAAAAABAAAAAAAPQkA/8AAAAAAAAA==\n";
        assert!(matches!(read(endless).unwrap_err().problem, Problem::Histogram));
    }

    #[test]
    fn a_log_may_end_anywhere() {
        const HEAD_LINES: usize = 4;
        let log =
            written(vec![interval(0, Some("a"), &[5, 700]), interval(1, Some("b"), &[9; 40]), interval(2, None, &[7])]);
        let whole = read(&log).unwrap();
        let lines: Vec<usize> = (0..log.len()).filter(|&place| place == 0 || log[place - 1] == b'\n').collect();
        for length in 0..=log.len() {
            let mut reader = Reader::new(&log[..length]);
            let read = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(reader.started().is_some(), length >= lines[2], "{length}");
            let begun = lines.iter().filter(|&&start| start < length).count();
            let is_cut = reader.cut_at().is_some_and(|position| position == lines[begun - 1] as u64);
            assert_eq!(is_cut, reader.cut_at().is_some(), "{length}");
            assert_eq!(read.len(), begun.saturating_sub(HEAD_LINES + usize::from(is_cut)), "{length}");
            for (read, whole) in read.iter().zip(&whole) {
                assert_eq!(read.histogram.counts(), whole.histogram.counts(), "{length}");
            }
            // Without a line end the last number may be truncated unnoticed; a histogram cannot.
            let ends_whole = length == 0 || log[length - 1] == b'\n';
            assert!(!(ends_whole && is_cut), "{length}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_read_into_memory() {
        let mut reader = Reader::new(io::BufReader::new(io::repeat(b'x')));
        let error = reader.next().unwrap().unwrap_err();
        assert!(matches!(error.problem, Problem::TooLong) && reader.line.len() as u64 == LINE_BYTES_MAX + 1);
        assert!(reader.next().is_none(), "a fault is the end");
    }
}
