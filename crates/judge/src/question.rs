//! The part of a plan needed to judge the records.

use breme_experiment::plan::{Gate, Plan, PlanHypothesis, PlanMeasure, PlanModel, PlanSearch};
use breme_expression::Measure;

use crate::levels::Levels;
use crate::search::{SearchQuestion, TRIALS_MAX};

#[derive(Clone, Debug)]
pub struct Question {
    /// In the plan's order.
    pub hypotheses: Vec<PlanHypothesis>,
    /// Measures shown and compared, in the plan's order.
    pub measures: Vec<PlanMeasure>,
    /// In the plan's order.
    pub factors: Vec<Factor>,
    pub published: Vec<PublishedFigure>,
    /// Searches for a failure point.
    pub searches: Vec<SearchQuestion>,
    pub models: Vec<PlanModel>,
    /// Number of CPUs of the machine, for queueing models of trials whose records lack those of the subjects.
    pub processors: u32,
    /// Confidence of the intervals: 0.95.
    pub confidence: f64,
    /// Smaller differences are practically equal: 0.02 is ±2 %.
    pub equal_within: f64,
    /// The gate for later runs.
    pub gate: Gate,
    /// Limit of the blocks. 0: there are no blocks.
    pub blocks: u32,
    /// The minimum and maximum number of blocks before the run was extended; none if it was always [`Self::blocks`].
    pub looks: Option<(u32, u32)>,
    /// Trials planned in all blocks together, without those of searches.
    pub trials: u32,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            hypotheses: Vec::new(),
            measures: Vec::new(),
            factors: Vec::new(),
            published: Vec::new(),
            searches: Vec::new(),
            models: Vec::new(),
            processors: 1,
            confidence: 0.95,
            equal_within: 0.02,
            gate: Gate::default(),
            blocks: 0,
            looks: None,
            trials: 0,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Factor {
    pub name: String,
    /// In the plan's order.
    pub levels: Vec<String>,
}

/// A published figure, for comparison with the measured one.
#[derive(Clone, Debug)]
pub struct PublishedFigure {
    /// As in [`PlanMeasure::name`].
    pub measure: String,
    /// The levels; factors not named stay open.
    pub at: Levels,
    /// In the base unit (seconds, bytes, share).
    pub value: f64,
    /// Where it was published.
    pub source: String,
}

impl From<&Plan> for Question {
    /// Takes the questions of a plan. [`Question::processors`] is set by the caller, since the plan does not know the
    /// machine.
    fn from(plan: &Plan) -> Self {
        let factors = plan.factors.iter().filter(|factor| factor.range.is_none());
        let published = plan.published.iter().flat_map(|published| {
            published.values.iter().map(|(at, value)| PublishedFigure {
                measure: published.measure.name.clone(),
                at: at.iter().cloned().collect(),
                value: *value,
                source: published.source.clone(),
            })
        });
        let trials_each = plan.combinations().len() as u32 + u32::from(plan.aa.is_some());
        Self {
            hypotheses: plan.hypotheses.clone(),
            measures: with_published(plan),
            factors: factors
                .map(|factor| Factor { name: factor.name.clone(), levels: in_order(&factor.levels) })
                .collect(),
            published: published.collect(),
            searches: plan.search.iter().flat_map(searches_of).collect(),
            models: plan.models.clone(),
            processors: 1,
            confidence: plan.confidence,
            equal_within: plan.equal_within,
            gate: plan.gate.clone(),
            blocks: if plan.has_range() { 0 } else { plan.blocks.to_run() },
            looks: Some((plan.blocks.least, plan.blocks.most)),
            trials: if plan.has_range() { 0 } else { plan.blocks.to_run() * trials_each },
        }
    }
}

/// Sorts numbers by value, for tables and charts; words keep the plan's order.
fn in_order(levels: &[String]) -> Vec<String> {
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.parse().ok()).collect();
    let mut sorted = levels.to_vec();
    if numbers.is_some() {
        let number = |level: &String| level.parse::<f64>().unwrap_or(f64::NAN);
        sorted.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
    sorted
}

/// The measures of a plan, and those with published figures only.
fn with_published(plan: &Plan) -> Vec<PlanMeasure> {
    let mut measures = plan.measures.clone();
    for published in &plan.published {
        if !measures.iter().any(|measure| measure.name == published.measure.name) {
            measures.push(published.measure.clone());
        }
    }
    measures
}

/// One search for each combination of the other factors.
fn searches_of(search: &PlanSearch) -> impl Iterator<Item = SearchQuestion> {
    search.others.iter().map(|others| SearchQuestion {
        factor: search.factor.clone(),
        from: search.range.from,
        to: search.range.to,
        precision: search.precision,
        is_integer: search.range.is_whole,
        until: search.until.clone(),
        at: others.iter().filter(|(factor, _)| *factor != search.factor).cloned().collect(),
        trial: search.short,
        confirmation: search.long,
        trials_max: TRIALS_MAX,
    })
}

impl Question {
    /// The measures shown: those of the plan, then those that occur only in hypotheses.
    pub(crate) fn shown(&self) -> Vec<PlanMeasure> {
        let mut shown = self.measures.clone();
        for (measure, _) in self.hypotheses.iter().flat_map(|hypothesis| hypothesis.claim.measures()) {
            let measure = PlanMeasure::from(measure.clone());
            if !shown.iter().any(|known| known.expression == measure.expression) {
                shown.push(measure);
            }
        }
        shown
    }

    /// Every measure of a trial needed for that.
    pub(crate) fn all_measures(&self) -> Vec<Measure> {
        let mut measures: Vec<Measure> = Vec::new();
        for shown in self.shown() {
            for (measure, _) in shown.expression.measures() {
                if !measures.contains(measure) {
                    measures.push(measure.clone());
                }
            }
        }
        measures
    }

    /// Whether the plan has this combination of levels.
    pub(crate) fn has_levels(&self, levels: &Levels) -> bool {
        let has = |factor: &Factor| levels.get(&factor.name).is_some_and(|level| factor.levels.contains(level));
        levels.len() == self.factors.len() && self.factors.iter().all(has)
    }

    /// The position of a combination in the plan's order.
    pub(crate) fn place(&self, levels: &Levels) -> Vec<usize> {
        let place = |factor: &Factor| {
            let level = levels.get(&factor.name);
            factor.levels.iter().position(|known| Some(known) == level).unwrap_or(factor.levels.len())
        };
        self.factors.iter().map(place).collect()
    }
}
