//! The wiki's pages in one SQLite file: one thread writes, a few connections read.
//!
//! | module | content |
//! |---|---|
//! | `connection`, `schema` | connections to the file; the tables and their versions |
//! | `batch` | the statements of a transaction |
//! | `pending_saves` | rows that an import inserts at the end of its transaction, sorted |
//! | `backlog` | pages whose words are indexed later, and their indexing |
//! | `word_index` | which pages contain which words |
//! | `writer` | the writer thread, with group commit |
//! | `read`, `search` | the statements of reads and searches |
//! | `cache` | the cache of popular pages |
//! | `verify` | the checks of `breme wiki verify` |

mod backlog;
mod batch;
mod cache;
mod connection;
mod pending_saves;
mod read;
mod schema;
mod search;
mod verify;
mod word_index;
mod writer;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use self::backlog::Backlog;
use self::cache::Pages;
use self::connection::{
    LOG_BYTES_MAX, LOG_PAGES_MAX, WRITER_BUSY_TIMEOUT, WRITER_CACHE_KIB, connect, create_private, database_error,
    failure, make_durable, rewrite,
};
use self::writer::Writer;
use crate::database::Database;
use crate::erasure::{EraseError, Target, remaining};
use crate::error::DatabaseError;
use crate::name::Name;
use crate::operation::OperationQueue;
use crate::page::{AttachmentInfo, Change, Found, Match, Millis, Page, Revision};
use crate::results::{bounded, without_excerpts};
use crate::words::{TextQuery, TitleQuery};

/// Default memory of the cache of popular pages, in bytes.
pub const CACHE_BYTES_DEFAULT: usize = 64 << 20;

/// Limit of the concurrent reads; others wait.
const READERS_MAX: usize = 8;

/// A wiki in a SQLite file.
pub struct SqliteDatabase {
    // The order matters: the writer ends before the lock is released.
    writer: Option<Writer>,
    readers: Arc<Readers>,
    pages: Arc<Pages>,
    _lock: Option<File>,
}

/// Idle connections for reads.
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl SqliteDatabase {
    /// Opens the file for reading and writing; creates it, or migrates it to the current version, if needed. The cache
    /// of popular pages takes at most `cache_bytes`.
    ///
    /// # Errors
    ///
    /// The file cannot be used, is not the wiki's, has a later version, or another process writes to it.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let lock = lock(path)?;
        if !path.exists() {
            // If this fails, SQLite says why.
            let _ = create_private(path);
        }
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        let failed = |error: rusqlite::Error| failure("open the database", path, &error);
        schema::check(&connection, path)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(failed)?;
        make_durable(&connection).map_err(failed)?;
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX, |_| Ok(())).map_err(failed)?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES_MAX, |_| Ok(())).map_err(failed)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(failed)?;
        schema::migrate(&mut connection, path)?;
        let pages = Arc::new(Pages::new(cache_bytes));
        let mut backlog = Backlog::load(&connection).map_err(failed)?;
        if backlog.is_full() {
            // A file of an earlier version: with this many texts to read, searches would be slow.
            backlog.index(&mut connection).map_err(failed)?;
        }
        connection.busy_timeout(WRITER_BUSY_TIMEOUT).map_err(failed)?;
        let writer = Writer::start(connection, backlog, Arc::clone(&pages))?;
        Ok(Self { writer: Some(writer), readers: Readers::new(path), pages, _lock: Some(lock) })
    }

    /// Opens an existing file read-only, even while another process writes to it.
    ///
    /// # Errors
    ///
    /// The file does not exist, is not the wiki's, or has another version.
    pub fn open_to_read(path: &Path) -> Result<Self, DatabaseError> {
        let readers = Readers::new(path);
        let connection = readers.take()?;
        schema::check(&connection, path)?;
        if !schema::is_current(&connection).map_err(|error| failure("open the database", path, &error))? {
            let reason =
                format!("{} has the schema of an earlier version: start the wiki with it once", path.display());
            return Err(DatabaseError { action: "open the database", reason, is_temporary: false });
        }
        readers.put_back(connection);
        // Another process may change pages at any time, so nothing is cached.
        Ok(Self { writer: None, readers, pages: Arc::new(Pages::new(0)), _lock: None })
    }

    /// Opens an existing file to change values (accounts, tokens) or to erase, even while a wiki uses it: it caches
    /// neither values nor anything that can be erased, and SQLite serialises writers.
    ///
    /// # Errors
    ///
    /// The file does not exist, is not the wiki's, or has another version.
    pub(crate) fn open_for_upkeep(path: &Path) -> Result<Self, DatabaseError> {
        let mut database = Self::open_to_read(path)?;
        let connection = connect(path, OpenFlags::empty())?;
        make_durable(&connection).map_err(|error| failure("open the database", path, &error))?;
        // The wiki indexes what is not indexed.
        database.writer = Some(Writer::start(connection, Backlog::default(), Arc::clone(&database.pages))?);
        Ok(database)
    }

    /// Copies the current state of the database to the new file `to`, even while the wiki runs.
    ///
    /// # Errors
    ///
    /// `to` exists, or the copy cannot be written completely.
    pub(crate) fn backup(&self, to: &Path) -> Result<(), DatabaseError> {
        let failed = |reason: String| DatabaseError { action: "back up the database", reason, is_temporary: true };
        if to.exists() {
            return Err(failed(format!("{} exists already", to.display())));
        }
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let wrote = |error: &dyn std::fmt::Display| failed(format!("{}: {error}", partial.display()));
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrote(&error)),
            _ => {}
        }
        let text = partial.to_str().ok_or_else(|| failed(format!("{} is not UTF-8", to.display())))?;
        create_private(&partial).map_err(|error| wrote(&error))?;
        // Not one of the readers: a read-only connection refuses to write the copy.
        let connection = connect(&self.readers.path, OpenFlags::empty())?;
        connection.execute("VACUUM INTO ?1", [text]).map_err(|error| wrote(&error))?;
        File::open(&partial).and_then(|file| file.sync_all()).map_err(|error| wrote(&error))?;
        std::fs::rename(&partial, to).map_err(|error| wrote(&error))?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| wrote(&error))
    }

    /// Writes the whole file anew, on a blocking thread.
    async fn rewrite(&self) -> Result<(), DatabaseError> {
        let path = self.readers.path.clone();
        let ended = |error: JoinError| Err(DatabaseError::temporary("rewrite the file", &error.to_string()));
        tokio::task::spawn_blocking(move || rewrite(&path)).await.unwrap_or_else(ended)
    }

    /// Runs `work` on its own connection, on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let ended = |_| DatabaseError::temporary(action, "the database is closing");
        let readers = Arc::clone(&self.readers);
        let permit = Arc::clone(&readers.permits).acquire_owned().await.map_err(ended)?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let connection = readers.take()?;
            let result = work(&connection);
            readers.put_back(connection);
            result.map_err(|error| database_error(action, &error))
        });
        task.await.unwrap_or_else(|error| Err(DatabaseError::temporary(action, &error.to_string())))
    }
}

