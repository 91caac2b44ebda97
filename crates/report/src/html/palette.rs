//! The colour of each combination of levels, the same in every chart of the page.
//!
//! Each combination of the levels that are words (a server, a path) has a colour; the levels of the factor with the
//! most numbers (users, a rate) differ in strength and dashes.

use breme_judge::Levels;
use breme_judge::judgement::MeasureRow;

use crate::chart::Look;
use crate::run::Run;

pub(crate) struct Palette {
    /// The factor on the x axis of charts.
    factor: Option<String>,
    /// Its levels.
    numbers: Vec<f64>,
    /// The combinations of the other factors, in the plan's order.
    series: Vec<Levels>,
}

impl Palette {
    pub(crate) fn from_run(run: &Run<'_>) -> Self {
        let rows = run.judgement.tables.first().map(|table| table.rows.as_slice()).unwrap_or_default();
        let (factor, numbers) = numeric_factor(rows).unzip();
        let mut palette = Self { factor, numbers: numbers.unwrap_or_default(), series: Vec::new() };
        for row in rows {
            let others = palette.others(&row.levels);
            if !palette.series.contains(&others) {
                palette.series.push(others);
            }
        }
        palette
    }

    /// The index of the colour of a combination.
    pub(crate) fn series(&self, levels: &Levels) -> usize {
        let others = self.others(levels);
        self.series.iter().position(|known| *known == others).unwrap_or(self.series.len())
    }

    /// The look of its line over the numbers.
    pub(crate) fn line(&self, levels: &Levels) -> Look {
        Look::series(self.series(levels))
    }

    /// Its look next to the same combination at other numbers.
    pub(crate) fn look(&self, levels: &Levels) -> Look {
        let number = self.factor.as_ref().and_then(|factor| levels.get(factor)?.parse::<f64>().ok());
        let place = number.and_then(|number| self.numbers.iter().position(|known| *known == number));
        match place {
            Some(place) => Look::at_level(self.series(levels), place, self.numbers.len()),
            None => self.line(levels),
        }
    }

    fn others(&self, levels: &Levels) -> Levels {
        let mut others = levels.clone();
        self.factor.iter().for_each(|factor| drop(others.remove(factor)));
        others
    }
}

/// The factor with the most levels of those whose levels are all numbers.
pub(crate) fn numeric_factor(rows: &[MeasureRow]) -> Option<(String, Vec<f64>)> {
    let factors = rows.first()?.levels.keys();
    let numeric = factors.filter_map(|factor| {
        let levels: Option<Vec<f64>> = rows.iter().map(|row| level(&row.levels, factor)).collect();
        let mut levels = levels?;
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        Some((factor.clone(), levels))
    });
    numeric.max_by_key(|(_, levels)| levels.len())
}

/// The level of a factor, if it is a number.
pub(crate) fn level(levels: &Levels, factor: &str) -> Option<f64> {
    levels.get(factor)?.parse().ok().filter(|level: &f64| level.is_finite())
}
