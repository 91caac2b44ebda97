//! Artificial experiments: a subject with known true times, noise of several kinds, and the records of its trials.

use std::collections::BTreeMap;

use breme_base::Random;
use breme_experiment::plan::{Attempts, PlanHypothesis, PlanMeasure, Repeat};
use breme_experiment::record::{Distribution, SubjectRecord, TrialRecord, WorkloadRecord};
use breme_expression::{Claim, Expression, Vocabulary};
use breme_judge::{Factor, Levels, Question};

/// How trials of the same combination differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Independent and normal.
    Normal,
    /// Mostly small, now and then ten times as large, as when a neighbour takes the CPU. One-sided, like real
    /// disturbances.
    HeavyTailed,
    /// Each trial resembles the previous one.
    Autocorrelated,
    /// Additionally, all trials of a block are slowed down together.
    Blocked,
    /// Each trial is slower than the previous one, by a tenth of the noise.
    Trend,
}

pub const KINDS: [Noise; 4] = [Noise::Normal, Noise::HeavyTailed, Noise::Autocorrelated, Noise::Blocked];

/// A source of noise, as the logarithm of a factor.
pub struct Disturbance {
    random: Random,
    kind: Noise,
    size: f64,
    carried: f64,
    of_block: f64,
}

/// The part of a trial's noise that carries over to the next.
const CARRIED: f64 = 0.8;

impl Disturbance {
    pub fn new(kind: Noise, size: f64, seed: u64) -> Self {
        Self { random: Random::stream(seed, 77), kind, size, carried: 0.0, of_block: 0.0 }
    }

    fn begin_block(&mut self) {
        self.of_block = if self.kind == Noise::Blocked { 5.0 * self.size * self.normal() } else { 0.0 };
    }

    pub fn draw(&mut self) -> f64 {
        let normal = self.normal();
        match self.kind {
            Noise::Normal | Noise::Blocked => self.of_block + self.size * normal,
            Noise::HeavyTailed if self.random.chance(0.1) => 10.0 * self.size * normal.abs(),
            Noise::HeavyTailed => self.size * normal,
            Noise::Trend => {
                self.carried += 0.1 * self.size;
                self.carried + self.size * normal
            }
            Noise::Autocorrelated => {
                self.carried = CARRIED * self.carried + (1.0 - CARRIED * CARRIED).sqrt() * self.size * normal;
                self.carried
            }
        }
    }

    /// A normal variate, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.random.unit(), self.random.unit());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}

/// Parses a measure.
pub fn measure(text: &str) -> PlanMeasure {
    let expression = Expression::parse(text, &vocabulary(&[])).unwrap();
    PlanMeasure::new(text.into(), expression)
}

pub fn factor(name: &str, levels: &[&str]) -> Factor {
    Factor { name: name.into(), levels: levels.iter().map(|&level| level.into()).collect() }
}

pub fn levels(named: &[(&str, &str)]) -> Levels {
    named.iter().map(|&(factor, level)| (factor.into(), level.into())).collect()
}

pub fn vocabulary(factors: &[Factor]) -> Vocabulary {
    Vocabulary {
        workloads: vec!["user".into()],
        subjects: vec!["site".into()],
        factors: factors.iter().map(|factor| (factor.name.clone(), factor.levels.clone())).collect(),
        ..Vocabulary::default()
    }
}

pub fn hypothesis(expect: &str, factors: &[Factor]) -> PlanHypothesis {
    let claim = Claim::parse(expect, &vocabulary(factors)).unwrap();
    PlanHypothesis { says: format!("it is so that {expect}"), expect: expect.into(), claim, equal_within: None }
}

/// The mean time of the build `new` is that of `old` times this.
pub fn times(ratio: f64) -> impl Fn(&Levels) -> f64 {
    move |levels| if levels["build"] == "new" { 0.01 * ratio } else { 0.01 }
}

/// A workload with mean time `mean_s`; one user without think time.
pub fn workload(mean_s: f64, users: u64, window_s: f64) -> WorkloadRecord {
    let answered = (window_s / mean_s * users as f64).round() as u64;
    WorkloadRecord {
        path: "site".into(),
        held_mean_s: Some(0.0),
        connections: users,
        window_s,
        answered,
        ok: answered,
        statuses: BTreeMap::from([("200".into(), answered)]),
        achieved_rate: users as f64 / mean_s,
        response: Distribution { count: answered, mean_ns: mean_s * 1e9, ..Distribution::default() },
        ..WorkloadRecord::default()
    }
}

pub fn trial(block: u32, replicate: u32, levels: &Levels, workload: WorkloadRecord) -> TrialRecord {
    TrialRecord {
        block,
        replicate,
        levels: levels.clone(),
        length_s: workload.window_s,
        workloads: BTreeMap::from([("user".into(), workload)]),
        subjects: BTreeMap::from([("site".into(), SubjectRecord::default())]),
        ..TrialRecord::default()
    }
}

/// Whole experiments over these factors: each combination once per block, the first one twice, in random order.
pub struct Experiment {
    pub question: Question,
    pub noise: Noise,
    /// 0.03: trials vary by 3 %.
    pub size: f64,
}

impl Experiment {
    pub fn new(factors: Vec<Factor>, blocks: u32, noise: Noise, size: f64) -> Self {
        let combinations: usize = factors.iter().map(|factor| factor.levels.len()).product();
        let question = Question {
            measures: vec![measure("mean(user)"), measure("rate(user)")],
            factors,
            blocks,
            trials: blocks * (combinations as u32 + 1),
            ..Question::default()
        };
        Self { question, noise, size }
    }

