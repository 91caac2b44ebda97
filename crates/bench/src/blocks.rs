//! Blocks: every arm of a question once, in random order, again and again until the ratios are known well enough or the
//! time is spent. The machine's moods last longer than a block, so that they meet all its arms and leave the ratios
//! alone.

use std::time::{Duration, Instant};

use breme_base::Random;

use crate::kept;
use crate::questions::{Arm, Question};
use crate::sample::{Pace, Sample};
use crate::trial;
use crate::verdict::{self, CONFIDENCE};
use crate::workbench::Workbench;

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// So many, if there is time.
    pub(crate) blocks: usize,
    /// Where the intervals are not narrow by then, up to so many.
    pub(crate) blocks_max: usize,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Every rival, and ours twice; else only the rivals with a goal.
    pub(crate) whole: bool,
}

/// When a question has had its time. No block begins that would end later, but for the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// For blocks beyond those that an interval of 95 % needs.
    pub(crate) for_more: Instant,
    /// For all.
    pub(crate) for_any: Instant,
}

/// What one arm showed, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) goal: Option<f64>,
    pub(crate) samples: Vec<Sample>,
}

/// What a question showed.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    pub(crate) question: Question,
    pub(crate) ours: Series,
    /// Ours a second time: its ratio shows the noise.
    pub(crate) again: Option<Series>,
    pub(crate) rivals: Vec<Series>,
    pub(crate) seconds: u64,
    /// Why blocks had to be repeated.
    pub(crate) voids: Vec<String>,
    /// What the reader should know: rivals that are not there, suites that differ.
    pub(crate) notes: Vec<String>,
}

/// A ratio is known well enough when the ends of its interval are this close.
const NARROW: f64 = 1.05;
/// The fewest blocks that give an interval of 95 %.
const BLOCKS_SURE: usize = 6;
/// Of a question whose blocks take minutes.
const BLOCKS_LONG: usize = 3;
/// About how many requests a second a cache answers that has to ask for part of them.
const ASKED_A_SECOND: u64 = 40_000;
/// Blocks that may fail one after another before the question is given up.
const VOIDS_IN_A_ROW_MAX: usize = 3;
/// What a trial takes besides its seconds: starting, warming up, ending.
const OVERHEAD: Duration = Duration::from_millis(600);

