//! Charts: options for Apache ECharts, with a description and an equivalent table.
//!
//! The options contain no code: where ECharts requires a function, they name one in `assets/report.js` (`"@lin:s"`).
//! Colours are custom properties of `assets/report.css`, so that light, dark and print differ only in style. Foreign
//! names never appear where the script looks for functions, nor where ECharts looks for markup.
//!
//! A logarithmic axis is a linear one over logarithms, so that ticks can be 1, 2, 5 where decades are too coarse.

use breme_expression::Unit;
use serde_json::{Value, json};

use crate::table::Table;

/// Number of series distinguished by colour; further ones also by dashes.
pub(crate) const COLOURS: usize = 8;
/// Number of colours for series that are no combination of levels.
const NEUTRALS: usize = 3;
/// Number of dash patterns.
const DASHES: usize = 4;
const SYMBOLS: [&str; 5] = ["circle", "rect", "triangle", "diamond", "roundRect"];
/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOG_FROM_RATIO: f64 = 20.0;
/// Significant digits of numbers in the page.
const DIGITS: i32 = 5;

/// A chart with its caption, description, legend and table.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Shown below it.
    pub caption: String,
    /// Description for screen readers.
    pub says: String,
    pub height_px: u32,
    pub option: Value,
    /// Axes and names for the script: see `report.js`.
    pub words: Value,
    /// Series that can be shown and hidden; empty if there is only one.
    pub legend: Vec<LegendEntry>,
    /// Its data.
    pub table: Table,
}

/// A series that can be hidden.
#[derive(Clone, Debug)]
pub(crate) struct LegendEntry {
    /// The name of the series in the options.
    pub key: String,
    /// Display name.
    pub name: String,
    pub look: Look,
    pub is_on: bool,
}

impl LegendEntry {
    /// The entry of the n-th line of a chart.
    pub(crate) fn line(index: usize, name: String, look: Look, is_on: bool) -> Self {
        Self { key: format!("line {index}"), name, look, is_on }
    }
}

/// Appearance of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    ink: Ink,
    dashes: usize,
    opacity_percent: u8,
}

/// The colour: those of subjects have the same meaning in the whole page, and are used for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ink {
    Series(usize),
    /// Greys, for series that are no combination of levels.
    Neutral(usize),
}

impl Look {
    /// The look of the n-th series: further colours first, then dashes.
    pub(crate) const fn series(index: usize) -> Self {
        Self { ink: Ink::Series(index), dashes: index / COLOURS, opacity_percent: 100 }
    }

    /// The look of the n-th series at one of several levels, from pale to full.
    pub(crate) fn at_level(index: usize, level: usize, levels: usize) -> Self {
        const PALEST_PERCENT: usize = 40;
        let steps = levels.saturating_sub(1).max(1);
        let opacity = PALEST_PERCENT + (100 - PALEST_PERCENT) * level.min(steps) / steps;
        let opacity_percent = if levels > 1 { u8::try_from(opacity).unwrap_or(100) } else { 100 };
        // The highest level has the solid line.
        Self { ink: Ink::Series(index), dashes: levels.saturating_sub(1 + level), opacity_percent }
    }

    /// The look of the n-th line that is no combination of levels.
    pub(crate) const fn neutral(index: usize) -> Self {
        Self { ink: Ink::Neutral(index), dashes: index, opacity_percent: 100 }
    }

    pub(crate) fn colour(self) -> String {
        match self.ink {
            Ink::Series(index) => format!("var(--s{})", index % COLOURS),
            Ink::Neutral(index) => format!("var(--n{})", index % NEUTRALS),
        }
    }

    pub(crate) fn opacity(self) -> f64 {
        f64::from(self.opacity_percent) / 100.0
    }

    /// For the options and for `stroke-dasharray`.
    pub(crate) const fn dashes(self) -> &'static [u32] {
        match self.dashes % DASHES {
            0 => &[],
            1 => &[7, 4],
            2 => &[2, 3],
            _ => &[9, 3, 2, 3],
        }
    }

    pub(crate) fn line_type(self) -> Value {
        if self.dashes().is_empty() { json!("solid") } else { json!(self.dashes()) }
    }

    pub(crate) const fn symbol(self) -> &'static str {
        match self.ink {
            Ink::Series(index) | Ink::Neutral(index) => SYMBOLS[index % SYMBOLS.len()],
        }
    }
}

