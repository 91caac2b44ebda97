//! Trials on a shared machine, second by second: the effect of a neighbour's bursts, a warm-up and a drift on the
//! response times of two builds with a known true ratio.

use breme_base::Random;
use breme_experiment::record::{Distribution, Steady, SteadyState, TrialRecord, WarmUpRecord};
use breme_judge::{Levels, judge};
use breme_stats::Histogram;
use breme_stats::steady_state::{Steadiness, find_steady};

use crate::fixture::{Experiment, Noise, levels, trial, workload};

/// Values of a trial's series.
const VALUES: usize = 50;
/// Mean time of the undisturbed old build.
const TIME_S: f64 = 0.01;

/// Disturbances of the trials. Lengths are in values, of which a trial has [`VALUES`].
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub name: &'static str,
    /// The true ratio of the new build to the old one.
    pub ratio: f64,
    /// Mean length of a burst, and of the pause between two.
    pub burst: f64,
    pub pause: f64,
    /// Mean share by which a burst slows the old build, and the factor by which it slows the new one more.
    pub strength: f64,
    pub sensitivity: f64,
    /// The share by which the new build is slower at first, and the part of the trial in which that falls to 1 ÷ e.
    pub warm_up: f64,
    pub warm_up_part: f64,
    /// Standard deviation of a value, and the correlation of neighbours.
    pub noise: f64,
    pub memory: f64,
    /// Standard deviation of the machine's speed between trials.
    pub drift: f64,
}

pub const QUIET: World = World {
    name: "quiet",
    ratio: 1.1,
    burst: 12.0,
    pause: 1e9,
    strength: 0.0,
    sensitivity: 1.0,
    warm_up: 0.0,
    warm_up_part: 0.05,
    noise: 0.08,
    memory: 0.3,
    drift: 0.01,
};

const BURSTS: World = World { name: "bursts", pause: 40.0, strength: 0.8, ..QUIET };

pub const WORLDS: [World; 9] = [
    QUIET,
    BURSTS,
    World { name: "rare long bursts", burst: 40.0, pause: 200.0, ..BURSTS },
    World { name: "bursts and drift", drift: 0.2, ..BURSTS },
    World { name: "warm-up of the new build", warm_up: 1.0, ..QUIET },
    World { name: "warm-up of the new build, bursts", warm_up: 1.0, ..BURSTS },
    World { name: "bursts, new build slowed twice as much", strength: 0.25, sensitivity: 2.0, ..BURSTS },
    World { name: "bursts, new build slowed a third as much", strength: 0.3, sensitivity: 0.3, ..BURSTS },
    World { name: "bursts, new build not slowed at all", strength: 0.3, sensitivity: 0.0, ..BURSTS },
];

/// How unsteady trials are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Discarded, and repeated up to twice.
    Discard,
    /// Counted.
    Keep,
}

/// Results of the experiments of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Share of those whose 95 % interval contains the true value.
    pub covered: f64,
    /// Mean logarithm of estimate ÷ true value.
    pub bias: f64,
    /// Mean width of the interval, on logarithms.
    pub width: f64,
    /// Share of unsteady trials.
    pub unsteady: f64,
}

impl World {
    /// The response times of one trial.
    fn series(&self, is_new: bool, speed: f64, random: &mut Random) -> Vec<f64> {
        let mut neighbour = Neighbour::new(self, random);
        let mut noise = normal(random);
        let (ratio, sensitivity, warm_up) =
            if is_new { (self.ratio, self.sensitivity, self.warm_up) } else { (1.0, 1.0, 0.0) };
        let value = |index: usize| {
            noise = self.memory * noise + (1.0 - self.memory * self.memory).sqrt() * normal(random);
            let warm = 1.0 + warm_up * (-(index as f64) / (self.warm_up_part * VALUES as f64)).exp();
            let slowed = 1.0 + sensitivity * neighbour.next(self, random);
            TIME_S * ratio * speed.exp() * warm * slowed * (1.0 + self.noise * noise).max(0.05)
        };
        (0..VALUES).map(value).collect()
    }

    /// The median logarithm of new ÷ old in whole warm trials: the parameter of the interval (the median of averages
    /// of two blocks).
    pub fn truth(&self, draws: usize) -> f64 {
        if self.sensitivity == 1.0 {
            return self.ratio.ln();
        }
        let mut random = Random::new(71);
        let warm = World { warm_up: 0.0, ..*self };
        let mut block =
            || (mean(&warm.series(true, 0.0, &mut random)) / mean(&warm.series(false, 0.0, &mut random))).ln();
        let mut averages: Vec<f64> = (0..draws).map(|_| f64::midpoint(block(), block())).collect();
        averages.sort_by(f64::total_cmp);
        averages[draws / 2]
    }

    /// The logarithm of the ratio of the mean times over a long run.
    pub fn truth_of_means(&self) -> f64 {
        let slowed = |sensitivity: f64| 1.0 + sensitivity * self.strength * self.burst / (self.burst + self.pause);
        (self.ratio * slowed(self.sensitivity) / slowed(1.0)).ln()
    }

