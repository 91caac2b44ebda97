//! The journal: intervals, minutes and hours, each in segments to which is only added.
//!
//! ```text
//!  raw-000000000001.log      intervals, until `retention.raw` is over
//!  minute-000000000001.log   folds of a minute
//!  hour-000000000001.log     folds of an hour
//! ```
//!
//! The number in a name is that of the segment's first interval. An interval is durable before the next one is
//! measured. A fold is written after its intervals, and names the first and the last of them; a reader takes hours,
//! then the minutes after the last hour, then the intervals after the last minute, so that nothing counts twice
//! whenever the writer was killed. What it did not finish is cut off when the journal is opened again, and folds that
//! are missing are made again from what was folded into them.

use std::fmt;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::file::Retention;
use crate::folding::{Completed, Folding};
use crate::frame::{encode, scan};
use crate::record::{Fold, Interval, Probe, Stamp};

/// A segment is complete from this size on.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Most segments of each kind; the oldest are removed before that, whatever the retention: 1 GiB of intervals, 128 MiB
/// of minutes and of hours.
const SEGMENTS_MAX: [usize; 3] = [1024, 128, 128];
/// Differences between the clocks below this are drift.
const CLOCK_STEP_MIN_MS: i64 = 1_000;

/// Where the segments are kept.
pub trait Storage {
    /// The names of all files.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The content of a file; nothing if there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Adds to the end of a file, which is created if need be; durable when it returns.
    ///
    /// # Errors
    /// When it cannot be written.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file off after so many bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    fn truncate(&mut self, name: &str, bytes: u64) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// An error of the journal, with the file.
#[derive(Debug)]
pub struct JournalError {
    name: String,
    problem: String,
}

impl fmt::Display for JournalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.problem)
    }
}

impl std::error::Error for JournalError {}

fn fault(name: &str) -> impl FnOnce(io::Error) -> JournalError {
    let name = name.to_owned();
    move |error| JournalError { name, problem: error.to_string() }
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Raw,
    Minute,
    Hour,
}

impl Level {
    const ALL: [Self; 3] = [Self::Raw, Self::Minute, Self::Hour];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Raw => "raw-",
            Self::Minute => "minute-",
            Self::Hour => "hour-",
        }
    }

    fn name(self, first: u64) -> String {
        format!("{}{first:012}.log", self.prefix())
    }

    fn first(self, name: &str) -> Option<u64> {
        name.strip_prefix(self.prefix())?.strip_suffix(".log")?.parse().ok()
    }
}

