//! The running subjects, from trial to trial.
//!
//! A subject is started when a trial first needs it and stopped at the end of its block, its trial, or the run. One
//! that has died, or that another level configures differently (`driver = "$driver"`), is restarted, together with all
//! subjects that refer to it.

use std::collections::BTreeMap;
use std::path::Path;

use breme_experiment::placeholder;
use breme_experiment::record::TrialFailure;
use breme_experiment::trial::{Fault, FaultAction, Reset, ResetAction, Restart, SubjectSpec, TrialSpec};
use breme_subject::{
    FaultError, Instruments, Launcher, PlaceholderNames, Ports, Subject, SupervisedProcess, pick_ports,
};

use super::cpu_assignment::TrialCpus;

pub(super) struct RunningSubjects<'a> {
    launcher: &'a Launcher,
    instruments: &'a Instruments,
    running: Vec<RunningSubject>,
    /// Ports that others named before their subject was started, by subject.
    reserved_ports: BTreeMap<String, Ports>,
    /// What all texts may use, besides the names of subjects.
    run_names: PlaceholderNames,
}

struct RunningSubject {
    spec: SubjectSpec,
    subject: Subject,
    block: u32,
    /// A fault was injected, so it is restarted for the next trial.
    had_fault: bool,
    /// A fault has killed processes of it, so its exit is no failure.
    is_killed: bool,
}

impl<'a> RunningSubjects<'a> {
    pub(super) fn new(launcher: &'a Launcher, instruments: &'a Instruments, run_names: PlaceholderNames) -> Self {
        Self { launcher, instruments, running: Vec::new(), reserved_ports: BTreeMap::new(), run_names }
    }

    /// Starts the subjects of a trial. `folder` is their working folder.
    pub(super) fn start_all(&mut self, trial: &TrialSpec, folder: &Path, cpus: &TrialCpus) -> Result<(), TrialFailure> {
        self.stop_expired(trial)?;
        for spec in &trial.subjects {
            if self.subject(&spec.name).is_none() {
                let cpus = cpus.subject(&spec.name);
                self.reserve_ports(spec, trial)?;
                let ports = self.reserved_ports.get(&spec.name).cloned().unwrap_or_default();
                let folder = folder.join(&spec.name);
                let started = self.launcher.start_again(spec, &folder, cpus, &self.names(), &ports);
                let subject = started.map_err(|error| TrialFailure::new(&spec.name, error, ""))?;
                let running = RunningSubject {
                    spec: spec.clone(),
                    subject,
                    block: trial.key.block,
                    had_fault: false,
                    is_killed: false,
                };
                running.watch(self.instruments)?;
                self.running.push(running);
            }
        }
        trial.resets.iter().try_for_each(|reset| self.reset(reset))
    }

    /// Reserves the ports that a subject names of subjects started after it.
    fn reserve_ports(&mut self, spec: &SubjectSpec, trial: &TrialSpec) -> Result<(), TrialFailure> {
        for (other, port) in ports_of_others(spec) {
            let later = trial.subjects.iter().find(|subject| subject.name == other && self.subject(&other).is_none());
            let ports = later.and_then(|subject| subject.kind.process()).map_or(&[][..], |process| &process.ports);
            let reserved = self.reserved_ports.entry(other).or_default();
            if ports.contains(&port) && !reserved.contains_key(&port) {
                let picked = pick_ports(&[port]).map_err(|fault| TrialFailure::new(&spec.name, fault, ""))?;
                reserved.extend(picked);
            }
        }
        Ok(())
    }

    fn stop_expired(&mut self, trial: &TrialSpec) -> Result<(), TrialFailure> {
        let mut expired: Vec<String> = Vec::new();
        for running in &self.running {
            let refers_to_expired = expired.iter().any(|name| running.refers_to(name));
            if refers_to_expired || running.is_expired(trial) {
                expired.push(running.spec.name.clone());
            }
        }
        // Subjects that refer to others stop first.
        for name in expired.iter().rev() {
            self.stop(name)?;
        }
        Ok(())
    }

    fn stop(&mut self, name: &str) -> Result<(), TrialFailure> {
        let Some(position) = self.running.iter().position(|running| running.spec.name == name) else {
            return Ok(());
        };
        let mut running = self.running.remove(position);
        self.instruments.forget(name, None);
        running.subject.stop().map(drop).map_err(|problem| TrialFailure::new(name, problem, running.subject.printed()))
    }

    /// Stops all subjects.
    pub(super) fn stop_all(&mut self) -> Result<(), TrialFailure> {
        let names: Vec<String> = self.running.iter().rev().map(|running| running.spec.name.clone()).collect();
        // All are stopped, even if one of them fails.
        let results: Vec<_> = names.iter().map(|name| self.stop(name)).collect();
        results.into_iter().collect()
    }