impl Readers {
    fn new(path: &Path) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Arc::new(Self { path: path.to_owned(), idle: Mutex::default(), permits })
    }

    fn take(&self) -> Result<Connection, DatabaseError> {
        if let Some(connection) = self.idle.lock().pop() {
            return Ok(connection);
        }
        self.connect()
    }

    fn connect(&self) -> Result<Connection, DatabaseError> {
        let connection = connect(&self.path, OpenFlags::empty())?;
        let only_reads = connection.pragma_update(None, "query_only", true);
        only_reads.map_err(|error| failure("open the database", &self.path, &error))?;
        Ok(connection)
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < READERS_MAX {
            idle.push(connection);
        }
    }
}

/// Only one process may write: the cache of another one would not see its writes.
fn lock(path: &Path) -> Result<File, DatabaseError> {
    let failed = |reason: String, is_temporary| DatabaseError { action: "open the database", reason, is_temporary };
    let mut name =
        real_path(path).map_err(|error| failed(format!("{}: {error}", path.display()), false))?.into_os_string();
    name.push("-lock");
    let name = PathBuf::from(name);
    let file = File::options().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|error| failed(format!("{}: {error}", name.display()), false))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(failed(format!("another process writes to {}; stop it first", path.display()), true))
        }
        Err(TryLockError::Error(error)) => Err(failed(format!("{}: {error}", name.display()), false)),
    }
}

/// The path without symbolic links, each of which would have another lock; the file may not exist yet.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match path.read_link() {
                // SQLite creates the file to which it points.
                Ok(target) => real_path(&folder.join(target)),
                Err(_) => Ok(folder.canonicalize()?.join(path.file_name().ok_or(error)?)),
            }
        }
        found => found,
    }
}

#[async_trait]
impl Database for SqliteDatabase {
    fn queue(&self) -> Result<&OperationQueue, DatabaseError> {
        self.writer.as_ref().and_then(Writer::queue).ok_or_else(DatabaseError::open_read_only)
    }

    async fn page(&self, name: &Name) -> Result<Found, DatabaseError> {
        if let Some(page) = self.page_in_memory(name) {
            return Ok(Found::Page(page));
        }
        let (name, pages) = (name.clone(), Arc::clone(&self.pages));
        let work = move |connection: &Connection| {
            let start = pages.start_read();
            let found = read::found(connection, &name)?;
            if let Found::Page(page) = &found {
                pages.add(start, page);
            }
            Ok(found)
        };
        self.read("read a page", work).await
    }

    fn page_in_memory(&self, name: &Name) -> Option<Arc<Page>> {
        self.pages.page(name)
    }

    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError> {
        let name = name.clone();
        self.read("read a revision", move |connection| read::revision(connection, &name, revision)).await
    }

