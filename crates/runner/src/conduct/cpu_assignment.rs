//! The CPUs of each subject and generator.
//!
//! Assigned over **all** subjects of the plan, not those of one trial: a subject that runs through several trials keeps
//! its CPUs, whichever trial started it.

use std::collections::BTreeMap;

use breme_experiment::trial::{Cpus, TrialSpec};

use crate::placement::{GeneratorPlace, PlacementError, place};

/// All subjects and generators of the plan, in order of first appearance.
#[derive(Debug, Default)]
pub(super) struct CpuAssignment {
    allowed: Vec<usize>,
    subjects: Vec<(String, Cpus)>,
    generators: Vec<(String, GeneratorPlace)>,
}

/// The CPUs of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrialCpus {
    subjects: Vec<(String, Vec<usize>)>,
    generators: Vec<(String, Vec<usize>)>,
    pub(super) notes: Vec<String>,
}

impl CpuAssignment {
    pub(super) fn new<'a>(allowed: Vec<usize>, trials: impl IntoIterator<Item = &'a TrialSpec>) -> Self {
        let mut cpu_assignment = Self { allowed, ..Self::default() };
        trials.into_iter().for_each(|trial| cpu_assignment.add(trial));
        cpu_assignment
    }

    /// A trial's own CPU lists replace earlier ones.
    fn add(&mut self, trial: &TrialSpec) {
        for subject in &trial.subjects {
            let cpus = subject.kind.process().map(|process| process.cpus.clone());
            if let Some(cpus) = cpus {
                put(&mut self.subjects, &subject.name, cpus);
            }
        }
        for workload in &trial.workloads {
            let place = GeneratorPlace { cpus: workload.cpus.clone(), is_background: workload.is_background };
            put(&mut self.generators, &workload.name, place);
        }
    }

    /// Assigns CPUs to the subjects and generators of a trial.
    ///
    /// # Errors
    /// If a named CPU is not available.
    pub(super) fn assign(&self, trial: &TrialSpec) -> Result<TrialCpus, PlacementError> {
        let mut all = Self {
            allowed: self.allowed.clone(),
            subjects: self.subjects.clone(),
            generators: self.generators.clone(),
        };
        all.add(trial);
        let subjects: Vec<Cpus> = all.subjects.iter().map(|(_, cpus)| cpus.clone()).collect();
        let generators: Vec<GeneratorPlace> = all.generators.iter().map(|(_, place)| place.clone()).collect();
        let placement = place(&self.allowed, &subjects, &generators)?;
        let named = |names: Vec<String>, cpus: Vec<Vec<usize>>| names.into_iter().zip(cpus).collect();
        Ok(TrialCpus {
            subjects: named(all.subjects.into_iter().map(|(name, _)| name).collect(), placement.subjects),
            generators: named(all.generators.into_iter().map(|(name, _)| name).collect(), placement.generators),
            notes: placement.notes,
        })
    }
}

impl TrialCpus {
    pub(super) fn subject(&self, name: &str) -> &[usize] {
        find(&self.subjects, name)
    }

    pub(super) fn generator(&self, name: &str) -> &[usize] {
        find(&self.generators, name)
    }

    /// The CPUs of the subjects and generators of a trial, for its record.
    pub(super) fn of_trial(&self, trial: &TrialSpec) -> BTreeMap<String, Vec<usize>> {
        let subjects = trial.subjects.iter().map(|subject| (&subject.name, self.subject(&subject.name)));
        let generators = trial.workloads.iter().map(|workload| (&workload.name, self.generator(&workload.name)));
        let assigned = subjects.chain(generators).filter(|(_, cpus)| !cpus.is_empty());
        assigned.map(|(name, cpus)| (name.clone(), cpus.to_vec())).collect()
    }
}

/// Empty for a name without an assignment: it may run anywhere.
fn find<'a>(parts: &'a [(String, Vec<usize>)], name: &str) -> &'a [usize] {
    parts.iter().find(|(part, _)| part == name).map_or(&[], |(_, cpus)| cpus)
}

fn put<T>(parts: &mut Vec<(String, T)>, name: &str, value: T) {
    match parts.iter_mut().find(|(part, _)| part == name) {
        Some((_, present)) => *present = value,
        None => parts.push((name.to_owned(), value)),
    }
}
