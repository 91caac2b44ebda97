//! The journal: intervals, minutes and hours, each in append-only segments.
//!
//! ```text
//!  raw-000000000001.log      intervals, for `retention.raw`
//!  minute-000000000001.log   rollups of a minute
//!  hour-000000000001.log     rollups of an hour
//! ```
//!
//! The number in a name is that of the segment's first interval. An interval is durable before the next one is
//! measured. A rollup is written after its intervals, and names the first and the last of them; a reader takes hours,
//! then the minutes after the last hour, then the intervals after the last minute, so that nothing counts twice,
//! whenever the writer was killed. Opening the journal truncates an incomplete record at its end, and writes missing
//! rollups. Rollups are therefore always written in order: while one cannot be written, no interval is accepted.

use std::collections::VecDeque;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::file::Retention;
pub use crate::frame::RecordError;
use crate::frame::{encode, scan};
use crate::interval_lengths::IntervalLengths;
use crate::record::{ClockReading, IntervalRecord, Probe, Rollup};
use crate::rollup::{CompletedRollups, RollupBuilder};

/// Size of a segment from which a new one is begun.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Limit of the segments of each kind, whatever the retention: 1 GiB of intervals, 128 MiB of minutes and of hours.
const SEGMENTS_MAX: [usize; 3] = [1024, 128, 128];
/// Smaller differences between the clocks are drift.
const CLOCK_STEP_MIN_MS: i64 = 1_000;

/// Storage of the segments.
pub trait Storage {
    /// Names of all files.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Content of a file; empty if there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Appends to a file, which is created if missing. Durable on return.
    ///
    /// # Errors
    /// When it cannot be written.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Truncates a file to this length.
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

/// Failure to read or write a file of the journal.
#[derive(Debug, Error)]
pub enum JournalError {
    #[error("{name}: {source}")]
    File { name: String, source: io::Error },
    #[error("{name}: {source}")]
    Record { name: String, source: RecordError },
}

fn fault(name: &str) -> impl FnOnce(io::Error) -> JournalError {
    let name = name.to_owned();
    move |source| JournalError::File { name, source }
}

/// Records of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    Raw,
    Minute,
    Hour,
}

