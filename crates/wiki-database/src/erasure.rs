//! What can be erased for good, and why something is not.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::error::DatabaseError;
use crate::name::{Name, NameError};

/// Limit of the other places of erased bytes that [`Database::erase`](crate::Database::erase) returns.
pub const OTHER_PLACES_MAX: usize = 20;

/// What can be erased. As text it is written as in its address: `NAME`, `NAME/revisions/N`, `NAME/files/FILE` or
/// `NAME/files/FILE/versions/N`; and `NAME/changes/N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub page: Name,
    pub part: TargetPart,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// A deleted page with its name, its history and its attachments.
    Page,
    /// An earlier revision.
    Revision(u64),
    /// The author and the comment of the change to the page or to an attachment at this position in the sequence.
    Change(u64),
    /// A deleted attachment with its name and its earlier versions.
    File(Name),
    /// The version of an attachment that the change at this position in the sequence replaced or deleted.
    Version(Name, u64),
}

/// Why a text is not a target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error("write NAME, NAME/revisions/N, NAME/changes/N, NAME/files/FILE or NAME/files/FILE/versions/N")]
    Form,
    #[error("{0:?} is not a number")]
    Number(String),
    #[error("{0:?}: {1}")]
    Name(String, #[source] NameError),
}

/// Why nothing was erased.
#[derive(Debug, Error)]
pub enum EraseError {
    /// There is no such page, revision, attachment or version.
    #[error("there is no {0}; the history of a page links to its revisions and files")]
    Missing(Target),
    /// The page or attachment is not deleted, or the revision is the current one.
    #[error("{target} is {remedy}", target = .0, remedy = use_and_remedy(&.0.part))]
    InUse(Target),
    /// The database failed. If it is the file that could not be rewritten, the targets are erased for all readers.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Target {
    /// An attachment, or its version at this position in the sequence.
    pub(crate) const fn attachment(page: Name, file: Name, version: Option<u64>) -> Self {
        let part = match version {
            Some(sequence) => TargetPart::Version(file, sequence),
            None => TargetPart::File(file),
        };
        Self { page, part }
    }

    /// Refuses what does not exist, or is in use.
    pub(crate) fn check(&self, exists: bool, is_in_use: bool) -> Result<(), EraseError> {
        match (exists, is_in_use) {
            (false, _) => Err(EraseError::Missing(self.clone())),
            (true, true) => Err(EraseError::InUse(self.clone())),
            (true, false) => Ok(()),
        }
    }
}

/// Says that the bytes of what was erased remain at other places.
#[must_use]
pub fn remaining(others: &[Target]) -> String {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    format!("the same bytes remain as {}; erase them too", others.join(", "))
}

fn use_and_remedy(part: &TargetPart) -> &'static str {
    match part {
        TargetPart::Page => "not deleted: delete the page first, then erase it",
        TargetPart::File(_) => "not deleted: delete the file first, then erase it",
        TargetPart::Revision(_) | TargetPart::Change(_) | TargetPart::Version(..) => {
            "the current text: save the page without what is to be erased first, then erase this revision"
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let name = |text: &str| Name::parse(text).map_err(|error| TargetError::Name(text.to_owned(), error));
        let number = |text: &str| text.parse().map_err(|_| TargetError::Number(text.to_owned()));
        let segments: Vec<&str> = text.split('/').collect();
        let (page, part) = match segments[..] {
            [page] => (page, TargetPart::Page),
            [page, "revisions", revision] => (page, TargetPart::Revision(number(revision)?)),
            [page, "changes", sequence] => (page, TargetPart::Change(number(sequence)?)),
            [page, "files", file] => (page, TargetPart::File(name(file)?)),
            [page, "files", file, "versions", sequence] => (page, TargetPart::Version(name(file)?, number(sequence)?)),
            _ => return Err(TargetError::Form),
        };
        Ok(Self { page: name(page)?, part })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = &self.page;
        match &self.part {
            TargetPart::Page => write!(f, "{page}"),
            TargetPart::Revision(revision) => write!(f, "{page}/revisions/{revision}"),
            TargetPart::Change(sequence) => write!(f, "{page}/changes/{sequence}"),
            TargetPart::File(file) => write!(f, "{page}/files/{file}"),
            TargetPart::Version(file, sequence) => write!(f, "{page}/files/{file}/versions/{sequence}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_in_addresses() {
        for text in ["Old town", "Žaba/revisions/3", "A/changes/5", "A/files/map.png", "A/files/map.png/versions/17"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("Old_town/files/a_b".parse::<Target>().unwrap().to_string(), "Old town/files/a b");
        for text in ["", "/wiki/A", "A/", "A/revisions", "A/revisions/x", "A/revisions/-1", "A/files/", "A/versions/1"]
        {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }
}
