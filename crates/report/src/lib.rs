//! What a run shows, for people and for programs.
//!
//! | function | for whom |
//! |---|---|
//! | [`html`] | one file that opens offline: answer, verdicts, charts with their data, method, plan |
//! | [`markdown`] | a pull request |
//! | [`text`] | a terminal |
//! | [`json`] | programs: head, judgement and every record, with a published schema ([`schema`]) |
//! | [`csv_trials`], [`csv_measures`] | spreadsheets |
//! | [`jtl`], [`go_bench`] | JMeter's users, and benchstat's |
//!
//! ```text
//!  head, records, judgement, plan ─┐
//!  instruments ──► Instruments ────┴──► Run ──► html, markdown, text, json, …
//! ```
//!
//! Nothing is judged here: every number that is held against another comes out of the judgement, so that all outputs say the same. This
//! crate knows no file and no clock. All text of a run is foreign (a subject may print anything): it is escaped for each output in one place.

mod chart;
mod distribution;
mod figures;
mod html;
mod instruments;
mod markdown;
mod prose;
mod rows;
mod table;
mod text;
mod tools;
mod units;
mod words;

use breme_experiment::judgement::Judgement;
use breme_experiment::record::{RunHead, TrialRecord};

pub use html::html;
pub use instruments::{Instrument, InstrumentRow, Instruments};
pub use markdown::markdown;
pub use rows::{Histograms, csv_measures, csv_trials, json, schema};
pub use text::{Style, text};
pub use tools::{go_bench, jtl};

/// All of a run that a report shows.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What it was made from, and where.
    pub head: &'a RunHead,
    /// Its trials, in the order in which they were run.
    pub trials: &'a [TrialRecord],
    /// What they show.
    pub judgement: &'a Judgement,
    /// The text of its plan (TOML).
    pub plan: &'a str,
    /// What the instruments saw during the trials.
    pub instruments: &'a Instruments,
}

impl Run<'_> {
    /// The question, as the plan has it.
    pub(crate) fn question(&self) -> Option<String> {
        let plan: toml::Table = self.plan.parse().ok()?;
        Some(plan.get("question")?.as_str()?.trim().to_owned()).filter(|question| !question.is_empty())
    }

    /// The experiment's title, or the run's name.
    pub(crate) fn title(&self) -> &str {
        if self.head.title.is_empty() { &self.head.run } else { &self.head.title }
    }

    /// The trials that no verdict may rest on.
    pub(crate) fn discounted(&self) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(|trial| words::trial_state(trial) != words::COUNTS)
    }
}
