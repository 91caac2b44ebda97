//! Models: fitted to the lower levels, they must predict the higher ones.
//!
//! Any curve fits the points that it was fitted to. The value of a model shows at the levels excluded from the fit, so
//! its error there is reported. Growth (linear, Amdahl, the Universal Scalability Law) is fitted to the rate over the
//! number of users; a queueing model (exact mean value analysis) is not fitted at all: it takes the CPU time per
//! request measured at low load and predicts rate and response time for every number of users.

use std::collections::{BTreeMap, BTreeSet};

use breme_experiment::plan::{ModelKind, PlanModel};
use breme_experiment::record::TrialRecord;
use breme_expression::{ArithmeticOperation, Expression, Measure, MeasuredOn, Quantity, TimeFigure, TimeKind, Unit};
use breme_stats::queueing_network::{self, Population, Station};
use breme_stats::scalability::{self, Fit, Law};
use thiserror::Error;

use crate::effect::median;
use crate::judgement::{ModelOutcome, ModelPoint};
use crate::level_comparisons::combinations_without;
use crate::levels::Levels;
use crate::observations::{Observations, overridden};
use crate::question::Question;
use crate::words::{amount, count, percent};

/// The result of each model at each combination of the other factors, and the problems of the others.
pub(crate) fn judge(question: &Question, records: &[TrialRecord]) -> (Vec<ModelOutcome>, Vec<String>) {
    let (mut outcomes, mut warnings) = (Vec::new(), Vec::new());
    for model in &question.models {
        for at in combinations_without(&question.factors, &model.over) {
            let found = LoadCurve::seen(question, records, model, at).and_then(|curve| match &model.kind {
                ModelKind::Growth => fit_laws(&curve),
                ModelKind::Mva { .. } => predict_by_mva(&curve),
            });
            match found {
                Ok(models) => outcomes.extend(models),
                Err(why) => warnings.push(format!("No model of `{}` over {}: {why}.", model.of.name, model.over)),
            }
        }
    }
    warnings.dedup();
    (outcomes, warnings)
}

/// Why a model cannot be computed.
#[derive(Debug, Error)]
enum ModelError {
    #[error("there is no factor `{0}`")]
    NoFactor(String),
    #[error("its level `{0}` is not a number")]
    Level(String),
    #[error(
        "fewer than {min} levels are available for the fit, since some are reserved to test it",
        min = FITTED_MIN
    )]
    TooFewLevels,
    #[error("no level has a trial that counts")]
    NoTrial,
    #[error("{0} users exceed the maximum of {max}", max = queueing_network::USERS_MAX)]
    TooManyUsers(f64),
    #[error("no subject was instrumented")]
    NoDemand,
    #[error("the demand `{0}` has no measured value")]
    UnmeasuredDemand(String),
    #[error("the demands are not usable")]
    UnusableDemands,
    #[error("no times at the lowest level")]
    NoTimes,
    #[error("mean value analysis predicts only rates and mean times")]
    Unpredicted,
}

/// The levels of one factor: the observations at each number of users.
struct LoadCurve<'a> {
    model: &'a PlanModel,
    at: Levels,
    points: Vec<LoadPoint>,
    /// Service demand of one request at each station.
    demands: Vec<Expression>,
    /// Number of servers of each station.
    servers: Vec<u32>,
    think_s: f64,
}

struct LoadPoint {
    users: f64,
    /// Values of the modelled measure.
    values: Vec<f64>,
    /// For a queueing model: the mean response time.
    times_s: Vec<f64>,
    demands_s: Vec<Option<f64>>,
    is_held_out: bool,
}

