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

/// The current state of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub name: Name,
    /// The current revision: the first is 1; deletion and recreation continue the numbers.
    pub revision: u64,
    /// Number of changes in the appearance of its links: each time that a page to which it links appears or disappears.
    /// Its HTML depends only on this number and `revision`.
    pub links_version: u64,
    /// When the current revision was written.
    pub modified: Millis,
    pub content: Content,
    /// The targets of its links that do not exist.
    pub red_links: Vec<Name>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Markdown.
    pub text: String,
    /// Searchable free-form fields.
    pub fields: Fields,
    /// The target, if the page is a redirect instead of a text.
    pub redirect: Option<Name>,
}

/// The state of a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Page(Arc<Page>),
    /// A deleted page: its last revision is the deletion.
    Deleted {
        /// The deleting revision.
        revision: u64,
        modified: Millis,
    },
    /// No page has ever had this name.
    Nothing,
}

/// An entry of a page's history, or of the recent changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The position in the sequence of all changes to the wiki, ascending.
    pub sequence: u64,
    pub name: Name,
    /// The revision created by the change.
    pub revision: u64,
    pub kind: ChangeKind,
    pub time: Millis,
    /// The author, if signed in or named.
    pub author: Option<String>,
    /// The author's explanation.
    pub comment: String,
    /// Bytes of text, or of the attachment, after the change.
    pub bytes: u64,
    /// When the contents of the revision, with its author and comment, were erased for good; of a change to an
    /// attachment, the earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<Millis>,
    /// The attachment that was changed; `None` for a revision of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileChange>,
}

/// What a change did to an attachment. It made no revision: `revision` of the change is that of the page at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    pub name: Name,
    /// Length of the bytes that were replaced or deleted, as long as they are kept: an earlier version.
    pub earlier_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The first revision, or the first after a deletion.
    Created,
    Edited,
    Deleted,
    /// The page has this name since this revision.
    Renamed,
    /// An attachment was added.
    Attached,
    /// An attachment was replaced by another of the same name.
    Replaced,
    /// An attachment was deleted.
    Detached,
}

impl ChangeKind {
    const ALL: [Self; 7] =
        [Self::Created, Self::Edited, Self::Deleted, Self::Renamed, Self::Attached, Self::Replaced, Self::Detached];

    /// The number stored in databases.
    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    pub change: Change,
    /// `None` for a deletion, and if it was erased.
    pub content: Option<Content>,
}

/// The condition of a write. It is checked in the write's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None: the last write wins.
    Any,
    /// No page has the name (`If-None-Match: *`).
    Absent,
    /// The page has this revision (`If-Match`).
    Revision(u64),
}

/// The condition of a change to an attachment. It is checked in the write's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCondition {
    /// None: the last change wins.
    Any,
    /// The page has no attachment of that name (`If-None-Match: *`).
    Absent,
    /// The page has an attachment of that name (`If-Match: *`).
    Present,
    /// The digest of the attachment begins with one of these texts (`If-Match`).
    Digests(Vec<String>),
    /// There is no attachment whose digest begins with one of these texts (`If-None-Match`).
    OtherDigests(Vec<String>),
    /// The attachment has not changed since then, in seconds (`If-Unmodified-Since`).
    UnmodifiedSince(i64),
    All(Vec<FileCondition>),
}

impl FileCondition {
    /// Whether that attachment may be changed; `None` if there is no attachment.
    pub(crate) fn holds(&self, current: Option<&AttachmentInfo>) -> bool {
        let is_one_of = |all: &[String]| current.is_some_and(|info| all.iter().any(|one| info.digest.starts_with(one)));
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Digests(all) => is_one_of(all),
            Self::OtherDigests(all) => !is_one_of(all),
            Self::UnmodifiedSince(since) => current.is_none_or(|info| info.modified.div_euclid(1000) <= *since),
            Self::All(conditions) => conditions.iter().all(|one| one.holds(current)),
        }
    }
}

/// A write to one page.
#[derive(Clone, Debug)]
pub struct Write {
    pub name: Name,
    pub condition: Condition,
    pub action: WriteAction,
    pub author: Option<String>,
    pub comment: String,
    pub time: Millis,
}

#[derive(Clone, Debug)]
pub enum WriteAction {
    /// Creates the page or replaces its contents.
    Save {
        content: Content,
        /// The distinct pages to which the text links.
        links: Vec<Name>,
    },
    /// Deletes the page but keeps its history.
    Delete,
    /// Moves the page with its history to another name; a redirect remains at the old one. No page may have the new
    /// name, except the redirect that a rename from there to here has left: it is removed.
    Rename {
        /// The new name.
        to: Name,
    },
    /// Adds an attachment to the page, or replaces the one of that name. Creates no revision, but a change; none if
    /// the page has the same bytes under that name.
    Attach {
        file: Name,
        condition: FileCondition,
        media_type: String,
        /// The content.
        bytes: Bytes,
    },
    /// Removes an attachment. Creates no revision, but a change.
    Detach {
        /// Name of the attachment.
        file: Name,
        condition: FileCondition,
    },
}

impl Write {
    /// The name of a page that may be new.
    pub(crate) fn new_name(&self) -> Option<&Name> {
        match &self.action {
            WriteAction::Save { .. } => Some(&self.name),
            WriteAction::Rename { to } => Some(to),
            _ => None,
        }
    }
}

impl WriteAction {
    /// The attachment that it changes, and the condition.
    pub(crate) fn file(&self) -> Option<(&Name, &FileCondition)> {
        match self {
            Self::Attach { file, condition, .. } | Self::Detach { file, condition } => Some((file, condition)),
            _ => None,
        }
    }
}

/// A durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The page's revision afterwards.
    pub revision: u64,
    /// The position in the sequence of changes; 0 if nothing changed.
    pub sequence: u64,
    /// Whether the page did not exist before.
    pub created: bool,
    /// Pages whose representations changed: the page itself, and those whose links changed colour.
    pub changed: Vec<Name>,
    /// Whether the list of pages changed (a page appeared, disappeared or was renamed).
    pub list_changed: bool,
}

impl Committed {
    /// A write that changed nothing, to a page with that revision.
    #[must_use]
    pub fn unchanged(revision: u64) -> Self {
        Self { revision, sequence: 0, created: false, changed: Vec::new(), list_changed: false }
    }
}

/// An attachment without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachmentInfo {
    pub file: Name,
    pub media_type: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes, hexadecimal: its entity tag.
    pub digest: String,
    pub modified: Millis,
}

impl AttachmentInfo {
    /// Whether both have the same bytes and the same type.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.digest, &self.media_type) == (&other.digest, &other.media_type)
    }
}

/// A result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    pub name: Name,
    /// The text around the first match, with the matching words between U+E000 and U+E001; empty for titles.
    pub excerpt: String,
}
