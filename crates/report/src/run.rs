//! The input of every output format.

use breme_experiment::record::{RunHead, TrialRecord};
use breme_judge::judgement::Judgement;

use crate::instruments::Instruments;
use crate::words::{COUNTS, trial_state};

/// Everything that a report shows.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Origin and circumstances of the run.
    pub head: &'a RunHead,
    /// In execution order.
    pub trials: &'a [TrialRecord],
    pub judgement: &'a Judgement,
    /// The text of the plan (TOML).
    pub plan: &'a str,
    /// Samples of the instruments during the trials.
    pub instruments: &'a Instruments,
}

impl Run<'_> {
    /// The question stated in the plan; none if it is the title.
    pub(crate) fn question(&self) -> Option<String> {
        self.text("question").filter(|question| question != self.title().trim())
    }

    /// The author's notes for readers.
    pub(crate) fn notes(&self) -> Option<String> {
        self.text("notes")
    }

    fn text(&self, key: &str) -> Option<String> {
        let plan: toml::Table = self.plan.parse().ok()?;
        Some(plan.get(key)?.as_str()?.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The experiment's title, or the run's name.
    pub(crate) fn title(&self) -> &str {
        if self.head.title.is_empty() { &self.head.run } else { &self.head.title }
    }

    /// The uncounted trials: failed or INVALID.
    pub(crate) fn discounted(&self) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(|trial| trial_state(trial) != COUNTS)
    }
}
