//! Records of the journal: an interval, and a rollup of many.
//!
//! Keys in the file are short: a week of one interval per second has 600,000 records.

use breme_stats::Histogram;
use serde::{Deserialize, Serialize};

/// Most outages listed in one rollup; further ones are only counted.
pub const OUTAGES_PER_ROLLUP_MAX: usize = 64;
/// Most gaps and clock steps listed in one rollup; further gaps are only counted and added up.
pub const GAPS_PER_ROLLUP_MAX: usize = 64;
/// Longest cause, bytes.
pub const CAUSE_BYTES_MAX: usize = 120;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Unix time, milliseconds. It can be set.
    pub wall_ms: i64,
    /// Time since boot, including suspend, milliseconds. It is never set.
    pub boot_ms: u64,
    /// Identifies the boot: `boot_ms` of different boots cannot be compared.
    pub boot: u16,
}

/// One interval: every target is probed once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalRecord {
    /// Number in the journal, from 1.
    #[serde(rename = "n")]
    pub number: u64,
    /// Start, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub wall_ms: i64,
    /// Start, milliseconds since boot.
    #[serde(rename = "b")]
    pub boot_ms: u64,
    /// Identifies the boot.
    #[serde(rename = "i")]
    pub boot: u16,
    /// Unmeasured time before it, milliseconds.
    #[serde(rename = "g", default, skip_serializing_if = "is_zero")]
    pub gap_ms: u64,
    /// By how much the wall clock was set since the previous interval, milliseconds.
    #[serde(rename = "c", default, skip_serializing_if = "is_zero_signed")]
    pub clock_step_ms: i64,
    /// One per target.
    #[serde(rename = "p")]
    pub probes: Vec<Probe>,
}

/// Measurement of one target in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Index of the target.
    #[serde(rename = "t")]
    pub target: u32,
    /// Length of the measurement, nanoseconds.
    #[serde(rename = "e")]
    pub elapsed_ns: u64,
    /// Requests by result.
    #[serde(flatten)]
    pub counts: Counts,
    /// Kind of the most frequent error.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(rename = "h", default, skip_serializing_if = "ResponseTimes::is_none")]
    pub times: ResponseTimes,
    /// Resources of the target's processes.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Expiry (`notAfter`) of the certificate that the target presented, in Unix seconds.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_at: Option<u64>,
}

/// Response times of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResponseTimes {
    /// No response.
    #[default]
    None,
    /// A single response time, nanoseconds.
    One(u64),
    /// An encoded histogram ([`Histogram::encode`]) and the exact sum, nanoseconds.
    Many(String, u64),
}

/// Requests by result: `requests = ok + client_errors + server_errors + wrong + transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests sent.
    #[serde(rename = "r", default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    #[serde(rename = "k", default, skip_serializing_if = "is_zero")]
    pub ok: u64,
    /// Those of `ok` that took longer than the objective allows.
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
    #[serde(rename = "y", default, skip_serializing_if = "is_zero")]
    pub received_bytes: u64,
    /// Those of `received_bytes` that belong to bodies.
    #[serde(rename = "z", default, skip_serializing_if = "is_zero")]
    pub content_bytes: u64,
}

/// Resources of a target's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time since the previous sample, nanoseconds.
    #[serde(rename = "c")]
    pub cpu_ns: u64,
    /// Time since the previous sample, nanoseconds; 0 in the first one.
    #[serde(rename = "d")]
    pub over_ns: u64,
    /// Resident memory, bytes.
    #[serde(rename = "m")]
    pub memory_bytes: u64,
    #[serde(rename = "t")]
    pub threads: u64,
    #[serde(rename = "f")]
    pub descriptors: u64,
    /// Largest share of a process's limit of descriptors.
    #[serde(rename = "s")]
    pub descriptors_share: f64,
}

