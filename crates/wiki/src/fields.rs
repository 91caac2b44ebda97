//! Fields of pages as text, for the edit form and the front matter of Markdown files.
//!
//! ```text
//! ---
//! status: draft
//! population: 284293
//! tags: ["castle", "Ljubljana"]
//! ---
//! The text of the page.
//! ```
//!
//! A line consists of a key, a colon, and a value: JSON, or else plain text. Every object of fields can be written in
//! this form and is read back unchanged, if [`check`] accepts it.

use breme_wiki_database::page::{Content, Fields};
use serde_json::Value;
use thiserror::Error;

/// Limit of the fields of a page.
pub const FIELDS_MAX: usize = 200;

/// Limit of the levels of lists and objects in a field: readers of JSON have one, serde_json for instance 128.
const NESTING_MAX: usize = 64;

/// The key for the target of a page's redirect in front matter; no field can have it.
const REDIRECT: &str = "$redirect";

/// The line before and after front matter.
const FENCE: &str = "---";

/// Why a line is not a field, or a page cannot have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    #[error("there is no colon after the key")]
    NoColon,
    #[error("the key is empty")]
    EmptyKey,
    #[error("the key occurs twice")]
    Twice,
    #[error("the key {key} is reserved for redirects", key = REDIRECT)]
    Reserved,
    #[error("lists and objects are nested more than {max} levels deep", max = NESTING_MAX)]
    Nesting,
    #[error("a page has at most {max} fields", max = FIELDS_MAX)]
    Count,
}

/// A line that is not a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the fields: {problem}; write one field per line, as in status: draft")]
pub struct FieldsError {
    /// Line number, from 1.
    pub line: usize,
    pub problem: FieldError,
}

/// Checks the fields of a page.
///
/// # Errors
///
/// A rule that they break.
pub fn check(fields: &Fields) -> Result<(), FieldError> {
    if fields.len() > FIELDS_MAX {
        return Err(FieldError::Count);
    }
    fields.iter().try_for_each(|(key, value)| check_field(key, value))
}

fn check_field(key: &str, value: &Value) -> Result<(), FieldError> {
    match key {
        "" => Err(FieldError::EmptyKey),
        REDIRECT => Err(FieldError::Reserved),
        _ if is_deeper(value, NESTING_MAX) => Err(FieldError::Nesting),
        _ => Ok(()),
    }
}

/// Whether the value has more than so many levels of lists and objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let has_deeper = |inner: &Value| is_deeper(inner, levels - 1);
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(has_deeper),
        Value::Object(members) => levels == 0 || members.values().any(has_deeper),
        _ => false,
    }
}

/// Parses lines of fields; empty lines are skipped.
///
/// # Errors
///
/// The first line that is not a field.
pub fn parse_lines(text: &str) -> Result<Fields, FieldsError> {
    match read(text)? {
        (_, Some((line, _))) => Err(FieldsError { line, problem: FieldError::Reserved }),
        (fields, None) => Ok(fields),
    }
}

/// Parses lines of fields, and the redirect among them with its line.
fn read(text: &str) -> Result<(Fields, Option<(usize, Value)>), FieldsError> {
    let (mut fields, mut redirect) = (Fields::new(), None);
    for (index, line) in text.lines().enumerate() {
        let fault = |problem| FieldsError { line: index + 1, problem };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let (key, value) = split(line).ok_or(fault(FieldError::NoColon))?;
        let is_known = if key == REDIRECT {
            redirect.replace((index + 1, value)).is_some()
        } else {
            check_field(&key, &value).map_err(fault)?;
            fields.insert(key, value).is_some()
        };
        if is_known {
            return Err(fault(FieldError::Twice));
        }
        if fields.len() > FIELDS_MAX {
            return Err(fault(FieldError::Count));
        }
    }
    Ok((fields, redirect))
}

