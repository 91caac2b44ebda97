//! Writes for the cases.

use breme_wiki::name::Name;
use breme_wiki::page::{Action, Condition, Content, Write};
use serde_json::Value;

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn write(page: &str, action: Action) -> Write {
    Write { name: name(page), condition: Condition::Any, action, author: None, comment: String::new(), time: 1 }
}

/// Saves the text; the page links to whatever is between `[[` and `]]`.
pub(crate) fn save(page: &str, text: &str) -> Write {
    let links = text.split("[[").skip(1).filter_map(|rest| Some(name(rest.split_once("]]")?.0))).collect();
    write(page, Action::Save { content: Content { text: text.to_owned(), ..Content::default() }, links })
}

pub(crate) fn save_fields(page: &str, fields: Value) -> Write {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    write(page, Action::Save { content: Content { fields, ..Content::default() }, links: Vec::new() })
}

pub(crate) fn delete(page: &str) -> Write {
    write(page, Action::Delete)
}

pub(crate) fn rename(page: &str, to: &str) -> Write {
    write(page, Action::Rename { to: name(to) })
}

pub(crate) fn attach(page: &str, file: &str, bytes: &'static [u8]) -> Write {
    let media_type = String::from("text/plain");
    write(page, Action::Attach { file: name(file), media_type, bytes: bytes.into() })
}

pub(crate) fn detach(page: &str, file: &str) -> Write {
    write(page, Action::Detach { file: name(file) })
}

/// The write under a condition.
pub(crate) fn only(condition: Condition, write: Write) -> Write {
    Write { condition, ..write }
}
