//! The CPUs of each subject and generator. A generator that takes CPU time from its subject measures itself.

use breme_experiment::trial::Cpus;
use thiserror::Error;

/// A list of CPUs that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    #[error("processor {cpu} does not exist or is not allowed; allowed are {allowed:?}")]
    NotAllowed { cpu: usize, allowed: Vec<usize> },
    #[error("the list of processors is empty; omit it to use the default placement")]
    Empty,
}

/// An assignment of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Per subject.
    pub subjects: Vec<Vec<usize>>,
    /// Per generator.
    pub generators: Vec<Vec<usize>>,
    /// Remarks for readers of the result.
    pub notes: Vec<String>,
}

/// A generator to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorPlace {
    /// The requested CPUs.
    pub cpus: Cpus,
    /// It runs in the background of the others.
    pub is_background: bool,
}

/// Assigns the `allowed` CPUs (ascending) to subjects and generators.
///
/// Explicit lists are honoured. The rest is shared by those without one: with two CPUs or more, subjects and generators
/// have none in common; with three or more, the foreground has one that no background load disturbs; each subject has
/// its own CPUs where there are enough.
///
/// # Errors
/// If a list contains a CPU that is not allowed.
pub fn place(allowed: &[usize], subjects: &[Cpus], generators: &[GeneratorPlace]) -> Result<Placement, PlacementError> {
    let all = || subjects.iter().chain(generators.iter().map(|generator| &generator.cpus));
    let named = named(all(), allowed)?;
    let unnamed: Vec<usize> = allowed.iter().copied().filter(|cpu| !named.contains(cpu)).collect();
    let pool = if unnamed.is_empty() { allowed } else { &unnamed };

    let open = |cpus: &&Cpus| **cpus == Cpus::Auto;
    let open_subjects = subjects.iter().filter(open).count();
    let open_foreground = generators.iter().any(|generator| generator.cpus == Cpus::Auto && !generator.is_background);
    let open_background = generators.iter().any(|generator| generator.cpus == Cpus::Auto && generator.is_background);
    let shares = Shares::split(pool, open_subjects > 0, open_foreground, open_background);

    let mut places = divided(shares.subjects, open_subjects).into_iter();
    let subjects = subjects.iter().map(|cpus| match cpus {
        Cpus::Auto => places.next().unwrap_or_default(),
        fixed => given(fixed, allowed),
    });
    let generators = generators.iter().map(|generator| match (&generator.cpus, generator.is_background) {
        (Cpus::Auto, false) => shares.foreground.to_vec(),
        (Cpus::Auto, true) => shares.background.to_vec(),
        (fixed, _) => given(fixed, allowed),
    });
    let (subjects, generators): (Vec<_>, Vec<_>) = (subjects.collect(), generators.collect());
    let notes = notes(&subjects, &generators);
    Ok(Placement { subjects, generators, notes })
}

/// All CPUs in explicit lists.
fn named<'a>(all: impl Iterator<Item = &'a Cpus>, allowed: &[usize]) -> Result<Vec<usize>, PlacementError> {
    let mut named = Vec::new();
    for cpus in all {
        let Cpus::List(list) = cpus else { continue };
        if let Some(cpu) = list.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(PlacementError::NotAllowed { cpu: *cpu, allowed: allowed.to_vec() });
        }
        if list.is_empty() {
            return Err(PlacementError::Empty);
        }
        named.extend_from_slice(list);
    }
    Ok(named)
}

fn given(cpus: &Cpus, allowed: &[usize]) -> Vec<usize> {
    match cpus {
        Cpus::List(list) => list.clone(),
        Cpus::All | Cpus::Auto => allowed.to_vec(),
    }
}

struct Shares<'a> {
    subjects: &'a [usize],
    foreground: &'a [usize],
    background: &'a [usize],
}

impl<'a> Shares<'a> {
    /// Subjects take the first ones, the foreground the last.
    fn split(pool: &'a [usize], has_subjects: bool, has_foreground: bool, has_background: bool) -> Self {
        let count = pool.len();
        let has_generators = has_foreground || has_background;
        let for_subjects = match (has_subjects, has_generators) {
            _ if count < 2 => return Self { subjects: pool, foreground: pool, background: pool },
            (true, true) if has_foreground && has_background && count >= 3 => (count / 2).max(1),
            (true, true) => count.div_ceil(2),
            (true, false) => count,
            (false, _) => 0,
        };
        let (subjects, generators) = pool.split_at(for_subjects);
        let (background, foreground) = match generators.len() {
            0 => (pool, pool),
            1 => (generators, generators),
            // The probe has one to itself; the crowd has the rest.
            length if has_foreground && has_background => generators.split_at(length - 1),
            _ => (generators, generators),
        };
        Self { subjects, foreground, background }
    }
}

/// Parts that are as equal as possible; with fewer CPUs than takers, everyone has all of them.
fn divided(pool: &[usize], takers: usize) -> Vec<Vec<usize>> {
    if takers == 0 || pool.len() < takers {
        return vec![pool.to_vec(); takers];
    }
    let edge = |taker: usize| pool.len() * taker / takers;
    (0..takers).map(|taker| pool[edge(taker)..edge(taker + 1)].to_vec()).collect()
}