fn split(line: &str) -> Option<(String, Value)> {
    let (key, value) = if line.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(line).into_iter::<String>();
        let key = keys.next()?.ok()?;
        (key, line[keys.byte_offset()..].trim_start().strip_prefix(':')?)
    } else {
        let (key, value) = line.split_once(':')?;
        (key.trim().to_owned(), value)
    };
    let value = value.trim();
    Some((key, serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

/// Writes fields, one per line.
#[must_use]
pub fn to_lines(fields: &Fields) -> String {
    fields.iter().map(|(key, value)| format!("{}: {}\n", key_text(key), value_text(value))).collect()
}

fn key_text(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    if is_plain { key.to_owned() } else { Value::from(key).to_string() }
}

/// A text unquoted if it is read back as itself, in YAML as well as here; everything else as JSON.
fn value_text(value: &Value) -> String {
    const WORDS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "null", "none"];
    match value {
        Value::String(text)
            if text.starts_with(char::is_alphabetic)
                && text.chars().all(|c| c.is_alphanumeric() || " -_.,()/".contains(c))
                && text.trim() == text
                && !WORDS.contains(&text.to_lowercase().as_str()) =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

/// The contents of a page as a Markdown file: front matter if there are fields, then the text.
#[must_use]
pub fn to_markdown(content: &Content) -> String {
    let mut fields = to_lines(&content.fields);
    if let Some(target) = &content.redirect {
        fields.push_str(&format!("\"{REDIRECT}\": {}\n", Value::from(target.as_str())));
    }
    // A text that looks like front matter must not be read as such.
    if fields.is_empty() && front_matter(&content.text).is_none() {
        return content.text.clone();
    }
    format!("{FENCE}\n{fields}{FENCE}\n{}", content.text)
}

/// Parses the contents of a page from a Markdown file. A file without front matter is text from its first line.
#[must_use]
pub fn from_markdown(file: &str) -> Content {
    front_matter(file).unwrap_or_else(|| Content { text: file.to_owned(), ..Content::default() })
}

fn front_matter(file: &str) -> Option<Content> {
    let rest = file.strip_prefix(FENCE)?;
    let rest = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n"))?;
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            let (fields, redirect) = read(&rest[..offset]).ok()?;
            let redirect = redirect.and_then(|(_, target)| target.as_str()?.to_owned().try_into().ok());
            return Some(Content { text: rest[offset + line.len()..].to_owned(), fields, redirect });
        }
        offset += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use breme_wiki_database::name::Name;
    use serde_json::json;

    use super::*;

    fn fields(mut value: Value) -> Fields {
        std::mem::take(value.as_object_mut().unwrap())
    }

    #[test]
    fn fields_read_as_they_were_written() {
        let all = fields(json!({
            "status": "draft", "n": 3, "s": "3", "yes": "no", "empty": "", "a b": " x ", "list": ["a", {"b": null}], "č": "Ž",
            "quoted\"": "a: b", "line": "a\nb", "t": true, "-": "-", "x:y": "---",
        }));
        assert_eq!(parse_lines(&to_lines(&all)), Ok(all));
    }

    /// A list in a list, and so on.
    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn accepted_fields_read_as_they_were_written() {
        let many = |count: usize| (0..count).map(|number| (number.to_string(), json!(number))).collect::<Fields>();
        let deep = |depth| fields(json!({ "a": { "b": nested(depth - 1) } }));
        for (fields, expected) in [
            (many(FIELDS_MAX), Ok(())),
            (many(FIELDS_MAX + 1), Err(FieldError::Count)),
            (deep(NESTING_MAX), Ok(())),
            (deep(NESTING_MAX + 1), Err(FieldError::Nesting)),
            (fields(json!({"": 1})), Err(FieldError::EmptyKey)),
            (fields(json!({"$redirect": "B"})), Err(FieldError::Reserved)),
            (
                fields(json!({" ": 1, "$redirect ": 1, "\u{85}\u{2028}\t": "\u{2028}", "a\r\n---\nb": "\n---\n"})),
                Ok(()),
            ),
        ] {
            assert_eq!(check(&fields), expected);
            for redirect in [None, Some(Name::parse("Other").unwrap())] {
                let content = Content { text: "---\na: 1\n---\n".into(), fields: fields.clone(), redirect };
                assert_eq!(from_markdown(&to_markdown(&content)) == content, expected.is_ok(), "{fields:?}");
            }
        }
        assert_eq!(
            parse_lines("a: 1\n$redirect: B").unwrap_err(),
            FieldsError { line: 2, problem: FieldError::Reserved }
        );
    }

    /// All kinds of values under all kinds of keys, made of pieces that have a meaning in lines, JSON or Markdown.
    #[test]
    fn random_fields_read_as_they_were_written() {
        const PIECES: [&str; 18] = [
            "a",
            "Ž",
            "-",
            "---",
            ":",
            "\"",
            "\\",
            "\n",
            "\r",
            " ",
            "\u{85}",
            "\u{2028}",
            "#",
            "null",
            "[",
            "{",
            "1",
            "$redirect",
        ];
        let mut random = breme_base::Random::new(7);
        let mut below = move |end: usize| random.below(end as u64) as usize;
        for _ in 0..2000 {
            let mut text = || (0..below(4)).map(|_| PIECES[below(PIECES.len())]).collect::<String>();
            let mut made = Fields::new();
            for kind in 0..6 {
                let value = match kind {
                    0 => json!(null),
                    1 => json!(text()),
                    2 => json!([text(), { (text()): text() }, true, -3, 0.5]),
                    3 => json!(u64::MAX),
                    4 => json!({}),
                    _ => json!(1e300),
                };
                made.insert(text(), value);
            }
            let content = Content { text: format!("{}\n{}", text(), text()), fields: made, redirect: None };
            if check(&content.fields).is_ok() {
                assert_eq!(from_markdown(&to_markdown(&content)), content);
            }
        }
    }

    #[test]
    fn people_may_write_plain_text() {
        let read = parse_lines("status: in review: soon\n\n  population: 12\nname: Ana").unwrap();
        assert_eq!(read, fields(json!({"status": "in review: soon", "population": 12, "name": "Ana"})));
        for (text, line) in [("a: 1\nb", 2), (": x", 1), ("a: 1\na: 2", 2), ("\"a: 1", 1)] {
            assert_eq!(parse_lines(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn files_read_as_they_were_written() {
        for content in [
            Content { text: "plain\n".into(), ..Content::default() },
            Content { text: "---\na: b\n---\nthe text has this".into(), ..Content::default() },
            Content { text: "---\n\nTwo rules\n\n---\n".into(), ..Content::default() },
            Content { text: "x".into(), fields: fields(json!({"a": 1})), redirect: None },
            Content { redirect: Some(Name::parse("Other page").unwrap()), ..Content::default() },
            Content { text: "---".into(), fields: fields(json!({"$redirect ": 1})), redirect: None },
        ] {
            assert_eq!(from_markdown(&to_markdown(&content)), content);
        }
        let content = Content { text: "x".into(), ..Content::default() };
        assert_eq!(to_markdown(&content), "x", "a page without fields is its text");
    }
}
