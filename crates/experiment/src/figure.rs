//! Figures in the output of a foreign load generator: each is found by a pattern and has a unit.

use breme_expression::{Quantity, Unit, read_unit};
use regex::{Captures, Regex, RegexBuilder};
use thiserror::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub quantity: Quantity,
    /// Where to find it; the values of several patterns are added.
    pub patterns: Vec<FigurePattern>,
}

/// The location of a value in the output.
#[derive(Clone, Debug)]
pub struct FigurePattern {
    regex: Regex,
    /// The factor that converts the number to the base unit; none: the second group is the unit.
    factor: Option<f64>,
    /// Whether the prefixes of printed units are powers of 1024: `KB` is 1024 bytes.
    is_binary: bool,
    /// The value if the pattern does not match.
    otherwise: Option<f64>,
}

impl PartialEq for FigurePattern {
    fn eq(&self, other: &Self) -> bool {
        let key =
            |pattern: &Self| (pattern.regex.as_str().to_owned(), pattern.factor, pattern.is_binary, pattern.otherwise);
        key(self) == key(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FigureFault {
    #[error(
        "measures.{quantity}: the pattern '{pattern}' matches nothing in the output; correct the pattern, or add otherwise = 0 if the line may be absent"
    )]
    NoMatch { quantity: String, pattern: String },
    /// The first group is not a number.
    #[error("measures.{quantity}: {text:?} is not a number; the first group must be one")]
    NotANumber { quantity: String, text: String },
    /// The second group is not a unit of this measure.
    #[error("measures.{quantity}: {text:?} is not a unit of this measure; {remedy}", remedy = Self::remedy(.text))]
    NotAUnit { quantity: String, text: String },
}

impl FigureFault {
    fn remedy(unit: &str) -> &'static str {
        if unit.starts_with("KB") {
            "add binary = true if KB, MB and GB are powers of 1024 in this output, as wrk prints them"
        } else {
            "the second group must be one, such as ms"
        }
    }
}

impl FigurePattern {
    /// `^` and `$` match at line boundaries. It is an error if the pattern is invalid or has no group, or if the unit
    /// is missing or of another dimension.
    pub(crate) fn new(
        quantity: &Quantity,
        pattern: &str,
        unit: Option<&str>,
        otherwise: Option<f64>,
    ) -> Result<Self, PatternFault> {
        let regex = RegexBuilder::new(pattern).multi_line(true).build();
        let regex = regex.map_err(|error| PatternFault::Pattern(invalid(&error)))?;
        let has_unit = match regex.captures_len() {
            2 => false,
            3 => true,
            _ => {
                let problem = "a pattern has one group, the number, and perhaps a second one, its unit; write for \
                               example 'Requests per second:\\s+([\\d.]+)'";
                return Err(PatternFault::Pattern(problem.to_owned()));
            }
        };
        let factor = match (unit, has_unit) {
            (Some(_), true) => {
                return Err(PatternFault::Unit(
                    "the second group of the pattern is the unit; remove the key".to_owned(),
                ));
            }
            (None, true) => None,
            (Some(unit), false) => Some(factor_of(unit, quantity.unit()).ok_or_else(|| {
                let example = example_of(quantity.unit());
                PatternFault::Unit(format!("{unit:?} is not a unit of `{quantity}`; write for example {example:?}"))
            })?),
            (None, false) => match quantity.unit() {
                Unit::Plain | Unit::PerSecond => Some(1.0),
                other => {
                    let example = example_of(other);
                    return Err(PatternFault::Pattern(format!(
                        "`{quantity}` needs a unit; add unit = {example:?}, or a second group for a printed unit"
                    )));
                }
            },
        };
        Ok(Self { regex, factor, is_binary: false, otherwise })
    }

    /// Reads the prefixes of printed units as powers of 1024, as wrk, h2load and ab mean them.
    pub(crate) fn with_binary_prefixes(self, is_binary: bool) -> Self {
        Self { is_binary, ..self }
    }