/// The first numbers of the segments of a level, ascending.
pub(crate) fn segments(storage: &impl Storage, level: Level) -> Result<Vec<u64>, JournalError> {
    let names = storage.names().map_err(fault("the journal"))?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| level.first(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// The records of a segment, and the damaged places in it.
pub(crate) fn read_segment<T: DeserializeOwned>(
    storage: &impl Storage,
    level: Level,
    first: u64,
) -> Result<(Vec<T>, u64), JournalError> {
    let name = level.name(first);
    let scan = scan(&storage.read(&name).map_err(fault(&name))?);
    Ok((scan.records, scan.damaged))
}

/// A segment of a level.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    bytes: u64,
}

/// The journal, for the one who writes it.
#[derive(Debug)]
pub struct Journal<S> {
    storage: S,
    retention: Retention,
    levels: [Vec<Segment>; 3],
    folding: Folding,
    last: Option<(u64, Stamp)>,
    interval_ms: u64,
}

/// The number of a record's first interval.
trait Recorded {
    fn number(&self) -> u64;
}

impl Recorded for Interval {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Recorded for Fold {
    fn number(&self) -> u64 {
        self.first
    }
}

impl<S: Storage> Journal<S> {
    /// Opens it, cuts off what was not finished, and makes the folds that are missing.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn open(storage: S, retention: Retention, interval_ms: u64) -> Result<Self, JournalError> {
        let mut journal = Self {
            storage,
            retention,
            levels: [Vec::new(), Vec::new(), Vec::new()],
            folding: Folding::default(),
            last: None,
            interval_ms,
        };
        let hours: Vec<Fold> = journal.repair(Level::Hour, 0)?;
        let mut after = 0;
        if let Some(hour) = hours.last() {
            journal.folding.after_hour(hour);
            after = journal.continue_after(hour);
        }
        let minutes: Vec<Fold> = journal.repair(Level::Minute, after)?;
        for minute in minutes.iter().filter(|minute| minute.first > after) {
            let hour = journal.folding.take_minute(minute);
            hour.map_or(Ok(()), |hour| journal.write(Level::Hour, &hour))?;
        }
        if let Some(minute) = minutes.last().filter(|minute| minute.first > after) {
            after = journal.continue_after(minute);
        }
        let intervals: Vec<Interval> = journal.repair(Level::Raw, after)?;
        for interval in intervals.iter().filter(|interval| interval.number > after) {
            let completed = journal.folding.take(interval);
            journal.write_folds(&completed)?;
            journal.last = Some((interval.number, interval.stamp()));
        }
        Ok(journal)
    }

    fn continue_after(&mut self, fold: &Fold) -> u64 {
        let stamp = Stamp { wall_ms: fold.last_wall_ms(), boot_ms: fold.last_boot_ms, boot: fold.boot };
        self.last = Some((fold.last, stamp));
        fold.last
    }

    /// Cuts the unfinished end off the last segment; the records of all segments that may hold some after `after`.
    fn repair<T: DeserializeOwned + Recorded>(&mut self, level: Level, after: u64) -> Result<Vec<T>, JournalError> {
        let firsts = segments(&self.storage, level)?;
        let mut records = Vec::new();
        for (index, &first) in firsts.iter().enumerate() {
            let is_last = index + 1 == firsts.len();
            let is_needed = is_last || firsts[index + 1] > after;
            let name = level.name(first);
            let mut segment = Segment { first, bytes: SEGMENT_BYTES };
            if is_needed {
                let bytes = self.storage.read(&name).map_err(fault(&name))?;
                let scan = scan::<T>(&bytes);
                if is_last && scan.good_bytes < bytes.len() {
                    self.storage.truncate(&name, scan.good_bytes as u64).map_err(fault(&name))?;
                }
                segment.bytes = scan.good_bytes as u64;
                // Whoever needs only the last hour does not need all of them in memory.
                if level == Level::Hour {
                    records.clear();
                }
                records.extend(scan.records);
            }
            self.levels[level as usize].push(segment);
        }
        Ok(records)
    }

    /// Number and instant of the last interval.
    #[must_use]
    pub fn last(&self) -> Option<(u64, Stamp)> {
        self.last
    }

    /// Adds an interval that began at `stamp`: durable when it returns. It is numbered here, and the time before it in
    /// which nothing was measured is determined from both clocks.
    ///
    /// # Errors
    /// When it cannot be written; then the journal is as before.
    pub fn append(&mut self, stamp: Stamp, probes: Vec<Probe>) -> Result<Interval, JournalError> {
        let number = self.last.map_or(1, |(number, _)| number + 1);
        let (gap_ms, clock_step_ms) = self.last.map_or((0, 0), |(_, last)| between(last, stamp, self.interval_ms));
        let Stamp { wall_ms, boot_ms, boot } = stamp;
        let interval = Interval { number, wall_ms, boot_ms, boot, gap_ms, clock_step_ms, probes };
        self.write(Level::Raw, &interval)?;
        self.last = Some((number, stamp));
        let completed = self.folding.take(&interval);
        self.write_folds(&completed)?;
        if completed.minute.is_some() {
            self.remove_old(number)?;
        }
        Ok(interval)
    }

    fn write_folds(&mut self, completed: &Completed) -> Result<(), JournalError> {
        if let Some(minute) = &completed.minute {
            self.write(Level::Minute, minute)?;
        }
        completed.hour.as_ref().map_or(Ok(()), |hour| self.write(Level::Hour, hour))
    }

    fn write<T: Serialize + Recorded>(&mut self, level: Level, record: &T) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        encode(record, &mut bytes).map_err(|problem| JournalError { name: level.name(record.number()), problem })?;
        let segments = &mut self.levels[level as usize];
        if segments.last().is_none_or(|segment| segment.bytes >= SEGMENT_BYTES) {
            segments.push(Segment { first: record.number(), bytes: 0 });
        }
        let Some(segment) = segments.last_mut() else { return Ok(()) };
        let name = level.name(segment.first);
        if let Err(error) = self.storage.append(&name, &bytes) {
            // A part may be there: it goes, so that nothing follows it.
            let _ = self.storage.truncate(&name, segment.bytes);
            return Err(fault(&name)(error));
        }
        segment.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Removes segments whose last record is older than the retention, and the oldest beyond the largest number. Age is
    /// counted in intervals: a clock that is set must not remove anything.
    fn remove_old(&mut self, now: u64) -> Result<(), JournalError> {
        for level in Level::ALL {
            let retention = match level {
                Level::Raw => self.retention.raw,
                Level::Minute => self.retention.minutes,
                Level::Hour => self.retention.hours,
            };
            let intervals = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX) / self.interval_ms.max(1);
            let segments = &mut self.levels[level as usize];
            while let [oldest, next, ..] = segments.as_slice() {
                let is_old = now.saturating_sub(next.first) > intervals;
                if !is_old && segments.len() <= SEGMENTS_MAX[level as usize] {
                    break;
                }
                let name = level.name(oldest.first);
                self.storage.remove(&name).map_err(fault(&name))?;
                segments.remove(0);
            }
        }
        Ok(())
    }

    /// The storage.
    pub const fn storage(&self) -> &S {
        &self.storage
    }
}

