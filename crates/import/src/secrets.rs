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

/// The beginning of a form: a name without the quotes, braces and tags of JSON and XML.
static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"^[^=&\s"{}<]+="#).ok());
/// `"name": "value"` or `"name": 1` in JSON.
static FIELD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""([^"\\]+)"(\s*:\s*)("(?s:[^"\\]|\\.)+"|-?\d[\d.eE+-]*)"#).ok());
/// The name of a part, in its Content-Disposition (RFC 7578, 4.2).
static PART_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)^content-disposition:.*?[;\s]name="?([^";]+)"#).ok());

/// How the fields of a body are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyForm {
    Parts,
    Pairs,
    Json,
    Empty,
    Unknown,
}

/// The variables that have replaced secrets.
#[derive(Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.0
    }

    pub(super) fn remove_from_header(&mut self, name: &str, value: &str) -> String {
        // The value may be a URL, as in Referer.
        if is_secret(name) { self.variable(name) } else { self.remove_from_target(value) }
    }

    pub(super) fn remove_from_target(&mut self, target: &str) -> String {
        match target.split_once('?') {
            Some((path, query)) => format!("{path}?{}", self.remove_from_pairs(query)),
            None => target.to_owned(),
        }
    }

    pub(super) fn remove_from_body(&mut self, body: &str, content_type: &str) -> String {
        match form_of(body, content_type) {
            BodyForm::Parts => self.remove_from_parts(body),
            BodyForm::Pairs => self.remove_from_pairs(body),
            BodyForm::Json => self.remove_from_json(body),
            BodyForm::Empty | BodyForm::Unknown => body.to_owned(),
        }
    }

    fn remove_from_pairs(&mut self, text: &str) -> String {
        text.split('&').map(|pair| self.remove_from_pair(pair)).collect::<Vec<_>>().join("&")
    }

    /// `name=value`. The value may be a URL with a query, whose first pair belongs to this one.
    fn remove_from_pair(&mut self, pair: &str) -> String {
        let mut position = 0;
        for part in pair.split('?') {
            let (name, value) = part.split_once('=').unwrap_or_default();
            let value_at = position + name.len() + 1;
            if is_secret(name) && !(value.is_empty() && value_at == pair.len()) {
                return pair[..value_at].to_owned() + &self.variable(name);
            }
            position += part.len() + 1;
        }
        pair.to_owned()
    }

    fn remove_from_json(&mut self, text: &str) -> String {
        let Some(pattern) = FIELD.as_ref() else { return text.to_owned() };
        let replaced = pattern.replace_all(text, |captures: &Captures<'_>| {
            let (name, value) = (&captures[1], &captures[3]);
            if !is_secret(name) {
                return captures[0].to_owned();
            }
            let quote = if value.starts_with('"') { "\"" } else { "" };
            format!("\"{name}\"{}{quote}{}{quote}", &captures[2], self.variable(name))
        });
        replaced.into_owned()
    }

    /// `multipart/form-data`: parts between equal lines, the first of which begins the body.
    fn remove_from_parts(&mut self, body: &str) -> String {
        let delimiter = body.lines().next().unwrap_or_default();
        body.split(delimiter).map(|part| self.remove_from_part(part)).collect::<Vec<_>>().join(delimiter)
    }

    /// A part is a head, an empty line, and its content up to the last line break.
    fn remove_from_part(&mut self, part: &str) -> String {
        let line_break = if part.starts_with("\r\n") { "\r\n" } else { "\n" };
        let Some((head, content)) = part.split_once(&line_break.repeat(2)) else { return part.to_owned() };
        let (content, end) = content.strip_suffix(line_break).map_or((content, ""), |content| (content, line_break));
        let name = head.lines().find_map(|line| PART_NAME.as_ref()?.captures(line)).map(|found| found[1].to_owned());
        let content = match name.filter(|name| is_secret(name)) {
            Some(name) => self.variable(&name),
            None if form_of(content, "") == BodyForm::Json => self.remove_from_json(content),
            None => content.to_owned(),
        };
        format!("{head}{line_break}{line_break}{content}{end}")
    }

    /// `{x_api_key}`; the name is that of a variable from now on.
    fn variable(&mut self, name: &str) -> String {
        let name = variable_name(name);
        let placeholder = format!("{{{name}}}");
        self.0.insert(name);
        placeholder
    }
}