    /// The value in the base unit. Of several matches, the last counts, since totals are printed at the end.
    fn read(&self, quantity: &Quantity, output: &str) -> Result<f64, FigureFault> {
        match (self.regex.captures_iter(output).last(), self.otherwise) {
            (Some(found), _) => self.value(quantity, &found),
            (None, Some(otherwise)) => Ok(otherwise),
            (None, None) => {
                Err(FigureFault::NoMatch { quantity: quantity.to_string(), pattern: self.regex.as_str().to_owned() })
            }
        }
    }

    fn value(&self, quantity: &Quantity, found: &Captures<'_>) -> Result<f64, FigureFault> {
        let group = |index| found.get(index).map_or("", |group| group.as_str().trim());
        let text = group(1);
        let number = text.replace([',', '_'], "").parse::<f64>().ok().filter(|number| number.is_finite());
        let not_a_number = || FigureFault::NotANumber { quantity: quantity.to_string(), text: text.to_owned() };
        let number = number.ok_or_else(not_a_number)?;
        let not_a_unit = || FigureFault::NotAUnit { quantity: quantity.to_string(), text: group(2).to_owned() };
        let factor = self.factor.or_else(|| self.printed_factor(group(2), quantity.unit())).ok_or_else(not_a_unit)?;
        Ok(number * factor)
    }

    fn printed_factor(&self, unit: &str, base: Unit) -> Option<f64> {
        let binary = || {
            let (prefix, rest) = unit.split_at_checked(1)?;
            let has_prefix = matches!(prefix, "k" | "K" | "M" | "G") && rest.starts_with('B');
            has_prefix.then(|| format!("{}i{rest}", prefix.to_uppercase()))
        };
        match binary().filter(|_| self.is_binary) {
            Some(unit) => factor_of(&unit, base),
            None => factor_of(unit, base),
        }
    }
}

/// An error in a pattern, by the key at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternFault {
    Pattern(String),
    Unit(String),
}

impl Figure {
    /// The value in the base unit.
    ///
    /// # Errors
    /// If the output does not contain it.
    pub fn read(&self, output: &str) -> Result<f64, FigureFault> {
        self.patterns.iter().map(|pattern| pattern.read(&self.quantity, output)).sum()
    }
}

/// The factor that converts to the base unit. `1/s` and `/s` are the same; for a rate of bytes, `MB` is enough.
fn factor_of(text: &str, base: Unit) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_prefix("1/").map_or_else(|| text.to_owned(), |rest| format!("/{rest}"));
    let (name, is_rate) = text.strip_suffix("/s").map_or((text.as_str(), false), |name| (name.trim(), true));
    let is_rate = is_rate || base == Unit::BytesPerSecond || base == Unit::PerSecond;
    read_unit("1", name, is_rate).filter(|(_, unit)| *unit == base).map(|(factor, _)| factor)
}

const fn example_of(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "ms",
        Unit::Bytes => "kB",
        Unit::BytesPerSecond => "kB/s",
        Unit::PerSecond => "/s",
        Unit::Share => "%",
        Unit::Plain => "k",
    }
}

