//! Runs an experiment trial by trial; each is written to the journal before the next begins.
//!
//! From the plan's minimum number of blocks on, the hypotheses are judged after each block, and the run ends once all
//! of them have a verdict.
//!
//! The remaining work follows from the plan and the journal alone, so resuming a killed run is the same as starting
//! one: trials in the journal are skipped. This includes the trials repeated at the end of their block ([`Attempts`])
//! and the time spent.

mod cpu_assignment;
mod failures;
mod faults;
mod foreign_generator;
mod generator;
mod load_report;
mod searches;
mod subjects;
mod time_budget;
mod trial;
mod window;

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;

use breme_experiment::plan::{Attempts, Diagnostics, Plan, Repeat};
use breme_experiment::record::{Purpose, RunEnd, TrialEnd, TrialRecord};
use breme_experiment::trial::{TrialKey, TrialSpec};
use breme_judge::{Question, is_decided};
use breme_subject::{CommandError, FillError, INTERVAL, Instruments, Launcher, PlaceholderNames};
use thiserror::Error;

use self::cpu_assignment::CpuAssignment;
use self::failures::Failures;
pub(crate) use self::generator::arguments as generator_arguments;
use self::searches::Searches;
pub(crate) use self::searches::examples as search_examples;
use self::subjects::RunningSubjects;
use self::time_budget::TimeBudget;
use self::trial::TrialContext;
use crate::journal::{Journal, JournalError};
use crate::placement::PlacementError;

#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    Begins {
        /// Number in the run, from 1.
        number: u32,
        trial: &'a TrialSpec,
        /// Number of failed attempts before this one.
        repeat: u32,
    },
    /// A trial is in the journal.
    Recorded(&'a TrialRecord),
    /// Every hypothesis has a verdict after this many blocks; the remaining blocks are not needed.
    Decided(u32),
}

