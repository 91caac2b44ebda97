//! One trial: starts the subjects and loads, watches them to the end, and stops them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use breme_experiment::record::{TrialFailure, TrialRecord, WorkloadRecord};
use breme_experiment::trial::{TrialSpec, WarmUp, WorkloadSpec};
use breme_judge::{Question, is_success_in_question};
use breme_subject::{INTERVAL, Instruments, Launcher, PlaceholderNames};

use super::cpu_assignment::TrialCpus;
use super::faults::Faults;
use super::foreign_generator;
use super::generator::{self, Generator, GeneratorContext, GeneratorRun};
use super::subjects::RunningSubjects;

/// Interval between checks for failures. No measurement depends on it.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How long background loads have the subjects to themselves, if the warm-up is to be detected.
const LEAD: Duration = Duration::from_secs(1);
/// How long a load may exceed its duration: the time-out of its last requests, and some margin.
const GRACE: Duration = Duration::from_secs(60);
/// Time limit of a load that ends after a number of requests.
const BY_REQUESTS_MAX: Duration = Duration::from_secs(3600);
/// Minimum number of instrument samples per trial.
const SAMPLES_MIN: u32 = 10;
/// CPU share of other processes from which the result has a warning.
const FOREIGN_SHARE_MAX: f64 = 0.1;
/// Steal time of the hypervisor from which the result has a warning.
const STEAL_SHARE_MAX: f64 = 0.02;

pub(super) struct TrialContext<'a, 'b> {
    pub(super) question: &'b Question,
    pub(super) launcher: &'a Launcher,
    pub(super) running_subjects: &'b mut RunningSubjects<'a>,
    pub(super) instruments: &'a Instruments,
    pub(super) cpus: &'b TrialCpus,
    /// The folder for output of the trial's processes.
    pub(super) folder: &'b Path,
}

/// Why there is no record.
enum Stop {
    Cancelled,
    Failed(TrialFailure),
}

impl From<TrialFailure> for Stop {
    fn from(failure: TrialFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Runs a trial. None: the user cancelled it, and it counts as not begun.
pub(super) fn run(trial: &TrialSpec, number: u32, mut context: TrialContext<'_, '_>) -> Option<TrialRecord> {
    let mut record = TrialRecord {
        number,
        block: trial.key.block,
        combination: trial.key.combination,
        replicate: trial.key.replicate,
        levels: trial.levels.iter().cloned().collect(),
        notes: context.cpus.notes.clone(),
        cpus: context.cpus.of_trial(trial),
        ..TrialRecord::default()
    };
    stamp(&mut record);
    match context.perform(trial, &mut record) {
        Ok(()) => {}
        Err(Stop::Cancelled) => return None,
        Err(Stop::Failed(_)) if context.is_cancelled() => return None, // it fell because everything is to end
        Err(Stop::Failed(failure)) => record.end = failure.into(),
    }
    Some(record)
}

/// Provisional, until the first generator reports its start.
fn stamp(record: &mut TrialRecord) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    record.started_unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
    record.started_monotonic_ns = breme_sys::monotonic_ns();
}

impl TrialContext<'_, '_> {
    fn perform(&mut self, trial: &TrialSpec, record: &mut TrialRecord) -> Result<(), Stop> {
        self.running_subjects.start_all(trial, self.folder, self.cpus)?;
        let mut faults = Faults::new(trial);
        // No fault is due before the load has begun.
        self.wait(trial.pause, &mut faults)?;
        self.instruments.begin(record.number, sampling_interval(trial));
        let begun = Instant::now();
        let results = self.load(trial, &mut faults);
        record.length_s = begun.elapsed().as_secs_f64();
        let readings = self.instruments.end();
        let (from_ns, to_ns) = readings.span_ns();
        let used = readings.window(from_ns, to_ns);
        (record.subjects, record.generators, record.machine) = (used.subjects, used.generators, used.machine);
        // Subjects that are kept for other trials are not part of this one.
        record.subjects.retain(|name, _| trial.subjects.iter().any(|subject| subject.name == *name));
        record.notes.extend_from_slice(readings.faults());
        record_loads(record, results?, running(trial).any(|workload| workload.after.is_some()));
        foreign_generator::complete(trial, record);
        record.faults = faults.records(record.started_monotonic_ns);
        record.invalid_reasons.extend(faults.missed());
        note_other_programs(record);
        let failure = if trial.faults.is_empty() { without_good_response(self.question, record) } else { None };
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Everything between the instruments' first and last sample.
    fn load<'t>(&mut self, trial: &'t TrialSpec, faults: &mut Faults<'t>) -> Result<Vec<(String, GeneratorRun)>, Stop> {
        let mut loads = Vec::new();
        let watched = self.start_loads(trial, &mut loads, faults).and_then(|()| self.watch(trial, &mut loads, faults));
        let results = watched.and_then(|()| end(&mut loads, faults.first_ns()));
        self.running_subjects.resume_all();
        for load in &loads {
            self.instruments.forget(&load.workload().name, load.process().cpu_time());
        }
        results
    }

