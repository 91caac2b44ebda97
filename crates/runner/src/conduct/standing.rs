//! The subjects that stand ready, from trial to trial.
//!
//! A subject is started when a trial first needs it and stands until its time is over: for its block, for its trial, or
//! for the run. One that has died, or that another level wants otherwise (`driver = "$driver"`), is started anew, and
//! with it all that know its address.

use std::collections::BTreeMap;
use std::path::Path;

use breme_experiment::placeholder;
use breme_experiment::trial::{Fault, FaultAction, Reset, ResetAction, Restart, SubjectSpec, TrialSpec};

use super::casting::Cast;
use crate::instruments::Instruments;
use crate::keeping::Kept;
use crate::subject::{Launcher, Names, Ports, Subject, pick_ports};

/// Something that a subject or a generator did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The subject's or the workload's name.
    pub(super) who: String,
    pub(super) what: String,
    /// The end of what it had printed.
    pub(super) printed: String,
}

impl Failure {
    pub(super) fn new(who: &str, what: impl Into<String>, printed: impl Into<String>) -> Self {
        Self { who: who.to_owned(), what: what.into(), printed: printed.into() }
    }
}

/// All that stand.
pub(super) struct Standing<'a> {
    launcher: &'a Launcher,
    instruments: &'a Instruments,
    standing: Vec<Stands>,
    /// By subject: the ports that others have named before it was started, and that are its own from then on.
    promised: BTreeMap<String, Ports>,
}

struct Stands {
    spec: SubjectSpec,
    subject: Subject,
    block: u32,
    /// A fault has hit it, so that it is started anew for the next trial.
    is_hit: bool,
    /// A fault has killed processes of it: its end is no failure.
    is_killed: bool,
}

impl<'a> Standing<'a> {
    pub(super) fn new(launcher: &'a Launcher, instruments: &'a Instruments) -> Self {
        Self { launcher, instruments, standing: Vec::new(), promised: BTreeMap::new() }
    }

    /// Makes all subjects of a trial stand ready. `folder` is where those that are started write.
    pub(super) fn make_ready(&mut self, trial: &TrialSpec, folder: &Path, cast: &Cast) -> Result<(), Failure> {
        self.end_those_whose_time_is_over(trial)?;
        for spec in &trial.subjects {
            if self.subject(&spec.name).is_none() {
                let cpus = cast.of_subject(&spec.name);
                self.promise_ports(spec, trial)?;
                let ports = self.promised.get(&spec.name).cloned().unwrap_or_default();
                let folder = folder.join(&spec.name);
                let started = self.launcher.start_again(spec, &folder, cpus, &self.names(), &ports);
                let subject = started.map_err(|fault| Failure::new(&spec.name, fault.0, ""))?;
                let stands =
                    Stands { spec: spec.clone(), subject, block: trial.key.block, is_hit: false, is_killed: false };
                stands.watch(self.instruments)?;
                self.standing.push(stands);
            }
        }
        trial.resets.iter().try_for_each(|reset| self.reset(reset))
    }

    /// Chooses the ports that a subject names of others that are started after it.
    fn promise_ports(&mut self, spec: &SubjectSpec, trial: &TrialSpec) -> Result<(), Failure> {
        for (other, port) in ports_of_others(spec) {
            let later = trial.subjects.iter().find(|subject| subject.name == other && self.subject(&other).is_none());
            let ports = later.and_then(|subject| subject.kind.process()).map_or(&[][..], |process| &process.ports);
            let promised = self.promised.entry(other).or_default();
            if ports.contains(&port) && !promised.contains_key(&port) {
                let picked = pick_ports(&[port]).map_err(|fault| Failure::new(&spec.name, fault, ""))?;
                promised.extend(picked);
            }
        }
        Ok(())
    }

