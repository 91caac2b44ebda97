//! The questions of an experiment: hypotheses, measures, published figures, models and the search.

use std::time::Duration;

use breme_base::suggest_or_list;
use breme_expression::{Claim, Condition, Expression, ExpressionError, Unit, Vocabulary};
use breme_toml::{Collector, Span};

use super::factors::{FactorSpec, LevelRange};
use super::gate::{Gate, GatedMeasure, check_margin};
use super::measures::{PlanMeasure, standard_measures};
use super::resolve::Resolved;
use crate::file::positions::At;
use crate::file::values::measured;
use crate::file::{self, ModelKindText};
use crate::placeholder;

const HYPOTHESIS_COUNT_MAX: usize = 500;
const MEASURE_COUNT_MAX: usize = 200;
/// Default precision of a search.
const PRECISION_DEFAULT: f64 = 0.05;
/// Default length of a short trial of a search.
const SHORT_DEFAULT: Duration = Duration::from_secs(5);
/// Length of the confirming trial in short trials.
const LONG_FACTOR: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct PlanHypothesis {
    pub says: String,
    /// As written in the file.
    pub expect: String,
    pub claim: Claim,
    /// Differences below this are irrelevant; none: as in the design.
    pub equal_within: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlanPublished {
    pub measure: PlanMeasure,
    /// Where they were published.
    pub source: String,
    /// Levels (factors not named stay open) and the figure in the base unit.
    pub values: Vec<(Vec<(String, String)>, f64)>,
}

/// The search for the level at which something fails.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSearch {
    /// The factor that is varied.
    pub factor: String,
    /// The range searched.
    pub range: LevelRange,
    /// The condition of failure.
    pub until: Condition,
    /// Length of a short trial.
    pub short: Duration,
    /// Length of a confirming trial.
    pub long: Duration,
    /// The distance of the two ends at which the search stops, as a share of the level.
    pub precision: f64,
    /// The combinations of the other factors, each with its own search.
    pub others: Vec<Vec<(String, String)>>,
}

/// A model fitted to a measure.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanModel {
    pub kind: ModelKind,
    pub of: PlanMeasure,
    /// The factor on the x axis; its levels are numbers.
    pub over: String,
    /// Levels excluded from the fit.
    pub leave_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ModelKind {
    /// Universal Scalability Law, Amdahl and linear growth, compared.
    Growth,
    /// Exact mean value analysis.
    Mva {
        /// Mean think time; none: that of the measure's workload.
        think: Option<Duration>,
        /// Service demand of one request at each station, in seconds. None: CPU time of every subject that is started.
        demands: Vec<Expression>,
    },
}

/// The names that the questions may use.
pub(super) fn vocabulary(
    factors: &[FactorSpec],
    left_out: &[(String, String)],
    subjects: &[String],
    workloads: &[String],
    resolved: Option<&Resolved>,
) -> Vocabulary {
    let levels = |factor: &FactorSpec| factor.levels.iter().map(|(name, _)| name.clone()).collect::<Vec<String>>();
    let foreground = resolved
        .map(|resolved| resolved.workloads.iter().filter(|workload| !workload.is_background).collect::<Vec<_>>());
    let workload_meant = match foreground.as_deref() {
        Some([only]) => Some(only.name.clone()),
        _ => None,
    };
    Vocabulary {
        workloads: workloads.to_vec(),
        workload_meant,
        subjects: subjects.to_vec(),
        factors: factors.iter().map(|factor| (factor.name.clone(), levels(factor))).collect(),
        left_out: left_out.to_vec(),
        measures: Vec::new(),
        captured: Vec::new(),
    }
}

/// Reads the questions and reports their errors.
pub(super) struct Questions<'q> {
    pub vocabulary: Vocabulary,
    pub factors: &'q [FactorSpec],
    pub warnings: &'q mut Vec<String>,
    pub collector: &'q mut Collector,
}

