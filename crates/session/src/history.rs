//! Checks what clients saw: whether each session behaved as one list to which requests append in turn.
//!
//! The application under test appends a token to its session and responds with all tokens. Each list that is returned
//! fixes the order of the appends, so no search is needed: the cost is that of sorting. A history passes if and only if
//! it is linearizable: each operation takes effect at one instant between its invocation and its return.
//!
//! It works on what clients record, whatever the system is: simulations, the load generator and tests of running
//! clusters all use it.
//!
//! ```
//! use breme_base::Instant;
//! use breme_session::history::{Action, Operation, OperationOutcome, Problem, check};
//!
//! let at = Instant::from_nanos;
//! let append = |token, invoked, returned, list: &[u64]| Operation {
//!     session: 1,
//!     id: 1,
//!     action: Action::Append(token),
//!     invoked: at(invoked),
//!     returned: at(returned),
//!     outcome: OperationOutcome::Done(list.to_vec()),
//! };
//! let good = [append(7, 0, 5, &[7]), append(8, 6, 9, &[7, 8])];
//! assert!(check(&good).problems.is_empty());
//! let bad = [append(7, 0, 5, &[7]), append(8, 6, 9, &[8])];
//! assert_eq!(check(&bad).problems[0].problem, Problem::Lost);
//! ```

use std::collections::{HashMap, HashSet};
use std::fmt;

use breme_base::Instant;

pub const PROBLEMS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Append this token, unique in the history, and read.
    Append(u64),
    Read,
    LogOut,
    /// Continue under the id `to`, and read.
    Rotate {
        to: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperationOutcome {
    /// Succeeded, with these tokens (none after [`Action::LogOut`]).
    Done(Vec<u64>),
    /// Did not take effect and never will.
    Failed,
    /// Unknown (no response, or one that says so). The time of return is ignored.
    Unknown,
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The session that the client means, whatever its id.
    pub session: u64,
    /// The id in the request; for the first request of a session, the id that it was assigned.
    pub id: u64,
    pub action: Action,
    /// When it was sent.
    pub invoked: Instant,
    /// When the response was complete.
    pub returned: Instant,
    pub outcome: OperationOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// A list lacks a token that was acknowledged before the request began, and no later list has it.
    Lost,
    /// A list lacks tokens that were returned before the request began.
    Stale,
    /// Two lists contradict each other.
    Fork,
    /// A list has a token twice.
    Duplicate,
    /// A list has a token of another session.
    Foreign,
    /// A list has a token that no operation appended.
    Invented,
    /// An append returned a list without its token at the end.
    OwnMissing,
    /// A list has the token of an append that failed for certain.
    FailedAppears,
    /// A list has a token whose append began after the list was returned.
    FromTheFuture,
    /// The session was served after it had ended.
    Resurrected,
    /// The session was served under an id that had been replaced.
    OldId,
    /// The session was absent, though no operation had ended it.
    Vanished,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub problem: Problem,
    /// Index of the operation in the history.
    pub operation: usize,
    pub token: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// At most [`PROBLEMS_MAX`].
    pub problems: Vec<Anomaly>,
    /// Successful operations.
    pub done: usize,
    /// Operations that certainly failed.
    pub failed: usize,
    /// Operations with unknown outcome. If most are unknown, the check proves little.
    pub unknown: usize,
    /// Operations that found no session.
    pub absent: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problems, done, failed, unknown, absent } = self;
        write!(
            formatter,
            "{done} done, {failed} failed, {unknown} unknown, {absent} absent; {} problems",
            problems.len()
        )?;
        for Anomaly { problem, operation, token } in problems {
            write!(formatter, "\n  operation {operation}: {problem:?}")?;
            if let Some(token) = token {
                write!(formatter, " (token {token})")?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn add(&mut self, problem: Problem, operation: usize, token: Option<u64>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Anomaly { problem, operation, token });
        }
    }
}

/// Checks a history. The order of the operations does not matter.
#[must_use]
pub fn check(history: &[Operation]) -> Report {
    let mut report = Report::default();
    let mut appends = HashMap::new();
    let mut sessions: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, operation) in history.iter().enumerate() {
        match operation.outcome {
            OperationOutcome::Done(_) => report.done += 1,
            OperationOutcome::Failed => report.failed += 1,
            OperationOutcome::Unknown => report.unknown += 1,
            OperationOutcome::Absent => report.absent += 1,
        }
        if let Action::Append(token) = operation.action {
            appends.insert(token, place);
        }
        sessions.entry(operation.session).or_default().push(place);
    }
    let mut keys: Vec<_> = sessions.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let session = SessionHistory { history, appends: &appends, places: &sessions[&key] };
        session.check_lists(&mut report);
        session.check_lives(&mut report);
    }
    report
}

