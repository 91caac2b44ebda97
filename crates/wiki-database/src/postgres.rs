//! The wiki's pages in PostgreSQL, which several wikis may share.
//!
//! Nothing is cached, so that a read sees every acknowledged write of every wiki. Queued writes of one wiki share a
//! transaction; transactions of several wikis are serialised.

mod batch;
mod read;
mod schema;
mod tls;
mod verify;
mod writer;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use serde_json::Value;
use tokio_postgres::error::SqlState;

use super::operation::OperationQueue;
use super::words::{TextQuery, TitleQuery};
use super::{Database, DatabaseError, WriteError, Writes, bounded, without_excerpts};
use crate::name::Name;
use crate::page::{AttachmentInfo, Change, Committed, Found, Match, Revision, Write};

/// Limit of the connections to the server.
const CONNECTIONS_MAX: usize = 16;

/// Time limit for connecting, and for waiting for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a read. An unresponsive server keeps its connections, and nothing else ends them.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a transaction of writes, including waiting for those of other wikis. An import has none.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A wiki in a PostgreSQL database, in the schema `wiki`.
pub struct PostgresDatabase {
    pool: Pool,
    /// `None` if it is open read-only.
    queue: Option<OperationQueue>,
}

/// Why an operation on PostgreSQL failed.
enum Error {
    Pool(PoolError),
    Postgres(tokio_postgres::Error),
    /// No response in this time.
    Timeout(Duration),
    /// Stored data that the wiki did not write.
    Content(String),
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl Error {
    fn describe(&self, action: &'static str) -> DatabaseError {
        match self {
            Self::Pool(PoolError::Backend(error)) | Self::Postgres(error) => failure(action, error),
            Self::Pool(error) => DatabaseError::temporary(action, &error.to_string()),
            Self::Timeout(limit) => {
                DatabaseError::temporary(action, &format!("PostgreSQL did not respond within {limit:?}"))
            }
            Self::Content(reason) => DatabaseError { action, reason: reason.clone(), is_temporary: false },
        }
    }

    /// Whether the connection failed, rather than a statement.
    fn is_connection(&self) -> bool {
        match self {
            Self::Pool(_) | Self::Timeout(_) => true,
            Self::Postgres(error) => error.as_db_error().is_none(),
            Self::Content(_) => false,
        }
    }
}

fn failure(action: &'static str, error: &tokio_postgres::Error) -> DatabaseError {
    let Some(reported) = error.as_db_error() else {
        // The source contains the operating system's message.
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        return DatabaseError { action, reason: format!("PostgreSQL: {error}{source}"), is_temporary: true };
    };
    // Connection, resources, operator's intervention, serialisation; see the manual's table of error codes.
    let is_temporary = ["08", "53", "57", "40"].iter().any(|class| reported.code().code().starts_with(class))
        || *reported.code() == SqlState::READ_ONLY_SQL_TRANSACTION;
    DatabaseError { action, reason: format!("PostgreSQL: {}", reported.message()), is_temporary }
}

impl PostgresDatabase {
    /// Connects to the database of the URL `postgres://USER@HOST/NAME` (the forms of libpq), creates the schema `wiki`,
    /// or migrates it to the current version, if needed. Requires a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The server is unreachable or fails the verification that the URL requires, or the schema has a later version.
    pub async fn open(url: &str) -> Result<Self, DatabaseError> {
        let pool = pool(url)?;
        schema::migrate(&mut client(&pool, "open the database").await?).await?;
        let queue = Some(writer::start(pool.clone()));
        Ok(Self { pool, queue })
    }

    /// Connects read-only to the database of an existing wiki.
    ///
    /// # Errors
    ///
    /// Those of [`PostgresDatabase::open`], and a schema of an earlier version.
    pub async fn open_to_read(url: &str) -> Result<Self, DatabaseError> {
        let pool = pool(url)?;
        schema::require_current(&client(&pool, "open the database").await?).await?;
        Ok(Self { pool, queue: None })
    }

    async fn client(&self, action: &'static str) -> Result<Object, DatabaseError> {
        client(&self.pool, action).await
    }