impl Plan {
    fn contestants<'a>(&self, question: &'a Question) -> Vec<Contestant<'a>> {
        let mut contestants = vec![Contestant::new(&question.ours, Role::Ours)];
        if self.whole && !question.is_long() {
            contestants.push(Contestant::new(&question.ours, Role::Again));
        }
        let rivals = question.rivals.iter().filter(|rival| self.whole || rival.goal.is_some() || !has_goal(question));
        contestants.extend(rivals.map(|rival| Contestant::new(&rival.arm, Role::Rival(rival.goal))));
        contestants
    }

    /// About how long the question takes.
    pub(crate) fn cost(&self, question: &Question) -> Duration {
        let counted = kept::requests(question.measure).map(|count| count.div_ceil(ASKED_A_SECOND));
        let seconds = counted.unwrap_or(self.seconds);
        let trial = Duration::from_secs(seconds) + OVERHEAD;
        trial * u32::try_from(self.contestants(question).len() * self.blocks(question)).unwrap_or(u32::MAX)
    }

    fn blocks(&self, question: &Question) -> usize {
        if question.is_long() { self.blocks.min(BLOCKS_LONG) } else { self.blocks }
    }

    fn blocks_max(&self, question: &Question) -> usize {
        if question.is_long() { self.blocks(question) } else { self.blocks_max }
    }

    /// Asks the question.
    pub(crate) fn ask(
        &self,
        question: &Question,
        workbench: &Workbench,
        deadline: Option<Deadline>,
    ) -> Result<Findings, String> {
        if let Some(lack) = lack(question, workbench) {
            return Err(lack);
        }
        let (mut contestants, mut notes) = admit(self.contestants(question), workbench)?;
        let rate = half_of_capacity(question, workbench, self.seconds)?;
        notes.extend(trial::note_on_connections(&question.ours));
        let mut random = Random::stream(self.seed, seed_of(question.name));
        let mut voids = Vec::new();
        let (mut longest, mut voids_in_a_row) = (Duration::ZERO, 0);
        while !self.is_done(question, &contestants, longest, deadline) {
            let begun = Instant::now();
            let pace = Pace { seconds: self.seconds, rate, seed: random.below(1 << 32) };
            match block(&contestants, question, workbench, pace, &mut random) {
                Ok(samples) => {
                    voids_in_a_row = 0;
                    contestants.iter_mut().zip(samples).for_each(|(one, sample)| one.samples.push(sample));
                    report_progress(question, &contestants);
                }
                Err(why) if workbench.processes.interrupted_by().is_some() => return Err(why),
                Err(why) if voids_in_a_row == VOIDS_IN_A_ROW_MAX => {
                    return Err(format!("{} blocks failed in succession; the last error: {why}", voids_in_a_row + 1));
                }
                Err(why) => {
                    eprintln!("{}: void block: {why}", question.name);
                    voids_in_a_row += 1;
                    voids.push(why);
                }
            }
            longest = longest.max(begun.elapsed());
        }
        Ok(Findings::new(question, contestants, self.seconds, voids, notes))
    }

    fn is_done(
        &self,
        question: &Question,
        contestants: &[Contestant<'_>],
        longest: Duration,
        deadline: Option<Deadline>,
    ) -> bool {
        let done = contestants[0].samples.len();
        let blocks = self.blocks(question);
        let is_past = |end: fn(Deadline) -> Instant| deadline.is_some_and(|at| Instant::now() + longest > end(at));
        done >= self.blocks_max(question)
            || (done >= blocks && all_narrow(contestants))
            || (done >= blocks.min(BLOCKS_SURE) && is_past(|at| at.for_more))
            || (done > 0 && is_past(|at| at.for_any))
    }
}

/// One of those that are measured in each block.
struct Contestant<'a> {
    arm: &'a Arm,
    role: Role,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Ours,
    Again,
    Rival(Option<f64>),
}

impl<'a> Contestant<'a> {
    fn new(arm: &'a Arm, role: Role) -> Self {
        Self { arm, role, samples: Vec::new() }
    }

    fn label(&self) -> String {
        let label = self.arm.label;
        if self.role == Role::Again { format!("{label}, again (A/A)") } else { label.to_owned() }
    }

    fn series(self) -> Series {
        let goal = if let Role::Rival(goal) = self.role { goal } else { None };
        Series { label: self.label(), goal, samples: self.samples }
    }
}

impl Findings {
    fn new(
        question: &Question,
        contestants: Vec<Contestant<'_>>,
        seconds: u64,
        voids: Vec<String>,
        notes: Vec<String>,
    ) -> Self {
        let mut all: Vec<(Role, Series)> = contestants.into_iter().map(|one| (one.role, one.series())).collect();
        let ours = all.remove(0).1;
        let again = all.first().is_some_and(|(role, _)| *role == Role::Again).then(|| all.remove(0).1);
        let rivals = all.into_iter().map(|(_, series)| series).collect();
        Self { question: question.clone(), ours, again, rivals, seconds, voids, notes }
    }
}

fn has_goal(question: &Question) -> bool {
    question.rivals.iter().any(|rival| rival.goal.is_some())
}

/// What this build of breme would have to have.
fn lack(question: &Question, workbench: &Workbench) -> Option<String> {
    if question.needs_tls() && !workbench.site_has_tls() {
        return Some(String::from("this build of `breme site` has no `--tls-cert`"));
    }
    if question.needs_proxy() && !workbench.has_proxy() {
        return Some(String::from("this build of breme has no `proxy --upstream`"));
    }
    if question.needs_rate() && !workbench.load_has_rate() {
        return Some(String::from("this build of `breme load` has no `--rate`"));
    }
    None
}