/// `x_api_key` of `X-Api-Key`.
pub(super) fn variable_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    let name = name.trim_matches('_').to_owned();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("v_{name}") }
}

/// Whether secrets in a body would be found.
pub(super) fn is_searchable(body: &str, content_type: &str) -> bool {
    form_of(body, content_type) != BodyForm::Unknown
}

fn form_of(body: &str, content_type: &str) -> BodyForm {
    let is_of_type = |name: &str| content_type.to_ascii_lowercase().starts_with(name);
    let is_form = || FORM.as_ref().is_some_and(|pattern| pattern.is_match(body));
    if body.trim().is_empty() {
        BodyForm::Empty
    } else if body.starts_with("--") && (is_of_type("multipart/") || body.contains("name=\"")) {
        BodyForm::Parts
    } else if is_form() {
        BodyForm::Pairs
    } else if body.trim_start().starts_with(['{', '[']) {
        BodyForm::Json
    } else if is_of_type("application/x-www-form-urlencoded") {
        BodyForm::Pairs
    } else {
        BodyForm::Unknown
    }
}

pub(super) fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // Authorization is secret, an author is not.
    let name = name.replace("authoriz", "auth").replace("authoris", "auth").replace("author", "");
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
        assert_eq!(secrets.remove_from_body("user=a&password=b", ""), "user=a&password={password}");
        assert_eq!(
            secrets.remove_from_body(r#"{"user": "a", "newPassword" : "b\"c"}"#, ""),
            r#"{"user": "a", "newPassword" : "{newpassword}"}"#
        );
        let names: Vec<&str> = secrets.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["access_token", "authorization", "newpassword", "password", "x_api_key"]);
    }

    fn of_body(body: &str, content_type: &str) -> String {
        Secrets::default().remove_from_body(body, content_type)
    }

    #[test]
    fn urls_in_headers_are_searched() {
        let mut secrets = Secrets::default();
        let referer = secrets.remove_from_header("Referer", "http://h/login?token=SECRET&q=1&code=2");
        assert_eq!(referer, "http://h/login?token={token}&q=1&code={code}");
    }

    #[test]
    fn urls_in_values_are_searched() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.remove_from_target("/a?next=/b?token=S&q=?"), "/a?next=/b?token={token}&q=?");
        assert_eq!(secrets.remove_from_target("/a?token=b?c&d"), "/a?token={token}&d");
        assert_eq!(secrets.remove_from_target("/a?token=&token=?S&sid"), "/a?token=&token={token}&sid");
    }

    #[test]
    fn form_values_may_have_spaces() {
        assert_eq!(of_body("password=a b\nc&q=d e", ""), "password={password}&q=d e");
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(of_body("user name=x&pin=1 2", form), "user name=x&pin={pin}");
        assert_eq!(of_body("[a]=1&sid=2", form), "[a]=1&sid={sid}");
    }

    #[test]
    fn numbers_in_json_are_secrets_too() {
        let body = r#"{"pin":1234, "code": -1.5e+3, "n": 1, "sid": null, "list": ["a=b"]}"#;
        let expected = r#"{"pin":{pin}, "code": {code}, "n": 1, "sid": null, "list": ["a=b"]}"#;
        assert_eq!(of_body(body, "application/x-www-form-urlencoded"), expected);
    }

    #[test]
    fn parts_are_searched_by_name() {
        const PARTS: &str = "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\na b\r\n\
            --x\r\ncontent-disposition: form-data; filename=\"token\"; name=\"file\"\r\n\r\nkept\r\n\r\n\r\n\
            --x\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"pin\": \"SECRET\"}\r\n\
            --x\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n\
            SECRET\r\n\r\nb\r\n\
            --x--\r\n";
        let expected =
            PARTS.replace("\r\n\r\nSECRET\r\n\r\nb\r\n", "\r\n\r\n{password}\r\n").replace("SECRET", "{pin}");
        assert_eq!(of_body(PARTS, "multipart/form-data; boundary=x"), expected);
        assert_eq!(of_body(&PARTS.replace('\r', ""), ""), expected.replace('\r', ""));
    }

    #[test]
    fn common_words_are_no_secrets() {
        for name in ["q", "page", "monkey", "zipcode", "sort", "design", "author", "Author-Id"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