impl<'a> LoadCurve<'a> {
    fn seen(
        question: &Question,
        records: &[TrialRecord],
        model: &'a PlanModel,
        at: Levels,
    ) -> Result<Self, ModelError> {
        let factor = question.factors.iter().find(|factor| factor.name == model.over);
        let factor = factor.ok_or_else(|| ModelError::NoFactor(model.over.clone()))?;
        let workload = workload_of(&model.of.expression);
        let demands = demands_of(model, &at, records);
        let time = mean_time(&workload);
        let needed = [&model.of.expression, &time].into_iter().chain(&demands).flat_map(Expression::measures);
        let seen = Observations::new(needed.map(|(measure, _)| measure.clone()).collect(), records);
        let mut points: Vec<LoadPoint> = Vec::new();
        for level in &factor.levels {
            let users = level.parse().map_err(|_| ModelError::Level(level.clone()))?;
            let levels = overridden(&at, &[(factor.name.clone(), level.clone())]);
            let values = |expression: &Expression| -> Vec<f64> {
                seen.blocks_of(&levels).filter_map(|block| seen.evaluate(expression, &levels, block).ok()).collect()
            };
            let of_it = values(&model.of.expression);
            if users > 0.0 && !of_it.is_empty() {
                let demands_s = demands.iter().map(|demand| median(values(demand).into_iter())).collect();
                let is_held_out = model.leave_out.contains(level);
                points.push(LoadPoint { users, values: of_it, times_s: values(&time), demands_s, is_held_out });
            }
        }
        points.sort_by(|one, other| one.users.total_cmp(&other.users));
        if model.leave_out.is_empty() {
            hold_out(&mut points, &model.kind);
        }
        let think_s = think_of(model, &workload, &at, records);
        let servers = demands.iter().map(|demand| servers_of(demand, &at, records, question.processors)).collect();
        Ok(Self { model, at, points, demands, servers, think_s })
    }

    fn fitted(&self) -> impl Iterator<Item = &LoadPoint> {
        self.points.iter().filter(|point| !point.is_held_out)
    }

    fn outcome(&self, name: &str, predict: impl Fn(f64) -> Option<f64>) -> ModelOutcome {
        let point = |point: &LoadPoint| {
            let measured = median(point.values.iter().copied());
            let predicted = predict(point.users).filter(|value| value.is_finite())?;
            Some(ModelPoint { level: point.users, measured, predicted, is_held_out: point.is_held_out })
        };
        let points: Vec<ModelPoint> = self.points.iter().filter_map(point).collect();
        ModelOutcome {
            name: name.to_owned(),
            measure: self.model.of.name.clone(),
            factor: self.model.over.clone(),
            at: self.at.clone(),
            prediction_error: prediction_error(&points),
            points,
            ..ModelOutcome::default()
        }
    }
}

/// The workload of a measure: the first one that occurs in it.
fn workload_of(of: &Expression) -> String {
    let on_workload = |measure: &&Measure| measure.quantity.measured_on() == MeasuredOn::Workload;
    of.measures()
        .into_iter()
        .map(|(measure, _)| measure)
        .find(on_workload)
        .map_or_else(String::new, |found| found.of.clone())
}

fn mean_time(workload: &str) -> Expression {
    let quantity = Quantity::Time { kind: TimeKind::Response, figure: TimeFigure::Mean };
    Measure { quantity, of: workload.to_owned() }.into()
}

/// The demands in the plan; else the CPU time of all subjects together, since they share the machine's CPUs.
fn demands_of(model: &PlanModel, at: &Levels, records: &[TrialRecord]) -> Vec<Expression> {
    match &model.kind {
        ModelKind::Growth => Vec::new(),
        ModelKind::Mva { demands, .. } if !demands.is_empty() => demands.clone(),
        ModelKind::Mva { .. } => {
            let subjects = trials_at(records, at).flat_map(|record| &record.subjects);
            let sampled = subjects.filter(|(_, subject)| subject.is_sampled());
            let subjects: BTreeSet<&String> = sampled.map(|(name, _)| name).collect();
            let cpu = subjects
                .into_iter()
                .map(|subject| Expression::from(Measure { quantity: Quantity::CpuPerRequest, of: subject.clone() }));
            let both = |left, right| Expression::Binary {
                operation: ArithmeticOperation::Add,
                left: Box::new(left),
                right: Box::new(right),
            };
            cpu.reduce(both).into_iter().collect()
        }
    }
}

/// The trials at these levels, for any number of users.
fn trials_at<'a>(records: &'a [TrialRecord], at: &'a Levels) -> impl Iterator<Item = &'a TrialRecord> {
    records.iter().filter(|record| at.iter().all(|(factor, level)| record.levels.get(factor) == Some(level)))
}