/// Checks every arm's answers. A rival that is not there or answers wrongly is left out, with a note; ours is needed.
fn admit<'a>(
    contestants: Vec<Contestant<'a>>,
    workbench: &Workbench,
) -> Result<(Vec<Contestant<'a>>, Vec<String>), String> {
    let (mut admitted, mut notes, mut suites) = (Vec::new(), Vec::new(), Vec::new());
    for contestant in contestants {
        if contestant.role == Role::Again {
            admitted.push(contestant);
            continue;
        }
        let checked = trial::check(contestant.arm, workbench)
            .and_then(|suite| contestant.arm.load.program_is_there().map(|()| suite));
        match checked {
            Ok(suite) => {
                suites.extend(suite.map(|suite| (contestant.arm.label, suite)));
                admitted.push(contestant);
            }
            Err(why) if contestant.role == Role::Ours => return Err(why),
            Err(why) => notes.push(format!("{} was not measured: {why}.", contestant.arm.label)),
        }
    }
    if admitted.iter().all(|one| !matches!(one.role, Role::Rival(_))) {
        return Err(notes.join(" "));
    }
    notes.extend(note_on_suites(&suites));
    Ok((admitted, notes))
}

fn note_on_suites(suites: &[(&str, String)]) -> Option<String> {
    let (_, first) = suites.first()?;
    if suites.iter().all(|(_, suite)| suite == first) {
        return Some(format!("All agreed with OpenSSL on {first}."));
    }
    let each: Vec<_> = suites.iter().map(|(label, suite)| format!("{label} {suite}")).collect();
    Some(format!("The cipher suites differ: {}.", each.join("; ")))
}

/// Half of what the closed loop reaches, if an arm needs to know it.
fn half_of_capacity(question: &Question, workbench: &Workbench, seconds: u64) -> Result<Option<u64>, String> {
    let Some(arm) = question.arms().find(|arm| arm.load.half_of_capacity) else { return Ok(None) };
    let closed = Arm { load: crate::generators::Load { half_of_capacity: false, ..arm.load }, ..arm.clone() };
    let sample = trial::run(&closed, question.measure, workbench, Pace { seconds, rate: None, seed: 0 })?;
    Ok(Some((sample.beside / 2.0) as u64))
}

