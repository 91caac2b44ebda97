//! What every database of the wiki does.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

use crate::erasure::{EraseError, Target};
use crate::error::{DatabaseError, WriteError};
use crate::name::Name;
use crate::operation::{OperationQueue, Writes};
use crate::page::{AttachmentInfo, Change, Committed, Found, Match, Millis, Page, Revision, Write};

/// Pages with their history, searches, attachments, and the queues of purges.
#[async_trait]
pub trait Database: Send + Sync {
    /// The queue of writes.
    ///
    /// # Errors
    ///
    /// The database is open read-only.
    fn queue(&self) -> Result<&OperationQueue, DatabaseError>;

    async fn page(&self, name: &Name) -> Result<Found, DatabaseError>;

    /// The page of that name, if it is cached in its last committed state.
    fn page_in_memory(&self, name: &Name) -> Option<Arc<Page>> {
        let _ = name;
        None
    }

    /// One revision of a page, with its contents.
    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError>;

    /// The changes to a page and its attachments, newest first, from before this revision and position in the sequence
    /// of changes; the position 0 precedes all changes at that revision.
    async fn history(
        &self,
        name: &Name,
        before: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError>;

    /// The changes to an attachment of a page, newest first, from before `before` in the sequence of changes.
    async fn file_history(
        &self,
        name: &Name,
        file: &Name,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError>;

    /// The bytes of an attachment that the change at this position in the sequence replaced or deleted, if they are
    /// kept: the last [`FILE_VERSIONS_MAX`](crate::FILE_VERSIONS_MAX) of each attachment.
    async fn file_version(
        &self,
        name: &Name,
        file: &Name,
        sequence: u64,
    ) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError>;

    /// The pages that link to `name`, sorted by name, after `after`.
    async fn backlinks(&self, name: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError>;

    /// All pages sorted by name, after `after`.
    async fn list(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError>;

    /// The changes to all pages, newest first, from before `before` in their sequence.
    async fn recent(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError>;

    /// Pages whose names contain `text`, ignoring case; names that begin with it first.
    async fn search_titles(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError>;

    /// Pages whose text contains all words of `text`, best match first.
    async fn search_text(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError>;

    /// Pages with a field at `path` (keys joined by dots) that equals `value`; any value if `None`.
    async fn search_fields(&self, path: &str, value: Option<&Value>, limit: usize)
    -> Result<Vec<Match>, DatabaseError>;

    /// The attachments of a page, sorted by name, after `after`. Those of a deleted page are kept, but not shown.
    async fn attachments(
        &self,
        name: &Name,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<AttachmentInfo>, DatabaseError>;

    async fn attachment_info(&self, name: &Name, file: &Name) -> Result<Option<AttachmentInfo>, DatabaseError>;

    /// An attachment with its bytes.
    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError>;

    /// Executes one write, if its condition holds. Concurrent writes share one commit.
    async fn write(&self, write: Write) -> Result<Committed, WriteError> {
        self.queue()?.write(write).await
    }

    /// Executes many writes without conditions, in large transactions: the import. Writes are taken from the iterator,
    /// on a blocking thread, while earlier ones are executed.
    async fn import(&self, writes: Writes) -> Result<u64, DatabaseError> {
        self.queue()?.import(writes).await
    }

    /// Erases all targets for good, or none if one of them cannot be erased. Of a revision its place in the history
    /// remains, of a page or an attachment the last change, under a pseudonym. Returns other places at which the same
    /// bytes are attached or kept, at most [`OTHER_PLACES_MAX`](crate::OTHER_PLACES_MAX). Erasing again what was erased
    /// changes nothing.
    ///
    /// SQLite then rewrites its file, so that nothing of the targets remains in it; writes wait meanwhile. In
    /// PostgreSQL the dead rows remain until `VACUUM`.
    async fn erase(&self, targets: &[Target], time: Millis) -> Result<Vec<Target>, EraseError> {
        self.queue()?.erase(targets, time).await
    }

    /// Erases the name of an author for good from all changes, which then have no author, as [`Database::erase`] erases
    /// other things. Returns the number of these changes.
    async fn erase_author(&self, author: &str) -> Result<u64, DatabaseError> {
        self.queue()?.erase_author(author).await
    }

    /// Queues a surrogate key for all edges.
    async fn queue_purge(&self, key: &str) -> Result<(), DatabaseError> {
        self.queue()?.queue_purge(key).await
    }

    /// The surrogate keys that `edge` has not yet confirmed, oldest first, with their positions in its queue; none for
    /// an edge that was not set. An edge that lags too far behind gets
    /// [`EVERYTHING`](crate::keys::EVERYTHING) instead of [`PURGES_QUEUED_MAX`](crate::PURGES_QUEUED_MAX) keys.
    async fn queued_purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError>;

    /// Removes the keys up to `through` from the queue of `edge`.
    async fn confirm_purges(&self, edge: &str, through: u64) -> Result<(), DatabaseError> {
        self.queue()?.confirm_purges(edge, through).await
    }

    /// Sets which edges receive purges: each later write queues its keys for each of them. A new one begins with an
    /// empty queue; the queue of one that is no longer listed is deleted, so that it cannot grow forever.
    async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError> {
        self.queue()?.set_edges(edges).await
    }

    /// An internal value of the wiki: a secret, an account, a token.
    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError>;

    /// Sets or removes an internal value; with `expected`, only if that is the current value.
    async fn set_value(
        &self,
        key: &str,
        expected: Option<Option<&str>>,
        value: Option<&str>,
    ) -> Result<bool, DatabaseError> {
        self.queue()?.set_value(key, expected, value).await
    }

    /// The values whose keys begin with `prefix`, sorted by key.
    async fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, DatabaseError>;

    /// Checks that the database responds.
    async fn ping(&self) -> Result<(), DatabaseError>;

    /// Checks the database: its own integrity check, and the rules of the wiki. Returns one line for each error.
    async fn verify(&self) -> Result<Vec<String>, DatabaseError>;
}
