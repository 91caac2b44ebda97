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
//! this form and is read back unchanged.

use breme_wiki_database::page::{Content, Fields};
use serde_json::Value;
use thiserror::Error;

/// Limit of the fields of a page.
pub const FIELDS_MAX: usize = 200;

/// The key for the target of a page's redirect.
const REDIRECT: &str = "$redirect";

/// The line before and after front matter.
const FENCE: &str = "---";

/// A line that is not a field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the fields: {problem}; write one field per line, as in status: draft")]
pub struct FieldsError {
    /// Line number, from 1.
    pub line: usize,
    pub problem: &'static str,
}

/// Parses lines of fields; empty lines are skipped.
///
/// # Errors
///
/// The first line that is not a field.
pub fn parse_lines(text: &str) -> Result<Fields, FieldsError> {
    let mut fields = Fields::new();
    for (index, line) in text.lines().enumerate() {
        let fault = |problem| FieldsError { line: index + 1, problem };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let (key, value) = split(line).ok_or(fault("there is no colon after the key"))?;
        if key.is_empty() {
            return Err(fault("the key is empty"));
        }
        if fields.len() == FIELDS_MAX {
            return Err(fault("a page has at most 200 fields"));
        }
        if fields.insert(key, value).is_some() {
            return Err(fault("the key occurs twice"));
        }
    }
    Ok(fields)
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
    let Some((mut fields, text)) = front_matter(file) else {
        return Content { text: file.to_owned(), ..Content::default() };
    };
    let redirect = fields.remove(REDIRECT).and_then(|target| target.as_str()?.to_owned().try_into().ok());
    Content { text: text.to_owned(), fields, redirect }
}

fn front_matter(file: &str) -> Option<(Fields, &str)> {
    let rest = file.strip_prefix(FENCE)?;
    let rest = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n"))?;
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            let fields = parse_lines(&rest[..offset]).ok()?;
            return Some((fields, &rest[offset + line.len()..]));
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
