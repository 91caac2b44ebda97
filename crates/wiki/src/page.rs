//! Pages, their revisions and the changes to them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// The free-form fields of a page.
pub type Fields = Map<String, Value>;

/// A page as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its name.
    pub name: Name,
    /// Its current revision: the first is 1; deleting and recreating continue the numbers.
    pub revision: u64,
    /// How often the appearance of its links has changed: each time that a page to which it links appears or
    /// disappears. Its HTML depends on this number and on `revision`, on nothing else.
    pub links_version: u64,
    /// When the current revision was written.
    pub modified: Millis,
    /// What the revision contains.
    pub content: Content,
    /// The names in its links to which no page exists.
    pub red_links: Vec<Name>,
}

/// The contents of one revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Markdown.
    pub text: String,
    /// Searchable free-form fields.
    pub fields: Fields,
    /// Where the page leads instead of showing a text of its own.
    pub redirect: Option<Name>,
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A page.
    Page(Arc<Page>),
    /// A page that was deleted: its last revision is the deletion.
    Deleted {
        /// The revision that deleted it.
        revision: u64,
        /// When.
        modified: Millis,
    },
    /// No page has ever had this name.
    Nothing,
}

/// One line of a page's history, or of the recent changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The position in the sequence of all changes to the wiki; grows with each.
    pub sequence: u64,
    /// The page.
    pub name: Name,
    /// The revision that the change made.
    pub revision: u64,
    /// What kind of change.
    pub kind: ChangeKind,
    /// When.
    pub time: Millis,
    /// Who, if they had signed in or given a name.
    pub author: Option<String>,
    /// Why, in the author's words.
    pub comment: String,
    /// Bytes of text after the change.
    pub bytes: u64,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The first revision, or the first after a deletion.
    Created,
    /// A new text.
    Edited,
    /// The page was deleted.
    Deleted,
    /// The page has this name since this revision.
    Renamed,
}

impl ChangeKind {
    const ALL: [Self; 4] = [Self::Created, Self::Edited, Self::Deleted, Self::Renamed];

    /// The number by which databases keep it.
    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// One revision with its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Who, when, why.
    pub change: Change,
    /// What it contains; `None` for a deletion.
    pub content: Option<Content>,
}

/// What must hold for a write to be carried out. It is checked in the transaction of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing: the last write wins.
    Any,
    /// No page has the name (`If-None-Match: *`).
    Absent,
    /// The page has this revision (`If-Match`).
    Revision(u64),
}

/// A write to one page.
#[derive(Clone, Debug)]
pub struct Write {
    /// The page.
    pub name: Name,
    /// When it is carried out.
    pub condition: Condition,
    /// What it does.
    pub action: Action,
    /// Who.
    pub author: Option<String>,
    /// Why.
    pub comment: String,
    /// When.
    pub time: Millis,
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Creates the page or gives it new contents.
    Save {
        /// The contents.
        content: Content,
        /// The pages to which the text links, each once.
        links: Vec<Name>,
    },
    /// Deletes the page; its history remains.
    Delete,
    /// Gives the page, with its history, another name, which must be free; at the old one remains a redirect.
    Rename {
        /// The new name.
        to: Name,
    },
    /// Adds an attachment to the page, or replaces the one of that name. It makes no revision.
    Attach {
        /// Its name.
        file: Name,
        /// Its media type.
        media_type: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Removes an attachment. It makes no revision.
    Detach {
        /// Its name.
        file: Name,
    },
}

/// A write that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The page's revision afterwards.
    pub revision: u64,
    /// The position in the sequence of changes.
    pub sequence: u64,
    /// Whether the page did not exist before.
    pub created: bool,
    /// The pages whose representations changed: the page itself, and those whose links changed colour.
    pub changed: Vec<Name>,
    /// Whether the list of pages changed (a page appeared, disappeared or was renamed).
    pub list_changed: bool,
}

/// An attachment without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachmentInfo {
    /// Its name.
    pub file: Name,
    /// Its media type.
    pub media_type: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes, hexadecimal: its entity tag.
    pub digest: String,
    /// When it was written.
    pub modified: Millis,
}

/// A result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The page.
    pub name: Name,
    /// The text around the first match, with the matching words between U+E000 and U+E001; empty for titles.
    pub excerpt: String,
}
