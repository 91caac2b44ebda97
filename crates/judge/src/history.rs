//! The gated measures over many runs: the value of each run, and a trend.
//!
//! The gate judges one run against one baseline (see `gate`). A history shows what lies between them: changes that are
//! each within the margin, and add up. The trend describes and decides nothing. It is the line of Theil and Sen through
//! the values of the runs in the order of time, on logarithms where the values are positive, so that its slope is a
//! percentage per run; a run with a bad neighbour hardly moves it. The p-values are corrected over all rows by their
//! false discovery rate. Runs are taken one by one, since the records of all together may not fit into memory.

use breme_experiment::plan::PlanMeasure;
use breme_experiment::record::{Revision, RunHead};
use breme_expression::{Unit, less_is_better_of};
use breme_stats::{Estimate, TheilSen, false_discovery_rates};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::effect::median;
use crate::judgement::Scale;
use crate::levels::Levels;
use crate::measure::Lack;
use crate::recorded_run::{CompareRules, RecordedRun, Side, differences};
use crate::run_row::{Gated, RunRow};
use crate::tables::median_interval;
use crate::words::{amount, difference};

/// Limit of the runs of a history: half a year of nightly runs.
pub const HISTORY_RUNS_MAX: usize = 200;

/// Gated measures over several runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The runs, oldest first.
    pub runs: Vec<HistoryRun>,
    /// The gated rows, in the order of the comparison.
    pub rows: Vec<HistoryRow>,
}

/// A run of a history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRun {
    /// Name of the run.
    pub run: String,
    /// Start of the run, in milliseconds since 1970-01-01 00:00:00 UTC.
    pub started_unix_ms: u64,
    /// State of the git working tree in which the run was started; null without one.
    pub revision: Option<Revision>,
    /// Role in the comparison.
    pub role: RunRole,
    /// Differences from the previous run, other than its commit: machine, versions, plan.
    pub changes: Vec<String>,
}

/// Role of a run in a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunRole {
    /// The judged run is compared with it.
    Baseline,
    /// The gate decides about it.
    Judged,
    /// Only part of the history.
    #[default]
    Shown,
}

/// A gated measure at a combination, in every run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    /// The measure.
    pub measure: String,
    /// Unit: `s`, `/s`, `B`, `B/s`, `share`, or empty.
    pub unit: String,
    /// The combination.
    pub levels: Levels,
    /// Whether smaller values are better; otherwise larger ones are.
    pub less_is_better: bool,
    /// Median over the blocks of the baseline.
    pub baseline: Option<f64>,
    /// Value at which the margin around the baseline ends.
    pub limit: Option<f64>,
    /// Value in each run, in their order.
    pub points: Vec<HistoryPoint>,
    /// Trend over the runs; null if too few of them have a value.
    pub trend: Option<Trend>,
    /// The trend in words.
    pub sentence: String,
}

/// Value of a measure in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPoint {
    /// Median over the blocks; null if the run has no value.
    pub value: Option<f64>,
    /// Lower end of its interval; null with less than two blocks.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Number of blocks.
    pub blocks: usize,
}

/// Line through the values of the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// Verdict on the direction; the gate does not consider it.
    pub verdict: TrendVerdict,
    /// Number of runs with a value.
    pub runs: usize,
    /// Kind of the three numbers below.
    pub scale: Scale,
    /// Change per run: a factor, or a difference.
    pub center: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Confidence level of the interval.
    pub confidence: f64,
    /// Value of the line at the first run.
    pub first: f64,
    /// Value of the line at the last run.
    pub last: f64,
    /// p-value of no trend (two-sided).
    pub p: f64,
    /// The same after Benjamini and Hochberg's correction over all rows.
    pub p_discovery: f64,
}

/// Direction of a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrendVerdict {
    /// Significantly towards worse values.
    GettingWorse,
    /// Significantly towards better values.
    GettingBetter,
    /// The data show no trend.
    #[default]
    NotShown,
}

impl Trend {
    /// Value of the line at the run with this number, from 0.
    #[must_use]
    pub fn value_at(&self, run: usize) -> f64 {
        match self.scale {
            Scale::Ratio => self.first * self.center.powf(run as f64),
            Scale::Difference => self.first + self.center * run as f64,
        }
    }
}

impl History {
    /// The history of a row of the comparison; none if it is not gated.
    #[must_use]
    pub fn row_of(&self, row: &RunRow) -> Option<&HistoryRow> {
        row.gated.as_ref()?;
        self.rows.iter().find(|known| (&known.measure, &known.levels) == (&row.measure, &row.levels))
    }
}

/// Builds a history of the gated rows of a comparison.
#[derive(Debug)]
pub struct HistoryBuilder {
    confidence: f64,
    /// Of each row.
    measures: Vec<PlanMeasure>,
    history: History,
    /// Head and plan of the run that was added last.
    previous: Option<(RunHead, String)>,
}