    async fn history(
        &self,
        name: &Name,
        before: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError> {
        let (name, limit) = (name.clone(), bounded(limit));
        self.read("read a history", move |connection| read::history(connection, &name, before, limit)).await
    }

    async fn file_history(
        &self,
        name: &Name,
        file: &Name,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError> {
        let (name, file, limit) = (name.clone(), file.clone(), bounded(limit));
        let work = move |connection: &Connection| read::file_history(connection, &name, &file, before, limit);
        self.read("read a history", work).await
    }

    async fn file_version(
        &self,
        name: &Name,
        file: &Name,
        sequence: u64,
    ) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError> {
        let (name, file) = (name.clone(), file.clone());
        let work = move |connection: &Connection| read::file_version(connection, &name, &file, sequence);
        self.read("read an attachment", work).await
    }

    async fn backlinks(&self, name: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError> {
        let (name, after, limit) = (name.clone(), after.cloned(), bounded(limit));
        let work = move |connection: &Connection| read::backlinks(connection, &name, after.as_ref(), limit);
        self.read("list the links to a page", work).await
    }

    async fn list(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError> {
        let (after, limit) = (after.cloned(), bounded(limit));
        self.read("list the pages", move |connection| read::list(connection, after.as_ref(), limit)).await
    }

    async fn recent(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError> {
        let limit = bounded(limit);
        self.read("list the changes", move |connection| read::recent(connection, before, limit)).await
    }

    async fn search_titles(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError> {
        let (Some(query), limit) = (TitleQuery::parse(text), bounded(limit)) else { return Ok(Vec::new()) };
        let work = move |connection: &Connection| search::titles(connection, &query, limit);
        Ok(search::names(&self.read("search the titles", work).await?))
    }

    async fn search_text(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError> {
        let Some(query) = TextQuery::parse(text) else { return Ok(Vec::new()) };
        let (title, limit) = (TitleQuery::parse(text), bounded(limit));
        let work = move |connection: &Connection| search::texts(connection, &query, title.as_ref(), limit);
        self.read("search the texts", work).await
    }

    async fn search_fields(
        &self,
        path: &str,
        value: Option<&Value>,
        limit: usize,
    ) -> Result<Vec<Match>, DatabaseError> {
        let (path, value, limit) = (path.to_owned(), value.cloned(), bounded(limit));
        let work = move |connection: &Connection| read::by_fields(connection, &path, value.as_ref(), limit);
        self.read("search the fields", work).await.map(without_excerpts)
    }

    async fn attachments(
        &self,
        name: &Name,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<AttachmentInfo>, DatabaseError> {
        let (name, after, limit) = (name.clone(), after.cloned(), bounded(limit));
        let work = move |connection: &Connection| read::attachments(connection, &name, after.as_ref(), limit);
        self.read("list the attachments", work).await
    }

    async fn attachment_info(&self, name: &Name, file: &Name) -> Result<Option<AttachmentInfo>, DatabaseError> {
        let (name, file) = (name.clone(), file.clone());
        self.read("read an attachment", move |connection| read::attachment_info(connection, &name, &file)).await
    }

    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError> {
        let (name, file) = (name.clone(), file.clone());
        self.read("read an attachment", move |connection| read::attachment(connection, &name, &file)).await
    }

    async fn erase(&self, targets: &[Target], time: Millis) -> Result<Vec<Target>, EraseError> {
        let others = self.queue()?.erase(targets, time).await?;
        match self.rewrite().await {
            Ok(()) => Ok(others),
            Err(error) if others.is_empty() => Err(error.into()),
            // An erasure that is repeated no longer finds them.
            Err(error) => {
                let reason = format!("{}; {}", error.reason, remaining(&others));
                Err(DatabaseError { reason, ..error }.into())
            }
        }
    }

    async fn erase_author(&self, author: &str) -> Result<u64, DatabaseError> {
        let count = self.queue()?.erase_author(author).await?;
        self.rewrite().await?;
        Ok(count)
    }

    async fn queued_purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError> {
        let (edge, limit) = (edge.to_owned(), bounded(limit));
        self.read("read the queue of purges", move |connection| read::queued_purges(connection, &edge, limit)).await
    }

    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError> {
        let key = key.to_owned();
        self.read("read a value", move |connection| read::value(connection, &key)).await
    }

    async fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, DatabaseError> {
        let prefix = prefix.to_owned();
        self.read("read the values", move |connection| read::values(connection, &prefix)).await
    }

    async fn ping(&self) -> Result<(), DatabaseError> {
        if self.writer.is_some() && !self.queue()?.is_open() {
            return Err(DatabaseError::temporary("reach the database", "the writer thread has ended"));
        }
        self.read("reach the database", |connection| read::one::<i64>(connection, "SELECT 1", &[])).await.map(|_| ())
    }

    async fn verify(&self) -> Result<Vec<String>, DatabaseError> {
        let readers = Arc::clone(&self.readers);
        let verify = move || {
            // A separate connection: the check of FTS5 trusts what its connection cached of the index.
            let connection = readers.connect()?;
            verify::faults(&connection).map_err(|error| database_error("verify the database", &error))
        };
        let task = tokio::task::spawn_blocking(verify);
        task.await.unwrap_or_else(|error| Err(DatabaseError::temporary("verify the database", &error.to_string())))
    }
}