struct SessionHistory<'a> {
    history: &'a [Operation],
    /// Index of the operation that appends each token.
    appends: &'a HashMap<u64, usize>,
    places: &'a [usize],
}

impl<'a> SessionHistory<'a> {
    fn operations(&self) -> impl Iterator<Item = (usize, &'a Operation)> {
        self.places.iter().map(|&place| (place, &self.history[place]))
    }

    /// Operations that returned tokens.
    fn lists(&self) -> impl Iterator<Item = (usize, &'a Operation, &'a [u64])> {
        self.operations().filter_map(|(place, operation)| match (&operation.outcome, operation.action) {
            (OperationOutcome::Done(_), Action::LogOut) => None,
            (OperationOutcome::Done(list), _) => Some((place, operation, list.as_slice())),
            _ => None,
        })
    }

    fn check_lists(&self, report: &mut Report) {
        let Some((_, _, longest)) = self.lists().max_by_key(|(place, _, list)| (list.len(), *place)) else { return };
        self.check_tokens(longest, report);
        let mut is_forked = false;
        for (place, operation, list) in self.lists() {
            if !longest.starts_with(list) {
                let differs = longest.iter().zip(list).position(|(one, other)| one != other).unwrap_or(0);
                report.add(self.kind_of_fork(list, longest, differs), place, list.get(differs).copied());
                is_forked = true;
            }
            if let Action::Append(token) = operation.action
                && list.last() != Some(&token)
            {
                report.add(Problem::OwnMissing, place, Some(token));
            }
        }
        if !is_forked {
            self.check_order(longest, report);
        }
    }

    /// Two lists that contradict each other: an acknowledged token that one lacks is lost.
    fn kind_of_fork(&self, list: &[u64], longest: &[u64], differs: usize) -> Problem {
        let is_acknowledged = |token: &u64| {
            self.appends
                .get(token)
                .is_some_and(|&place| matches!(self.history[place].outcome, OperationOutcome::Done(_)))
        };
        let lacks = |tokens: &[u64], other: &[u64]| {
            tokens[differs..].iter().any(|token| is_acknowledged(token) && !other.contains(token))
        };
        if lacks(list, longest) || lacks(longest, list) { Problem::Lost } else { Problem::Fork }
    }

    fn check_tokens(&self, longest: &[u64], report: &mut Report) {
        let key = self.history[self.places[0]].session;
        let mut seen = HashSet::new();
        let shows = |token: u64| self.lists().find(|(_, _, list)| list.contains(&token)).map_or(0, |(place, ..)| place);
        for &token in self.lists().flat_map(|(_, _, list)| list).collect::<HashSet<_>>() {
            let problem = match self.appends.get(&token).map(|&place| &self.history[place]) {
                None => Problem::Invented,
                Some(append) if append.session != key => Problem::Foreign,
                Some(append) if matches!(append.outcome, OperationOutcome::Failed | OperationOutcome::Absent) => {
                    Problem::FailedAppears
                }
                Some(_) => continue,
            };
            report.add(problem, shows(token), Some(token));
        }
        for &token in longest {
            if !seen.insert(token) {
                report.add(Problem::Duplicate, shows(token), Some(token));
            }
        }
    }

    /// For each pair of operations, the order of the lists must agree with that of time.
    fn check_order(&self, longest: &[u64], report: &mut Report) {
        self.check_past(report);
        self.check_future(longest, report);
    }

    /// A list contains everything returned before its operation began; an append comes after all of it.
    fn check_past(&self, report: &mut Report) {
        let mut begun: Vec<_> = self.lists().collect();
        let mut ended = begun.clone();
        begun.sort_by_key(|(_, operation, _)| operation.invoked);
        ended.sort_by_key(|(_, operation, _)| operation.returned);
        let last = begun.last().map(|(place, ..)| *place);
        let mut returned = ended.into_iter().peekable();
        let mut longest_returned: &[u64] = &[];
        for (place, operation, list) in begun {
            while let Some((_, _, list)) = returned.next_if(|(_, ended, _)| ended.returned < operation.invoked) {
                longest_returned = if list.len() > longest_returned.len() { list } else { longest_returned };
            }
            let before = match operation.action {
                Action::Append(_) => list.len().saturating_sub(1),
                _ => list.len(),
            };
            if before < longest_returned.len() {
                let problem = if last == Some(place) { Problem::Lost } else { Problem::Stale };
                report.add(problem, place, longest_returned.get(before).copied());
            }
        }
    }