impl HistoryBuilder {
    /// A history without runs, for the rows of a comparison by these rules.
    #[must_use]
    pub fn new(rows: &[RunRow], rules: &CompareRules) -> Self {
        let gated = rows.iter().filter_map(|row| {
            let named = |known: &&PlanMeasure| known.name == row.measure;
            let measure = rules.gate.measures.iter().map(|gated| &gated.measure).find(named)?;
            Some((measure.clone(), HistoryRow::new(row, row.gated.as_ref()?, measure)))
        });
        let (measures, rows) = gated.unzip();
        Self { confidence: rules.confidence, measures, history: History { runs: Vec::new(), rows }, previous: None }
    }

    /// Adds the next run in the order of time.
    pub fn push(&mut self, run: &RecordedRun<'_>, role: RunRole) {
        let changes = self.previous.as_ref().map(|(head, plan)| differences(&RecordedRun { head, plan, ..*run }, run));
        self.history.runs.push(HistoryRun {
            run: run.head.run.clone(),
            started_unix_ms: run.head.started_unix_ms,
            revision: run.head.revision.clone(),
            role,
            changes: changes.unwrap_or_default(),
        });
        let side = Side::new(run, &self.measures);
        for (measure, row) in self.measures.iter().zip(&mut self.history.rows) {
            row.points.push(HistoryPoint::new(side.values(measure, &row.levels), self.confidence));
        }
        self.previous = Some((run.head.clone(), run.plan.to_owned()));
    }

    /// The history with its trends.
    #[must_use]
    pub fn finish(self) -> History {
        let Self { confidence, measures, mut history, .. } = self;
        let trends: Vec<Option<Trend>> = history.rows.iter().map(|row| trend(row, confidence)).collect();
        let p_values: Vec<f64> = trends.iter().flatten().map(|trend| trend.p).collect();
        let mut rates = false_discovery_rates(&p_values).into_iter();
        for ((row, trend), measure) in history.rows.iter_mut().zip(trends).zip(&measures) {
            row.trend = trend.map(|trend| {
                let p_discovery = rates.next().unwrap_or(1.0);
                let verdict = verdict(&trend, p_discovery, row.less_is_better, confidence);
                Trend { p_discovery, verdict, ..trend }
            });
            row.sentence = sentence(row, measure.unit, confidence);
        }
        history
    }
}

impl HistoryRow {
    fn new(row: &RunRow, gated: &Gated, measure: &PlanMeasure) -> Self {
        // The plan gates no measure without a known direction.
        let less_is_better = less_is_better_of(&measure.expression).unwrap_or(true);
        let limit = |baseline: f64| {
            let margin = if measure.unit == Unit::Share { gated.margin } else { gated.margin * baseline.abs() };
            if less_is_better { baseline + margin } else { baseline - margin }
        };
        Self {
            measure: row.measure.clone(),
            unit: row.unit.clone(),
            levels: row.levels.clone(),
            less_is_better,
            baseline: row.before,
            limit: row.before.map(limit),
            ..Self::default()
        }
    }
}

impl HistoryPoint {
    fn new(values: Result<Vec<f64>, Lack>, confidence: f64) -> Self {
        let mut sorted = values.unwrap_or_default();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&sorted, confidence).unzip();
        Self { value: median(sorted.iter().copied()), low, high, blocks: sorted.len() }
    }
}

/// The line through the values that there are; none if they are too few for an interval.
fn trend(row: &HistoryRow, confidence: f64) -> Option<Trend> {
    let places = (0_u32..).map(f64::from);
    let known: Vec<(f64, f64)> =
        places.zip(&row.points).filter_map(|(place, point)| Some((place, point.value?))).collect();
    // As in a comparison: shares, and values of which one is 0, have no ratio.
    let is_ratio = row.unit != "share" && known.iter().all(|&(_, value)| value > 0.0);
    let scale = if is_ratio { Scale::Ratio } else { Scale::Difference };
    let points: Vec<(f64, f64)> = known.iter().map(|&(place, value)| (place, scale.transform(value))).collect();
    let TheilSen { slope, intercept, p } = TheilSen::from_points(&points, confidence)?;
    let Estimate { center, low, high, confidence: reached } = slope;
    let last = row.points.len().saturating_sub(1) as f64;
    (reached >= confidence).then(|| Trend {
        runs: points.len(),
        scale,
        center: scale.restore(center),
        low: scale.restore(low),
        high: scale.restore(high),
        confidence: reached,
        first: scale.restore(intercept),
        last: scale.restore(intercept + center * last),
        p,
        ..Trend::default()
    })
}

fn verdict(trend: &Trend, p_discovery: f64, less_is_better: bool, confidence: f64) -> TrendVerdict {
    let none = if trend.scale == Scale::Ratio { 1.0 } else { 0.0 };
    let is_rising = trend.low > none;
    let is_shown = (is_rising || trend.high < none) && p_discovery <= 1.0 - confidence + 1e-9;
    match is_shown {
        false => TrendVerdict::NotShown,
        true if is_rising == less_is_better => TrendVerdict::GettingWorse,
        true => TrendVerdict::GettingBetter,
    }
}