/// Why a run cannot continue.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the instruments cannot be started: {0}")]
    Instruments(#[source] io::Error),
    #[error("prepare: {0}")]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A level of a search that the plan does not allow.
    #[error(transparent)]
    Search(#[from] Diagnostics),
}

/// Why a command before the first trial failed.
#[derive(Debug, Error)]
pub enum PrepareError {
    #[error(transparent)]
    Text(#[from] FillError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Runs the remainder of a plan. `recorded` are the trials already in the journal.
///
/// # Errors
/// If the journal cannot be written or the instruments cannot be read. A failing subject ends only its own trial, and
/// the record says so.
pub fn conduct(
    plan: &Plan,
    recorded: Vec<TrialRecord>,
    journal: &mut Journal,
    launcher: &Launcher,
    on_progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, RunError> {
    let cpu_assignment = cpu_assignment(plan)?;
    let names = prepare(plan, journal, launcher)?;
    let instruments = Instruments::start(&journal.instruments_path(), INTERVAL).map_err(RunError::Instruments)?;
    let mut run = ConductedRun {
        plan,
        question: Question::from(plan),
        journal,
        launcher,
        cpu_assignment,
        running_subjects: RunningSubjects::new(launcher, &instruments, names),
        instruments: &instruments,
        last_number: 0,
        attempts: Attempts::default(),
        failures: Failures::default(),
        time_budget: TimeBudget::new(plan.budget),
        records: Vec::new(),
        on_progress,
    };
    recorded.into_iter().for_each(|record| run.take(record));
    let end = run.blocks().and_then(|end| match end {
        RunEnd::Complete | RunEnd::Decided => run.searches(end),
        other => Ok(other),
    });
    // Nothing may be left running, whatever happened; errors while stopping no longer matter.
    let _ = run.running_subjects.stop_all();
    end
}

/// Runs the commands that precede the first trial of a session. Returns the names available to all texts.
fn prepare(plan: &Plan, journal: &Journal, launcher: &Launcher) -> Result<PlaceholderNames, RunError> {
    let mut names = PlaceholderNames::default();
    names.set("breme", launcher.own_program.display().to_string());
    if plan.prepare.is_empty() {
        return Ok(names);
    }
    let folder = journal.shared_folder()?;
    names.set("shared", folder.display().to_string());
    for command in &plan.prepare {
        let command = names.fill_all(command, "prepare").map_err(PrepareError::from)?;
        launcher.run(&command, &folder, &folder.join("prepare.log"), &[]).map_err(PrepareError::from)?;
    }
    Ok(names)
}

/// Assigns the CPUs of all subjects and generators of the plan.
fn cpu_assignment(plan: &Plan) -> Result<CpuAssignment, RunError> {
    let trials: Vec<TrialSpec> = plan.first_block().chain(search_examples(plan)).collect();
    let cpu_assignment = CpuAssignment::new(breme_sys::cpus_allowed(), &trials);
    // Unavailable CPUs are reported before anything has started.
    for trial in &trials {
        cpu_assignment.assign(trial)?;
    }
    Ok(cpu_assignment)
}

struct ConductedRun<'a> {
    plan: &'a Plan,
    question: Question,
    journal: &'a mut Journal,
    launcher: &'a Launcher,
    cpu_assignment: CpuAssignment,
    running_subjects: RunningSubjects<'a>,
    instruments: &'a Instruments,
    last_number: u32,
    attempts: Attempts,
    failures: Failures,
    time_budget: TimeBudget,
    /// All records in the journal.
    records: Vec<TrialRecord>,
    on_progress: &'a mut dyn FnMut(Progress<'_>),
}

impl ConductedRun<'_> {
    /// Runs blocks until the last one, or until all hypotheses are decided.
    fn blocks(&mut self) -> Result<RunEnd, RunError> {
        let of_blocks = self.records.iter().filter(|record| record.purpose == Purpose::Block);
        let done: HashSet<TrialKey> = of_blocks.map(TrialRecord::key).collect();
        let trials = self.plan.trials();
        for block in trials.chunk_by(|one, other| one.block == other.block) {
            let left: Vec<&TrialKey> = block.iter().filter(|key| !done.contains(key)).collect();
            // A block that has begun is finished first.
            if left.len() == block.len() && self.is_decided(block[0].block - 1) {
                return Ok(RunEnd::Decided);
            }
            match self.block(&left, block)? {
                RunEnd::Complete => {}
                other => return Ok(other),
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Whether the run may end after this many blocks.
    fn is_decided(&mut self, blocks: u32) -> bool {
        let is_due = self.plan.ends_when_decided() && blocks >= self.plan.blocks.least;
        if is_due && is_decided(&self.question, &self.records) {
            (self.on_progress)(Progress::Decided(blocks));
            return true;
        }
        false
    }

    /// Runs what is `left` of a block, then its repetitions.
    fn block(&mut self, left: &[&TrialKey], whole: &[TrialKey]) -> Result<RunEnd, RunError> {
        // A block that cannot be finished is not begun: half a block is no evidence.
        if !left.is_empty() && !self.time_budget.is_enough_for_block(left.len() as f64 / whole.len() as f64) {
            return Ok(RunEnd::OutOfTime);
        }
        for key in left {
            let Some(trial) = self.plan.trial(key) else { continue };
            if let Some(end) = self.trial_of_block(&trial, 0)? {
                return Ok(end);
            }
        }
        let Some(first) = whole.first() else { return Ok(RunEnd::Complete) };
        while let Some(Repeat { key, repeat }) = self.attempts.next_repeat(first.block, self.plan.repeats) {
            if !self.time_budget.is_enough_for_trial() {
                return Ok(RunEnd::OutOfTime);
            }
            let Some(trial) = self.plan.trial(&key) else { return Ok(RunEnd::Complete) };
            if let Some(end) = self.trial_of_block(&trial, repeat)? {
                return Ok(end);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Runs a trial of a block. Returns how the run ends, if it does.
    fn trial_of_block(&mut self, trial: &TrialSpec, repeat: u32) -> Result<Option<RunEnd>, RunError> {
        let Some(record) = self.trial(trial, Purpose::Block, repeat)? else { return Ok(Some(RunEnd::Interrupted)) };
        Ok(self.failures.take(&record).then_some(RunEnd::Failing { trial: record.number }))
    }

    fn searches(&mut self, end: RunEnd) -> Result<RunEnd, RunError> {
        let mut searches = Searches::new(self.plan, self.records.clone());
        while let Some(next) = searches.next() {
            if self.time_budget.is_over() {
                return Ok(RunEnd::OutOfTime);
            }
            let trial = next.trial?;
            match self.trial(&trial, next.purpose, 0)? {
                None => return Ok(RunEnd::Interrupted),
                Some(record) => searches.take(record),
            }
        }
        Ok(end)
    }

    /// Runs a trial and appends its record. None if the user cancelled.
    fn trial(&mut self, trial: &TrialSpec, purpose: Purpose, repeat: u32) -> Result<Option<TrialRecord>, RunError> {
        if self.launcher.cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let number = self.last_number + 1;
        (self.on_progress)(Progress::Begins { number, trial, repeat });
        let folder = self.journal.trial_folder(number)?;
        let cpus = self.cpu_assignment.assign(trial)?;
        let context = TrialContext {
            question: &self.question,
            launcher: self.launcher,
            running_subjects: &mut self.running_subjects,
            instruments: self.instruments,
            cpus: &cpus,
            folder: &folder,
        };
        let Some(mut record) = trial::run(trial, number, context) else { return Ok(None) };
        if record.end != TrialEnd::Complete {
            self.journal.check_space()?;
        }
        (record.purpose, record.repeat) = (purpose, repeat);
        record.spent_s = self.time_budget.since_last().as_secs_f64();
        self.journal.append(&record)?;
        (self.on_progress)(Progress::Recorded(&record));
        self.take(record.clone());
        Ok(Some(record))
    }

    /// Takes a trial of the journal into account.
    fn take(&mut self, record: TrialRecord) {
        self.last_number = self.last_number.max(record.number);
        self.attempts.take(&record);
        self.time_budget.take(&record);
        self.records.push(record);
    }
}
