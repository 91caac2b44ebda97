//! The wiki's pages in PostgreSQL, which several wikis may share.
//!
//! Nothing is cached, so that a read sees every acknowledged write of every wiki. Queued writes of one wiki share a
//! transaction; transactions of several wikis are serialised.

mod batch;
mod connections;
mod error;
mod read;
mod schema;
mod tls;
mod verify;
mod writer;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_postgres::{Object, Pool};
use serde_json::Value;

use self::connections::{client, pool, within};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::name::Name;
use crate::operation::OperationQueue;
use crate::page::{AttachmentInfo, Change, Found, Match, Revision};
use crate::results::{bounded, without_excerpts};
use crate::words::{TextQuery, TitleQuery};

/// Time limit of a read. An unresponsive server keeps its connections, and nothing else ends them.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A wiki in a PostgreSQL database, in the schema `wiki`.
pub struct PostgresDatabase {
    pool: Pool,
    /// `None` if it is open read-only.
    queue: Option<OperationQueue>,
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
    fn queue(&self) -> Result<&OperationQueue, DatabaseError> {
        self.queue.as_ref().ok_or_else(DatabaseError::open_read_only)
    }

    async fn page(&self, name: &Name) -> Result<Found, DatabaseError> {
        read!(self, "read a page", found, name)
    }

    async fn revision(&self, name: &Name, revision: u64) -> Result<Option<Revision>, DatabaseError> {
        read!(self, "read a revision", revision, name, revision)
    }

    async fn history(
        &self,
        name: &Name,
        before: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError> {
        read!(self, "read a history", history, name, before, bounded(limit))
    }

    async fn file_history(
        &self,
        name: &Name,
        file: &Name,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, DatabaseError> {
        read!(self, "read a history", file_history, name, file, before, bounded(limit))
    }

    async fn file_version(
        &self,
        name: &Name,
        file: &Name,
        sequence: u64,
    ) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError> {
        read!(self, "read an attachment", file_version, name, file, sequence)
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

    async fn attachments(
        &self,
        name: &Name,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<AttachmentInfo>, DatabaseError> {
        read!(self, "list the attachments", attachments, name, after, bounded(limit))
    }

    async fn attachment_info(&self, name: &Name, file: &Name) -> Result<Option<AttachmentInfo>, DatabaseError> {
        read!(self, "read an attachment", attachment_info, name, file)
    }

    async fn attachment(&self, name: &Name, file: &Name) -> Result<Option<(AttachmentInfo, Bytes)>, DatabaseError> {
        read!(self, "read an attachment", attachment, name, file)
    }

    async fn queued_purges(&self, edge: &str, limit: usize) -> Result<Vec<(u64, String)>, DatabaseError> {
        if edge.contains('\0') {
            return Ok(Vec::new());
        }
        read!(self, "read the queue of purges", queued_purges, edge, bounded(limit))
    }

    async fn value(&self, key: &str) -> Result<Option<String>, DatabaseError> {
        if key.contains('\0') {
            return Ok(None);
        }
        read!(self, "read a value", value, key)
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