    /// Two builds, compared by their mean time.
    pub fn of_builds(blocks: u32, noise: Noise, size: f64) -> Self {
        let mut experiment = Self::new(vec![factor("build", &["old", "new"])], blocks, noise, size);
        experiment.question.measures = vec![measure("mean(user)")];
        experiment
    }

    pub fn combinations(&self) -> Vec<Levels> {
        let with = |combinations: Vec<Levels>, factor: &Factor| {
            let each = |levels: &Levels, level: &String| {
                let mut levels = levels.clone();
                levels.insert(factor.name.clone(), level.clone());
                levels
            };
            combinations.iter().flat_map(|known| factor.levels.iter().map(move |level| each(known, level))).collect()
        };
        self.question.factors.iter().fold(vec![Levels::new()], with)
    }

    /// The records, given the true mean time at each combination.
    pub fn run(&self, seed: u64, truth_s: impl Fn(&Levels) -> f64) -> Vec<TrialRecord> {
        self.run_with_invalid(seed, truth_s, 0, |_, _| 0.0)
    }

    /// The records of a run with INVALID trials, whose probability depends on their levels and on their own error (the
    /// logarithm of a factor); they are repeated at the end of their block, as `breme run` does.
    pub fn run_with_invalid(
        &self,
        seed: u64,
        truth_s: impl Fn(&Levels) -> f64,
        repeats_max: u32,
        chance: impl Fn(&Levels, f64) -> f64,
    ) -> Vec<TrialRecord> {
        let (mut noise, mut luck) = (Disturbance::new(self.noise, self.size, seed), Random::stream(seed, 2));
        let (mut order, mut attempts) = (Random::stream(seed, 1), Attempts::default());
        let combinations = self.combinations();
        let mut keys: Vec<(u32, u32)> = (0..).zip(&combinations).map(|(combination, _)| (combination, 0)).collect();
        keys.insert(1, (0, 1));
        let mut records = Vec::new();
        let mut once = |block, (combination, replicate), repeat, noise: &mut Disturbance, attempts: &mut Attempts| {
            let levels = &combinations[combination as usize];
            let error = noise.draw();
            let is_invalid = luck.chance(chance(levels, error));
            let invalid_reasons = is_invalid.then(|| "the generator was the limit".to_owned()).into_iter().collect();
            let user = workload(truth_s(levels) * error.exp(), 1, 10.0);
            let number = records.len() as u32 + 1;
            let of_block = trial(block, replicate, levels, user);
            let record = TrialRecord { number, combination, repeat, invalid_reasons, ..of_block };
            attempts.take(&record);
            records.push(record);
        };
        for block in 1..=self.question.blocks {
            noise.begin_block();
            for last in (1..keys.len()).rev() {
                keys.swap(last, order.below(last as u64 + 1) as usize);
            }
            keys.iter().for_each(|&key| once(block, key, 0, &mut noise, &mut attempts));
            while let Some(Repeat { key, repeat }) = attempts.next_repeat(block, repeats_max) {
                once(block, (key.combination, key.replicate), repeat, &mut noise, &mut attempts);
            }
        }
        records
    }
}
