//! Writes for the cases.

use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Condition, Content, FileCondition, Write, WriteAction};
use serde_json::Value;

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn write(page: &str, action: WriteAction) -> Write {
    Write { name: name(page), condition: Condition::Any, action, author: None, comment: String::new(), time: 1 }
}

/// Saves the text; the page links to the names between `[[` and `]]`.
pub(crate) fn save(page: &str, text: &str) -> Write {
    let links = text.split("[[").skip(1).filter_map(|rest| Some(name(rest.split_once("]]")?.0))).collect();
    write(page, WriteAction::Save { content: Content { text: text.to_owned(), ..Content::default() }, links })
}

pub(crate) fn save_fields(page: &str, fields: Value) -> Write {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    write(page, WriteAction::Save { content: Content { fields, ..Content::default() }, links: Vec::new() })
}

pub(crate) fn delete(page: &str) -> Write {
    write(page, WriteAction::Delete)
}

pub(crate) fn rename(page: &str, to: &str) -> Write {
    write(page, WriteAction::Rename { to: name(to) })
}

pub(crate) fn attach(page: &str, file: &str, bytes: &'static [u8]) -> Write {
    let media_type = String::from("text/plain");
    let condition = FileCondition::Any;
    write(page, WriteAction::Attach { file: name(file), condition, media_type, bytes: bytes.into() })
}

pub(crate) fn detach(page: &str, file: &str) -> Write {
    write(page, WriteAction::Detach { file: name(file), condition: FileCondition::Any })
}

/// The write under a condition on its attachment.
pub(crate) fn only_file(required: FileCondition, mut write: Write) -> Write {
    match &mut write.action {
        WriteAction::Attach { condition, .. } | WriteAction::Detach { condition, .. } => *condition = required,
        other => panic!("{other:?} changes no attachment"),
    }
    write
}

/// The write under a condition.
pub(crate) fn only(condition: Condition, write: Write) -> Write {
    Write { condition, ..write }
}

/// Pages that link to each other.
pub(crate) const LINKED: [&str; 4] = ["A", "B", "C", "D"];

/// Pseudo-random writes to the pages of [`LINKED`], which have different names in each part of the wiki. Pages are
/// created before and after those that link to them, link to themselves, are overwritten, redirected, deleted, renamed.
pub(crate) fn linked_writes(part: &str, seed: u32, count: usize) -> Vec<Write> {
    let mut state = seed;
    let mut below = move |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % end
    };
    let pages = LINKED.map(|page| format!("{part} {page}"));
    let write = |_| {
        let (page, other) = (&pages[below(4) as usize], &pages[below(4) as usize]);
        match below(10) {
            0 => delete(page),
            1 => rename(page, other),
            2 => attach(page, "f", b"bytes"),
            3 => save_linked(page, &format!("[[{other}]]"), Some(name(other))),
            _ => {
                let linked = below(16);
                let links = (0..4).filter(|bit| linked >> bit & 1 == 1).map(|bit| format!("[[{}]]", pages[bit]));
                save_linked(page, &links.collect::<String>(), None)
            }
        }
    };
    (0..count).map(write).collect()
}

fn save_linked(page: &str, text: &str, redirect: Option<Name>) -> Write {
    let mut write = save(page, text);
    if let WriteAction::Save { content, .. } = &mut write.action {
        content.fields.insert(String::from("name"), Value::from(page));
        content.redirect = redirect;
    }
    write
}
