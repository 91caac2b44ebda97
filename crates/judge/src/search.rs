//! The search for a failure point: the load at which a condition is first met.
//!
//! Plain bisection tests each level once and trusts the result; near the point the result is random, and an early wrong
//! result leads the rest of the search astray. Here every trial is a **vote** about its level, and the point is where
//! the fewest votes are on the wrong side of it. Later votes can outvote a wrong one, whenever it occurred. The rules,
//! in order:
//!
//! 1. go up, doubling, until a trial fails; a level counts as failed when failures lead by two;
//! 2. halve the gap (on a logarithmic scale) until it has the requested precision; both ends must lead by two;
//! 3. confirm with longer trials: the lower end holds, the upper end fails, and the lower end holds again **right
//!    after** the upper one has failed. If it does not, the system does not recover where it held before (hysteresis),
//!    and the search goes down until it does.
//!
//! The search is a function of the steps so far and has no other state, so a killed run continues where it stopped.
//!
//! After the ideas of MLRsearch (IETF BMWG): many short trials instead of one long one, tolerance of a share of wrong
//! ones, both bounds kept.

mod votes;

use std::time::Duration;

use breme_experiment::record::{Purpose, TrialRecord};
use breme_expression::Condition;
use votes::{Bounds, Votes, is_failed_confirmation, is_from_above, is_same};

use crate::condition::is_met;
use crate::judgement::{SearchOutcome, SearchStep};
use crate::levels::{Levels, in_words};
use crate::words;

/// Limit of the trials of a search, unless the plan sets a lower one.
pub const TRIALS_MAX: usize = 100;
/// A level is abandoned when its uncounted trials exceed the counted ones by this many, and its votes are not settled.
const UNCOUNTED_LEAD_MAX: usize = 3;
/// The search gives up after this many uncounted trials over all levels: the machine is too busy for it.
const UNCOUNTED_MAX: usize = 30;

/// A search of the plan.
#[derive(Clone, Debug)]
pub struct SearchQuestion {
    /// The factor that is varied; its levels are numbers.
    pub factor: String,
    /// The first level, which should hold.
    pub from: f64,
    /// The last level.
    pub to: f64,
    /// Required distance of the two ends: 0.05 is 5 %.
    pub precision: f64,
    /// Whether levels are whole numbers.
    pub is_integer: bool,
    /// The condition of failure.
    pub until: Condition,
    /// The levels of the other factors.
    pub at: Levels,
    /// Length of a trial.
    pub trial: Duration,
    /// Length of a confirming trial.
    pub confirmation: Duration,
    /// Limit of the trials, at most [`TRIALS_MAX`].
    pub trials_max: usize,
}

/// The next action of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Run a trial.
    Try {
        level: f64,
        length: Duration,
        /// [`Purpose::Confirmation`] instead of [`Purpose::Search`].
        is_confirmation: bool,
    },
    /// Nothing: see [`Search::outcome`].
    Done,
}

/// A search with its steps so far.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    question: &'a SearchQuestion,
    steps: Vec<SearchStep>,
}

/// What the search needs next.
enum State {
    /// The outcome of this level is not yet certain.
    Open(f64),
    /// A longer trial is needed.
    Confirm(f64),
    /// The search is complete.
    Found { is_confirmed: bool },
}

impl<'a> Search<'a> {
    #[must_use]
    pub const fn new(question: &'a SearchQuestion) -> Self {
        Self { question, steps: Vec::new() }
    }

    /// Restores the steps from the records, which are in execution order.
    #[must_use]
    pub fn from_records(question: &'a SearchQuestion, records: &[TrialRecord]) -> Self {
        let mut of_it: Vec<&TrialRecord> = records.iter().filter(|record| belongs(question, record)).collect();
        of_it.sort_by_key(|record| record.number);
        let steps = of_it.into_iter().filter_map(|record| step_of(question, record)).collect();
        Self { question, steps }
    }

    pub fn take(&mut self, step: SearchStep) {
        self.steps.push(step);
    }

    #[must_use]
    pub fn next(&self) -> Next {
        match self.state() {
            State::Open(level) => Next::Try { level, length: self.question.trial, is_confirmation: false },
            State::Confirm(level) => Next::Try { level, length: self.question.confirmation, is_confirmation: true },
            State::Found { .. } => Next::Done,
        }
    }

    /// The result so far.
    #[must_use]
    pub fn outcome(&self) -> SearchOutcome {
        let bounds = self.votes().bounds();
        let is_done = matches!(self.state(), State::Found { .. });
        let is_confirmed = matches!(self.state(), State::Found { is_confirmed: true });
        let mut outcome = SearchOutcome {
            factor: self.question.factor.clone(),
            until: self.question.until.to_string(),
            at: self.question.at.clone(),
            holds_at: bounds.holds_at,
            fails_at: bounds.fails_at,
            recovers_at: self.recovers_at(&bounds),
            is_confirmed,
            abandoned: self.abandoned(),
            steps: self.steps.clone(),
            sentence: String::new(),
        };
        outcome.sentence = sentence(&outcome, is_done, self.gave_up());
        outcome
    }

