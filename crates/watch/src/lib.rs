//! Watching servers for days and weeks: what is measured when, where it is kept, and what it shows.
//!
//! ```text
//!  watch file ──► File          Interval ──► Journal ──► raw ──► minutes ──► hours     (append-only, bounded)
//!                                               │
//!                                               └──► History ──► findings, objective ──► sentences, CSV, page
//! ```
//!
//! | module | what it is about |
//! |---|---|
//! | `file` | the watch file |
//! | [`record`] | one interval with its probes; many intervals folded into one record |
//! | `folding` | intervals → minutes → hours; outages |
//! | `frame`, [`journal`] | records with lengths and checksums, in segments; recovery, retention |
//! | [`history`] | a journal, read into series of bounded length |
//! | [`findings`] | time of day, day of the week, changes of level, leaks, each with its evidence |
//! | [`objective`] | service level objective, error budget, burn rate |
//! | [`sentences`] | all of that in words |
//! | [`csv`] | the intervals as CSV |
//!
//! This crate reads no clock, file or socket: files come through [`journal::Storage`], instants are part of the
//! records.

pub mod csv;
mod file;
pub mod findings;
mod folding;
mod frame;
pub mod history;
pub mod journal;
pub mod objective;
pub mod record;
pub mod sentences;

pub use file::{
    Alert, File, INTERVAL_MIN, Objective, ProcessPlace, Retention, TARGET_COUNT_MAX, Target, WATCH_FILE_BYTES_MAX,
};
