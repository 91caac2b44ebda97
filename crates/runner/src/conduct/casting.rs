//! Which processors each subject and each generator of an experiment has.
//!
//! It is worked out over **all** subjects of the plan, not over those of one trial: a subject that stands through
//! several trials keeps its processors, whichever trial happened to start it.

use breme_experiment::trial::{Cpus, TrialSpec};

use crate::placement::{GeneratorPlace, place};

/// Everybody who appears in any trial, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Casting {
    allowed: Vec<usize>,
    subjects: Vec<(String, Cpus)>,
    generators: Vec<(String, GeneratorPlace)>,
}

/// The processors of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cast {
    subjects: Vec<(String, Vec<usize>)>,
    generators: Vec<(String, Vec<usize>)>,
    pub(super) notes: Vec<String>,
}

impl Casting {
    pub(super) fn new<'a>(allowed: Vec<usize>, trials: impl IntoIterator<Item = &'a TrialSpec>) -> Self {
        let mut casting = Self { allowed, ..Self::default() };
        trials.into_iter().for_each(|trial| casting.take_in(trial));
        casting
    }

    /// Those who appear in it have what it says.
    fn take_in(&mut self, trial: &TrialSpec) {
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

    /// Gives out the processors.
    ///
    /// # Errors
    /// When one is named that is not there.
    pub(super) fn of(&self, trial: &TrialSpec) -> Result<Cast, String> {
        let mut all = Self {
            allowed: self.allowed.clone(),
            subjects: self.subjects.clone(),
            generators: self.generators.clone(),
        };
        all.take_in(trial);
        let subjects: Vec<Cpus> = all.subjects.iter().map(|(_, cpus)| cpus.clone()).collect();
        let generators: Vec<GeneratorPlace> = all.generators.iter().map(|(_, place)| place.clone()).collect();
        let placement = place(&self.allowed, &subjects, &generators)?;
        let named = |names: Vec<String>, cpus: Vec<Vec<usize>>| names.into_iter().zip(cpus).collect();
        Ok(Cast {
            subjects: named(all.subjects.into_iter().map(|(name, _)| name).collect(), placement.subjects),
            generators: named(all.generators.into_iter().map(|(name, _)| name).collect(), placement.generators),
            notes: placement.notes,
        })
    }
}

impl Cast {
    pub(super) fn of_subject(&self, name: &str) -> &[usize] {
        find(&self.subjects, name)
    }

    pub(super) fn of_generator(&self, name: &str) -> &[usize] {
        find(&self.generators, name)
    }
}

/// Whoever has no part may run anywhere.
fn find<'a>(parts: &'a [(String, Vec<usize>)], name: &str) -> &'a [usize] {
    parts.iter().find(|(part, _)| part == name).map_or(&[], |(_, cpus)| cpus)
}

fn put<T>(parts: &mut Vec<(String, T)>, name: &str, value: T) {
    match parts.iter_mut().find(|(part, _)| part == name) {
        Some((_, present)) => *present = value,
        None => parts.push((name.to_owned(), value)),
    }
}