    /// The votes on every level that was not abandoned.
    fn votes(&self) -> Votes {
        let abandoned = self.abandoned();
        let is_kept = |step: &&SearchStep| !abandoned.iter().any(|&level| is_same(level, step.level));
        Votes::from_steps(&self.steps.iter().filter(is_kept).copied().collect::<Vec<_>>())
    }

    fn gave_up(&self) -> bool {
        self.steps.iter().filter(|step| step.failed.is_none()).count() >= UNCOUNTED_MAX
    }

    fn state(&self) -> State {
        if self.steps.len() >= self.question.trials_max.min(TRIALS_MAX) || self.gave_up() {
            return State::Found { is_confirmed: false };
        }
        let votes = self.votes();
        let Bounds { holds_at, fails_at } = votes.bounds();
        if let Some(high) = fails_at
            && !votes.is_settled(high)
        {
            return State::Open(high);
        }
        // An abandoned level bounds the search like a failing one, but proves nothing.
        let wall = self.abandoned().first().copied().filter(|&wall| fails_at.is_none_or(|high| wall < high));
        match (holds_at, wall.or(fails_at)) {
            (None, None) => State::Open(self.question.from),
            (None, Some(_)) if wall.is_some() => State::Found { is_confirmed: false },
            (None, Some(high)) => self.confirm_one(high, true),
            (Some(low), None) => match self.above(low) {
                Some(level) => State::Open(level),
                None if votes.is_settled(low) => self.confirm_one(low, false),
                None => State::Open(low),
            },
            (Some(low), Some(high)) => match self.between(low, high) {
                Some(level) => State::Open(level),
                None if !votes.is_settled(low) => State::Open(low),
                None if wall.is_some() => self.confirm_one(low, false),
                None => self.confirm_both(low, high),
            },
        }
    }

    /// The next level above one that holds; none at the top.
    fn above(&self, low: f64) -> Option<f64> {
        let SearchQuestion { from, to, is_integer, .. } = *self.question;
        let start = if is_integer { 1.0 } else { (to - from) / 1_024.0 };
        let next = if low > 0.0 { low * 2.0 } else { start };
        let next = if is_integer { next.round() } else { next };
        (low < to).then(|| next.min(to))
    }

    /// A level in the middle of a gap that is still too wide.
    fn between(&self, low: f64, high: f64) -> Option<f64> {
        if high <= low * (1.0 + self.question.precision) {
            return None;
        }
        let middle = if low > 0.0 { (low * high).sqrt() } else { high / 2.0 };
        if !self.question.is_integer {
            // Halving towards 0 would never end.
            return (low > 0.0 || high > self.question.to / 1_024.0).then_some(middle);
        }
        let middle = middle.round().clamp(low.floor() + 1.0, (high.ceil() - 1.0).max(low.floor() + 1.0));
        (middle > low && middle < high).then_some(middle)
    }

    /// There is only one end: it fails from the first level on, or never.
    fn confirm_one(&self, level: f64, fails: bool) -> State {
        match self.confirmations(level) {
            (held, failed) if (if fails { failed } else { held }) > 0 => State::Found { is_confirmed: true },
            _ => self.confirm(level),
        }
    }

    /// Confirms both ends, and the lower one again after the upper one.
    fn confirm_both(&self, low: f64, high: f64) -> State {
        if self.confirmations(low).0 == 0 && self.recoveries(low) == (0, 0) {
            return self.confirm(low);
        }
        if self.confirmations(high).1 == 0 {
            return self.confirm(high);
        }
        let (held, failed) = self.recoveries(low);
        if held > failed {
            return State::Found { is_confirmed: true };
        }
        if failed < held + 2 {
            let is_above = self.steps.last().is_some_and(|step| is_failed_confirmation(step) && step.level >= high);
            return self.confirm(if is_above { low } else { high });
        }
        self.descend(low)
    }

    /// It does not recover where it held on the way up: search further down, in steps that double.
    fn descend(&self, low: f64) -> State {
        let lowest = self.steps.last().map_or(low, |step| step.level.min(low));
        let is_recovered = self.steps.last().is_some_and(|step| step.is_confirmation && step.failed == Some(false));
        if is_recovered || lowest <= self.question.from {
            return State::Found { is_confirmed: true };
        }
        let gone = (low / lowest).ln() / self.question.precision.ln_1p();
        let next = low / (1.0 + self.question.precision).powf((gone * 2.0).max(1.0));
        let next = if self.question.is_integer { next.floor().min(lowest - 1.0) } else { next };
        self.confirm(next.max(self.question.from))
    }

    fn confirm(&self, level: f64) -> State {
        let is_it = |step: &&SearchStep| step.is_confirmation && is_same(step.level, level) && step.failed.is_none();
        if self.steps.iter().filter(is_it).count() >= UNCOUNTED_LEAD_MAX {
            State::Found { is_confirmed: false }
        } else {
            State::Confirm(level)
        }
    }

    /// How many longer trials of a level, not coming from above, held and failed.
    fn confirmations(&self, level: f64) -> (usize, usize) {
        self.count_confirmations(level, false)
    }

