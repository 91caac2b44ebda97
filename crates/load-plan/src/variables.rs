//! Named values set by the user for a whole run: `--var page=index`.
//!
//! In a scenario they override the file's variables of the same name, or add to them, and so are drawn once per
//! session. Elsewhere they are substituted in each template that names them; a value without placeholders costs nothing
//! there.

use thiserror::Error;

use crate::template::{Names, TARGET_PLACEHOLDERS, Template, TemplateError};

/// Names with another meaning in a template, besides [`TARGET_PLACEHOLDERS`].
const RESERVED: [&str; 2] = ["session", "page_version"];
/// Where the mark of a version is allowed.
pub(crate) const PAGE_VERSION_PLACE: &str = "{page_version} is allowed in the body of a request only";
pub(crate) const VARIABLE_COUNT_MAX: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct Variables {
    list: Vec<(String, Template)>,
}

/// An invalid variable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VariableError {
    #[error("{0:?} is not a valid variable name; use letters, digits, '_' and '-', beginning with a letter")]
    Name(String),
    #[error("{{{0}}} is a placeholder; choose another name")]
    Reserved(String),
    #[error("the value of {name}, {source}")]
    Value { name: String, source: TemplateError },
    #[error("the value of {0}: {place}", place = PAGE_VERSION_PLACE)]
    PageVersion(String),
    #[error("there are more than {max} variables", max = VARIABLE_COUNT_MAX)]
    TooMany,
}

impl Variables {
    /// The last value of a name counts. Values may contain placeholders.
    ///
    /// # Errors
    /// The first invalid name or value.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, VariableError> {
        let mut list: Vec<(String, Template)> = Vec::new();
        for (name, value) in pairs {
            check_name(name)?;
            let value = Template::parse_lenient(value.as_bytes(), Names::None)
                .map_err(|source| VariableError::Value { name: name.to_owned(), source })?;
            if value.has_page_version() {
                return Err(VariableError::PageVersion(name.to_owned()));
            }
            list.retain(|(other, _)| other != name);
            list.push((name.to_owned(), value));
        }
        if list.len() > VARIABLE_COUNT_MAX {
            return Err(VariableError::TooMany);
        }
        Ok(Self { list })
    }

    pub(crate) fn values(&self) -> &[(String, Template)] {
        &self.list
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Template> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Checks whether a variable can have this name.
pub(crate) fn check_name(name: &str) -> Result<(), VariableError> {
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !is_name {
        return Err(VariableError::Name(name.to_owned()));
    }
    if RESERVED.contains(&name) || TARGET_PLACEHOLDERS.contains(&name) {
        return Err(VariableError::Reserved(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_name_counts() {
        let variables = Variables::new([("a", "1"), ("b", "{zipf:9:1}"), ("a", "2")]).unwrap();
        assert_eq!(variables.value("a").unwrap().as_fixed(), Some(&b"2"[..]));
        assert!(variables.value("b").unwrap().as_fixed().is_none() && variables.value("c").is_none());
    }

    #[test]
    fn names_and_values_are_checked() {
        for (name, value, problem) in [
            ("1a", "", "beginning with a letter"),
            ("", "", "beginning with a letter"),
            ("seq", "1", "is a placeholder"),
            ("a", "{zipf:0:1}", "the value of a, column 1: {zipf:0:1} needs a count"),
            ("a", "{b}", "not a placeholder"),
            ("a", "{page_version}", "in the body of a request only"),
            ("page_version", "", "is a placeholder"),
        ] {
            let error = Variables::new([(name, value)]).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
