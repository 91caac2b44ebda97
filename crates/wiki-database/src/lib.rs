//! The database of `breme wiki`: pages with their history, searches, attachments and the queues of purges, in SQLite or
//! PostgreSQL. Begin with the trait [`Database`]; [`open`] selects the engine.
//!
//! | module | content |
//! |---|---|
//! | [`name`] | names of pages: normalised, safe in paths and file names |
//! | [`page`] | pages, revisions, changes: the types of the database |
//! | [`sqlite`], [`postgres`] | the engines |
//! | `erasure` | what can be erased for good |
//! | [`keys`] | the surrogate keys of the wiki's responses, which a write queues for the caches |
//! | `operation`, `prepared_write`, `effects` | of both engines: the queue of writes; what a write needs and causes |
//! | `database`, `error`, `results` | the trait and its errors; of both engines: the form and the limits of results |
//! | `words` | of both engines: words and parts of titles, and how well a page matches |
//! | `inversion`, `postings` | the words of pages turned into pages of words; how such lists are encoded |
//! | [`digest`] | bytes and digests as text |
//!
//! Writes are durable when they return: with SQLite in WAL mode and `synchronous=FULL`, with PostgreSQL according to
//! its `synchronous_commit`. All of one write, including the queue of purges, is one transaction.

mod database;
pub mod digest;
mod effects;
mod erasure;
mod error;
mod inversion;
pub mod keys;
pub mod name;
mod operation;
pub mod page;
pub mod postgres;
mod postings;
mod prepared_write;
mod results;
pub mod sqlite;
mod words;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

pub use self::database::Database;
pub use self::erasure::{EraseError, OTHER_PLACES_MAX, Target, TargetError, TargetPart, remaining};
pub use self::error::{DatabaseError, WriteError};
pub use self::keys::PURGES_QUEUED_MAX;
pub use self::operation::Writes;
pub use self::results::{FILE_VERSIONS_MAX, RESULTS_MAX};

use self::postgres::PostgresDatabase;
use self::sqlite::SqliteDatabase;

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
    check_exists(Path::new(target))?;
    Ok(Arc::new(SqliteDatabase::open_to_read(Path::new(target))?))
}

/// Opens the database that `target` names for what may be done even while a wiki uses it: to change values (accounts,
/// tokens), and to erase.
///
/// # Errors
///
/// It cannot be used; see the errors of the engine.
pub async fn open_for_upkeep(target: &str) -> Result<Arc<dyn Database>, DatabaseError> {
    match open(target).await {
        // A wiki uses the file.
        Err(error) if error.is_temporary => {
            let database = SqliteDatabase::open_for_upkeep(Path::new(target)).map_err(|_| error)?;
            Ok(Arc::new(database))
        }
        opened => opened,
    }
}

/// As [`open_for_upkeep`], but creates no SQLite file.
///
/// # Errors
///
/// The file does not exist, or those of [`open_for_upkeep`].
pub async fn open_for_upkeep_of_existing(target: &str) -> Result<Arc<dyn Database>, DatabaseError> {
    if !is_postgres(target) {
        check_exists(Path::new(target))?;
    }
    open_for_upkeep(target).await
}

fn check_exists(file: &Path) -> Result<(), DatabaseError> {
    std::fs::metadata(file).map(drop).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::NotFound => "no such file; only `breme wiki`, its import and user add create one".to_owned(),
            _ => error.to_string(),
        };
        let reason = format!("{}: {problem}", file.display());
        DatabaseError { action: "open the database", reason, is_temporary: false }
    })
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
    check_exists(Path::new(target))?;
    let (from, to) = (std::path::PathBuf::from(target), to.to_owned());
    let task = tokio::task::spawn_blocking(move || SqliteDatabase::open_to_read(&from)?.backup(&to));
    task.await.unwrap_or_else(|error| Err(DatabaseError::temporary("back up the database", &error.to_string())))
}

fn is_postgres(target: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| target.starts_with(scheme))
}