impl Resolution {
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

/// First interval of each segment, ascending.
pub(crate) fn segments(storage: &impl Storage, resolution: Resolution) -> Result<Vec<u64>, JournalError> {
    let names = storage.names().map_err(fault("the journal"))?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| resolution.first(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// Records of a segment, and the number of damaged places.
pub(crate) fn read_segment<T: DeserializeOwned>(
    storage: &impl Storage,
    resolution: Resolution,
    first: u64,
) -> Result<(Vec<T>, u64), JournalError> {
    let name = resolution.name(first);
    let scan = scan(&storage.read(&name).map_err(fault(&name))?);
    Ok((scan.records, scan.damaged))
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    /// Up to the end of the last complete record.
    bytes: u64,
    /// Whether an incomplete record may follow.
    is_torn: bool,
}

/// The journal from its writer's side.
#[derive(Debug)]
pub struct Journal<S> {
    storage: S,
    retention: Retention,
    segments: [Vec<Segment>; 3],
    rollups: RollupBuilder,
    /// Complete rollups that could not be written yet: at most a minute and an hour.
    unwritten: VecDeque<(Resolution, Rollup)>,
    last: Option<(u64, ClockReading)>,
    intervals: IntervalLengths,
    interval_ms: u64,
    /// Length of the last interval if it differs from `interval_ms`, else 0.
    last_interval_ms: u64,
}

/// A record with the number of its first interval.
trait Numbered {
    fn number(&self) -> u64;
}

impl Numbered for IntervalRecord {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Numbered for Rollup {
    fn number(&self) -> u64 {
        self.first
    }
}

impl<S: Storage> Journal<S> {
    /// Opens it, truncates an incomplete record, and writes missing rollups. `intervals` are the lengths of its
    /// intervals, and `interval_ms` the length of those that are appended.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or written.
    pub fn open(
        storage: S,
        retention: Retention,
        intervals: IntervalLengths,
        interval_ms: u64,
    ) -> Result<Self, JournalError> {
        let mut journal = Self {
            storage,
            retention,
            segments: [Vec::new(), Vec::new(), Vec::new()],
            rollups: RollupBuilder::default(),
            unwritten: VecDeque::new(),
            last: None,
            intervals,
            interval_ms,
            last_interval_ms: 0,
        };
        let hours: Vec<Rollup> = journal.repair(Resolution::Hour, 0)?;
        let mut after = 0;
        if let Some(hour) = hours.last() {
            journal.rollups.resume_after(hour);
            after = journal.resume_after(hour);
        }
        let minutes: Vec<Rollup> = journal.repair(Resolution::Minute, after)?;
        for minute in minutes.iter().filter(|minute| minute.first > after) {
            let hour = journal.rollups.add_minute_rollup(minute);
            hour.map_or(Ok(()), |hour| journal.write(Resolution::Hour, &hour))?;
        }
        if let Some(minute) = minutes.last().filter(|minute| minute.first > after) {
            after = journal.resume_after(minute);
        }
        let intervals: Vec<IntervalRecord> = journal.repair(Resolution::Raw, after)?;
        for interval in intervals.iter().filter(|interval| interval.number > after) {
            let completed = journal.rollups.add_interval(interval);
            journal.write_rollups(completed)?;
            journal.last = Some((interval.number, interval.reading()));
        }
        let next = journal.last.map_or(1, |(number, _)| number + 1);
        journal.intervals.begin(next, interval_ms);
        Ok(journal)
    }

    fn resume_after(&mut self, rollup: &Rollup) -> u64 {
        let reading = ClockReading { wall_ms: rollup.last_wall_ms(), boot_ms: rollup.last_boot_ms, boot: rollup.boot };
        self.last = Some((rollup.last, reading));
        rollup.last
    }

    /// Truncates an incomplete record at the end of the last segment; returns the records of all segments that may
    /// contain some after `after`.
    fn repair<T: DeserializeOwned + Numbered>(
        &mut self,
        resolution: Resolution,
        after: u64,
    ) -> Result<Vec<T>, JournalError> {
        let firsts = segments(&self.storage, resolution)?;
        let mut records = Vec::new();
        for (index, &first) in firsts.iter().enumerate() {
            let is_last = index + 1 == firsts.len();
            let is_needed = is_last || firsts[index + 1] > after;
            let name = resolution.name(first);
            let mut segment = Segment { first, bytes: SEGMENT_BYTES, is_torn: false };
            if is_needed {
                let bytes = self.storage.read(&name).map_err(fault(&name))?;
                let scan = scan::<T>(&bytes);
                if is_last && scan.good_bytes < bytes.len() {
                    self.storage.truncate(&name, scan.good_bytes as u64).map_err(fault(&name))?;
                }
                segment.bytes = scan.good_bytes as u64;
                // Only the last hour is needed.
                if resolution == Resolution::Hour {
                    records.clear();
                }
                records.extend(scan.records);
            }
            self.segments[resolution as usize].push(segment);
        }
        Ok(records)
    }

    /// Number and start of the last interval.
    #[must_use]
    pub fn last(&self) -> Option<(u64, ClockReading)> {
        self.last
    }

    /// Lengths of its intervals, and of those that are appended. They must be stored before the next interval.
    #[must_use]
    pub const fn intervals(&self) -> &IntervalLengths {
        &self.intervals
    }

    /// Its lengths if the next intervals have another one.
    #[must_use]
    pub fn intervals_with(&self, interval_ms: u64) -> IntervalLengths {
        let mut intervals = self.intervals.clone();
        intervals.begin(self.last.map_or(1, |(number, _)| number + 1), interval_ms);
        intervals
    }

    /// Changes the retention, and the length of the intervals that are appended from now on.
    pub fn change(&mut self, retention: Retention, interval_ms: u64) {
        self.intervals = self.intervals_with(interval_ms);
        if self.interval_ms != interval_ms {
            self.last_interval_ms = self.interval_ms.max(self.last_interval_ms);
        }
        (self.retention, self.interval_ms) = (retention, interval_ms);
    }

    /// Appends an interval that began at `reading`. Durable on return. The journal assigns its number, and derives the
    /// gap before it from both clocks.
    ///
    /// # Errors
    /// The interval, or a rollup before it, cannot be written; the journal is unchanged.
    pub fn append(&mut self, reading: ClockReading, probes: Vec<Probe>) -> Result<IntervalRecord, JournalError> {
        self.write_unwritten()?;
        let number = self.last.map_or(1, |(number, _)| number + 1);
        // The last one may have been longer.
        let interval_ms = self.interval_ms.max(self.last_interval_ms);
        let (gap_ms, clock_step_ms) = self.last.map_or((0, 0), |(_, last)| between(last, reading, interval_ms));
        let ClockReading { wall_ms, boot_ms, boot } = reading;
        let interval = IntervalRecord { number, wall_ms, boot_ms, boot, gap_ms, clock_step_ms, probes };
        self.write(Resolution::Raw, &interval)?;
        (self.last, self.last_interval_ms) = (Some((number, reading)), 0);
        let completed = self.rollups.add_interval(&interval);
        if completed.minute.is_some() {
            // The interval is stored; a failure here recurs, and is reported, at the next one.
            let _ = self.write_rollups(completed).and_then(|()| self.remove_old(number));
        }
        Ok(interval)
    }

    fn write_rollups(&mut self, completed: CompletedRollups) -> Result<(), JournalError> {
        self.unwritten.extend(completed.minute.map(|minute| (Resolution::Minute, minute)));
        self.unwritten.extend(completed.hour.map(|hour| (Resolution::Hour, hour)));
        self.write_unwritten()
    }

    fn write_unwritten(&mut self) -> Result<(), JournalError> {
        while let Some((resolution, rollup)) = self.unwritten.pop_front() {
            if let Err(error) = self.write(resolution, &rollup) {
                self.unwritten.push_front((resolution, rollup));
                return Err(error);
            }
        }
        Ok(())
    }

    fn write<T: Serialize + Numbered>(&mut self, resolution: Resolution, record: &T) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        encode(record, &mut bytes)
            .map_err(|source| JournalError::Record { name: resolution.name(record.number()), source })?;
        let segments = &mut self.segments[resolution as usize];
        if segments.last().is_none_or(|segment| segment.bytes >= SEGMENT_BYTES) {
            segments.push(Segment { first: record.number(), bytes: 0, is_torn: false });
        }
        let Some(segment) = segments.last_mut() else { return Ok(()) };
        let name = resolution.name(segment.first);
        if segment.is_torn {
            self.storage.truncate(&name, segment.bytes).map_err(fault(&name))?;
            segment.is_torn = false;
        }
        if let Err(error) = self.storage.append(&name, &bytes) {
            segment.is_torn = self.storage.truncate(&name, segment.bytes).is_err();
            return Err(fault(&name)(error));
        }
        segment.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Removes segments that are older than the retention, and the oldest beyond [`SEGMENTS_MAX`]. Age is the measured
    /// time, so that a clock step removes nothing.
    fn remove_old(&mut self, now: u64) -> Result<(), JournalError> {
        for resolution in Resolution::ALL {
            let retention = match resolution {
                Resolution::Raw => self.retention.raw,
                Resolution::Minute => self.retention.minutes,
                Resolution::Hour => self.retention.hours,
            };
            let retention_ms = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
            let segments = &mut self.segments[resolution as usize];
            while let [oldest, next, ..] = segments.as_slice() {
                let is_old = self.intervals.measured_ms(next.first, now) > retention_ms;
                if !is_old && segments.len() <= SEGMENTS_MAX[resolution as usize] {
                    break;
                }
                let name = resolution.name(oldest.first);
                self.storage.remove(&name).map_err(fault(&name))?;
                segments.remove(0);
            }
        }
        Ok(())
    }

    pub const fn storage(&self) -> &S {
        &self.storage
    }
}

impl IntervalRecord {
    /// When the interval began.
    #[must_use]
    pub const fn reading(&self) -> ClockReading {
        ClockReading { wall_ms: self.wall_ms, boot_ms: self.boot_ms, boot: self.boot }
    }
}

/// Gap between two intervals, and step of the wall clock. Across a reboot only the wall clock is usable.
fn between(last: ClockReading, next: ClockReading, interval_ms: u64) -> (u64, i64) {
    let by_wall = next.wall_ms.saturating_sub(last.wall_ms);
    let is_same_boot = last.boot == next.boot && next.boot_ms >= last.boot_ms;
    let passed = if is_same_boot { next.boot_ms - last.boot_ms } else { u64::try_from(by_wall).unwrap_or(0) };
    let step = if is_same_boot { by_wall - i64::try_from(passed).unwrap_or(i64::MAX) } else { 0 };
    let gap_ms = if passed * 2 > interval_ms * 3 { passed - interval_ms } else { 0 };
    // A reboot is a gap, however short.
    let gap_ms = if is_same_boot { gap_ms } else { gap_ms.max(1) };
    (gap_ms, if step.abs() >= CLOCK_STEP_MIN_MS { step } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(wall_ms: i64, boot_ms: u64, boot: u16) -> ClockReading {
        ClockReading { wall_ms, boot_ms, boot }
    }

    #[test]
    fn gaps_follow_the_boot_clock() {
        let last = at(1_000_000, 5_000, 1);
        assert_eq!(between(last, at(1_001_000, 6_000, 1), 1_000), (0, 0));
        assert_eq!(between(last, at(1_010_000, 15_000, 1), 1_000), (9_000, 0));
        assert_eq!(between(last, at(4_601_000, 6_000, 1), 1_000), (0, 3_600_000), "the clock was set forward");
        assert_eq!(between(last, at(-2_599_000, 6_000, 1), 1_000), (0, -3_600_000), "and back");
        assert_eq!(between(last, at(1_060_000, 300, 2), 1_000), (59_000, 0), "the system was booted");
        assert_eq!(between(last, at(0, 300, 2), 1_000), (1, 0), "with a clock that is behind");
    }
}
