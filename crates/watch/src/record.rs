//! What is kept of an interval, and of many.
//!
//! The names in the file are short: a week of one interval per second has 600,000 records.

use breme_stats::Histogram;
use serde::{Deserialize, Serialize};

/// Most outages kept in one folded record; further ones are only counted.
pub const OUTAGES_PER_FOLD_MAX: usize = 64;
/// Most gaps and clock steps kept in one folded record.
pub const GAPS_PER_FOLD_MAX: usize = 64;
/// Longest text of a cause, in bytes.
pub const CAUSE_BYTES_MAX: usize = 120;

/// An instant on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Unix time, milliseconds: what people call the time; it may be set.
    pub wall_ms: i64,
    /// Time since the system's start, with sleep, milliseconds: it is never set.
    pub boot_ms: u64,
    /// Which start of the system: instants of different starts cannot be compared by `boot_ms`.
    pub boot: u16,
}

/// One interval: every target was measured once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Number in the journal, from 1.
    #[serde(rename = "n")]
    pub number: u64,
    /// Start, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub wall_ms: i64,
    /// Start, milliseconds since the system's start.
    #[serde(rename = "b")]
    pub boot_ms: u64,
    /// Which start of the system.
    #[serde(rename = "i")]
    pub boot: u16,
    /// Time before it in which nothing was measured, milliseconds.
    #[serde(rename = "g", default, skip_serializing_if = "is_zero")]
    pub gap_ms: u64,
    /// By how much the wall clock was set since the previous interval, milliseconds.
    #[serde(rename = "c", default, skip_serializing_if = "is_zero_signed")]
    pub clock_step_ms: i64,
    /// One for each target.
    #[serde(rename = "p")]
    pub probes: Vec<Probe>,
}

/// The measurement of one target in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Number of the target.
    #[serde(rename = "t")]
    pub target: u32,
    /// Length of the measurement, nanoseconds.
    #[serde(rename = "e")]
    pub elapsed_ns: u64,
    /// Its requests by outcome.
    #[serde(flatten)]
    pub counts: Counts,
    /// Kind of the most frequent error.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Response times.
    #[serde(rename = "h", default, skip_serializing_if = "Times::is_none")]
    pub times: Times,
    /// Resources of the target's processes.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Response times of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Times {
    /// No response.
    #[default]
    None,
    /// Of a single request, nanoseconds.
    One(u64),
    /// [`Histogram::encode`], and the exact sum in nanoseconds.
    Many(String, u64),
}

/// Requests by outcome: `requests = ok + client_errors + server_errors + wrong + transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests sent.
    #[serde(rename = "r", default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Expected responses.
    #[serde(rename = "k", default, skip_serializing_if = "is_zero")]
    pub ok: u64,
    /// Of these, the ones that took longer than the objective allows.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Unexpected responses with status 4xx.
    #[serde(rename = "4", default, skip_serializing_if = "is_zero")]
    pub client_errors: u64,
    /// Unexpected responses with status 5xx.
    #[serde(rename = "5", default, skip_serializing_if = "is_zero")]
    pub server_errors: u64,
    /// Other unexpected responses.
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    pub wrong: u64,
    /// Requests without a complete response.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub transport: u64,
    /// Bytes received.
    #[serde(rename = "y", default, skip_serializing_if = "is_zero")]
    pub received_bytes: u64,
    /// Of these, bytes of bodies.
    #[serde(rename = "z", default, skip_serializing_if = "is_zero")]
    pub content_bytes: u64,
}

/// Resources of a target's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time used since the previous interval, nanoseconds.
    #[serde(rename = "c")]
    pub cpu_ns: u64,
    /// Over this time, nanoseconds; 0 if there was no previous one.
    #[serde(rename = "d")]
    pub over_ns: u64,
    /// Resident memory, bytes.
    #[serde(rename = "m")]
    pub memory_bytes: u64,
    /// Threads.
    #[serde(rename = "t")]
    pub threads: u64,
    /// Open descriptors.
    #[serde(rename = "f")]
    pub descriptors: u64,
    /// Largest share of a process's limit of descriptors.
    #[serde(rename = "s")]
    pub descriptors_share: f64,
}

/// What a probe says of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// At least half of its requests got an expected response in time.
    Up,
    /// Fewer did.
    Down,
    /// No request was sent.
    Unknown,
}

impl Counts {
    /// Expected responses in time.
    #[must_use]
    pub const fn good(&self) -> u64 {
        self.ok.saturating_sub(self.late)
    }

    /// Requests without an expected response.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.requests.saturating_sub(self.ok)
    }

    /// What they say of the target.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.requests {
            0 => State::Unknown,
            requests if self.good() * 2 >= requests => State::Up,
            _ => State::Down,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.ok += other.ok;
        self.late += other.late;
        self.client_errors += other.client_errors;
        self.server_errors += other.server_errors;
        self.wrong += other.wrong;
        self.transport += other.transport;
        self.received_bytes += other.received_bytes;
        self.content_bytes += other.content_bytes;
    }
}

