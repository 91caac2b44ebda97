//! The few comparisons that matter, of all pairs of levels at all levels of the other factors.
//!
//! Words before numbers: that `nginx` differs from `breme` is a result; that a larger load is slower is not. If all
//! factors are numbers, each level is compared with the first. Measures of hypotheses come first, then the plan's
//! order.

use std::collections::BTreeSet;

use breme_judge::judgement::{Comparison, ComparisonCounts, Judgement, MeasureRow, Scale};

use crate::words;

/// Limit of the comparisons outside the page.
const COMPARISONS_MAX: usize = 12;

/// The comparisons, in the order of measures and levels.
pub(crate) fn comparisons(judgement: &Judgement) -> Vec<&Comparison> {
    let is_zero = |of: &Comparison| of.effect.blocks.iter().all(|pair| pair.left == 0.0 && pair.right == 0.0);
    let mut shown: Vec<&Comparison> = judgement.comparisons.iter().filter(|of| !is_zero(of)).collect();
    if shown.iter().any(|of| is_named(of)) {
        shown.retain(|of| is_named(of));
    } else {
        let lefts: BTreeSet<(&str, &str)> = shown.iter().map(|of| (of.factor.as_str(), of.left.as_str())).collect();
        // The first level is never on the left.
        shown.retain(|of| !lefts.contains(&(of.factor.as_str(), of.right.as_str())));
    }
    shown.sort_by_key(|of| order(judgement, of));
    shown.truncate(COMPARISONS_MAX);
    shown
}

/// Measures of hypotheses first, words before numbers, then the plan's order.
pub(crate) fn order(judgement: &Judgement, comparison: &Comparison) -> impl Ord + use<> {
    (rank(judgement, comparison), !is_named(comparison), place(judgement, comparison))
}

/// The number of all comparisons; the judgement of a large experiment lists a part.
pub(crate) fn counts(judgement: &Judgement) -> ComparisonCounts {
    judgement.comparison_counts.unwrap_or_else(|| ComparisonCounts::of(&judgement.comparisons))
}

/// Whether a hypothesis refers to a measure.
pub(crate) fn is_in_hypothesis(judgement: &Judgement, measure: &str) -> bool {
    judgement.hypotheses.iter().any(|hypothesis| hypothesis.expect.contains(measure))
}

/// `breme ÷ nginx`, `users=4 ÷ users=1`; `breme − nginx` of a difference.
pub(crate) fn pair(comparison: &Comparison) -> String {
    let level = |level: &str| match level.parse::<f64>() {
        Ok(_) => format!("{}={level}", comparison.factor),
        Err(_) => level.to_owned(),
    };
    let sign = match comparison.effect.scale {
        Scale::Ratio => '÷',
        Scale::Difference => '−',
    };
    words::one_line(&format!("{} {sign} {}", level(&comparison.left), level(&comparison.right)))
}

fn is_named(comparison: &Comparison) -> bool {
    comparison.left.parse::<f64>().is_err()
}

fn rank(judgement: &Judgement, comparison: &Comparison) -> (bool, usize) {
    let place = judgement.tables.iter().position(|table| table.measure == comparison.measure);
    (!is_in_hypothesis(judgement, &comparison.measure), place.unwrap_or(usize::MAX))
}

/// The position of its levels in the plan's order.
fn place(judgement: &Judgement, comparison: &Comparison) -> usize {
    let rows = judgement.tables.first().map(|table| table.rows.as_slice()).unwrap_or_default();
    let is_there = |row: &MeasureRow| {
        let is_at = |(factor, level): (&String, &String)| row.levels.get(factor) == Some(level);
        is_at((&comparison.factor, &comparison.left)) && comparison.at.iter().all(is_at)
    };
    rows.iter().position(is_there).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use breme_judge::judgement::{BlockPair, Effect, MeasureTable};

    use super::*;

    fn comparison(measure: &str, [factor, left, right]: [&str; 3], at: &str, value: f64) -> Comparison {
        let blocks = vec![BlockPair { block: 1, left: value, right: value }];
        Comparison {
            measure: measure.into(),
            factor: factor.into(),
            left: left.into(),
            right: right.into(),
            at: at.split_once('=').map(|(factor, level)| (factor.into(), level.into())).into_iter().collect(),
            effect: Effect { blocks, ..Effect::default() },
            ..Comparison::default()
        }
    }

    fn judgement(comparisons: Vec<Comparison>) -> Judgement {
        let row = |server: &str, users: &str| MeasureRow {
            levels: [("server", server), ("users", users)].map(|(name, of)| (name.into(), of.into())).into(),
            ..MeasureRow::default()
        };
        let rows = ["1", "4", "16"].into_iter().flat_map(|users| [row("a", users), row("b", users)]).collect();
        let table = |measure: &str| MeasureTable { measure: measure.into(), ..MeasureTable::default() };
        let tables = vec![MeasureTable { rows, ..table("mean(user)") }, table("rate(user)"), table("errors(user)")];
        Judgement { comparisons, tables, ..Judgement::default() }
    }

    fn shown(judgement: &Judgement) -> Vec<String> {
        comparisons(judgement).iter().map(|of| format!("{} {} {:?}", of.measure, pair(of), of.at.values())).collect()
    }

    #[test]
    fn words_come_before_numbers_and_numbers_in_their_order() {
        let of = |measure: &str, at: &str| comparison(measure, ["server", "a", "b"], at, 1.0);
        let mut judgement = judgement(vec![
            comparison("mean(user)", ["users", "16", "1"], "server=a", 1.0),
            of("rate(user)", "users=16"),
            of("mean(user)", "users=16"),
            comparison("errors(user)", ["server", "a", "b"], "users=1", 0.0),
            of("mean(user)", "users=4"),
            of("mean(user)", "users=1"),
        ]);
        let expected = [
            "mean(user) a ÷ b [\"1\"]",
            "mean(user) a ÷ b [\"4\"]",
            "mean(user) a ÷ b [\"16\"]",
            "rate(user) a ÷ b [\"16\"]",
        ];
        assert_eq!(shown(&judgement), expected);
        // Measures of hypotheses come first.
        judgement.hypotheses.push(breme_judge::judgement::HypothesisJudgement {
            expect: "rate(user) [server=a] > rate(user) [server=b]".into(),
            ..Default::default()
        });
        assert_eq!(shown(&judgement)[0], expected[3]);
    }

    #[test]
    fn a_difference_is_no_quotient() {
        let mut of = comparison("failed(user)", ["server", "a", "b"], "users=1", 1.0);
        assert_eq!(pair(&of), "a ÷ b");
        of.effect.scale = Scale::Difference;
        assert_eq!(pair(&of), "a − b");
    }

    #[test]
    fn numbers_alone_are_compared_with_the_first() {
        let of = |left: &str, right: &str| comparison("mean(user)", ["users", left, right], "server=a", 1.0);
        let judgement = judgement(vec![of("16", "4"), of("16", "1"), of("4", "1")]);
        assert_eq!(
            shown(&judgement),
            ["mean(user) users=4 ÷ users=1 [\"a\"]", "mean(user) users=16 ÷ users=1 [\"a\"]"]
        );
    }
}
