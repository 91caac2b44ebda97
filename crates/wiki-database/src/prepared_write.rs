//! What every database computes of a write before its transaction begins.

use std::borrow::Cow;

use serde_json::Value;

use super::words::{fold, index_grams, index_words};
use crate::digest::sha256;
use crate::error::DatabaseError;
use crate::name::Name;
use crate::page::{AttachmentInfo, Condition, Content, Fields, Write, WriteAction};
use crate::results::read_fields;

/// Limit of a page's entries in the index of fields; further fields are stored but not found.
const FIELD_ENTRIES_MAX: usize = 1000;

/// Fields are found down to this depth.
const FIELD_DEPTH_MAX: usize = 16;

/// Longer paths and values are indexed by their digests: a row of a PostgreSQL index is limited to 2.7 kB.
const FIELD_KEY_BYTES_MAX: usize = 400;

/// How an engine indexes the words of texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Each text when it is written.
    OneByOne,
    /// In groups: those of an import with their transaction, others later.
    Together,
}

/// A write with everything that its transaction needs and that can be computed without the database.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) write: Write,
    pub(crate) derived: Derived,
}

#[derive(Debug)]
pub(crate) enum Derived {
    /// For [`WriteAction::Save`].
    Saved(Indexed),
    /// For [`WriteAction::Attach`].
    Attached(AttachmentInfo),
    /// For all other writes.
    Nothing,
}

/// How searches find one page.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) folded: String,
    pub(crate) grams: String,
    /// The words of the text and the name; `None` if they are indexed later.
    pub(crate) words: Option<String>,
    /// The fields as JSON; `None` without fields.
    pub(crate) fields: Option<String>,
    /// Paths and values of the fields.
    pub(crate) field_entries: Vec<(String, String)>,
}

impl Indexed {
    pub(crate) fn new(name: &Name, content: &Content) -> Self {
        let folded = fold(name.as_str()).into_owned();
        Self {
            grams: index_grams(&folded),
            folded,
            words: None,
            fields: (!content.fields.is_empty()).then(|| Value::Object(content.fields.clone()).to_string()),
            field_entries: field_entries(&content.fields),
        }
    }
}

impl Indexed {
    /// The words of the index, computed now if necessary.
    pub(crate) fn words(&self, name: &Name, content: &Content) -> Cow<'_, str> {
        match &self.words {
            Some(words) => Cow::Borrowed(words),
            None => Cow::Owned(index_words(name.as_str(), &content.text)),
        }
    }
}

impl Prepared {
    /// # Errors
    ///
    /// The fields could not be read again.
    pub(crate) fn new(write: Write, texts: Texts) -> Result<Self, DatabaseError> {
        let mut prepared = Self::without_words(write);
        if let Derived::Saved(Indexed { fields: Some(fields), .. }) = &prepared.derived
            && let Err(error) = read_fields(fields)
        {
            let reason = format!("the fields of {} could not be read again: {error}", prepared.write.name);
            return Err(DatabaseError { action: "write", reason, is_temporary: false });
        }
        if texts == Texts::OneByOne
            && let (WriteAction::Save { content, .. }, Derived::Saved(indexed)) =
                (&prepared.write.action, &mut prepared.derived)
        {
            indexed.words = Some(index_words(prepared.write.name.as_str(), &content.text));
        }
        Ok(prepared)
    }

    fn without_words(mut write: Write) -> Self {
        write.comment = without_nul(write.comment);
        write.author = write.author.map(without_nul);
        let derived = match &mut write.action {
            WriteAction::Save { content, links } => {
                content.text = without_nul(std::mem::take(&mut content.text));
                // It is a link, too: to delete the target breaks it.
                links.extend(content.redirect.clone());
                links.sort_unstable();
                links.dedup();
                Derived::Saved(Indexed::new(&write.name, content))
            }
            WriteAction::Attach { file, media_type, bytes, .. } => {
                *media_type = without_nul(std::mem::take(media_type));
                Derived::Attached(AttachmentInfo {
                    file: file.clone(),
                    media_type: media_type.clone(),
                    bytes: bytes.len() as u64,
                    digest: sha256(bytes),
                    modified: write.time,
                })
            }
            WriteAction::Delete | WriteAction::Rename { .. } | WriteAction::Detach { .. } => Derived::Nothing,
        };
        Self { write, derived }
    }