    /// Runs experiments of `blocks` blocks under a rule and compares them with the true value.
    pub fn shown(&self, rule: Rule, truth: f64, blocks: u32, experiments: u64) -> Shown {
        let experiment = Experiment::of_builds(blocks, Noise::Normal, 0.0);
        let mut shown = Shown::default();
        for seed in 0..experiments {
            let (records, unsteady) = self.records(rule, blocks, seed);
            let judgement = judge(&experiment.question, &records);
            let effect = &judgement.comparisons[0].effect;
            // The question does not determine which of the two is on the left.
            let sign = if judgement.comparisons[0].left.contains("new") { 1.0 } else { -1.0 };
            let [center, low, high] = [effect.center, effect.low, effect.high].map(|end| end.unwrap().ln());
            shown.covered += f64::from(low <= sign * truth && sign * truth <= high);
            shown.bias += sign * center - truth;
            shown.width += high - low;
            shown.unsteady += unsteady;
        }
        let Shown { covered, bias, width, unsteady } = shown;
        let [covered, bias, width, unsteady] = [covered, bias, width, unsteady].map(|sum| sum / experiments as f64);
        Shown { covered, bias, width, unsteady }
    }

    fn records(&self, rule: Rule, blocks: u32, seed: u64) -> (Vec<TrialRecord>, f64) {
        let mut random = Random::stream(seed, 5);
        let (mut speed, mut unsteady, mut records) = (0.0, 0, Vec::new());
        for block in 1..=blocks {
            for build in if random.chance(0.5) { ["old", "new"] } else { ["new", "old"] } {
                speed += self.drift * normal(&mut random) * if records.len() % 2 == 0 { 1.0 } else { 0.2 };
                let levels = levels(&[("build", build)]);
                let mut once = || self.record(block, &levels, speed, &mut random);
                let mut record = once();
                unsteady += u32::from(record.is_unsteady());
                if rule == Rule::Discard {
                    let again = (0..2).map(|_| once()).find(|again| !again.is_unsteady());
                    match (record.is_unsteady(), again) {
                        (true, Some(again)) => record = again,
                        (true, None) => continue,
                        (false, _) => {}
                    }
                }
                records.push(record);
            }
        }
        (records, f64::from(unsteady) / f64::from(2 * blocks))
    }

    fn record(&self, block: u32, levels: &Levels, speed: f64, random: &mut Random) -> TrialRecord {
        let series = self.series(levels["build"] == "new", speed, random);
        let part = find_steady(&series);
        let state = match part.steadiness {
            Steadiness::Flat => SteadyState::Flat,
            Steadiness::AfterWarmUp => SteadyState::AfterWarmUp,
            Steadiness::NeverSteady => SteadyState::NeverSteady,
            Steadiness::TooShort => SteadyState::TooShort,
        };
        let (cut, counted) = series.split_at(part.from);
        let mut user = workload(mean(counted), 1, 1.0);
        user.steady = Steady { state, from_s: part.from as f64, ..Steady::default() };
        if part.from > 0 {
            let [before, after] = [cut, counted].map(times);
            (user.window_s, user.response, user.service) = (counted.len() as f64, after.clone(), after);
            user.warm_up = Some(Box::new(WarmUpRecord {
                length_s: cut.len() as f64,
                response: before.clone(),
                service: before,
                ..WarmUpRecord::default()
            }));
        }
        trial(block, 0, levels, user)
    }
}

/// Requests at a constant rate: each value has as many.
fn times(values: &[f64]) -> Distribution {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record((value * 1e9) as u64));
    Distribution { mean_ns: mean(values) * 1e9, ..Distribution::from_histogram(&histogram) }
}

/// A program that runs at times on the same CPUs.
struct Neighbour {
    is_there: bool,
    left: f64,
    strength: f64,
}

impl Neighbour {
    fn new(world: &World, random: &mut Random) -> Self {
        let is_there = random.chance(world.burst / (world.burst + world.pause));
        Self::entering(is_there, world, random)
    }

    fn entering(is_there: bool, world: &World, random: &mut Random) -> Self {
        let left = exponential(if is_there { world.burst } else { world.pause }, random);
        Self { is_there, left, strength: exponential(world.strength, random) }
    }

    /// The share by which it slows down the next value.
    fn next(&mut self, world: &World, random: &mut Random) -> f64 {
        let (mut time, mut share) = (1.0, 0.0);
        while time > 0.0 {
            let length = self.left.min(time);
            if self.is_there {
                share += length * self.strength;
            }
            (time, self.left) = (time - length, self.left - length);
            if self.left <= 0.0 {
                *self = Self::entering(!self.is_there, world, random);
            }
        }
        share
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn exponential(mean: f64, random: &mut Random) -> f64 {
    -mean * (1.0 - random.unit()).max(1e-300).ln()
}

/// A normal variate, by the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    (-2.0 * random.unit().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}
