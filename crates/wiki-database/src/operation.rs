//! The queue of operations that change a database, and their grouping into transactions.

use tokio::sync::{mpsc, oneshot};

use super::prepared_write::Prepared;
use super::sqlite::postings::Postings;
use super::{DatabaseError, WriteError, Writes, in_chunks, prepare};
use crate::page::{Committed, Write};

/// Limit of the operations queued for the next transaction; further ones wait.
const QUEUED_MAX: usize = 1024;

/// Limit of the operations in one transaction.
const BATCH_OPERATIONS_MAX: usize = 256;

/// No operation is added to a transaction with this many bytes of texts and attachments.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// The writes of one transaction of an import.
pub(crate) struct Import {
    pub(crate) writes: Vec<Prepared>,
    /// The words of all texts, each with the writes that contain it, counted from 1; empty if each write has its words.
    pub(crate) words: Vec<(Box<str>, Postings)>,
}

/// How an engine indexes the words of texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// One by one, when they are written.
    OneByOne,
    /// In groups: those of an import with their transaction, others later.
    Together,
}

pub(crate) enum Operation {
    Write(Box<Prepared>),
    Import(Import),
    SetEdges(Vec<String>),
    Purge(String),
    Purged { edge: String, through: u64 },
    SetValue { key: String, expected: Option<Option<String>>, value: Option<String> },
}

#[derive(Debug)]
pub(crate) enum OperationOutcome {
    Committed(Committed),
    Imported(u64),
    /// Whether the operation changed anything.
    Done(bool),
}

/// The outcome of an operation, or its refusal by the rules of the wiki, in which case it changed nothing.
pub(crate) type OperationResult = Result<OperationOutcome, WriteError>;

/// An operation that waits for its transaction.
pub(crate) struct Job {
    pub(crate) operation: Operation,
    reply: oneshot::Sender<OperationResult>,
}

impl Operation {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(prepared) => prepared.bytes(),
            Self::Import(import) => import.writes.iter().map(Prepared::bytes).sum(),
            Self::SetEdges(_) | Self::Purge(_) | Self::Purged { .. } | Self::SetValue { .. } => 0,
        }
    }
}

impl Job {
    pub(crate) fn respond(self, result: OperationResult) {
        // If the caller has stopped waiting, the operation is done nevertheless.
        let _ = self.reply.send(result);
    }
}

/// The sending end of the queue.
pub(crate) struct OperationQueue {
    jobs: mpsc::Sender<Job>,
    texts: Texts,
}

impl OperationQueue {
    pub(crate) fn new(texts: Texts) -> (Self, mpsc::Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel(QUEUED_MAX);
        (Self { jobs, texts }, receiver)
    }

    /// See [`Database::write`](super::Database::write).
    pub(crate) async fn write(&self, write: Write) -> Result<Committed, WriteError> {
        let operation = Operation::Write(Box::new(prepare(write, self.texts).await?));
        Ok(self.carry_out(operation).await?.committed()?)
    }

    /// See [`Database::import`](super::Database::import).
    pub(crate) async fn import(&self, writes: Writes) -> Result<u64, DatabaseError> {
        in_chunks(writes, self.texts, |chunk| async { self.change(Operation::Import(chunk)).await?.imported() }).await
    }

    /// See [`Database::purge`](super::Database::purge).
    pub(crate) async fn purge(&self, key: &str) -> Result<(), DatabaseError> {
        self.change(Operation::Purge(key.to_owned())).await.map(|_| ())
    }

    /// See [`Database::purged`](super::Database::purged).
    pub(crate) async fn purged(&self, edge: &str, through: u64) -> Result<(), DatabaseError> {
        self.change(Operation::Purged { edge: edge.to_owned(), through }).await.map(|_| ())
    }

    /// See [`Database::set_edges`](super::Database::set_edges).
    pub(crate) async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError> {
        self.change(Operation::SetEdges(edges.to_vec())).await.map(|_| ())
    }

    /// See [`Database::set_value`](super::Database::set_value).
    pub(crate) async fn set_value(
        &self,
        key: &str,
        expected: Option<Option<&str>>,
        value: Option<&str>,
    ) -> Result<bool, DatabaseError> {
        let expected = expected.map(|expected| expected.map(str::to_owned));
        let operation = Operation::SetValue { key: key.to_owned(), expected, value: value.map(str::to_owned) };
        self.change(operation).await?.done()
    }

    async fn carry_out(&self, operation: Operation) -> OperationResult {
        let (reply, response) = oneshot::channel();
        let ended = || WriteError::from(DatabaseError::temporary("write", "the writer has ended"));
        self.jobs.send(Job { operation, reply }).await.map_err(|_| ended())?;
        response.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Executes an operation that the rules of the wiki never refuse.
    async fn change(&self, operation: Operation) -> Result<OperationOutcome, DatabaseError> {
        self.carry_out(operation).await.map_err(|error| match error {
            WriteError::Database(error) => error,
            refused => DatabaseError { action: "write", reason: format!("refused: {refused:?}"), is_temporary: false },
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.jobs.is_closed()
    }
}

impl OperationOutcome {
    fn committed(self) -> Result<Committed, DatabaseError> {
        if let Self::Committed(committed) = self { Ok(committed) } else { Err(self.unexpected()) }
    }

    fn imported(self) -> Result<u64, DatabaseError> {
        if let Self::Imported(count) = self { Ok(count) } else { Err(self.unexpected()) }
    }

    fn done(self) -> Result<bool, DatabaseError> {
        if let Self::Done(changed) = self { Ok(changed) } else { Err(self.unexpected()) }
    }

    fn unexpected(self) -> DatabaseError {
        DatabaseError { action: "write", reason: format!("the writer answered {self:?}"), is_temporary: false }
    }
}

/// The queued operations that fit into one transaction with `first`.
pub(crate) fn batch(first: Job, queue: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut bytes = first.operation.bytes();
    let mut jobs = vec![first];
    while jobs.len() < BATCH_OPERATIONS_MAX && bytes < BATCH_BYTES_MAX {
        let Ok(next) = queue.try_recv() else { break };
        bytes += next.operation.bytes();
        jobs.push(next);
    }
    jobs
}
