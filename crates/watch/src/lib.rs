//! Core of `breme watch`: watch file, journal, history, findings.
//!
//! ```text
//!  watch file ──► File    IntervalRecord ──► Journal ──► raw ──► minutes ──► hours     (append-only, bounded)
//!                                               │
//!                                               └──► History ──► findings, objective ──► text, CSV, page
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `file` | the watch file |
//! | [`record`] | one interval with its probes; a rollup of many |
//! | `rollup` | intervals → minutes → hours; outages |
//! | `frame`, [`journal`] | records with lengths and checksums, in segments; recovery, retention |
//! | `interval_lengths` | lengths of a journal's intervals, for its retention |
//! | [`history`] | a journal read into series of bounded length |
//! | [`findings`] | effects of the hour and the weekday, changes of level, trends, each with its evidence |
//! | [`objective`] | service level objective, error budget, burn rate |
//! | [`certificate`] | expiry of a target's certificate |
//! | `alert` | the latest alerts, which the next watch gets |
//! | [`text`] | findings, outages and totals as sentences |
//! | [`csv`] | intervals as CSV |
//!
//! This crate uses no clock, files or sockets: it accesses files through [`journal::Storage`], and times are arguments.

mod alert;
pub mod certificate;
pub mod csv;
mod file;
pub mod findings;
mod frame;
pub mod history;
mod interval_lengths;
pub mod journal;
pub mod objective;
pub mod record;
mod rollup;
pub mod text;

pub use alert::LatestAlert;
pub use file::{
    Alert, Destination, File, INTERVAL_MIN, Objective, ProcessLocator, Retention, TARGET_COUNT_MAX,
    WATCH_FILE_BYTES_MAX, WatchTarget,
};
pub use interval_lengths::IntervalLengths;