    /// No list has a token before its append began.
    fn check_future(&self, longest: &[u64], report: &mut Report) {
        let mut earliest: Vec<Option<(Instant, usize)>> = vec![None; longest.len() + 1];
        for (place, operation, list) in self.lists() {
            let slot = &mut earliest[list.len()];
            *slot = Some(slot.map_or((operation.returned, place), |known| known.min((operation.returned, place))));
        }
        let mut so_far = None;
        for (position, token) in longest.iter().enumerate().rev() {
            so_far = match (so_far, earliest[position + 1]) {
                (Some(one), Some(other)) => Some(std::cmp::min::<(Instant, usize)>(one, other)),
                (one, other) => one.or(other),
            };
            let append = self.appends.get(token).map(|&place| &self.history[place]);
            if let (Some((returned, place)), Some(append)) = (so_far, append)
                && returned < append.invoked
            {
                report.add(Problem::FromTheFuture, place, Some(*token));
            }
        }
    }

    /// A session lives until it is ended, and under one id at a time.
    fn check_lives(&self, report: &mut Report) {
        let ends = Ends::new(self);
        for (place, operation) in self.operations() {
            let problem = match operation.outcome {
                OperationOutcome::Done(_) => ends.problem_of_done(operation),
                OperationOutcome::Absent if !ends.may_be_absent(operation) => Some(Problem::Vanished),
                _ => None,
            };
            if let Some(problem) = problem {
                report.add(problem, place, None);
            }
        }
    }
}

/// Earliest times at which a session was known to have ended, or its ids to have been replaced.
#[derive(Default)]
struct Ends {
    /// When a logout was acknowledged.
    logged_out: Option<Instant>,
    /// When the replacement of an id was acknowledged.
    replaced: HashMap<u64, Instant>,
    /// When a request found it absent under an id.
    absent: HashMap<u64, Instant>,
    /// When the first logout or replacement was sent.
    may_end: Option<Instant>,
    may_be_replaced: HashMap<u64, Instant>,
}

impl Ends {
    fn new(session: &SessionHistory<'_>) -> Self {
        let mut ends = Self::default();
        for (_, Operation { id, action, invoked, returned, outcome, .. }) in session.operations() {
            let is_done = matches!(outcome, OperationOutcome::Done(_));
            let may_be_done = is_done || *outcome == OperationOutcome::Unknown;
            match action {
                Action::LogOut => {
                    note(&mut ends.logged_out, is_done.then_some(*returned));
                    note(&mut ends.may_end, may_be_done.then_some(*invoked));
                }
                Action::Rotate { .. } => {
                    note_of(&mut ends.replaced, *id, is_done.then_some(*returned));
                    note_of(&mut ends.may_be_replaced, *id, may_be_done.then_some(*invoked));
                }
                Action::Append(_) | Action::Read => {}
            }
            note_of(&mut ends.absent, *id, (*outcome == OperationOutcome::Absent).then_some(*returned));
        }
        ends
    }

    fn problem_of_done(&self, operation: &Operation) -> Option<Problem> {
        let is_past = |end: Option<&Instant>| end.is_some_and(|end| *end < operation.invoked);
        if is_past(self.logged_out.as_ref()) || is_past(self.absent.get(&operation.id)) {
            Some(Problem::Resurrected)
        } else {
            is_past(self.replaced.get(&operation.id)).then_some(Problem::OldId)
        }
    }

    fn may_be_absent(&self, operation: &Operation) -> bool {
        let ends = [self.may_end.as_ref(), self.may_be_replaced.get(&operation.id)];
        ends.into_iter().flatten().any(|begun| *begun <= operation.returned)
    }
}

fn note(known: &mut Option<Instant>, instant: Option<Instant>) {
    *known = (*known).into_iter().chain(instant).min();
}

fn note_of(known: &mut HashMap<u64, Instant>, id: u64, instant: Option<Instant>) {
    if let Some(instant) = instant {
        let earliest = known.entry(id).or_insert(instant);
        *earliest = instant.min(*earliest);
    }
}

#[cfg(test)]
#[path = "history/tests.rs"]
mod tests;