    fn end_those_whose_time_is_over(&mut self, trial: &TrialSpec) -> Result<(), Failure> {
        let mut ending: Vec<String> = Vec::new();
        for stands in &self.standing {
            let knows_one_that_ends = ending.iter().any(|name| stands.knows(name));
            if knows_one_that_ends || stands.time_is_over(trial) {
                ending.push(stands.spec.name.clone());
            }
        }
        // Who knows others ends before them.
        for name in ending.iter().rev() {
            self.end(name)?;
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), Failure> {
        let Some(position) = self.standing.iter().position(|stands| stands.spec.name == name) else { return Ok(()) };
        let mut stands = self.standing.remove(position);
        self.instruments.forget(name, None);
        stands.subject.stop().map(drop).map_err(|problem| Failure::new(name, problem, stands.subject.printed()))
    }

    /// Ends all of them.
    pub(super) fn end_all(&mut self) -> Result<(), Failure> {
        let names: Vec<String> = self.standing.iter().rev().map(|stands| stands.spec.name.clone()).collect();
        // None is left out because another did not end well.
        let results: Vec<_> = names.iter().map(|name| self.end(name)).collect();
        results.into_iter().collect()
    }

    fn reset(&mut self, reset: &Reset) -> Result<(), Failure> {
        let names = self.names();
        let stands = self.standing.iter_mut().find(|stands| stands.spec.name == reset.subject);
        let Some(stands) = stands else { return Ok(()) }; // this trial does not need it
        let done = stands.subject.reset(&reset.action, self.launcher, &names);
        done.map_err(|problem| {
            let what = format!("its reset `{}` failed: {problem}", reset.name);
            Failure::new(&reset.subject, what, stands.subject.printed())
        })?;
        // Started anew, it has other processes.
        if reset.action == ResetAction::Restart { stands.watch(self.instruments) } else { Ok(()) }
    }

    /// What texts may say of them: `${NAME.url}`.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::default();
        self.promised.iter().for_each(|(subject, ports)| names.extend(subject, &Names::of_ports(ports)));
        self.standing.iter().for_each(|stands| names.extend(&stands.spec.name, stands.subject.names()));
        names
    }

    pub(super) fn subject(&self, name: &str) -> Option<&Subject> {
        self.subjects().find(|subject| subject.name() == name)
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.standing.iter().map(|stands| &stands.subject)
    }

    /// Lets a fault happen. To how many processes.
    pub(super) fn hit(&mut self, fault: &Fault) -> Result<usize, Failure> {
        let others = self.names();
        let Some(stands) = self.standing.iter_mut().find(|stands| stands.spec.name == fault.subject) else {
            return Err(Failure::new(&fault.subject, format!("the fault `{fault}` has no such subject"), ""));
        };
        stands.is_hit = true;
        stands.is_killed |= fault.action == FaultAction::Kill;
        let (subject, words) = (&mut stands.subject, fault.process.as_deref());
        let done = match fault.action {
            FaultAction::Kill => subject.kill(words),
            FaultAction::Start => subject.start(self.launcher, &others).map(|()| 1),
            FaultAction::Freeze | FaultAction::Partition => subject.freeze(words),
            FaultAction::Thaw | FaultAction::Heal => Ok(subject.thaw(words)),
        };
        let hit = done.map_err(|problem| {
            Failure::new(&fault.subject, format!("the fault `{fault}` failed: {problem}"), stands.subject.printed())
        })?;
        match fault.action {
            FaultAction::Kill if words.is_none() => {
                let cpu_time = stands.subject.kept().and_then(Kept::cpu_time);
                self.instruments.forget(&fault.subject, cpu_time);
            }
            FaultAction::Start => {
                stands.is_killed = false;
                stands.watch(self.instruments)?;
            }
            _ => {}
        }
        Ok(hit)
    }

    /// Resumes all that faults have suspended.
    pub(super) fn thaw_all(&mut self) {
        for stands in &mut self.standing {
            stands.subject.thaw(None);
        }
    }

    /// The first that has ended though nobody asked it to.
    pub(super) fn fallen(&self) -> Option<Failure> {
        let subjects = self.standing.iter().filter(|stands| !stands.is_killed).map(|stands| &stands.subject);
        subjects.into_iter().find_map(|subject| {
            subject.ended().map(|ending| Failure::new(subject.name(), ending.to_string(), ending.printed))
        })
    }
}

impl Stands {
    fn watch(&self, instruments: &Instruments) -> Result<(), Failure> {
        let subject = &self.subject;
        let watched = instruments.watch_subject(subject.name(), subject.kept(), subject.metrics_url());
        watched.map_err(|error| Failure::new(subject.name(), format!("it cannot be monitored: {error}"), ""))
    }

    fn time_is_over(&self, trial: &TrialSpec) -> bool {
        let wanted = trial.subjects.iter().find(|spec| spec.name == self.spec.name);
        let is_past = match self.spec.restart {
            Restart::Block => self.block != trial.key.block,
            Restart::Trial => true,
            Restart::Never => false,
        };
        is_past || self.is_hit || self.subject.ended().is_some() || wanted.is_some_and(|spec| *spec != self.spec)
    }

    /// Whether one of its texts names the other: `${NAME.…}`.
    fn knows(&self, name: &str) -> bool {
        // All of a subject's texts stand in its debug form, whatever fields it has or will have.
        format!("{:?}", self.spec).contains(&format!("${{{name}."))
    }
}

/// The ports of other subjects that its texts name, each with its subject.
fn ports_of_others(spec: &SubjectSpec) -> Vec<(String, String)> {
    let texts = spec.texts();
    let names = texts.iter().flat_map(|text| placeholder::find(text)).filter(|found| !found.is_escaped);
    let ports = names.filter_map(|found| placeholder::port_of_subject(found.name));
    ports.map(|(subject, port)| (subject.to_owned(), port.to_owned())).collect()
}
