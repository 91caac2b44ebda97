//! The results table: each measure at each combination, next to the published figure.

use breme_experiment::plan::PlanMeasure;
use breme_expression::less_is_better_of;

use crate::effect::median;
use crate::judgement::{MeasureRow, MeasureTable, Published};
use crate::levels::Levels;
use crate::observations::Observations;
use crate::question::{PublishedFigure, Question};

pub(crate) fn tables(question: &Question, seen: &Observations) -> Vec<MeasureTable> {
    let mut combinations: Vec<&Levels> = seen.combinations().collect();
    combinations.sort_by_key(|levels| question.place(levels));
    let table = |measure: &PlanMeasure| MeasureTable {
        measure: measure.name.clone(),
        unit: measure.unit.symbol().to_owned(),
        less_is_better: less_is_better_of(&measure.expression),
        rows: combinations.iter().map(|levels| row(question, seen, measure, levels)).collect(),
    };
    question.shown().iter().map(table).collect()
}

fn row(question: &Question, seen: &Observations, measure: &PlanMeasure, levels: &Levels) -> MeasureRow {
    let value = |block| seen.evaluate(&measure.expression, levels, block).ok().map(|value| (block, value));
    let values: Vec<(u32, f64)> = seen.blocks_of(levels).filter_map(value).collect();
    let mut sorted: Vec<f64> = values.iter().map(|&(_, value)| value).collect();
    sorted.sort_by(f64::total_cmp);
    let ends = median_interval(&sorted, question.confidence);
    MeasureRow {
        levels: levels.clone(),
        center: median(sorted.iter().copied()),
        low: ends.map(|(low, _)| low),
        high: ends.map(|(_, high)| high),
        values,
        published: question
            .published
            .iter()
            .find(|figure| is_about(figure, measure, levels))
            .map(|figure| Published { value: figure.value, source: figure.source.clone() }),
    }
}

/// The interval of the median from order statistics (the inverted sign test). It assumes only that the values have the
/// same distribution, and it contains the median itself, which the interval of Walsh averages need not. Of fewer than
/// six values it is their range; a single value has no spread.
pub(crate) fn median_interval(sorted: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let tail = (1.0 - confidence) / 2.0;
    let count = sorted.len();
    // P(at most this many of the values lie below the median): a half for each.
    let mut logarithm = -(count as f64) * std::f64::consts::LN_2;
    let (mut at_most, mut outside) = (0.0, 0);
    while outside < count / 2 {
        at_most += logarithm.exp();
        if at_most > tail {
            break;
        }
        outside += 1;
        logarithm += ((count - outside + 1) as f64 / outside as f64).ln();
    }
    let outside = outside.saturating_sub(1);
    (count > 1).then(|| (sorted[outside], sorted[count - 1 - outside]))
}

fn is_about(figure: &PublishedFigure, measure: &PlanMeasure, levels: &Levels) -> bool {
    figure.measure == measure.name && figure.at.iter().all(|(factor, level)| levels.get(factor) == Some(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the sign test: for 6 to 8 values the range, for 9 to 11 the second from either end, for 20 the
    /// sixth, for 50 the eighteenth.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        for (count, place) in [(2, 1), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (50, 18), (2_000, 956)] {
            let sorted: Vec<f64> = (1..=count).map(f64::from).collect();
            let ends = median_interval(&sorted, 0.95).unwrap();
            assert_eq!(ends, (f64::from(place), f64::from(count + 1 - place)), "of {count}");
        }
        assert_eq!(median_interval(&[1.0], 0.95), None);
        assert_eq!(median_interval(&[], 0.95), None);
    }
}
