//! What every output is made from.

use breme_experiment::record::{RunHead, TrialRecord};
use breme_judge::judgement::Judgement;

use crate::instruments::Instruments;
use crate::words::{COUNTS, trial_state};

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
        self.text("question")
    }

    /// What the experiment's author wants readers to know.
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

    /// The trials that do not count: failed or INVALID.
    pub(crate) fn discounted(&self) -> impl Iterator<Item = &TrialRecord> {
        self.trials.iter().filter(|trial| trial_state(trial) != COUNTS)
    }
}