    /// The bytes from which a write is prepared.
    pub(crate) fn input_bytes(write: &Write) -> usize {
        match &write.action {
            WriteAction::Save { content, .. } => content.text.len(),
            WriteAction::Attach { bytes, .. } => bytes.len(),
            WriteAction::Delete | WriteAction::Rename { .. } | WriteAction::Detach { .. } => 0,
        }
    }

    /// Approximate memory usage.
    pub(crate) fn bytes(&self) -> usize {
        2 * Self::input_bytes(&self.write)
    }
}

/// Replaces NUL by U+FFFD, as in CommonMark; PostgreSQL's texts cannot contain it.
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// The state of the page at the beginning of a write.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) id: i64,
    pub(crate) revision: u64,
    pub(crate) is_live: bool,
}

/// Whether the write may be applied to the current page.
pub(crate) fn holds(condition: Condition, state: Option<&State>) -> bool {
    let live = state.filter(|state| state.is_live);
    match condition {
        Condition::Any => true,
        Condition::Absent => live.is_none(),
        Condition::Revision(revision) => live.is_some_and(|state| state.revision == revision),
    }
}

/// One entry for each object, list and scalar of the fields, and one for each scalar of a list, under the list's path.
fn field_entries(fields: &Fields) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    for (key, value) in fields {
        add_entries(key, value, 1, &mut entries);
    }
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn add_entries(path: &str, value: &Value, depth: usize, entries: &mut Vec<(String, String)>) {
    if entries.len() >= FIELD_ENTRIES_MAX || depth > FIELD_DEPTH_MAX {
        return;
    }
    entries.push((field_path(path), field_value(value)));
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| add_entries(&format!("{path}.{key}"), member, depth + 1, entries));
        }
        Value::Array(items) => items.iter().for_each(|item| add_entries(path, item, depth + 1, entries)),
        _ => {}
    }
}

/// The path in the form of the index.
pub(crate) fn field_path(path: &str) -> String {
    index_key(Cow::Owned(path.replace('\0', "\u{fffd}")))
}

/// The value in the form of the index.
pub(crate) fn field_value(value: &Value) -> String {
    index_key(Cow::Owned(value.to_string()))
}

fn index_key(text: Cow<'_, str>) -> String {
    if text.len() <= FIELD_KEY_BYTES_MAX { text.into_owned() } else { format!("sha256:{}", sha256(text.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(fields: Value) -> Vec<(String, String)> {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        field_entries(&fields)
    }

    #[test]
    fn scalars_lists_and_objects_have_entries() {
        let pairs = [
            ("born", "1707"),
            ("place", r#"{"country":"SI","names":["Ljubljana","Laibach"]}"#),
            ("place.country", r#""SI""#),
            ("place.names", r#""Laibach""#),
            ("place.names", r#""Ljubljana""#),
            ("place.names", r#"["Ljubljana","Laibach"]"#),
        ];
        let expected: Vec<(String, String)> = pairs.iter().map(|(p, v)| (p.to_string(), v.to_string())).collect();
        let fields = json!({"born": 1707, "place": {"country": "SI", "names": ["Ljubljana", "Laibach"]}});
        assert_eq!(entries(fields), expected);
    }

    #[test]
    fn the_index_of_fields_is_bounded() {
        let many: Vec<u32> = (0..5000).collect();
        assert!(entries(json!({ "many": many })).len() <= FIELD_ENTRIES_MAX);
        let long = "x".repeat(10_000);
        assert!(entries(json!({ "long": &long, &long: 1 })).iter().all(|(p, v)| p.len() + v.len() < 800));
        let deep = (0..100).fold(json!(1), |inner, _| json!({ "a": inner }));
        assert_eq!(entries(deep).len(), FIELD_DEPTH_MAX);
    }
}