    /// How many longer trials of a level held and failed right after a failure at a higher level.
    fn recoveries(&self, level: f64) -> (usize, usize) {
        self.count_confirmations(level, true)
    }

    fn count_confirmations(&self, level: f64, from_above: bool) -> (usize, usize) {
        let outcomes = (0..self.steps.len()).filter(|&index| {
            let step = &self.steps[index];
            step.is_confirmation && is_same(step.level, level) && is_from_above(&self.steps, index) == from_above
        });
        let failed: Vec<bool> = outcomes.filter_map(|index| self.steps[index].failed).collect();
        (failed.iter().filter(|failed| !**failed).count(), failed.iter().filter(|failed| **failed).count())
    }

    /// The level at which it held again, if that is below the level that holds on the way up.
    fn recovers_at(&self, bounds: &Bounds) -> Option<f64> {
        let low = bounds.holds_at?;
        let (held, failed) = self.recoveries(low);
        let last = self.steps.last().filter(|step| step.is_confirmation && step.failed == Some(false));
        last.filter(|step| failed > held && step.level < low).map(|step| step.level)
    }

    /// Levels whose trials hardly ever count (INVALID: this generator, on this machine, cannot produce them),
    /// ascending. One good trial among many bad ones must not keep the search at a level forever.
    fn abandoned(&self) -> Vec<f64> {
        let votes = Votes::from_steps(&self.steps);
        let is_abandoned = |level: f64| {
            let of_level = self.steps.iter().filter(|step| is_same(step.level, level));
            let (counted, uncounted): (Vec<&SearchStep>, Vec<&SearchStep>) =
                of_level.partition(|step| step.failed.is_some());
            uncounted.len() >= counted.len() + UNCOUNTED_LEAD_MAX && !votes.is_settled(level)
        };
        let mut levels: Vec<f64> =
            self.steps.iter().map(|step| step.level).filter(|&level| is_abandoned(level)).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup_by(|one, other| is_same(*one, *other));
        levels
    }
}

fn belongs(question: &SearchQuestion, record: &TrialRecord) -> bool {
    record.purpose != Purpose::Block
        && record.levels.contains_key(&question.factor)
        && question.at.iter().all(|(factor, level)| record.levels.get(factor) == Some(level))
}

fn step_of(question: &SearchQuestion, record: &TrialRecord) -> Option<SearchStep> {
    Some(SearchStep {
        level: record.levels.get(&question.factor)?.parse().ok().filter(|level: &f64| level.is_finite())?,
        failed: is_met(&question.until, record),
        trial: record.number,
        is_confirmation: record.purpose == Purpose::Confirmation,
    })
}

fn sentence(outcome: &SearchOutcome, is_done: bool, gave_up: bool) -> String {
    let SearchOutcome { factor, until, holds_at, fails_at, recovers_at, is_confirmed, .. } = outcome;
    let number = |level: &f64| words::amount(*level, breme_expression::Unit::Plain);
    let at = if outcome.at.is_empty() { String::new() } else { format!(" at {}", in_words(&outcome.at)) };
    let found = match (holds_at, fails_at) {
        (Some(low), Some(high)) => {
            format!("`{until}` is first true between {factor} = {} and {}{at}", number(low), number(high))
        }
        (Some(low), None) => format!("`{until}` is false up to {factor} = {}{at}", number(low)),
        (None, Some(high)) => format!("`{until}` is already true at {factor} = {}{at}", number(high)),
        (None, None) => format!("`{until}`: no level of {factor} could be judged{at}"),
    };
    let state = match (is_confirmed, is_done) {
        (true, _) => "; confirmed by longer trials",
        (false, true) => "; not confirmed by longer trials",
        (false, false) => "; the search is unfinished",
    };
    let back = recovers_at.map(|level| format!(". After failing, it recovers only at {}", number(&level)));
    format!("{found}{state}{}.{}", back.unwrap_or_default(), uncounted_in_words(outcome, gave_up))
}

/// The cost of the uncounted trials.
fn uncounted_in_words(outcome: &SearchOutcome, gave_up: bool) -> String {
    let number = |level: &f64| words::amount(*level, breme_expression::Unit::Plain);
    let of_level = |level: &f64| {
        let trials: Vec<&SearchStep> = outcome.steps.iter().filter(|step| is_same(step.level, *level)).collect();
        let uncounted = trials.iter().filter(|step| step.failed.is_none()).count();
        format!("{} ({uncounted} of {} trials)", number(level), trials.len())
    };
    let mut text = String::new();
    if !outcome.abandoned.is_empty() {
        let levels: Vec<String> = outcome.abandoned.iter().map(of_level).collect();
        text +=
            &format!(" Abandoned, since too many trials did not count: {} = {}.", outcome.factor, levels.join(", "));
    }
    if gave_up {
        text += &format!(
            " The search stopped after {UNCOUNTED_MAX} trials that did not count; use a quieter machine, longer trials \
             (`short`) or lower levels."
        );
    }
    text
}