/// `+3.8 % per run (+3.1 % to +4.6 %), +30 % over 8 runs: getting worse.`
fn sentence(row: &HistoryRow, unit: Unit, confidence: f64) -> String {
    let Some(trend) = &row.trend else {
        let known = row.points.iter().filter(|point| point.value.is_some()).count();
        return format!(
            "No trend: it needs {} runs with a value, and {known} have one.",
            TheilSen::points_min(confidence)
        );
    };
    let change = |from: f64, to: f64| match trend.scale {
        Scale::Ratio => signed(to / from - 1.0, |share| amount(share, Unit::Share)),
        Scale::Difference => signed(to - from, |value| difference(value, unit)),
    };
    let none = if trend.scale == Scale::Ratio { 1.0 } else { 0.0 };
    let [center, low, high] = [trend.center, trend.low, trend.high].map(|each| change(none, each));
    let all = change(trend.first, trend.last);
    let verdict = match trend.verdict {
        TrendVerdict::GettingWorse => "getting worse",
        TrendVerdict::GettingBetter => "getting better",
        TrendVerdict::NotShown => "no trend is shown",
    };
    format!("{center} per run ({low} to {high}), {all} over {} runs: {verdict}.", row.points.len())
}

fn signed(value: f64, describe: impl Fn(f64) -> String) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", describe(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &str, less_is_better: bool, values: &[Option<f64>]) -> HistoryRow {
        let point = |&value: &Option<f64>| HistoryPoint { value, ..HistoryPoint::default() };
        HistoryRow {
            unit: unit.to_owned(),
            less_is_better,
            points: values.iter().map(point).collect(),
            ..HistoryRow::default()
        }
    }

    fn known(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn the_slope_of_positive_values_is_a_factor_per_run_and_leaves_gaps_out() {
        let mut values: Vec<Option<f64>> = (0..8).map(|run| Some(2.0 * 1.05_f64.powi(run))).collect();
        values[3] = None;
        let row = row("s", true, &values);
        let trend = trend(&row, 0.95).unwrap();
        assert_eq!((trend.scale, trend.runs), (Scale::Ratio, 7));
        assert!((trend.center - 1.05).abs() < 1e-9 && (trend.first - 2.0).abs() < 1e-9, "{trend:?}");
        assert!((trend.value_at(7) - trend.last).abs() < 1e-9 && (trend.last - 2.0 * 1.05_f64.powi(7)).abs() < 1e-9);
        assert_eq!(verdict(&trend, trend.p, true, 0.95), TrendVerdict::GettingWorse);
        assert_eq!(verdict(&trend, trend.p, false, 0.95), TrendVerdict::GettingBetter);
        assert_eq!(verdict(&trend, 0.06, true, 0.95), TrendVerdict::NotShown, "not after the correction");
    }

    #[test]
    fn shares_and_zeros_change_by_differences() {
        let falling = [0.05, 0.04, 0.03, 0.02, 0.01];
        let of_shares = trend(&row("share", true, &known(&falling)), 0.95).unwrap();
        assert_eq!(of_shares.scale, Scale::Difference);
        assert!((of_shares.center + 0.01).abs() < 1e-12 && (of_shares.value_at(4) - 0.01).abs() < 1e-12);
        assert_eq!(verdict(&of_shares, of_shares.p, true, 0.95), TrendVerdict::GettingBetter);
        let with_zero = trend(&row("s", true, &known(&[0.0, 1.0, 2.0, 3.0, 4.0])), 0.95).unwrap();
        assert_eq!((with_zero.scale, with_zero.center), (Scale::Difference, 1.0));
        let flat = trend(&row("share", true, &known(&[0.0; 9])), 0.95).unwrap();
        assert_eq!(verdict(&flat, flat.p, true, 0.95), TrendVerdict::NotShown);
    }

    #[test]
    fn too_few_runs_have_no_trend_and_the_words_give_the_number() {
        let mut few = row("s", true, &known(&[1.0, 2.0, 3.0, 4.0]));
        few.points.push(HistoryPoint::default());
        few.trend = trend(&few, 0.95);
        assert_eq!(
            (few.trend, sentence(&few, Unit::Seconds, 0.95).as_str()),
            (None, "No trend: it needs 5 runs with a value, and 4 have one.")
        );
    }

    #[test]
    fn the_words_of_a_trend_are_changes_with_signs() {
        let values: Vec<f64> = (0..6).map(|run| 0.001 * 1.02_f64.powi(run)).collect();
        let mut rising = row("s", true, &known(&values));
        rising.trend = trend(&rising, 0.95);
        let words = sentence(&rising, Unit::Seconds, 0.95);
        assert_eq!(words, "+2 % per run (+2 % to +2 %), +10.4 % over 6 runs: no trend is shown.");
        let mut falling = row("share", true, &known(&[0.05, 0.04, 0.03, 0.02, 0.01]));
        falling.trend = trend(&falling, 0.95).map(|trend| Trend { verdict: TrendVerdict::GettingBetter, ..trend });
        let words = sentence(&falling, Unit::Share, 0.95);
        assert_eq!(words, "-1 pp per run (-1 pp to -1 pp), -4 pp over 5 runs: getting better.");
    }
}