    fn queue(&self) -> Result<&OperationQueue, DatabaseError> {
        self.queue.as_ref().ok_or_else(DatabaseError::open_for_reading)
    }
}

async fn client(pool: &Pool, action: &'static str) -> Result<Object, DatabaseError> {
    pool.get().await.map_err(|error| Error::from(error).describe(action))
}

/// Runs `work` with a time limit; closes its connection when that is exceeded.
async fn within<T>(
    limit: Duration,
    client: Object,
    work: impl AsyncFnOnce(&mut Object) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut client = client;
    let ended = tokio::time::timeout(limit, work(&mut client)).await;
    ended.unwrap_or_else(|_| {
        drop(Object::take(client));
        Err(Error::Timeout(limit))
    })
}

fn pool(url: &str) -> Result<Pool, DatabaseError> {
    let refused = |reason: String| DatabaseError { action: "open the database", reason, is_temporary: false };
    let (mut config, tls) = tls::configure(url).map_err(|error| refused(error.to_string()))?;
    config.application_name("breme wiki").connect_timeout(CONNECT_TIMEOUT);
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager).max_size(CONNECTIONS_MAX).runtime(Runtime::Tokio1);
    pool.wait_timeout(Some(CONNECT_TIMEOUT)).build().map_err(|error| refused(error.to_string()))
}

/// Executes a read on a connection of the pool.
macro_rules! read {
    ($self:ident, $action:literal, $read:ident $(, $argument:expr)*) => {
        within(READ_TIMEOUT, $self.client($action).await?, async |client| read::$read(&*client $(, $argument)*).await)
            .await
            .map_err(|error| error.describe($action))
    };
}

#[async_trait]
impl Database for PostgresDatabase {
    async fn page(&self, name: &Name) -> Result<Found, DatabaseError> {
        read!(self, "read a page", found, name)
    }

    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError> {
        read!(self, "read a revision", revision, name, revision)
    }

    async fn history(&self, name: &Name, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError> {
        read!(self, "read a history", history, name, before, bounded(limit))
    }

    async fn backlinks(&self, name: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError> {
        read!(self, "list the links to a page", backlinks, name, after, bounded(limit))
    }

    async fn list(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Name>, DatabaseError> {
        read!(self, "list the pages", list, after, bounded(limit))
    }

    async fn recent(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>, DatabaseError> {
        read!(self, "list the changes", recent, before, bounded(limit))
    }

    async fn search_titles(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError> {
        let Some(query) = TitleQuery::parse(text) else { return Ok(Vec::new()) };
        read!(self, "search the titles", titles, &query, bounded(limit)).map(without_excerpts)
    }

    async fn search_text(&self, text: &str, limit: usize) -> Result<Vec<Match>, DatabaseError> {
        let Some(query) = TextQuery::parse(text) else { return Ok(Vec::new()) };
        let title = TitleQuery::parse(text);
        read!(self, "search the texts", texts, &query, title.as_ref(), bounded(limit))
    }

    async fn search_fields(
        &self,
        path: &str,
        value: Option<&Value>,
        limit: usize,
    ) -> Result<Vec<Match>, DatabaseError> {
        read!(self, "search the fields", by_fields, path, value, bounded(limit)).map(without_excerpts)
    }

    async fn attachments(&self, name: &Name) -> Result<Vec<AttachmentInfo>, DatabaseError> {
        read!(self, "list the attachments", attachments, name)
    }

    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError> {
        read!(self, "read an attachment", attachment, name, file)
    }

    async fn write(&self, write: Write) -> Result<Committed, WriteError> {
        self.queue()?.write(write).await
    }

    async fn import(&self, writes: Writes) -> Result<u64, DatabaseError> {
        self.queue()?.import(writes).await
    }

    async fn purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError> {
        if edge.contains('\0') {
            return Ok(Vec::new());
        }
        read!(self, "read the queue of purges", purges, edge, bounded(limit))
    }

    async fn purge(&self, key: &str) -> Result<(), DatabaseError> {
        self.queue()?.purge(key).await
    }

    async fn purged(&self, edge: &str, through: u64) -> Result<(), DatabaseError> {
        self.queue()?.purged(edge, through).await
    }

    async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError> {
        self.queue()?.set_edges(edges).await
    }

    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError> {
        if key.contains('\0') {
            return Ok(None);
        }
        read!(self, "read a value", value, key)
    }

    async fn set_value(
        &self,
        key: &str,
        expected: Option<Option<&str>>,
        value: Option<&str>,
    ) -> Result<bool, DatabaseError> {
        self.queue()?.set_value(key, expected, value).await
    }

    async fn values(&self, prefix: &str) -> Result<Vec<(String, String)>, DatabaseError> {
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        read!(self, "read the values", values, prefix)
    }

    async fn ping(&self) -> Result<(), DatabaseError> {
        read!(self, "reach the database", rows, "SELECT 1", &[]).map(|_| ())
    }

    async fn verify(&self) -> Result<Vec<String>, DatabaseError> {
        const ACTION: &str = "verify the database";
        verify::faults(&self.client(ACTION).await?).await.map_err(|error| error.describe(ACTION))
    }
}
