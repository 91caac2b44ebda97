//! `${port}`, `${folder}`, `${wiki.url}`: values known only when the subjects run, substituted in the texts of an
//! experiment.
//!
//! The placeholders are documented in [`breme_experiment::placeholder`]; this module has the values, and the messages
//! for unknown names.

use std::collections::BTreeMap;

use breme_experiment::placeholder;
use thiserror::Error;

/// Placeholder names with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceholderNames(BTreeMap<String, String>);

/// A placeholder without a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}, {place}: ${{{name}}} is not known here; {remedy} ($${{{name}}} is the literal text)")]
pub struct FillError {
    /// The text.
    what: String,
    /// The line and the column in it.
    place: String,
    name: String,
    remedy: String,
}

/// Similarity from which another name is suggested.
const LIKENESS_MIN: f64 = 0.7;

impl PlaceholderNames {
    /// Adds or replaces a name.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Adds all names of another, each prefixed by `prefix` and a dot unless it is empty.
    pub fn extend(&mut self, prefix: &str, others: &Self) {
        let dot = if prefix.is_empty() { "" } else { "." };
        self.0.extend(others.0.iter().map(|(name, value)| (format!("{prefix}{dot}{name}"), value.clone())));
    }

    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces every `${…}` of the text.
    ///
    /// # Errors
    /// The unknown name, its place in the text (which is called `what`), and a suggestion.
    pub fn fill(&self, text: &str, what: &str) -> Result<String, FillError> {
        placeholder::fill(text, |name| self.0.get(name).cloned()).map_err(|error| {
            let name = error.0;
            let mut all = placeholder::find(text);
            let position =
                all.find(|found| !found.is_escaped && found.name == name).map_or(0, |found| found.range.start);
            FillError { what: what.to_owned(), place: place_of(text, position), remedy: self.remedy(&name), name }
        })
    }

    /// Fills each of several texts.
    ///
    /// # Errors
    /// As [`PlaceholderNames::fill`].
    pub fn fill_all(&self, texts: &[String], what: &str) -> Result<Vec<String>, FillError> {
        texts.iter().map(|text| self.fill(text, what)).collect()
    }

    fn remedy(&self, name: &str) -> String {
        let likeness = |known: &&String| strsim::jaro_winkler(name, known);
        let nearest = self.0.keys().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        match nearest {
            Some(known) if likeness(&known) >= LIKENESS_MIN => format!("did you mean ${{{known}}}?"),
            _ => {
                format!("known are {}", self.0.keys().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn place_of(text: &str, position: usize) -> String {
    let before = &text[..position];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    match before.matches('\n').count() {
        0 if !text.contains('\n') => format!("column {column}"),
        lines => format!("line {}, column {column}", lines + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> PlaceholderNames {
        let mut names = PlaceholderNames::default();
        names.set("port", "8081");
        names.set("folder", "/tmp/x");
        let mut other = PlaceholderNames::default();
        other.set("url", "http://127.0.0.1:9");
        names.extend("wiki", &other);
        names
    }

    #[test]
    fn known_names_are_filled_in_and_all_else_is_left() {
        let check = |text, expected| assert_eq!(names().fill(text, "x"), Ok(String::from(expected)), "{text}");
        check("listen ${port};", "listen 8081;");
        check("${wiki.url}/${port}", "http://127.0.0.1:9/8081");
        check("$host $uri {port} $ {", "$host $uri {port} $ {");
        check("$${port} ${port", "${port} ${port");
        check("ü${folder}ü", "ü/tmp/xü");
        check("", "");
        check("$", "$");
    }

    #[test]
    fn an_unknown_placeholder_is_reported_with_its_place() {
        let check = |text, parts: &[&str]| {
            let error = names().fill(text, "file nginx.conf").unwrap_err().to_string();
            parts.iter().for_each(|part| assert!(error.contains(part), "{error}"));
        };
        check("a\nbü ${prot}", &["file nginx.conf, line 2, column 4", "${prot} is not known", "did you mean ${port}?"]);
        check("${zzz}", &["column 1", "known are ${folder}, ${port}, ${wiki.url}", "$${zzz}"]);
    }

    proptest::proptest! {
        #[test]
        fn values_are_never_read_again_and_nothing_panics(text in "[$a{}.\n]{0,20}", value in "[$a{}]{0,8}") {
            let mut names = PlaceholderNames::default();
            names.set("a", value.clone());
            let filled = names.fill(&text, "x");
            if !text.contains("$$") && filled.is_ok() {
                proptest::prop_assert_eq!(filled.unwrap(), text.replace("${a}", &value));
            }
        }
    }
}