    fn is_cancelled(&self) -> bool {
        self.launcher.cancelled.load(Ordering::Relaxed)
    }

    /// Waits, and checks for failures meanwhile.
    fn wait(&mut self, length: Duration, faults: &mut Faults<'_>) -> Result<(), Stop> {
        let end = Instant::now() + length;
        loop {
            self.check_failures()?;
            self.inject_due(faults)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(until_next_check(faults)));
        }
    }

    /// Injects the faults that are due.
    fn inject_due(&mut self, faults: &mut Faults<'_>) -> Result<(), TrialFailure> {
        while let Some(fault) = faults.take_due() {
            let at_ns = breme_sys::monotonic_ns();
            let processes = self.running_subjects.apply_fault(fault)?;
            faults.note(fault, u32::try_from(processes).unwrap_or(u32::MAX), at_ns);
        }
        Ok(())
    }

    fn check_failures(&self) -> Result<(), Stop> {
        if self.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.running_subjects.failed().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Starts background loads first, and the others after a lead time.
    fn start_loads(
        &mut self,
        trial: &TrialSpec,
        loads: &mut Vec<Generator>,
        faults: &mut Faults<'_>,
    ) -> Result<(), Stop> {
        let (background, foreground): (Vec<_>, Vec<_>) =
            running(trial).filter(|workload| workload.after.is_none()).partition(|workload| workload.is_background);
        let names = self.running_subjects.names();
        let has_background = !background.is_empty();
        for workload in background {
            loads.push(self.start_load(trial, workload, &names, None)?);
        }
        if has_background {
            let lead = match trial.warm_up {
                WarmUp::Found => LEAD,
                given => given.given(),
            };
            self.wait(lead, faults)?;
        }
        for workload in foreground {
            self.wait(workload.start_after, faults)?;
            let load = self.start_load(trial, workload, &names, None)?;
            faults.begin(load.load_start(), generator::warm_up(trial, workload).given());
            loads.push(load);
        }
        Ok(())
    }

    /// Starts the workloads that follow one of the finished `loads`.
    fn start_followers(
        &mut self,
        trial: &TrialSpec,
        loads: &mut Vec<Generator>,
        faults: &mut Faults<'_>,
    ) -> Result<(), Stop> {
        for workload in running(trial).filter(|workload| workload.after.is_some()) {
            let is_named = |load: &&Generator, name: &str| load.workload().name == name;
            if loads.iter().any(|load| is_named(&load, &workload.name)) {
                continue;
            }
            let before = loads.iter().find(|load| is_named(load, workload.after.as_deref().unwrap_or_default()));
            let Some((before, ending)) = before.and_then(|load| Some((load, load.ended()?))) else { continue };
            let result = before.result(&ending, None).map_err(|problem| {
                TrialFailure::of_generator(&before.workload().name, problem, ending.printed.clone())
            })?;
            self.wait(workload.start_after, faults)?;
            let names = self.running_subjects.names();
            loads.push(self.start_load(trial, workload, &names, Some(result.record.achieved_rate))?);
        }
        Ok(())
    }

    fn start_load(
        &self,
        trial: &TrialSpec,
        workload: &WorkloadSpec,
        names: &PlaceholderNames,
        rate_before: Option<f64>,
    ) -> Result<Generator, TrialFailure> {
        let cpus = self.cpus.generator(&workload.name);
        let context = GeneratorContext { launcher: self.launcher, folder: self.folder, cpus, names, rate_before };
        let load = Generator::start(trial, workload, context)
            .map_err(|problem| TrialFailure::of_generator(&workload.name, problem, ""))?;
        self.instruments.watch_generator(&workload.name, load.process());
        Ok(load)
    }

    /// Waits until all loads with an end have ended.
    fn watch(&mut self, trial: &TrialSpec, loads: &mut Vec<Generator>, faults: &mut Faults<'_>) -> Result<(), Stop> {
        loop {
            self.check_failures()?;
            self.inject_due(faults)?;
            self.start_followers(trial, loads, faults)?;
            let mut waited_for = None;
            for load in loads.iter() {
                match load.ended() {
                    Some(ending) if load.workload().is_background => {
                        let what = format!("the generator {ending}, before the other generators");
                        return Err(TrialFailure::of_generator(&load.workload().name, what, ending.printed).into());
                    }
                    None if !load.workload().is_background => waited_for = Some(load),
                    _ => {}
                }
            }
            let Some(load) = waited_for else {
                if loads.len() == running(trial).count() {
                    return Ok(());
                }
                continue; // the last one has ended just now, and another waits for that
            };
            if load.running_for() > time_limit(trial, load.workload()) {
                let printed = format!("{}\n{}", load.process().printed(), self.printed_by_subjects());
                return Err(too_late(&load.workload().name, load.workload().command.is_some(), printed.trim()).into());
            }
            let _ = load.wait_ended(until_next_check(faults));
        }
    }

    fn printed_by_subjects(&self) -> String {
        let printed =
            self.running_subjects.subjects().map(|subject| format!("{}: {}", subject.name(), subject.printed()));
        printed.collect::<Vec<_>>().join("\n")
    }
}

/// The workloads that run in this trial.
fn running(trial: &TrialSpec) -> impl Iterator<Item = &WorkloadSpec> {
    trial.workloads.iter().filter(|workload| workload.connections > 0)
}

/// Time until the next check, short enough for the next fault to be on time.
fn until_next_check(faults: &Faults<'_>) -> Duration {
    faults.next_in().map_or(CHECK_INTERVAL, |left| left.min(CHECK_INTERVAL))
}

/// A load of breme ends by itself unless the subject stops responding; a foreign command may merely need longer.
fn too_late(workload: &str, is_foreign: bool, printed: &str) -> TrialFailure {
    if is_foreign {
        let what = "the command did not end in time and was killed; set within = \"5m\" if it needs longer";
        return TrialFailure::of_generator(workload, what, printed);
    }
    TrialFailure::new(workload, "the load did not end in time; does the subject still respond?", printed)
}

fn time_limit(trial: &TrialSpec, workload: &WorkloadSpec) -> Duration {
    if let Some(within) = workload.command.as_ref().and_then(|command| command.within) {
        return within;
    }
    let time = if workload.requests.is_some() { BY_REQUESTS_MAX } else { generator::length(trial, workload) };
    time + GRACE
}

/// Stops all loads and returns their results.
fn end(loads: &mut [Generator], fault_ns: Option<u64>) -> Result<Vec<(String, GeneratorRun)>, Stop> {
    let mut results = Vec::new();
    for load in loads {
        let name = load.workload().name.clone();
        let ending = load.stop().map_err(|problem| TrialFailure::of_generator(&name, problem, ""))?;
        let result = load
            .result(&ending, fault_ns)
            .map_err(|problem| TrialFailure::of_generator(&name, problem, ending.printed.clone()))?;
        results.push((name, result));
    }
    Ok(results)
}

/// Short enough for the minimum number of samples.
fn sampling_interval(trial: &TrialSpec) -> Duration {
    (trial.duration / SAMPLES_MIN).min(INTERVAL)
}

fn record_loads(record: &mut TrialRecord, loads: Vec<(String, GeneratorRun)>, is_sequence: bool) {
    let mut foreground = loads.iter().filter(|(_, result)| !result.record.is_background).map(|(_, result)| result);
    if let Some(first) = foreground.next() {
        record.started_unix_ms = first.started_unix_ms;
        record.started_monotonic_ns = first.started_monotonic_ns;
        record.length_s = first.elapsed_s;
        // Followers run within the same trial.
        let begin_ns = first.started_monotonic_ns;
        let end_s = |result: &GeneratorRun| {
            result.started_monotonic_ns.saturating_sub(begin_ns) as f64 / 1e9 + result.elapsed_s
        };
        if is_sequence {
            record.length_s = foreground.map(end_s).fold(record.length_s, f64::max);
        }
    }
    for (name, result) in loads {
        let of_load = |text: &String| format!("{name}: {text}");
        record.invalid_reasons.extend(result.invalid_reasons.iter().map(of_load));
        record.notes.extend(result.notes.iter().map(of_load));
        record.workloads.insert(name, result.record);
    }
}

/// The failure of a trial in which a workload got responses, but no good one: its rate and times are those of errors,
/// and would be mistaken for those of the subject. They are a result where a claim is about the success of requests,
/// and in the background, where a load may be there to be refused. Without claims there is no verdict to protect.
fn without_good_response(question: &Question, record: &TrialRecord) -> Option<TrialFailure> {
    if question.hypotheses.is_empty() && question.searches.is_empty() {
        return None;
    }
    let is_useless = |(name, load): &(&String, &WorkloadRecord)| {
        load.answered > 0 && load.ok == 0 && !load.is_background && !is_success_in_question(question, name)
    };
    let (name, load) = record.workloads.iter().find(is_useless)?;
    let statuses: Vec<&str> = load.statuses.keys().map(String::as_str).collect();
    let status = if statuses.is_empty() { String::new() } else { format!(": status {}", statuses.join(", ")) };
    let what = format!("every response failed its check{status} ({} of {0})", load.answered);
    Some(TrialFailure::new(name, what, ""))
}

/// Adds warnings about other users of the machine.
fn note_other_programs(record: &mut TrialRecord) {
    let machine = &record.machine;
    if machine.foreign_share > FOREIGN_SHARE_MAX {
        let note = format!("other programs used {:.0} % of the CPU time", machine.foreign_share * 100.0);
        record.notes.push(note);
    }
    if machine.steal_share > STEAL_SHARE_MAX {
        let note = format!("the hypervisor took {:.0} % of the CPU time", machine.steal_share * 100.0);
        record.notes.push(note);
    }
}

#[cfg(test)]
mod tests {
    use breme_experiment::plan::PlanHypothesis;
    use breme_expression::{Claim, Vocabulary};

