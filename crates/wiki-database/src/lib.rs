//! The database of `breme wiki`: pages with their history, searches, attachments and the queues of purges, in SQLite or
//! PostgreSQL. Begin with the trait [`Database`]; [`open`] selects the engine.
//!
//! | module | content |
//! |---|---|
//! | [`name`] | names of pages: normalised, safe in paths and file names |
//! | [`page`] | pages, revisions, changes: the types of the database |
//! | [`sqlite`], [`postgres`] | the engines |
//! | [`keys`] | the surrogate keys of the wiki's responses, which a write queues for the caches |
//! | `operation`, `prepared_write`, `effects` | of both engines: the queue of writes; what a write needs and causes |
//! | `words` | of both engines: words and parts of titles, and how well a page matches |
//! | [`digest`] | bytes and digests as text |
//!
//! Writes are durable when they return: with SQLite in WAL mode and `synchronous=FULL`, with PostgreSQL according to
//! its `synchronous_commit`. All of one write, including the queue of purges, is one transaction.

pub mod digest;
mod effects;
pub mod name;
mod operation;
pub mod page;
pub mod postgres;
mod prepared_write;
pub mod sqlite;
mod words;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use thiserror::Error;

use self::postgres::PostgresDatabase;
use self::sqlite::SqliteDatabase;
use self::words::Rating;
use crate::name::Name;
use crate::page::{AttachmentInfo, Change, Committed, Found, Match, Page, Revision, Write};

/// Limit of the results of one call, whatever its `limit`.
pub const RESULTS_MAX: usize = 1000;

/// Limit of the surrogate keys queued for an edge. An edge that lags further behind has to purge everything: its queue
/// is replaced by [`keys::EVERYTHING`].
pub const PURGES_QUEUED_MAX: u64 = 10_000;

/// Limit of the lines that [`Database::verify`] returns.
const FAULTS_MAX: usize = 100;

/// Limit of the names that a title search compares with its query.
const TITLE_CANDIDATES_MAX: usize = 5000;

/// Limit of the texts that a full-text search reads and rates.
const TEXT_CANDIDATES_MAX: usize = 200;

/// Opens the database that `target` names: `postgres://…`, or the path of a SQLite file, which is created if needed.
///
/// # Errors
///
/// It cannot be used; see the errors of the engine.
pub async fn open(target: &str) -> Result<Arc<dyn Database>, DatabaseError> {
    if is_postgres(target) {
        return Ok(Arc::new(PostgresDatabase::open(target).await?));
    }
    let path = std::path::PathBuf::from(target);
    let open = move || SqliteDatabase::open(&path, sqlite::CACHE_BYTES_DEFAULT);
    let task = tokio::task::spawn_blocking(open);
    let database = task.await.map_err(|error| DatabaseError::temporary("open the database", &error.to_string()))??;
    Ok(Arc::new(database))
}

/// Opens the database that `target` names read-only, even while a wiki uses it: for checks and exports.
///
/// # Errors
///
/// It does not exist, or cannot be used.
pub async fn open_to_read(target: &str) -> Result<Arc<dyn Database>, DatabaseError> {
    if is_postgres(target) {
        return Ok(Arc::new(PostgresDatabase::open_to_read(target).await?));
    }
    Ok(Arc::new(SqliteDatabase::open_to_read(Path::new(target))?))
}

/// Opens the database that `target` names to change values (accounts, tokens), even while a wiki uses it.
///
/// # Errors
///
/// It cannot be used; see the errors of the engine.
pub async fn open_for_values(target: &str) -> Result<Arc<dyn Database>, DatabaseError> {
    match open(target).await {
        // A wiki uses the file.
        Err(error) if error.is_temporary => {
            let database = SqliteDatabase::open_for_values(Path::new(target)).map_err(|_| error)?;
            Ok(Arc::new(database))
        }
        opened => opened,
    }
}

/// Copies the database that `target` names to the new file `to`, even while a wiki uses it.
///
/// # Errors
///
/// `to` exists, the copy fails, or the database has its own tools for copies.
pub async fn backup(target: &str, to: &Path) -> Result<(), DatabaseError> {
    if is_postgres(target) {
        let reason = String::from("PostgreSQL has its own tool for this: pg_dump --schema=wiki --format=custom URL");
        return Err(DatabaseError { action: "back up the database", reason, is_temporary: false });
    }
    let (from, to) = (std::path::PathBuf::from(target), to.to_owned());
    let task = tokio::task::spawn_blocking(move || SqliteDatabase::open_to_read(&from)?.backup(&to));
    task.await.unwrap_or_else(|error| Err(DatabaseError::temporary("back up the database", &error.to_string())))
}

/// The writes of an import.
pub type Writes = Box<dyn Iterator<Item = Write> + Send>;

/// Pages with their history, searches, attachments, and the queues of purges.
#[async_trait]
pub trait Database: Send + Sync {
    async fn page(&self, name: &Name) -> Result<Found, DatabaseError>;