impl Interval {
    /// When it began.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        Stamp { wall_ms: self.wall_ms, boot_ms: self.boot_ms, boot: self.boot }
    }
}

/// The time between two intervals in which nothing was measured, and by how much the wall clock was set. Across a start
/// of the system only the wall clock is known.
fn between(last: Stamp, next: Stamp, interval_ms: u64) -> (u64, i64) {
    let by_wall = next.wall_ms.saturating_sub(last.wall_ms);
    let is_same_boot = last.boot == next.boot && next.boot_ms >= last.boot_ms;
    let passed = if is_same_boot { next.boot_ms - last.boot_ms } else { u64::try_from(by_wall).unwrap_or(0) };
    let step = if is_same_boot { by_wall - i64::try_from(passed).unwrap_or(i64::MAX) } else { 0 };
    let gap_ms = if passed * 2 > interval_ms * 3 { passed - interval_ms } else { 0 };
    // A start of the system is a gap, however short.
    let gap_ms = if is_same_boot { gap_ms } else { gap_ms.max(1) };
    (gap_ms, if step.abs() >= CLOCK_STEP_MIN_MS { step } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(wall_ms: i64, boot_ms: u64, boot: u16) -> Stamp {
        Stamp { wall_ms, boot_ms, boot }
    }

    #[test]
    fn gaps_count_by_the_clock_that_is_never_set() {
        let last = at(1_000_000, 5_000, 1);
        assert_eq!(between(last, at(1_001_000, 6_000, 1), 1_000), (0, 0));
        assert_eq!(between(last, at(1_010_000, 15_000, 1), 1_000), (9_000, 0));
        assert_eq!(between(last, at(4_601_000, 6_000, 1), 1_000), (0, 3_600_000), "the clock was set forward");
        assert_eq!(between(last, at(-2_599_000, 6_000, 1), 1_000), (0, -3_600_000), "and back");
        assert_eq!(between(last, at(1_060_000, 300, 2), 1_000), (59_000, 0), "the system was started again");
        assert_eq!(between(last, at(0, 300, 2), 1_000), (1, 0), "with a clock that is behind");
    }
}