impl Times {
    /// Of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        let sum = u64::try_from(histogram.sum()).unwrap_or(u64::MAX);
        match histogram.count() {
            0 => Self::None,
            1 => Self::One(sum),
            _ => Self::Many(histogram.encode(), sum),
        }
    }

    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds them to a histogram; their exact sum. Damaged ones count as none.
    pub fn merge_into(&self, histogram: &mut Histogram) -> u64 {
        match self {
            Self::None => 0,
            Self::One(nanos) => {
                histogram.record(*nanos);
                *nanos
            }
            Self::Many(text, sum) => match Histogram::decode(text) {
                Ok(more) => {
                    histogram.merge(&more);
                    *sum
                }
                Err(_) => 0,
            },
        }
    }
}

/// A time without responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Start of the first interval that was down, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub from_ms: i64,
    /// Until the first interval that was up, or until nothing was measured, milliseconds.
    #[serde(rename = "l")]
    pub length_ms: u64,
    /// Intervals that were down.
    #[serde(rename = "p")]
    pub intervals: u64,
    /// Kind of the first error.
    #[serde(rename = "x")]
    pub cause: String,
    /// Whether the end was seen; otherwise the watch stopped, or had a gap, before it.
    #[serde(rename = "s")]
    pub has_end: bool,
}

/// An outage that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOutage {
    /// Start, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub from_ms: i64,
    /// Start, milliseconds since the system's start.
    #[serde(rename = "b")]
    pub from_boot_ms: u64,
    /// Start of its latest interval.
    #[serde(rename = "o")]
    pub last_boot_ms: u64,
    /// Intervals so far.
    #[serde(rename = "p")]
    pub intervals: u64,
    /// Kind of the first error.
    #[serde(rename = "x")]
    pub cause: String,
}

/// A time in which nothing was measured: neither up nor down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// End, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub until_ms: i64,
    /// Milliseconds.
    #[serde(rename = "l")]
    pub length_ms: u64,
}

/// A setting of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// Unix time after it, milliseconds.
    #[serde(rename = "w")]
    pub at_ms: i64,
    /// Milliseconds; negative if it was set back.
    #[serde(rename = "c")]
    pub step_ms: i64,
}

/// Intervals of a minute or an hour, folded into one record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fold {
    /// Number of its first interval.
    #[serde(rename = "n")]
    pub first: u64,
    /// Number of its last interval.
    #[serde(rename = "m")]
    pub last: u64,
    /// Start of its first interval, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub wall_ms: i64,
    /// Start of its last interval, milliseconds after `wall_ms`: from it a restarted watch continues.
    #[serde(rename = "v")]
    pub length_ms: i64,
    /// Start of its last interval, milliseconds since the system's start.
    #[serde(rename = "b")]
    pub last_boot_ms: u64,
    /// Which start of the system.
    #[serde(rename = "i")]
    pub boot: u16,
    /// Times in which nothing was measured.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Settings of the wall clock.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub clock_steps: Vec<ClockStep>,
    /// The targets.
    #[serde(rename = "p")]
    pub targets: Vec<FoldedTarget>,
}

impl Fold {
    /// Start of its last interval, Unix time in milliseconds.
    #[must_use]
    pub const fn last_wall_ms(&self) -> i64 {
        self.wall_ms + self.length_ms
    }
}

/// What a fold holds of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoldedTarget {
    /// Number of the target.
    #[serde(rename = "t")]
    pub target: u32,
    /// Intervals that were up.
    #[serde(rename = "U", default, skip_serializing_if = "is_zero")]
    pub up: u64,
    /// Intervals that were down.
    #[serde(rename = "D", default, skip_serializing_if = "is_zero")]
    pub down: u64,
    /// Intervals of which neither is known.
    #[serde(rename = "N", default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Sum of the lengths of the measurements, nanoseconds.
    #[serde(rename = "e")]
    pub elapsed_ns: u64,
    /// Requests by outcome.
    #[serde(flatten)]
    pub counts: Counts,
    /// Response times.
    #[serde(rename = "h", default, skip_serializing_if = "Times::is_none")]
    pub times: Times,
    /// Resources: CPU time and its span as sums, the others as means over `usages` intervals.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Intervals with resources.
    #[serde(rename = "q", default, skip_serializing_if = "is_zero")]
    pub usages: u64,
    /// Outages that ended in it.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Outages that ended in it and are not in the list.
    #[serde(rename = "O", default, skip_serializing_if = "is_zero")]
    pub outages_more: u64,
    /// The outage that lasts at its end.
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenOutage>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero_signed(value: &i64) -> bool {
    *value == 0
}