    fn reset(&mut self, reset: &Reset) -> Result<(), TrialFailure> {
        let names = self.names();
        let running = self.running.iter_mut().find(|running| running.spec.name == reset.subject);
        let Some(running) = running else { return Ok(()) }; // this trial does not need it
        let done = running.subject.reset(&reset.action, self.launcher, &names);
        done.map_err(|problem| {
            let what = format!("its reset `{}` failed: {problem}", reset.name);
            TrialFailure::new(&reset.subject, what, running.subject.printed())
        })?;
        // After a restart it has other processes.
        if reset.action == ResetAction::Restart { running.watch(self.instruments) } else { Ok(()) }
    }

    /// The names available to texts: `${NAME.url}`.
    pub(super) fn names(&self) -> PlaceholderNames {
        let mut names = self.run_names.clone();
        self.reserved_ports
            .iter()
            .for_each(|(subject, ports)| names.extend(subject, &PlaceholderNames::from_ports(ports)));
        self.running.iter().for_each(|running| names.extend(&running.spec.name, running.subject.names()));
        names
    }

    pub(super) fn subject(&self, name: &str) -> Option<&Subject> {
        self.subjects().find(|subject| subject.name() == name)
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.running.iter().map(|running| &running.subject)
    }

    /// Injects a fault. Returns the number of processes.
    pub(super) fn apply_fault(&mut self, fault: &Fault) -> Result<usize, TrialFailure> {
        let others = self.names();
        let Some(running) = self.running.iter_mut().find(|running| running.spec.name == fault.subject) else {
            return Err(TrialFailure::new(&fault.subject, format!("the fault `{fault}` has no such subject"), ""));
        };
        running.had_fault = true;
        running.is_killed |= fault.action == FaultAction::Kill;
        let (subject, words) = (&mut running.subject, fault.process.as_deref());
        let done = match fault.action {
            FaultAction::Kill => subject.kill(words),
            FaultAction::Start => subject.start(self.launcher, &others).map(|()| 1).map_err(FaultError::from),
            // A suspended link carries nothing.
            FaultAction::Freeze | FaultAction::Partition => subject.freeze(words),
            FaultAction::Thaw | FaultAction::Heal => Ok(subject.thaw(words)),
        };
        let processes = done.map_err(|problem| {
            TrialFailure::new(
                &fault.subject,
                format!("the fault `{fault}` failed: {problem}"),
                running.subject.printed(),
            )
        })?;
        match fault.action {
            FaultAction::Kill if words.is_none() => {
                let cpu_time = running.subject.kept().and_then(SupervisedProcess::cpu_time);
                self.instruments.forget(&fault.subject, cpu_time);
            }
            FaultAction::Start => {
                running.is_killed = false;
                running.watch(self.instruments)?;
            }
            _ => {}
        }
        Ok(processes)
    }

    /// Resumes all processes suspended by faults.
    pub(super) fn resume_all(&mut self) {
        for running in &mut self.running {
            running.subject.thaw(None);
        }
    }

    /// The first subject that exited unexpectedly.
    pub(super) fn failed(&self) -> Option<TrialFailure> {
        let subjects = self.running.iter().filter(|running| !running.is_killed).map(|running| &running.subject);
        subjects.into_iter().find_map(|subject| {
            subject.ended().map(|ending| TrialFailure::new(subject.name(), ending.to_string(), ending.printed))
        })
    }
}

impl RunningSubject {
    fn watch(&self, instruments: &Instruments) -> Result<(), TrialFailure> {
        let subject = &self.subject;
        let watched = instruments.watch_subject(subject.name(), subject.kept(), subject.metrics_url());
        watched.map_err(|error| TrialFailure::new(subject.name(), format!("it cannot be monitored: {error}"), ""))
    }

    fn is_expired(&self, trial: &TrialSpec) -> bool {
        let wanted = trial.subjects.iter().find(|spec| spec.name == self.spec.name);
        let is_past = match self.spec.restart {
            Restart::Block => self.block != trial.key.block,
            Restart::Trial => true,
            Restart::Never => false,
        };
        is_past || self.had_fault || self.subject.ended().is_some() || wanted.is_some_and(|spec| *spec != self.spec)
    }

    /// Whether one of its texts names the other: `${NAME.…}`.
    fn refers_to(&self, name: &str) -> bool {
        // The debug form contains all texts of a subject, whatever its fields.
        format!("{:?}", self.spec).contains(&format!("${{{name}."))
    }
}

/// The ports of other subjects named in its texts.
fn ports_of_others(spec: &SubjectSpec) -> Vec<(String, String)> {
    let texts = spec.texts();
    let names = texts.iter().flat_map(|text| placeholder::find(text)).filter(|found| !found.is_escaped);
    let ports = names.filter_map(|found| placeholder::port_of_subject(found.name));
    ports.map(|(subject, port)| (subject.to_owned(), port.to_owned())).collect()
}