/// The think time in the plan; else that of the workload.
fn think_of(model: &PlanModel, workload: &str, at: &Levels, records: &[TrialRecord]) -> f64 {
    if let ModelKind::Mva { think: Some(think), .. } = &model.kind {
        return think.as_secs_f64();
    }
    let of_workload =
        |record: &TrialRecord| record.workloads.get(workload).filter(|found| found.connections > 0).cloned();
    trials_at(records, at).find_map(of_workload).map_or(0.0, |found| found.think_mean_s.max(0.0))
}

/// Excludes the highest third for growth, at least one level; for queueing all but the lowest third, since it needs no
/// fit.
fn hold_out(points: &mut [LoadPoint], kind: &ModelKind) {
    let count = points.len();
    let third = (count / 3).max(1).min(count);
    let seen = if *kind == ModelKind::Growth { count - third } else { third };
    points.iter_mut().skip(seen).for_each(|point| point.is_held_out = true);
}

/// Every law fits two points.
const FITTED_MIN: usize = 3;

fn prediction_error(points: &[ModelPoint]) -> Option<f64> {
    let held_out = points.iter().filter(|point| point.is_held_out);
    let error = |point: &ModelPoint| point.measured.filter(|&m| m > 0.0).map(|m| (point.predicted / m - 1.0).abs());
    let errors: Vec<f64> = held_out.filter_map(error).collect();
    let error = errors.iter().sum::<f64>() / errors.len() as f64;
    error.is_finite().then_some(error)
}

/// Fits the laws of growth. Every trial is a point. The scatter of rates is proportional to them, so each is weighted
/// with 1 ÷ the square of its level's rate.
fn fit_laws(curve: &LoadCurve<'_>) -> Result<Vec<ModelOutcome>, ModelError> {
    let levels: Vec<scalability::Level> = curve
        .fitted()
        .flat_map(|point| {
            let median = median(point.values.iter().copied()).filter(|&rate| rate > 0.0);
            let weight = median.map(|rate| 1.0 / (rate * rate));
            point.values.iter().filter_map(move |&y| Some(scalability::Level { x: point.users, y, weight: weight? }))
        })
        .collect();
    let (fits, best) = scalability::compare(&levels);
    if fits.is_empty() || curve.fitted().count() < FITTED_MIN {
        return Err(ModelError::TooFewLevels);
    }
    let outcomes = fits.iter().enumerate().map(|(index, fit)| {
        let outcome = curve.outcome(name_of(fit.law), |users| Some(fit.predict(users)));
        let sentence = growth_sentence(fit, curve.model.of.unit, &outcome);
        ModelOutcome {
            parameters: parameters_of(fit),
            aicc: fit.aicc.filter(|aicc| aicc.is_finite()),
            is_best: best == Some(index),
            sentence,
            ..outcome
        }
    });
    Ok(outcomes.collect())
}

const fn name_of(law: Law) -> &'static str {
    match law {
        Law::Linear => "linear",
        Law::Amdahl => "Amdahl",
        Law::Universal => "Universal Scalability Law",
    }
}

fn parameters_of(fit: &Fit) -> BTreeMap<String, f64> {
    let all = [("rate of one", fit.rate), ("contention", fit.contention), ("coherency", fit.coherency)];
    let mut parameters: BTreeMap<String, f64> =
        all[..fit.law.parameters()].iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    if let Some((users, rate)) = fit.peak() {
        parameters.insert("peak users".to_owned(), users);
        parameters.insert("peak rate".to_owned(), rate);
    }
    parameters.retain(|_, value| value.is_finite());
    parameters
}

fn growth_sentence(fit: &Fit, unit: Unit, outcome: &ModelOutcome) -> String {
    let end = match (fit.peak(), fit.ceiling()) {
        (Some((users, rate)), _) => format!(", at most {} with {users:.0}", amount(rate, unit)),
        (None, Some(ceiling)) => format!(", never more than {}", amount(ceiling, unit)),
        (None, None) => String::new(),
    };
    format!("{}: {} with one user{end}{}.", name_of(fit.law), amount(fit.rate, unit), error_in_words(outcome))
}

fn error_in_words(outcome: &ModelOutcome) -> String {
    let unseen = outcome.points.iter().filter(|point| point.is_held_out).count();
    match outcome.prediction_error {
        Some(error) => {
            format!("; mean error {} at {} not used by the fit", percent(error, error, error), count(unseen, "level"))
        }
        None => "; no level was reserved to test it".to_owned(),
    }
}