    /// The page of that name, if it is cached in its last committed state.
    fn page_in_memory(&self, name: &Name) -> Option<Arc<Page>> {
        let _ = name;
        None
    }

    /// One revision of a page, with its contents.
    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError>;

    /// The changes to a page, newest first, from before revision `before`.
    async fn history(&self, name: &Name, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError>;

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

    /// The attachments of a page, sorted by name. Those of a deleted page are kept, but not shown.
    async fn attachments(&self, name: &Name) -> Result<Vec<AttachmentInfo>, DatabaseError>;

    /// An attachment with its bytes.
    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError>;

    /// Executes one write, if its condition holds. Concurrent writes share one commit.
    async fn write(&self, write: Write) -> Result<Committed, WriteError>;

    /// Executes many writes without conditions, in large transactions: the import. Writes are taken from the iterator,
    /// on a blocking thread, while earlier ones are executed.
    async fn import(&self, writes: Writes) -> Result<u64, DatabaseError>;

    /// Queues a surrogate key for all edges.
    async fn purge(&self, key: &str) -> Result<(), DatabaseError>;

    /// The surrogate keys that `edge` has not yet confirmed, oldest first, with their positions in its queue; none for
    /// an edge that was not set. An edge that lags too far behind gets [`keys::EVERYTHING`] instead of
    /// [`PURGES_QUEUED_MAX`] keys.
    async fn purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError>;

    /// Removes the keys up to `through` from the queue of `edge`.
    async fn purged(&self, edge: &str, through: u64) -> Result<(), DatabaseError>;

    /// Sets which edges receive purges: each later write queues its keys for each of them. A new one begins with an
    /// empty queue; the queue of one that is no longer listed is deleted, so that it cannot grow forever.
    async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError>;

    /// An internal value of the wiki: a secret, an account, a token.
    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError>;

    /// Sets such a value, or removes it; if `expected` is given, only if that is the current value.
    async fn set_value(
        &self,
        key: &str,
        expected: Option<Option<&str>>,
        value: Option<&str>,
    ) -> Result<bool, DatabaseError>;

    /// The values whose keys begin with `prefix`, sorted by key.
    async fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, DatabaseError>;

    /// Checks that it responds.
    async fn ping(&self) -> Result<(), DatabaseError>;

    /// Checks the database: its own integrity check, and the rules of the wiki. Returns one line for each error.
    async fn verify(&self) -> Result<Vec<String>, DatabaseError>;
}

/// Why a database operation failed.
#[derive(Debug, Error)]
#[error("cannot {action}: {reason}")]
pub struct DatabaseError {
    /// The attempted action.
    pub action: &'static str,
    pub reason: String,
    /// Whether a retry may succeed (the database is unreachable, busy or full).
    pub is_temporary: bool,
}

/// Why a write was not executed.
#[derive(Debug)]
pub enum WriteError {
    /// Its condition did not hold: the current state of the name.
    Conflict(Found),
    /// There is no such page or attachment.
    Missing,
    NameTaken,
    /// The database failed. Nothing of the write was stored, unless the connection was lost at the commit.
    Database(DatabaseError),
}

impl DatabaseError {
    fn temporary(action: &'static str, reason: &str) -> Self {
        Self { action, reason: reason.to_owned(), is_temporary: true }
    }

    /// A write to a read-only database.
    fn open_for_reading() -> Self {
        Self { action: "write", reason: "it is open for reading".to_owned(), is_temporary: false }
    }
}

impl From<DatabaseError> for WriteError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

fn is_postgres(target: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| target.starts_with(scheme))
}

/// Clamps a number to the range of the databases.
fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn bounded(limit: usize) -> usize {
    limit.min(RESULTS_MAX)
}

fn without_excerpts(names: Vec<Name>) -> Vec<Match> {
    names.into_iter().map(|name| Match { name, excerpt: String::new() }).collect()
}

/// The best of the rated pages, best first.
fn best(mut rated: Vec<(String, Rating)>, limit: usize) -> Vec<Match> {
    rated.sort_by(|(name, a), (other, b)| b.score.total_cmp(&a.score).then_with(|| name.cmp(other)));
    let to_match =
        |(name, rating): (String, Rating)| Some(Match { name: Name::parse(&name).ok()?, excerpt: rating.excerpt });
    rated.into_iter().take(limit).filter_map(to_match).collect()
}

/// The surrogate keys under which caches store the wiki's responses.
pub mod keys {
    use crate::name::Name;

    /// The key of every response. It is queued for an edge that was unreachable for too long to keep all keys.
    pub const EVERYTHING: &str = "wiki";
    /// Responses that show lists of pages: the index, searches, suggestions.
    pub const LISTS: &str = "lists";
    /// Responses that show recent changes.
    pub const CHANGES: &str = "changes";
    /// All HTML, which depends on the program's templates.
    pub const TEMPLATES: &str = "templates";

    /// Responses that show the page `name`: ASCII letters and digits are unchanged, other bytes become `_XX`, since
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
