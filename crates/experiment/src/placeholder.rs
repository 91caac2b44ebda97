//! `${…}` in strings, filled in by the plan (levels of factors), and when a trial runs (ports, folders, URLs).
//!
//! Only `${`, a name and `}` form a placeholder: `$uri`, `${1:-x}` and `$(date)` remain unchanged, so that
//! configurations and scripts keep their own variables. `$${name}` stands for the text `${name}`.

use std::ops::Range;

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder<'a> {
    pub name: &'a str,
    /// Its byte range in the text, including `${` and `}`.
    pub range: Range<usize>,
    /// Written `$${…}`: literal text.
    pub is_escaped: bool,
}

/// A name that has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("${{{0}}} has no value")]
pub struct UnknownName(pub String);

/// Finds all placeholders of a text.
pub fn find(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find("${")?;
            from = start + 2;
            let Some(length) = text[from..].find('}') else { continue };
            let name = &text[from..from + length];
            if is_name(name) {
                from += length + 1;
                let is_escaped = text[..start].ends_with('$');
                return Some(Placeholder { name, range: start - usize::from(is_escaped)..from, is_escaped });
            }
        }
    })
}

/// The subject and its port, if a name is that of a subject's port: `edge.port.admin` is `edge` and `admin`,
/// `edge.port` is `edge` and `port`.
#[must_use]
pub fn port_of_subject(name: &str) -> Option<(&str, &str)> {
    let (subject, rest) = name.split_once('.')?;
    Some((subject, if rest == "port" { rest } else { rest.strip_prefix("port.")? }))
}

/// Fills in every name and turns `$${…}` into `${…}`: the last step before the text is used.
///
/// # Errors
///
/// The first name for which `lookup` has no value.
pub fn fill(text: &str, mut lookup: impl FnMut(&str) -> Option<String>) -> Result<String, UnknownName> {
    replace(text, |placeholder| {
        let Placeholder { name, is_escaped, .. } = placeholder;
        if is_escaped {
            Ok(Some(format!("${{{name}}}")))
        } else {
            lookup(name).map(Some).ok_or_else(|| UnknownName(name.to_owned()))
        }
    })
}

/// Fills in a dummy value of the right kind for every name, so that the syntax can be checked before the subjects run.
/// A folder keeps a placeholder, since its content does not exist yet.
#[must_use]
pub fn fill_with_dummies(text: &str) -> String {
    let value = |name: &str| match name.rsplit('.').next() {
        Some("url") => "http://127.0.0.1:1",
        Some("folder" | "shared") => "/${folder}",
        _ => "1",
    };
    fill(text, |name| Some(value(name).to_owned())).unwrap_or_else(|_| text.to_owned())
}

/// Fills in the names that have a value; the others remain.
pub(crate) fn replace<E>(
    text: &str,
    mut replacement: impl FnMut(Placeholder<'_>) -> Result<Option<String>, E>,
) -> Result<String, E> {
    let mut filled = String::with_capacity(text.len());
    let mut done = 0;
    for placeholder in find(text) {
        let range = placeholder.range.clone();
        filled.push_str(&text[done..range.start]);
        match replacement(placeholder)? {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(&text[range.clone()]),
        }
        done = range.end;
    }
    filled.push_str(&text[done..]);
    Ok(filled)
}

/// Words separated by dots: `port`, `port.admin`, `wiki.url`.
pub(crate) fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        word.chars().all(|character| character.is_alphanumeric() || character == '_' || character == '-')
            && !word.is_empty()
    };
    text.starts_with(|first: char| first.is_alphabetic() || first == '_') && text.split('.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_all_else_stays() {
        let lookup = |name: &str| ["port", "wiki.url"].contains(&name).then(|| name.to_uppercase());
        let cases = [
            ("listen ${port};", "listen PORT;"),
            ("${wiki.url}/x $uri $(date) ${1:-x} ${", "WIKI.URL/x $uri $(date) ${1:-x} ${"),
            ("$${host} ${port}", "${host} PORT"),
            ("${a ${port}", "${a PORT"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(fill(text, lookup), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(fill("${host}", lookup), Err(UnknownName("host".to_owned())));
    }
}
