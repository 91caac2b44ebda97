//! Simulated weeks: sizes of the journal, outages, random kills, findings, false alarms.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]
#![allow(clippy::disallowed_methods, reason = "a test prints how long a week takes")]

mod findings;
mod fixture;
mod journal;
