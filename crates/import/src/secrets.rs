//! Secrets in recordings: recognised by the names of headers, query parameters and body fields, and replaced by
//! variables.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A name that contains one of these words, apart from case and separators, has a secret value.
const SECRET_WORDS: [&str; 12] = [
    "accesskey",
    "apikey",
    "auth",
    "credential",
    "csrf",
    "jwt",
    "passw",
    "secret",
    "sessionid",
    "signature",
    "token",
    "xsrf",
];
/// Names that are secret as a whole; within other words they are common.
const SECRET_NAMES: [&str; 6] = ["code", "key", "pin", "pwd", "sid", "sig"];

/// `name=value` in a query or a form.
static PAIR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(^|[?&])([^=&#?]+)=([^&#]+)").ok());
/// `"name": "value"` in JSON.
static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""([^"\\]+)"(\s*:\s*)"((?:[^"\\]|\\.)+)""#).ok());

/// The variables that have replaced secrets.
#[derive(Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.0
    }

    pub(super) fn remove_from_header(&mut self, name: &str, value: &str) -> String {
        if is_secret(name) { self.variable(name) } else { value.to_owned() }
    }

    pub(super) fn remove_from_target(&mut self, target: &str) -> String {
        match target.split_once('?') {
            Some((path, query)) => format!("{path}?{}", self.remove_from_pairs(query)),
            None => target.to_owned(),
        }
    }

    /// From JSON, or from a form.
    pub(super) fn remove_from_body(&mut self, body: &str) -> String {
        if body.trim_start().starts_with(['{', '[']) {
            self.replace(&FIELD, body, 1, |name, captures, variable| match is_secret(name) {
                true => format!("\"{}\"{}\"{variable}\"", &captures[1], &captures[2]),
                false => captures[0].to_owned(),
            })
        } else if body.contains(char::is_whitespace) {
            body.to_owned() // neither a form nor JSON
        } else {
            self.remove_from_pairs(body)
        }
    }

    fn remove_from_pairs(&mut self, text: &str) -> String {
        self.replace(&PAIR, text, 2, |name, captures, variable| match is_secret(name) {
            true => format!("{}{}={variable}", &captures[1], &captures[2]),
            false => captures[0].to_owned(),
        })
    }

    fn replace(
        &mut self,
        pattern: &LazyLock<Option<Regex>>,
        text: &str,
        name_at: usize,
        replacement: impl Fn(&str, &Captures<'_>, &str) -> String,
    ) -> String {
        let Some(pattern) = pattern.as_ref() else { return text.to_owned() };
        let replaced = pattern.replace_all(text, |captures: &Captures<'_>| {
            let name = &captures[name_at];
            let variable = if is_secret(name) { self.variable(name) } else { String::new() };
            replacement(name, captures, &variable)
        });
        replaced.into_owned()
    }

    /// `{x_api_key}`; the name is that of a variable from now on.
    fn variable(&mut self, name: &str) -> String {
        let name: String = name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
            .collect();
        let name = name.trim_matches('_').to_owned();
        let name = if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("v_{name}") };
        let placeholder = format!("{{{name}}}");
        self.0.insert(name);
        placeholder
    }
}

fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str()) || SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_variables() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.remove_from_header("Authorization", "Bearer x"), "{authorization}");
        assert_eq!(secrets.remove_from_header("X-Api-Key", "x"), "{x_api_key}");
        assert_eq!(secrets.remove_from_header("Accept", "*/*"), "*/*");
        assert_eq!(secrets.remove_from_target("/a?q=1&access_token=s&r=2"), "/a?q=1&access_token={access_token}&r=2");
        assert_eq!(secrets.remove_from_body("user=a&password=b"), "user=a&password={password}");
        assert_eq!(
            secrets.remove_from_body(r#"{"user": "a", "newPassword" : "b\"c"}"#),
            r#"{"user": "a", "newPassword" : "{newpassword}"}"#
        );
        let names: Vec<&str> = secrets.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["access_token", "authorization", "newpassword", "password", "x_api_key"]);
    }

    #[test]
    fn common_words_are_no_secrets() {
        for name in ["q", "page", "monkey", "zipcode", "sort", "design"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