/// Mean value analysis from the demands at the levels not excluded. The rest of the lowest level's time is a delay
/// without a queue: the network, the generator.
fn predict_by_mva(curve: &LoadCurve<'_>) -> Result<Vec<ModelOutcome>, ModelError> {
    let stations = stations_of(curve)?;
    let lowest = curve.points.first().ok_or(ModelError::NoTrial)?;
    let highest = curve.points.iter().map(|point| point.users).fold(0.0, f64::max);
    if highest > f64::from(queueing_network::USERS_MAX) {
        return Err(ModelError::TooManyUsers(highest));
    }
    let solve = |delay_s: f64| {
        queueing_network::exact_mva(&stations, curve.think_s + delay_s, highest.ceil() as u32)
            .ok_or(ModelError::UnusableDemands)
    };
    let measured_s = median(lowest.times_s.iter().copied()).ok_or(ModelError::NoTimes)?;
    let queued_s = at(&solve(0.0)?, lowest.users).map_or(0.0, |population| population.response_s);
    let delay_s = (measured_s - queued_s).max(0.0);
    let populations = solve(delay_s)?;
    let of: fn(&Population, f64) -> f64 = match curve.model.of.unit {
        Unit::PerSecond => |population, _| population.rate,
        Unit::Seconds => |population, delay_s| population.response_s + delay_s,
        _ => return Err(ModelError::Unpredicted),
    };
    let mut parameters: BTreeMap<String, f64> =
        stations.iter().map(|station| (format!("{}, s", station.name), station.demand_s)).collect();
    parameters.insert("delay without a queue, s".to_owned(), delay_s);
    parameters.insert("think time, s".to_owned(), curve.think_s);
    let outcome = curve.outcome("exact MVA", |users| at(&populations, users).map(|known| of(known, delay_s)));
    let sentence = queue_sentence(&stations, &outcome);
    Ok(vec![ModelOutcome { parameters, sentence, ..outcome }])
}

fn at(populations: &[Population], users: f64) -> Option<&Population> {
    let index = (users.round() as usize).checked_sub(1)?;
    populations.get(index)
}

/// The number of servers of a station. CPU time can be spent on any CPU that its subjects run on, or of the machine, if
/// the records do not contain them; any other station has one server.
fn servers_of(demand: &Expression, at: &Levels, records: &[TrialRecord], processors: u32) -> u32 {
    let is_cpu = |measure: &&Measure| matches!(measure.quantity, Quantity::CpuPerRequest | Quantity::UserCpuPerRequest);
    let used: Vec<&Measure> = demand.measures().into_iter().map(|(measure, _)| measure).filter(is_cpu).collect();
    if used.is_empty() {
        return 1;
    }
    let cpus_in = |record: &TrialRecord| -> Vec<usize> {
        used.iter().filter_map(|used| record.cpus.get(record.subject_of(&used.of))).flatten().copied().collect()
    };
    let cpus: BTreeSet<usize> = trials_at(records, at).flat_map(cpus_in).collect();
    if cpus.is_empty() { processors.max(1) } else { cpus.len() as u32 }
}

/// A station for each demand.
fn stations_of(curve: &LoadCurve<'_>) -> Result<Vec<Station>, ModelError> {
    let station = |(place, demand): (usize, &Expression)| {
        let seen = curve.fitted().filter_map(|point| point.demands_s[place]);
        let demand_s = median(seen).filter(|&demand_s| demand_s > 0.0);
        let servers = curve.servers[place];
        let name = demand.to_string();
        demand_s
            .map(|demand_s| Station { name: name.clone(), demand_s, servers })
            .ok_or(ModelError::UnmeasuredDemand(name))
    };
    let stations: Vec<Station> = curve.demands.iter().enumerate().map(station).collect::<Result<_, _>>()?;
    if stations.is_empty() { Err(ModelError::NoDemand) } else { Ok(stations) }
}

fn queue_sentence(stations: &[Station], outcome: &ModelOutcome) -> String {
    let each: Vec<String> = stations
        .iter()
        .map(|station| {
            format!("`{}` of {} on {}", station.name, amount(station.demand_s, Unit::Seconds), station.servers)
        })
        .collect();
    format!("exact MVA of `{}`: each request costs {}{}.", outcome.measure, each.join(", "), error_in_words(outcome))
}