fn notes(subjects: &[Vec<usize>], generators: &[Vec<usize>]) -> Vec<String> {
    let meet = |a: &Vec<usize>, b: &Vec<usize>| a.iter().any(|cpu| b.contains(cpu));
    let shared = subjects.iter().any(|subject| generators.iter().any(|generator| meet(subject, generator)));
    if shared {
        vec![String::from("subjects and generators share processors, so the load slows down what it measures")]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: Cpus = Cpus::Auto;

    fn generator(cpus: Cpus, is_background: bool) -> GeneratorPlace {
        GeneratorPlace { cpus, is_background }
    }

    fn processors(count: usize) -> Vec<usize> {
        (0..count).collect()
    }

    #[test]
    fn processors_are_shared_out_by_this_table() {
        // CPUs, subjects, foreground, background → subjects, foreground, background
        type Row = (usize, usize, bool, bool, &'static [&'static [usize]], &'static [usize], &'static [usize]);
        let table: &[Row] = &[
            (1, 1, true, true, &[&[0]], &[0], &[0]),
            (2, 1, true, false, &[&[0]], &[1], &[]),
            (2, 1, true, true, &[&[0]], &[1], &[1]),
            (2, 2, true, false, &[&[0], &[0]], &[1], &[]),
            (3, 1, true, false, &[&[0, 1]], &[2], &[]),
            (3, 1, true, true, &[&[0]], &[2], &[1]),
            (3, 2, true, false, &[&[0], &[1]], &[2], &[]),
            (4, 1, true, true, &[&[0, 1]], &[3], &[2]),
            (4, 2, false, true, &[&[0], &[1]], &[], &[2, 3]),
            (8, 2, true, true, &[&[0, 1], &[2, 3]], &[7], &[4, 5, 6]),
            (8, 1, true, false, &[&[0, 1, 2, 3]], &[4, 5, 6, 7], &[]),
            (4, 0, true, false, &[], &[0, 1, 2, 3], &[]),
            (4, 3, false, false, &[&[0], &[1], &[2, 3]], &[], &[]),
        ];
        for &(count, subject_count, has_foreground, has_background, subjects, foreground, background) in table {
            let mut generators = Vec::new();
            generators.extend(has_foreground.then(|| generator(AUTO, false)));
            generators.extend(has_background.then(|| generator(AUTO, true)));
            let placement = place(&processors(count), &vec![AUTO; subject_count], &generators).unwrap();
            assert_eq!(placement.subjects, subjects, "{count} processors, {subject_count} subjects");
            let mut expected: Vec<&[usize]> = Vec::new();
            expected.extend(has_foreground.then_some(foreground));
            expected.extend(has_background.then_some(background));
            assert_eq!(placement.generators, expected, "{count} processors, {subject_count} subjects");
            assert_eq!(placement.notes.is_empty(), count > 1, "only one processor must be shared");
        }
    }

    #[test]
    fn who_names_processors_gets_them_and_the_others_keep_off() {
        let placement = place(&processors(4), &[Cpus::List(vec![3]), AUTO], &[generator(AUTO, false)]).unwrap();
        assert_eq!((placement.subjects, placement.generators), (vec![vec![3], vec![0, 1]], vec![vec![2]]));
        let placement = place(&[2, 5], &[Cpus::List(vec![2, 5])], &[generator(AUTO, false)]).unwrap();
        assert_eq!(placement.generators, [[2, 5]]);
        assert_eq!(placement.notes.len(), 1, "they meet, and that is told");
        let placement = place(&processors(2), &[Cpus::All], &[generator(AUTO, false)]).unwrap();
        assert_eq!(placement.subjects, [[0, 1]]);
    }

    #[test]
    fn a_missing_processor_is_refused() {
        let refused = |list| place(&processors(2), &[Cpus::List(list)], &[]).unwrap_err();
        assert_eq!(refused(vec![0, 7]), PlacementError::NotAllowed { cpu: 7, allowed: vec![0, 1] });
        assert_eq!(refused(vec![]), PlacementError::Empty);
    }

    proptest::proptest! {
        #[test]
        fn everyone_gets_one_and_nobody_meets(count in 2_usize..40, subjects in 0_usize..6, background in 0_usize..3) {
            let mut generators = vec![generator(AUTO, false)];
            generators.extend(vec![generator(AUTO, true); background]);
            let placement = place(&processors(count), &vec![AUTO; subjects], &generators).unwrap();
            proptest::prop_assert!(placement.subjects.iter().chain(&placement.generators).all(|cpus| !cpus.is_empty()));
            proptest::prop_assert!(placement.notes.is_empty());
            if count >= 3 && background > 0 {
                let meets = placement.generators[0].iter().any(|cpu| placement.generators[1].contains(cpu));
                proptest::prop_assert!(!meets || (subjects == 0 && count < 2));
            }
        }
    }
}
