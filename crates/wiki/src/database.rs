//! The operations that every database of the wiki offers.
//!
//! Writes are durable when they return: with SQLite in WAL mode and `synchronous=FULL`, with PostgreSQL by its
//! `synchronous_commit`. All of one write, including the queue of purges, is one transaction.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

use crate::name::Name;
use crate::page::{AttachmentInfo, Change, Committed, Found, Match, Revision, Write};

/// The most results that one call returns, whatever its `limit` says.
pub const RESULTS_MAX: usize = 1000;

/// Pages with their history, searches, attachments, and the queues of purges.
#[async_trait]
pub trait Database: Send + Sync {
    /// The page of that name.
    async fn page(&self, name: &Name) -> Result<Found, DatabaseError>;

    /// One revision of a page, with its contents.
    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError>;

    /// The changes to a page, the newest first, from before revision `before`.
    async fn history(&self, name: &Name, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError>;

    /// The pages that link to `name`, in order of their names, after `after`.
    async fn backlinks(&self, name: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError>;

    /// All pages in order of their names, after `after`.
    async fn list(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError>;

    /// The changes to all pages, the newest first, from before `before` in their sequence.
    async fn recent(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError>;

    /// Pages whose names contain `text`, whatever the case; names that begin with it first.
    async fn search_titles(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError>;

    /// Pages whose text contains all words of `text`, the best match first.
    async fn search_text(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError>;

    /// Pages with a field at `path` (keys joined by dots) that equals `value`; any value if `None`.
    async fn search_fields(&self, path: &str, value: Option<&Value>, limit: usize)
    -> Result<Vec<Match>, DatabaseError>;

    /// The attachments of a page, in order of their names.
    async fn attachments(&self, name: &Name) -> Result<Vec<AttachmentInfo>, DatabaseError>;

    /// An attachment with its bytes.
    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError>;

    /// Carries out one write, if its condition holds. Concurrent writes share one commit.
    async fn write(&self, write: Write) -> Result<Committed, WriteError>;

    /// Carries out many writes without conditions, in large transactions: the import.
    async fn import(&self, writes: Vec<Write>) -> Result<u64, DatabaseError>;

    /// The surrogate keys that `edge` has not yet confirmed, the oldest first, with their place in its queue. An edge
    /// that is not yet known begins with an empty queue.
    async fn purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError>;

    /// Removes the keys up to `through` from the queue of `edge`.
    async fn purged(&self, edge: &str, through: u64) -> Result<(), DatabaseError>;

    /// Sets which edges receive purges: each write from now on queues its keys for each of them. A new one begins with
    /// an empty queue; the queue of one that is no longer listed is deleted, so that it cannot grow for ever.
    async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError>;

    /// A value that the wiki keeps for itself: a secret, an account, a token.
    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError>;

    /// Sets such a value, or removes it; only if it is `expected` now, where that is given.
    async fn set_value(
        &self,
        key: &str,
        expected: Option<Option<&str>>,
        value: Option<&str>,
    ) -> Result<bool, DatabaseError>;

    /// The values whose keys begin with `prefix`, in order of their keys.
    async fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, DatabaseError>;

    /// Whether it answers.
    async fn ping(&self) -> Result<(), DatabaseError>;

    /// Checks the database: its own integrity check, and the rules of the wiki. Returns one line for each fault.
    async fn verify(&self) -> Result<Vec<String>, DatabaseError>;
}

/// Why a database could not do its work.
#[derive(Debug)]
pub struct DatabaseError {
    /// What was to be done.
    pub action: &'static str,
    /// What the database reported.
    pub reason: String,
    /// Whether the same operation may succeed later (the database is unreachable, busy or full).
    pub is_temporary: bool,
}

/// Why a write was not carried out.
#[derive(Debug)]
pub enum WriteError {
    /// Its condition did not hold: what the name leads to now.
    Conflict(Found),
    /// There is no such page, or no such attachment.
    Missing,
    /// The new name of a renamed page is taken.
    NameTaken,
    /// The database failed. Nothing of the write was stored, unless the connection was lost at the commit.
    Database(DatabaseError),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.reason)
    }
}

impl std::error::Error for DatabaseError {}

impl From<DatabaseError> for WriteError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// The surrogate keys under which caches keep the wiki's responses.
pub mod keys {
    use crate::name::Name;

    /// Everything that shows lists of pages: the index, searches, suggestions.
    pub const LISTS: &str = "lists";
    /// Everything that shows recent changes.
    pub const CHANGES: &str = "changes";
    /// All HTML, which depends on the program's templates.
    pub const TEMPLATES: &str = "templates";

    /// Everything that shows the page `name`: letters and digits of ASCII as they are, other bytes as `_XX`, as
    /// surrogate keys are separated by spaces.
    #[must_use]
    pub fn page(name: &Name) -> String {
        let mut key = String::from("page:");
        for byte in name.as_str().bytes() {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                key.push(char::from(byte));
            } else {
                key.push_str(&format!("_{byte:02x}"));
            }
        }
        key
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn different_names_have_different_keys() {
            let key = |text: &str| page(&Name::parse(text).unwrap());
            assert_eq!(key("Ljubljanski grad"), "page:Ljubljanski_20grad");
            assert_eq!(key("ž1"), "page:_c5_be1");
        }
    }
}
