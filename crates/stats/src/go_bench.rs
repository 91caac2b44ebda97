//! Results in the format of Go's benchmarks, for comparison with `benchstat`.
//!
//! A line is a name, a number of operations and pairs of value and unit. Several lines of one name are repetitions:
//! `benchstat old.txt new.txt` compares files of some ten lines each. Lines `Unit …` specify the better direction;
//! lines `key: value` describe the following ones.

use std::io::{self, Write};

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// For times.
    Lower,
    /// For rates.
    Higher,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure<'a> {
    pub value: f64,
    /// For example `ns/op`, `req/s`, `p99-ns`. A unit with a part `ns` is displayed in seconds.
    pub unit: &'a str,
}

/// Describes the following lines: a lower-case key, and a text of one line.
///
/// # Errors
///
/// Those of `out`.
pub fn write_configuration<W: Write>(out: &mut W, key: &str, value: &str) -> io::Result<()> {
    let value: String = value.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    writeln!(out, "{}: {}", word(key).to_lowercase(), value.trim())
}

/// Specifies the better direction of a unit. Not needed for `ns/op`.
///
/// # Errors
///
/// Those of `out`.
pub fn write_unit<W: Write>(out: &mut W, unit: &str, better: Better) -> io::Result<()> {
    let better = if better == Better::Lower { "lower" } else { "higher" };
    writeln!(out, "Unit {} better={better}", word(unit))
}

/// Writes one repetition of the benchmark `name`, run on this many processors.
///
/// # Errors
///
/// Those of `out`.
pub fn write_line<W: Write>(
    out: &mut W,
    name: &str,
    processors: u64,
    operations: u64,
    measures: &[Measure<'_>],
) -> io::Result<()> {
    // The part after the last '-' is read as the number of processors, so it is always present.
    write!(out, "{}-{processors}\t{operations}", benchmark_name(name))?;
    for Measure { value, unit } in measures.iter().filter(|measure| measure.value.is_finite()) {
        write!(out, "\t{value} {}", word(unit))?;
    }
    writeln!(out)
}

/// `Benchmark` and a name that does not begin with a lower-case letter: else the line is not recognised.
fn benchmark_name(name: &str) -> String {
    let name = word(name);
    let mut characters = name.chars();
    match characters.next() {
        Some(first) if first.is_lowercase() => format!("Benchmark{}{}", first.to_uppercase(), characters.as_str()),
        _ => format!("Benchmark{name}"),
    }
}

/// Removes white space, which separates the fields of a line.
fn word(text: &str) -> String {
    text.trim().chars().map(|character| if is_separator(character) { '_' } else { character }).collect()
}

fn is_separator(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, measures: &[Measure<'_>]) -> String {
        let mut out = Vec::new();
        write_line(&mut out, name, 2, 1_000, measures).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_a_name_a_count_and_pairs() {
        let measures = [
            Measure { value: 1_234.5, unit: "ns/op" },
            Measure { value: 68_000.0, unit: "req/s" },
            Measure { value: f64::NAN, unit: "x" },
        ];
        assert_eq!(line("GET /page-2", &measures), "BenchmarkGET_/page-2-2\t1000\t1234.5 ns/op\t68000 req/s\n");
        assert_eq!(line("réad the\nwiki", &[]), "BenchmarkRéad_the_wiki-2\t1000\n");
    }

    #[test]
    fn configuration_and_units_are_lines_of_their_own() {
        let mut out = Vec::new();
        write_configuration(&mut out, "URL", "http://a/ b\nBenchmarkX 1").unwrap();
        write_unit(&mut out, "req/s", Better::Higher).unwrap();
        write_unit(&mut out, "p99-ns", Better::Lower).unwrap();
        let expected = "url: http://a/ b BenchmarkX 1\nUnit req/s better=higher\nUnit p99-ns better=lower\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