/// Every contestant once, in random order; the samples in the contestants' order.
fn block(
    contestants: &[Contestant<'_>],
    question: &Question,
    workbench: &Workbench,
    pace: Pace,
    random: &mut Random,
) -> Result<Vec<Sample>, String> {
    let mut samples = vec![None; contestants.len()];
    for index in shuffled(contestants.len(), random) {
        let one = &contestants[index];
        let sample = trial::run(one.arm, question.measure, workbench, pace);
        samples[index] = Some(sample.map_err(|error| format!("{}: {error}", one.label()))?);
    }
    Ok(samples.into_iter().flatten().collect())
}

/// The numbers below `count` in random order (Fisher and Yates).
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

fn all_narrow(contestants: &[Contestant<'_>]) -> bool {
    let [ours, others @ ..] = contestants else { return true };
    let is_narrow = |other: &Contestant<'_>| {
        let ratio = verdict::ratio(&ours.samples, &other.samples, |sample| sample.cost);
        ratio.is_some_and(|ratio| ratio.confidence >= CONFIDENCE && ratio.high / ratio.low <= NARROW)
    };
    others.iter().all(is_narrow)
}

fn report_progress(question: &Question, contestants: &[Contestant<'_>]) {
    let costs: Vec<String> = contestants
        .iter()
        .filter_map(|one| Some(format!("{} {:.2}", one.label().replace('`', ""), one.samples.last()?.cost)))
        .collect();
    eprintln!("{}: block {}: {}", question.name, contestants[0].samples.len(), costs.join(" · "));
}

/// Questions draw their orders from streams of their own, so that asking fewer of them changes no order.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed * 31 % (1 << 40) + u64::from(byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::questions;

    fn plan(whole: bool) -> Plan {
        Plan { blocks: 7, blocks_max: 15, seconds: 2, seed: 1, whole }
    }

    #[test]
    fn orders_are_permutations_and_all_of_them_come() {
        let mut random = Random::new(3);
        let orders: BTreeSet<Vec<usize>> = (0..200).map(|_| shuffled(3, &mut random)).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
        assert_eq!(shuffled(0, &mut random), [0; 0]);
    }

    #[test]
    fn questions_have_orders_of_their_own() {
        let seeds: BTreeSet<u64> = questions::all().iter().map(|question| seed_of(question.name)).collect();
        assert_eq!(seeds.len(), questions::all().len());
    }

    #[test]
    fn the_whole_matrix_asks_all_and_the_quick_one_those_with_a_goal() {
        for question in questions::all() {
            let whole = plan(true).contestants(&question).len();
            let ours = if question.is_long() { 1 } else { 2 };
            assert_eq!(whole, question.rivals.len() + ours, "{}", question.name);
            let quick = plan(false).contestants(&question);
            let goals = question.rivals.iter().filter(|rival| rival.goal.is_some()).count();
            assert_eq!(quick.len(), 1 + if goals > 0 { goals } else { question.rivals.len() }, "{}", question.name);
        }
    }

    /// The document must not take longer than lunch.
    #[test]
    fn the_whole_matrix_takes_forty_minutes_at_most() {
        let total: Duration = questions::all().iter().map(|question| plan(true).cost(question)).sum();
        assert!(total < Duration::from_secs(40 * 60), "{total:?}");
    }

    #[test]
    fn blocks_end_when_all_is_narrow_or_the_most_are_done() {
        let question = &questions::all()[0];
        let with = |costs: &[f64]| {
            let sample = |&cost: &f64| Sample { cost, beside: 1.0, busy: None };
            let mut contestants = plan(false).contestants(question);
            contestants[0].samples = vec![Sample { cost: 1.0, beside: 1.0, busy: None }; costs.len()];
            contestants[1].samples = costs.iter().map(sample).collect();
            plan(false).is_done(question, &contestants, Duration::ZERO, None)
        };
        assert!(!with(&[]) && !with(&[2.0; 6]) && with(&[2.0; 7]));
        let wide: Vec<f64> = (0..15).map(|index| 1.0 + f64::from(index % 5)).collect();
        assert!(!with(&wide[..14]) && with(&wide));
    }

    #[test]
    fn without_time_there_are_enough_blocks_for_an_interval_and_without_any_there_is_one() {
        let question = &questions::all()[0];
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(3_600));
        let fewest = |for_any: Instant| {
            let mut contestants = plan(false).contestants(question);
            let deadline = Some(Deadline { for_more: now, for_any });
            while !plan(false).is_done(question, &contestants, Duration::from_secs(1), deadline) {
                contestants.iter_mut().for_each(|one| one.samples.push(Sample { cost: 1.0, beside: 1.0, busy: None }));
            }
            contestants[0].samples.len()
        };
        assert_eq!((fewest(later), fewest(now)), (BLOCKS_SURE, 1));
        let ones = vec![1.0; BLOCKS_SURE];
        assert!(breme_stats::hodges_lehmann(&ones, CONFIDENCE).unwrap().confidence >= CONFIDENCE);
        assert!(breme_stats::hodges_lehmann(&ones[1..], CONFIDENCE).unwrap().confidence < CONFIDENCE);
    }

    #[test]
    fn suites_are_told_once_if_they_agree() {
        let same = [("a", String::from("X")), ("b", String::from("X"))];
        assert_eq!(note_on_suites(&same).unwrap(), "All agreed with OpenSSL on X.");
        let different = [("a", String::from("X")), ("b", String::from("Y"))];
        assert_eq!(note_on_suites(&different).unwrap(), "The cipher suites differ: a X; b Y.");
        assert_eq!(note_on_suites(&[]), None);
    }
}