    use super::*;

    #[test]
    fn a_trial_without_a_good_response_fails_unless_a_claim_is_about_that() {
        let question = |expect: &[&str]| {
            let vocabulary = Vocabulary { workloads: vec!["user".to_owned()], ..Vocabulary::default() };
            let hypothesis = |expect: &&str| PlanHypothesis {
                says: String::new(),
                expect: (*expect).to_owned(),
                claim: Claim::parse(expect, &vocabulary).unwrap(),
                equal_within: None,
            };
            Question { hypotheses: expect.iter().map(hypothesis).collect(), ..Question::default() }
        };
        let of_rate = question(&["rate(user) > 1"]);
        let fails = |question: &Question, load: WorkloadRecord| {
            let workloads = [("user".to_owned(), load)].into();
            without_good_response(question, &TrialRecord { workloads, ..TrialRecord::default() })
        };
        let load = |answered, ok| WorkloadRecord {
            answered,
            ok,
            statuses: [("404".to_owned(), answered)].into(),
            ..WorkloadRecord::default()
        };
        let failure = fails(&of_rate, load(12, 0)).unwrap();
        assert_eq!(failure.what, "every response failed its check: status 404 (12 of 12)");
        assert!(!failure.is_generator, "the subject has sent them");
        assert_eq!(fails(&of_rate, load(12, 1)), None);
        assert_eq!(fails(&of_rate, load(0, 0)), None, "its rate is 0");
        assert_eq!(fails(&of_rate, WorkloadRecord { is_background: true, ..load(12, 0) }), None);
        assert_eq!(fails(&question(&["rate(user) > 1", "errors(user) == 0"]), load(12, 0)), None);
        assert_eq!(fails(&question(&[]), load(12, 0)), None);
    }

    #[test]
    fn a_command_may_need_longer_and_only_a_subject_delays_a_load() {
        assert!(too_late("user", true, "").is_generator);
        assert!(!too_late("user", false, "").is_generator);
    }
}