impl Questions<'_> {
    /// Named measures: each may refer to earlier ones.
    pub(super) fn named(&mut self, measures: &[(At<String>, At<String>)]) {
        for (name, text) in measures {
            let is_name = placeholder::is_name(&name.value) && !name.value.contains(['.', '-']);
            let is_taken = Expression::parse(&name.value, &Vocabulary::default()).is_ok();
            if !is_name || is_taken {
                let why = if is_taken {
                    "is already defined"
                } else {
                    "is not a valid measure name; use letters, digits and '_', beginning with a letter"
                };
                self.collector.note(&name.span, format!("{:?} {why}", name.value));
                continue;
            }
            if let Some(expression) = self.expression(text) {
                self.vocabulary.measures.push((name.value.clone(), expression));
            }
        }
    }

    fn expression(&mut self, text: &At<String>) -> Option<Expression> {
        Expression::parse(&text.value, &self.vocabulary).map_err(|error| self.note(text, &error)).ok()
    }

    fn measure(&mut self, text: &At<String>) -> Option<PlanMeasure> {
        Some(PlanMeasure::named(&text.value, self.expression(text)?, &self.vocabulary))
    }

    fn note(&mut self, text: &At<String>, error: &ExpressionError) {
        self.collector.note_within(&text.span, &text.value, error.column, error.length, error.problem.clone());
    }

    pub(super) fn measures(
        &mut self,
        texts: &[At<String>],
        resolved: Option<&Resolved>,
        requested_count: usize,
        has_faults: bool,
    ) -> Vec<PlanMeasure> {
        let mut measures: Vec<PlanMeasure> = Vec::new();
        if let Some(text) = texts.get(MEASURE_COUNT_MAX) {
            self.collector.note(&text.span, format!("there are more than {MEASURE_COUNT_MAX} measures"));
        }
        for text in texts.iter().take(MEASURE_COUNT_MAX) {
            let Some(measure) = self.measure(text) else { continue };
            if !measure.expression.measures().iter().all(|(_, at)| at.is_empty()) {
                self.collector.note(&text.span, "a measure is shown at all levels; remove the levels");
                continue;
            }
            if !measures.iter().any(|known| known.name == measure.name) {
                measures.push(measure);
            }
        }
        if !texts.is_empty() {
            return measures;
        }
        let named = self.vocabulary.measures.clone().into_iter();
        measures.extend(named.map(|(name, expression)| PlanMeasure::new(name, expression)));
        let standard =
            resolved.map(|resolved| standard_measures(resolved, &self.vocabulary, requested_count, has_faults));
        measures.extend(standard.into_iter().flatten());
        measures
    }

    /// The gate, or the standard one if the file names no measure.
    pub(super) fn gate(&mut self, file: Option<&At<file::Gate>>, resolved: Option<&Resolved>) -> Gate {
        let mut gate = Gate::default();
        if let Some(margin) = file.and_then(|file| file.value.margin.as_ref()) {
            match check_margin(margin.value.0) {
                Ok(share) => gate.margin = share,
                Err(error) => self.collector.note(&margin.span, error),
            }
        }
        let texts = file.map(|file| file.value.measures.0.as_slice()).unwrap_or_default();
        if texts.is_empty() {
            gate.measures = resolved.map(|resolved| Gate::standard(resolved, &self.vocabulary)).unwrap_or_default();
        }
        for text in texts {
            match GatedMeasure::parse(&text.value, &self.vocabulary) {
                Ok(gated) => gate.measures.push(gated),
                Err(error) => {
                    let (column, length) = error.stretch(&text.value);
                    self.collector.note_within(&text.span, &text.value, column, length, error);
                }
            }
        }
        gate
    }

    /// The hypotheses, except those about levels that the profile omits.
    pub(super) fn hypotheses(&mut self, files: &[At<file::Hypothesis>]) -> Vec<PlanHypothesis> {
        if let Some(file) = files.get(HYPOTHESIS_COUNT_MAX) {
            self.collector.note(&file.span, format!("there are more than {HYPOTHESIS_COUNT_MAX} hypotheses"));
        }
        let mut hypotheses = Vec::new();
        for At { value: file, span } in files.iter().take(HYPOTHESIS_COUNT_MAX) {
            let Some(expect) = &file.expect else {
                self.collector
                    .note(span, "this hypothesis has no claim; add expect = \"p99(user) < 50 ms\" or the like");
                continue;
            };
            let says = file.says.clone().unwrap_or_else(|| expect.value.clone());
            match Claim::parse(&expect.value, &self.vocabulary) {
                Ok(claim) => {
                    let equal_within = file.equal_within.map(|share| share.0);
                    hypotheses.push(PlanHypothesis { says, expect: expect.value.clone(), claim, equal_within });
                }
                Err(error) if error.is_left_out => {
                    self.warnings.push(format!("not judged in this profile, which omits its levels: {says}"));
                }
                Err(error) => self.note(expect, &error),
            }
        }
        hypotheses
    }

    pub(super) fn published(&mut self, files: &[At<file::Published>]) -> Vec<PlanPublished> {
        files.iter().filter_map(|file| self.one_published(file)).collect()
    }

    fn one_published(&mut self, At { value: file, span }: &At<file::Published>) -> Option<PlanPublished> {
        let Some(measure) = &file.measure else {
            let problem = "there is no published measure; add measure = \"mean(user)\" or the like";
            return self.collector.reject(span, problem);
        };
        let measure = self.measure(measure)?;
        let mut values = Vec::new();
        for value in &file.values {
            values.extend(self.published_value(value, file.unit.as_ref(), measure.unit));
        }
        let source = file.source.clone().unwrap_or_else(|| "published".to_owned());
        Some(PlanPublished { measure, source, values })
    }

    fn published_value(
        &mut self,
        At { value: file, span }: &At<file::PublishedValue>,
        unit: Option<&At<String>>,
        expected: Unit,
    ) -> Option<(Vec<(String, String)>, f64)> {
        let mut at = Vec::new();
        for (factor, level) in &file.at.0 {
            match self.vocabulary.level_elsewhere(&factor.value, &level.value.0) {
                Ok(level) => at.push(level),
                Err(error) if error.is_left_out => return None,
                Err(error) => {
                    let place = if error.column == 1 { &factor.span } else { &level.span };
                    return self.collector.reject(place, error.problem);
                }
            }
        }
        let Some(value) = &file.value else {
            return self.collector.reject(span, "there is no figure; add value = \"75.6 ms\" or the like");
        };
        let text = &value.value.0;
        let with_unit = match unit {
            Some(unit) if text.parse::<f64>().is_ok() => format!("{text} {}", unit.value),
            _ => text.clone(),
        };
        match measured(&with_unit) {
            Some((number, unit)) if unit == expected || (unit == Unit::Plain && expected != Unit::Seconds) => {
                Some((at, number))
            }
            Some((_, Unit::Plain)) => self.collector.reject(
                &value.span,
                format!("{text} has no unit; write \"{text} ms\", or unit = \"ms\" for all values"),
            ),
            Some(_) => self.collector.reject(&value.span, format!("{with_unit:?} is in another unit than the measure")),
            None => self.collector.reject(
                &value.span,
                format!("{with_unit:?} is not a number with a unit; write for example \"75.6 ms\""),
            ),
        }
    }

    pub(super) fn search(
        &mut self,
        At { value: file, span }: &At<file::SearchSection>,
        duration: Duration,
        others: &[Vec<(String, String)>],
    ) -> Option<PlanSearch> {
        let before = self.collector.count();
        if file.factor.is_none() {
            self.collector.note(span, "there is no factor to vary; add factor = \"NAME\"");
        }
        if file.until.is_none() {
            self.collector.note(
                span,
                "there is no condition to search for; add until = \"p95(user) > 2 s or errors(user) > 1 %\" or the like",
            );
        }
        let until = file.until.as_ref().and_then(|until| {
            Condition::parse(&until.value, &self.vocabulary).map_err(|error| self.note(until, &error)).ok()
        });
        let factor = file.factor.as_ref().and_then(|name| self.searched(name));
        let short = file.short.as_ref().map_or(SHORT_DEFAULT.min(duration), |short| short.value.0);
        let long = file.long.as_ref().map_or(short.saturating_mul(LONG_FACTOR), |long| long.value.0);
        for at in [&file.short, &file.long].into_iter().flatten() {
            super::resolve::check_duration(at.value.0, &at.span, self.collector);
        }
        if let Some(at) = file.long.as_ref().filter(|_| long < short) {
            let problem =
                format!("the long trials ({long:?}) are shorter than the short ones ({short:?}); raise `long`");
            self.collector.note(&at.span, problem);
        }
        if let Some(precision) = file.precision.as_ref().filter(|precision| precision.value.0 <= 0.0) {
            self.collector
                .note(&precision.span, "a search with a precision of 0 never ends; write for example \"5 %\"");
        }
        let (factor, range) = factor?;
        if let Some(name) = file.factor.as_ref().filter(|_| range.from < 0.0) {
            let problem = format!("a search needs levels from 0 on; factor `{factor}` begins at {}", range.from);
            self.collector.note(&name.span, problem);
        }
        let precision = file.precision.as_ref().map_or(PRECISION_DEFAULT, |precision| precision.value.0);
        let search = PlanSearch { factor, range, until: until?, short, long, precision, others: others.to_vec() };
        (self.collector.count() == before).then_some(search)
    }

    /// The range of a factor: its own, or that of its numeric levels.
    fn searched(&mut self, name: &At<String>) -> Option<(String, LevelRange)> {
        let factor = self.factor(name)?;
        let range = factor.range.or_else(|| {
            let numbers: Option<Vec<f64>> = factor.levels.iter().map(|(level, _)| level.parse().ok()).collect();
            let numbers = numbers?;
            let (from, to) =
                numbers.iter().fold((f64::MAX, f64::MIN), |(from, to), &number| (from.min(number), to.max(number)));
            let is_whole = factor.levels.iter().all(|(level, _)| level.parse::<i64>().is_ok());
            (from < to).then_some(LevelRange { from, to, is_whole })
        });
        if range.is_none() {
            self.collector.note(
                &name.span,
                format!(
                    "the levels of factor `{}` are not numbers, which a search needs; write {} = {{ from = 1, to = 1000 }}",
                    name.value, name.value
                ),
            );
        }
        Some((factor.name, range?))
    }

    fn factor(&mut self, name: &At<String>) -> Option<FactorSpec> {
        let found = self.factors.iter().find(|factor| factor.name == name.value).cloned();
        if found.is_none() {
            let known = self.factors.iter().map(|factor| factor.name.as_str());
            let hint = suggest_or_list(&name.value, known);
            self.collector.note(&name.span, format!("there is no factor `{}`; {hint}", name.value));
        }
        found
    }

    pub(super) fn models(&mut self, files: &[At<file::Model>]) -> Vec<PlanModel> {
        files.iter().filter_map(|file| self.model(file)).collect()
    }

    fn model(&mut self, At { value: file, span }: &At<file::Model>) -> Option<PlanModel> {
        let before = self.collector.count();
        self.check_complete(file, span);
        let of = file.of.as_ref().and_then(|of| self.measure(of));
        let over = file.over.as_ref().and_then(|over| self.over(over));
        let demands = file
            .demands
            .0
            .iter()
            .filter_map(|demand| {
                let expression = self.expression(demand)?;
                if expression.unit() != Unit::Seconds {
                    self.collector.note(&demand.span, "a demand is a time per request, such as cpu(wiki)");
                }
                Some(expression)
            })
            .collect();
        let (of, over) = (of?, over?);
        let mut leave_out = Vec::new();
        for level in &file.leave_out.0 {
            match self.vocabulary.level_elsewhere(&over, &level.value.0) {
                Ok((_, level)) => leave_out.push(level),
                Err(error) if error.is_left_out => {}
                Err(error) => self.collector.note(&level.span, error.problem),
            }
        }
        let kind = match file.kind? {
            ModelKindText::Growth => ModelKind::Growth,
            ModelKindText::Mva => ModelKind::Mva { think: file.think.map(|think| think.0), demands },
        };
        (self.collector.count() == before).then_some(PlanModel { kind, of, over, leave_out })
    }

    fn check_complete(&mut self, file: &file::Model, span: &Span) {
        let missing = [
            (file.kind.is_none(), "kind = \"growth\" or kind = \"mva\""),
            (file.of.is_none(), "of = \"rate(user)\" or the like"),
            (file.over.is_none(), "over = \"FACTOR\""),
        ];
        for (_, remedy) in missing.iter().filter(|(is_missing, _)| *is_missing) {
            self.collector.note(span, format!("this model is not complete; add {remedy}"));
        }
    }

    fn over(&mut self, name: &At<String>) -> Option<String> {
        let factor = self.factor(name)?;
        if let Some((level, _)) = factor.levels.iter().find(|(level, _)| level.parse::<f64>().is_err()) {
            return self.collector.reject(
                &name.span,
                format!(
                    "a model needs numeric levels, but level `{level}` of factor `{}` is not a number",
                    factor.name
                ),
            );
        }
        if factor.range.is_some() {
            let problem = format!("a model needs levels, and factor `{}` has a range", factor.name);
            return self.collector.reject(&name.span, problem);
        }
        Some(factor.name)
    }
}