/// The last line of an error message of `regex`; the lines before it show the pattern.
fn invalid(error: &regex::Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    format!("this is not a valid pattern: {}", last.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_expression::{TimeFigure, TimeKind};

    const MEAN: Quantity = Quantity::Time { kind: TimeKind::Response, figure: TimeFigure::Mean };

    fn read(quantity: Quantity, pattern: &str, unit: Option<&str>, output: &str) -> Result<f64, FigureFault> {
        let pattern = FigurePattern::new(&quantity, pattern, unit, None).unwrap();
        Figure { quantity, patterns: vec![pattern] }.read(output)
    }

    #[test]
    fn figures_of_known_generators() {
        let ab = "Requests per second:    1003.59 [#/sec] (mean)\n\
                  Time per request:       99.642 [ms] (mean)\n\
                  Time per request:       0.996 [ms] (mean, across all concurrent requests)\n";
        let rate = read(Quantity::Rate, r"Requests per second:\s+([\d.]+)", Some("1/s"), ab);
        assert_eq!(rate, Ok(1003.59));
        let mean = read(MEAN, r"Time per request:\s+([\d.]+) \[ms\] \(mean\)", Some("ms"), ab).unwrap();
        assert!((mean - 0.099_642).abs() < 1e-12);
        let wrk = "    Latency   812.50us  101.00us   3.12ms   90.00%\nTransfer/sec:     50.62MB\n";
        let mean = read(MEAN, r"Latency\s+([\d.]+)(\w+)", None, wrk).unwrap();
        assert!((mean - 812.5e-6).abs() < 1e-12);
        assert_eq!(read(Quantity::ByteRate, r"Transfer/sec:\s+([\d.]+)(\w+)", None, wrk), Ok(50.62e6));
        let binary = |unit: &str| {
            let pattern = FigurePattern::new(&Quantity::ByteRate, r"([\d.]+)(\S+)", None, None).unwrap();
            let patterns = vec![pattern.with_binary_prefixes(true)];
            Figure { quantity: Quantity::ByteRate, patterns }.read(&format!("2.5{unit}"))
        };
        let of_wrk = ["B", "KB", "MB", "GB"].map(binary);
        assert_eq!(of_wrk, [Ok(2.5), Ok(2_560.0), Ok(2_621_440.0), Ok(2_684_354_560.0)]);
        assert_eq!((binary("kB/s"), binary("KiB")), (Ok(2_560.0), Ok(2_560.0)));
        let jmeter = "summary +    900 in 00:00:09 =  100.0/s Avg:    61 Err:     0 (0.00%)\n\
                      summary =   1000 in 00:00:10 =   98.9/s Avg:    60 Err:     5 (0.50%)\n";
        let rate = read(Quantity::Rate, r"^summary [+=] .* =\s+([\d.]+)(/s)", None, jmeter);
        assert_eq!(rate, Ok(98.9), "the last line counts");
        assert_eq!(read(Quantity::ErrorShare, r"Err:.*\(([\d.]+)(%)\)", None, jmeter), Ok(0.005));
    }

    #[test]
    fn patterns_are_added_and_lines_may_be_absent() {
        let pattern = |text| FigurePattern::new(&Quantity::Failed, text, None, Some(0.0)).unwrap();
        let patterns = vec![pattern(r"Failed requests:\s+(\d+)"), pattern(r"Non-2xx responses:\s+([\d,]+)")];
        let failed = Figure { quantity: Quantity::Failed, patterns };
        assert_eq!(failed.read("Failed requests:        3\nNon-2xx responses:      1,004\n"), Ok(1007.0));
        assert_eq!(failed.read("Failed requests:        3\n"), Ok(3.0));
        assert_eq!(failed.read(""), Ok(0.0));
    }

    #[test]
    fn a_figure_that_the_output_lacks_is_an_error() {
        let fault = |pattern: &str, output| read(MEAN, pattern, None, output).unwrap_err().to_string();
        assert!(
            fault(r"mean (\d+)(\w+)", "").contains("measures.mean: the pattern 'mean (\\d+)(\\w+)' matches nothing")
        );
        assert!(fault(r"mean (\S+) (\w+)", "mean none ms").contains("\"none\" is not a number"));
        assert!(fault(r"mean (\S+) (\w+)", "mean 5 MB").contains("\"MB\" is not a unit"));
        let fault = read(Quantity::ByteRate, r"(\d+)(\w+)", None, "5KB").unwrap_err().to_string();
        assert!(fault.contains("\"KB\" is not a unit") && fault.contains("add binary = true"), "{fault}");
    }

    #[test]
    fn patterns_without_a_group_or_a_unit_are_refused() {
        let fault = |pattern: &str, unit| match FigurePattern::new(&MEAN, pattern, unit, None) {
            Err(PatternFault::Pattern(problem)) => format!("pattern: {problem}"),
            Err(PatternFault::Unit(problem)) => format!("unit: {problem}"),
            Ok(_) => String::new(),
        };
        assert!(fault("(", Some("ms")).contains("pattern: this is not a valid pattern: unclosed group"));
        assert!(fault("mean", Some("ms")).contains("pattern: a pattern has one group"));
        assert!(fault(r"(\d+)", None).contains("pattern: `mean` needs a unit; add unit = \"ms\""));
        assert!(fault(r"(\d+)", Some("MB")).contains("unit: \"MB\" is not a unit of `mean`"));
        assert!(fault(r"(\d+)(ms)", Some("ms")).contains("unit: the second group"));
    }
}
