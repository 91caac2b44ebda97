//! The trials of a search, each chosen by the results of those before.

use breme_experiment::plan::{Diagnostics, Plan, SearchLength};
use breme_experiment::record::{Purpose, TrialRecord};
use breme_experiment::trial::TrialSpec;
use breme_judge::{Next, Question, Search, SearchQuestion};

/// The searches of a plan: one for each combination of the other factors' levels.
pub(super) struct Searches<'a> {
    plan: &'a Plan,
    questions: Vec<SearchQuestion>,
    /// Records of search trials.
    records: Vec<TrialRecord>,
}

/// The next trial.
pub(super) struct NextTrial {
    pub(super) trial: Result<TrialSpec, Diagnostics>,
    pub(super) purpose: Purpose,
}

impl<'a> Searches<'a> {
    pub(super) fn new(plan: &'a Plan, recorded: Vec<TrialRecord>) -> Self {
        let is_of_search = |record: &TrialRecord| record.purpose != Purpose::Block;
        Self {
            plan,
            questions: Question::from(plan).searches,
            records: recorded.into_iter().filter(is_of_search).collect(),
        }
    }

    /// The next trial; None: the search is complete.
    pub(super) fn next(&self) -> Option<NextTrial> {
        self.questions.iter().zip(0..).find_map(|(question, others)| {
            let Next::Try { level, is_confirmation, .. } = Search::from_records(question, &self.records).next() else {
                return None;
            };
            let (length, purpose) = if is_confirmation {
                (SearchLength::Long, Purpose::Confirmation)
            } else {
                (SearchLength::Short, Purpose::Search)
            };
            // Each trial of a search is a block of its own: its subjects are restarted, so that nothing remains of the
            // trial before.
            let block = self.plan.blocks.to_run() + 1 + u32::try_from(self.records.len()).unwrap_or(u32::MAX);
            Some(NextTrial { trial: self.plan.search_trial(others, level, length, block), purpose })
        })
    }

    pub(super) fn take(&mut self, record: TrialRecord) {
        self.records.push(record);
    }
}

/// A trial of each search, to know its subjects and generators.
pub(crate) fn examples(plan: &Plan) -> Vec<TrialSpec> {
    let Some(search) = &plan.search else { return Vec::new() };
    let others = 0..u32::try_from(search.others.len()).unwrap_or(u32::MAX);
    others.filter_map(|others| plan.search_trial(others, search.range.from, SearchLength::Short, 1).ok()).collect()
}
