//! The exposition of a server under `/metrics`: the text formats of Prometheus and OpenMetrics, as far as values are
//! concerned.
//!
//! ```text
//! # TYPE requests counter
//! requests_total{code="200"} 1027 1395066363000
//! ```
//!
//! Implemented here because existing parsers keep everything (help texts, exemplars) and ignore what they do not
//! understand; this one rejects an endpoint that exposes something else.

use std::collections::BTreeMap;

use thiserror::Error;

/// The most series kept per subject; the rest are ignored.
pub(crate) const SERIES_MAX: usize = 1_000;

/// A line that is no metric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {number} is not in the text format of Prometheus or OpenMetrics: {beginning:?}")]
pub struct ExpositionError {
    number: usize,
    beginning: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    /// Monotonic, so its growth is meaningful.
    pub(crate) is_counter: bool,
}

/// Values by series: name with labels, as exposed.
pub(crate) type Exposed = BTreeMap<String, Value>;

pub(crate) fn parse(text: &str) -> Result<Exposed, ExpositionError> {
    let mut kinds = BTreeMap::new();
    let mut exposed = Exposed::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            note_kind(comment, &mut kinds);
        } else if !line.is_empty() {
            let (series, name, value) = sample(line).ok_or_else(|| fault(index + 1, line))?;
            if exposed.len() < SERIES_MAX && value.is_finite() {
                exposed.insert(series.to_owned(), Value { value, is_counter: is_counter(name, &kinds) });
            }
        }
    }
    Ok(exposed)
}

fn fault(number: usize, line: &str) -> ExpositionError {
    ExpositionError { number, beginning: line.chars().take(80).collect() }
}

fn note_kind<'t>(comment: &'t str, kinds: &mut BTreeMap<&'t str, &'t str>) {
    let mut words = comment.split_ascii_whitespace();
    if let (Some("TYPE"), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) {
        kinds.insert(name, kind);
    }
}

/// Series, name and value of a line. A time stamp and an exemplar may follow the value.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let name_end = line.find(|letter: char| !is_name(letter)).unwrap_or(line.len());
    let name = &line[..name_end];
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let series_end = name_end + labels_length(&line[name_end..])?;
    let rest = &line[series_end..];
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((&line[..series_end], name, value))
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':')
}

/// Length of the labels at the start of a text. A brace in a quoted value does not count.
fn labels_length(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return Some(0);
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (position, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(position + 1),
            _ => {}
        }
    }
    None
}

/// By the declared type, which is under the name without the suffix; else by the suffixes of counters.
fn is_counter(name: &str, kinds: &BTreeMap<&str, &str>) -> bool {
    const SUFFIXES: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];
    let suffix = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix));
    let family = suffix.map_or(name, |suffix| &name[..name.len() - suffix.len()]);
    match kinds.get(name).or_else(|| kinds.get(family)) {
        Some(&"counter" | &"histogram") => true,
        Some(&"summary") => suffix.is_some(),
        Some(&"untyped" | &"unknown") | None => suffix.is_some(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_kind() {
        let text = "# HELP x y } \" z\n# TYPE http_requests_total counter\nhttp_requests_total{a=\"}\\\" 1\",b=\"ü\"} 1027 1395066363000\n\
                    # TYPE hits counter\nhits_total 5 # {trace=\"a\"} 1\n# TYPE open gauge\nopen 1.5e2\r\n\n# TYPE t histogram\n\
                    t_bucket{le=\"+Inf\"} 3\nt_sum 0.5\nplain -4\nsome_total 1\nnan NaN\n# EOF\n";
        let exposed = parse(text).unwrap();
        let check = |series, value, is_counter| {
            assert_eq!(exposed.get(series), Some(&Value { value, is_counter }), "{series} in {exposed:?}");
        };
        check("http_requests_total{a=\"}\\\" 1\",b=\"ü\"}", 1027.0, true);
        check("hits_total", 5.0, true);
        check("open", 150.0, false);
        check("t_bucket{le=\"+Inf\"}", 3.0, true);
        check("t_sum", 0.5, true);
        check("plain", -4.0, false);
        check("some_total", 1.0, true);
        assert_eq!(exposed.len(), 7, "NaN is no value");
    }

    #[test]
    fn an_invalid_metric_is_reported_with_its_line() {
        for text in ["<html>", "a{b=\"c\" 1", "a", "a x", "1a 2", "{} 1", "a{}1"] {
            let error = parse(&format!("ok 1\n{text}")).unwrap_err();
            assert_eq!(error, fault(2, text));
        }
        assert_eq!(parse("").unwrap().len(), 0);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let text: String = (0..SERIES_MAX + 10).map(|number| format!("a{number} 1\n")).collect();
        assert_eq!(parse(&text).unwrap().len(), SERIES_MAX);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a{}=\"\\\\ 1#\nü]{0,60}") {
            let _ = parse(&text);
        }
    }
}