/// State of a target in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// At least half of the requests got an expected response in time.
    Up,
    /// Less than half did.
    Down,
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

    #[must_use]
    pub const fn state(&self) -> TargetState {
        match self.requests {
            0 => TargetState::Unknown,
            requests if self.good() * 2 >= requests => TargetState::Up,
            _ => TargetState::Down,
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

impl ResponseTimes {
    /// The shortest representation of the histogram.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram) -> Self {
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

    /// Adds them to `histogram` and returns their exact sum. Damaged ones are ignored.
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

/// A run of down intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Start of the first down interval, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub from_ms: i64,
    /// Length until the next up interval, or until its latest interval if no measured one follows, milliseconds.
    #[serde(rename = "l")]
    pub length_ms: u64,
    /// Number of down intervals.
    #[serde(rename = "p")]
    pub intervals: u64,
    /// Kind of the first error.
    #[serde(rename = "x")]
    pub cause: String,
    /// Whether it was ended by an up interval, rather than a gap or the removal of the target.
    #[serde(rename = "s")]
    pub has_end: bool,
}

/// An outage that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OngoingOutage {
    /// Start, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub from_ms: i64,
    /// Start, milliseconds since boot.
    #[serde(rename = "b")]
    pub from_boot_ms: u64,
    /// Start of its latest interval, milliseconds since boot.
    #[serde(rename = "o")]
    pub last_boot_ms: u64,
    /// Number of down intervals so far.
    #[serde(rename = "p")]
    pub intervals: u64,
    /// Kind of the first error.
    #[serde(rename = "x")]
    pub cause: String,
}

/// Unmeasured time: neither up nor down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// End, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub until_ms: i64,
    /// Milliseconds.
    #[serde(rename = "l")]
    pub length_ms: u64,
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// Unix time after it, milliseconds.
    #[serde(rename = "w")]
    pub at_ms: i64,
    /// Milliseconds; negative if the clock was set back.
    #[serde(rename = "c")]
    pub step_ms: i64,
}

/// Intervals of a minute or an hour in one record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rollup {
    /// Number of its first interval.
    #[serde(rename = "n")]
    pub first: u64,
    /// Number of its last interval.
    #[serde(rename = "m")]
    pub last: u64,
    /// Start of its first interval, Unix time in milliseconds.
    #[serde(rename = "w")]
    pub wall_ms: i64,
    /// Start of its last interval, milliseconds after `wall_ms`.
    #[serde(rename = "v")]
    pub length_ms: i64,
    /// Start of its last interval, milliseconds since boot.
    #[serde(rename = "b")]
    pub last_boot_ms: u64,
    /// Identifies the boot.
    #[serde(rename = "i")]
    pub boot: u16,
    /// Unmeasured times.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Number of unmeasured times beyond [`GAPS_PER_ROLLUP_MAX`].
    #[serde(rename = "G", default, skip_serializing_if = "is_zero")]
    pub gaps_more: u64,
    /// Total length of the unmeasured times beyond [`GAPS_PER_ROLLUP_MAX`], milliseconds.
    #[serde(rename = "L", default, skip_serializing_if = "is_zero")]
    pub gaps_more_ms: u64,
    /// Steps of the wall clock.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub clock_steps: Vec<ClockStep>,
    /// One per target.
    #[serde(rename = "p")]
    pub targets: Vec<TargetRollup>,
}

impl Rollup {
    /// Start of its last interval, Unix time in milliseconds.
    #[must_use]
    pub const fn last_wall_ms(&self) -> i64 {
        self.wall_ms + self.length_ms
    }
}

/// Intervals of one target in a rollup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetRollup {
    /// Index of the target.
    #[serde(rename = "t")]
    pub target: u32,
    #[serde(rename = "U", default, skip_serializing_if = "is_zero")]
    pub up: u64,
    #[serde(rename = "D", default, skip_serializing_if = "is_zero")]
    pub down: u64,
    /// Intervals without a request.
    #[serde(rename = "N", default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Total length of the measurements, nanoseconds.
    #[serde(rename = "e")]
    pub elapsed_ns: u64,
    /// Requests by outcome.
    #[serde(flatten)]
    pub counts: Counts,
    #[serde(rename = "h", default, skip_serializing_if = "ResponseTimes::is_none")]
    pub times: ResponseTimes,
    /// Resources: `cpu_ns` and `over_ns` are sums, the others means over `usages` intervals.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Number of intervals with resources.
    #[serde(rename = "q", default, skip_serializing_if = "is_zero")]
    pub usages: u64,
    /// Outages that ended in it.
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Outages that ended in it beyond [`OUTAGES_PER_ROLLUP_MAX`].
    #[serde(rename = "O", default, skip_serializing_if = "is_zero")]
    pub outages_more: u64,
    /// The outage that has not ended at its end.
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
    pub ongoing: Option<OngoingOutage>,
    /// The latest expiry ([`Probe::certificate_expires_at`]).
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_at: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero_signed(value: &i64) -> bool {
    *value == 0
}