/// The quantity on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    In(Unit),
    /// The difference of two amounts.
    Difference(Unit),
    Ratio,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    counting: Counting,
    is_log: bool,
    /// Position on the axis: a logarithm if the axis is logarithmic.
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that shows all of `values`: logarithmic if they are far apart and all positive.
    pub(crate) fn fit(values: impl Iterator<Item = f64>, counting: Counting) -> Self {
        let is_ratio = counting == Counting::Ratio;
        let (low, high) = ends(values.filter(|value| !is_ratio || *value > 0.0)).unwrap_or(if is_ratio {
            (0.5, 2.0)
        } else {
            (0.0, 1.0)
        });
        let is_log = is_ratio || (low > 0.0 && high / low >= LOG_FROM_RATIO);
        let place = |value: f64| if is_log { value.log10() } else { value };
        let (low, high) = (place(low), place(high));
        let margin = ((high - low) * 0.06).max(if is_log { 0.004 } else { high.abs() * 0.02 });
        let margin = if margin > 0.0 { margin } else { 1.0 };
        let axis = Self { counting, is_log, low: low - margin, high: high + margin };
        if is_log { axis } else { axis.within_sense(low, high) }
    }

    /// Limits the axis to possible values: from 0 on for quantities that are never negative, up to 1 for shares.
    fn within_sense(mut self, low: f64, high: f64) -> Self {
        if low >= 0.0 {
            self.low = self.low.max(0.0);
        }
        if self.counting == Counting::In(Unit::Share) && high <= 1.0 && high > 0.0 {
            self.high = self.high.min(1.0);
        }
        self
    }

    /// Extends the axis to 0, unless it is logarithmic.
    pub(crate) fn starting_at_zero(mut self) -> Self {
        if !self.is_log && self.low >= 0.0 - (self.high - self.low) * 0.1 {
            self.low = 0.0;
        }
        self
    }

    /// The position of a value; null if it has none.
    pub(crate) fn place(&self, value: f64) -> Value {
        if !value.is_finite() || (self.is_log && value <= 0.0) {
            return Value::Null;
        }
        number(if self.is_log { value.log10() } else { value })
    }

    pub(crate) fn option(&self, name: &str) -> Value {
        let mut option = json!({
            "type": "value",
            "name": name,
            "min": number(self.low),
            "max": number(self.high),
            "axisLabel": { "formatter": self.formatter(), "hideOverlap": true },
        });
        if self.is_log {
            let ticks: Vec<Value> = self.ticks().into_iter().map(|tick| number(tick.log10())).collect();
            option["axisLabel"]["customValues"] = json!(ticks);
            option["axisTick"] = json!({ "customValues": ticks });
        } else {
            option["splitLine"] = json!({ "showMinLine": false, "showMaxLine": false });
            option["axisLabel"]["showMinLabel"] = json!(self.low == 0.0);
            option["axisLabel"]["showMaxLabel"] = json!(false);
        }
        option
    }

    /// How the script displays positions.
    pub(crate) fn words(&self) -> Value {
        json!(self.formatter())
    }

    fn formatter(&self) -> String {
        let unit = match self.counting {
            Counting::Difference(Unit::Share) => "points",
            Counting::In(unit) | Counting::Difference(unit) => unit.symbol(),
            Counting::Ratio => "ratio",
        };
        format!("@{}:{unit}", if self.is_log { "pow" } else { "lin" })
    }

    /// 1, 2, 5, 10, … over several decades; finer steps if the range is less than a factor of three.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = (10_f64.powf(self.low), 10_f64.powf(self.high));
        if high / low < 3.0 {
            return even_ticks(low, high);
        }
        let decades = self.high - self.low;
        let steps: &[f64] = if decades > 5.0 {
            &[1.0]
        } else if decades > 2.5 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let exponents = self.low.floor() as i32..=self.high.ceil() as i32;
        let ticks = exponents.flat_map(|exponent| steps.iter().map(move |step| step * 10_f64.powi(exponent)));
        ticks.filter(|tick| (low..=high).contains(tick)).collect()
    }
}

/// Even steps of 1, 2 or 5 of some decade, at most eight.
fn even_ticks(low: f64, high: f64) -> Vec<f64> {
    const TICKS_MAX: f64 = 8.0;
    let rough = (high - low) / TICKS_MAX;
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|&step| step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|index| index as f64 * step).take_while(|&tick| tick <= high).take(TICKS_MAX as usize + 1).collect()
}

