//! Reports of a run, for people and for programs.
//!
//! | function | output or audience |
//! |---|---|
//! | [`html`] | one file that opens offline: answer, verdicts, charts with their data, method, plan |
//! | [`HistoryPage`], [`history_text`], [`history_markdown`] | a comparison of runs with its history |
//! | [`LoadPage`] | a single load, as one file |
//! | [`WatchPage`] | a watch of days or weeks, as one file or as a page that reloads itself |
//! | [`markdown`] | a pull request |
//! | [`text`] | a terminal |
//! | [`json`] | programs: head, judgement and every record, with a published schema ([`schema`]) |
//! | [`csv_trials`], [`csv_measures`] | spreadsheets |
//! | [`jtl`], [`go_bench`] | users of JMeter and of benchstat |
//!
//! ```text
//!  head, records, judgement, plan ─┐
//!  instruments ──► Instruments ────┴──► Run ──► html, markdown, text, json, …
//! ```
//!
//! Nothing is judged here: every comparison comes from the judgement, so that all outputs agree. This crate reads no
//! files and no clock. All text of a run is untrusted (a subject may print anything): it is escaped for each output in
//! one place.

mod chart;
mod distribution;
mod figures;
mod history;
mod html;
mod instruments;
mod key_comparisons;
mod markdown;
mod rows;
mod run;
mod table;
mod text;
mod tools;
mod units;
mod words;

pub use history::{history_markdown, history_text};
#[cfg(feature = "watch")]
pub use html::WatchPage;
pub use html::{HistoryPage, LoadPage, html};
pub use instruments::{Instrument, InstrumentRow, Instruments};
pub use markdown::markdown;
pub use rows::{Histograms, csv_measures, csv_trials, json, schema};
pub use run::Run;
pub use text::text;
pub use tools::{go_bench, jtl, loads_without_times};