/// Smallest and largest finite value.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    (low <= high).then_some((low, high))
}

/// A number for the page: rounded; null if it is not finite.
pub(crate) fn number(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    if value == 0.0 {
        return json!(0);
    }
    let decimals = DIGITS - 1 - value.abs().log10().floor() as i32;
    if decimals <= 0 {
        return if value.abs() < 1e15 { json!(value.round() as i64) } else { json!(value) };
    }
    if decimals > 15 {
        return json!(value);
    }
    let factor = 10_f64.powi(decimals);
    let rounded = (value * factor).round() / factor;
    // `777` instead of `777.0`: there are many of them.
    if rounded.fract() == 0.0 { json!(rounded as i64) } else { json!(rounded) }
}

/// The axis of a chart with a row per name, the first on top. The script gets the names separately.
pub(crate) fn rows_axis(rows: usize) -> Value {
    let places: Vec<usize> = (0..rows).collect();
    json!({
        "type": "value",
        "inverse": true,
        "min": -0.6,
        "max": rows as f64 - 0.4,
        "axisLabel": { "formatter": "@rows", "customValues": places },
        "axisTick": { "show": false },
        "splitLine": { "show": false },
        "axisLine": { "show": false },
    })
}

/// A whisker for each `[low, row, high]`.
pub(crate) fn whiskers(key: &str, data: &[Value]) -> Value {
    json!({
        "type": "custom", "name": key, "renderItem": "@whisker", "encode": { "x": [0, 2], "y": 1 }, "data": data, "silent": true, "z": 3,
    })
}

/// An upright whisker for each `[low, place, high]`.
pub(crate) fn upright_whiskers(key: &str, data: &[Value]) -> Value {
    json!({
        "type": "custom", "name": key, "renderItem": "@upright", "encode": { "x": 1, "y": [0, 2] }, "data": data, "silent": true, "z": 3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64], counting: Counting) -> Axis {
        Axis::fit(values.iter().copied(), counting)
    }

    #[test]
    fn an_axis_is_logarithmic_where_values_are_far_apart() {
        let seconds = Counting::In(Unit::Seconds);
        assert!(axis(&[0.001, 0.5], seconds).is_log);
        assert!(!axis(&[0.4, 0.5], seconds).is_log);
        assert!(!axis(&[0.0, 0.5], seconds).is_log, "0 has no logarithm");
        assert_eq!(axis(&[0.001, 0.5], seconds).place(0.1), json!(-1));
        assert_eq!(axis(&[0.001, 0.5], seconds).place(0.0), Value::Null);
        let ticks: Vec<Value> = axis(&[0.001, 0.5], seconds).ticks().into_iter().map(number).collect();
        assert_eq!(ticks, [0.001, 0.003, 0.01, 0.03, 0.1, 0.3].map(number));
    }

    #[test]
    fn nothing_one_value_and_nonsense_make_an_axis_too() {
        for values in [&[][..], &[5.0], &[0.0], &[f64::NAN, f64::INFINITY], &[-1.0, -1.0]] {
            for counting in [Counting::Ratio, Counting::In(Unit::Plain)] {
                let axis = axis(values, counting);
                assert!(axis.low < axis.high && axis.low.is_finite() && axis.high.is_finite(), "{values:?} {axis:?}");
                assert!(axis.ticks().len() < 60, "{values:?}");
            }
        }
    }

    #[test]
    fn no_share_is_below_nothing_or_above_all() {
        let share = |values: &[f64]| axis(values, Counting::In(Unit::Share));
        let (none, some, all) = (share(&[0.0, 0.0]), share(&[0.0, 0.02]), share(&[1.0, 1.0]));
        assert!(none.low == 0.0 && some.low == 0.0 && some.high > 0.02 && all.high == 1.0, "{none:?} {some:?} {all:?}");
        assert!(axis(&[-0.01, 0.02], Counting::In(Unit::Share)).low < -0.01, "a difference may be negative");
    }

    #[test]
    fn ratios_near_one_have_fine_ticks() {
        let ticks = axis(&[0.96, 1.03], Counting::Ratio).ticks();
        assert!(ticks.len() >= 4 && ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9), "{ticks:?}");
    }

    #[test]
    fn numbers_have_five_digits() {
        let cases =
            [(0.123_456_7, json!(0.12346)), (1_234_567.0, json!(1_234_567)), (0.0, json!(0)), (f64::NAN, Value::Null)];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}
