//! The queue of operations that change a database, and their grouping into transactions.

use tokio::sync::{mpsc, oneshot};

use super::prepared_write::{Prepared, Texts};
use crate::erasure::{EraseError, Target};
use crate::error::{DatabaseError, WriteError};
use crate::inversion::Inversion;
use crate::page::{Committed, Condition, Millis, Write, WriteAction};
use crate::postings::Postings;

/// Limit of the operations queued for the next transaction; further ones wait.
const QUEUED_MAX: usize = 1024;

/// Limit of the operations in one transaction.
const BATCH_OPERATIONS_MAX: usize = 256;

/// No operation is added to a transaction with this many bytes of texts and attachments.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Limits of the writes in one transaction of an import, and of their approximate memory. The larger a transaction, the
/// less often a page of the file is written, and the fewer parts of the search indexes are merged. While one is
/// executed, the next is prepared: two are in memory, 512 MiB. With SQLite's cache, an import of pages of 5 kB took 1.0
/// GB at most.
const IMPORT_WRITES_MAX: usize = 32_768;
const IMPORT_BYTES_MAX: usize = 256 << 20;

/// Larger texts and attachments are prepared for a write on a blocking thread.
const PREPARED_INLINE_BYTES_MAX: usize = 64 << 10;

/// The writes of an import.
pub type Writes = Box<dyn Iterator<Item = Write> + Send>;

/// The writes of one transaction of an import.
pub(crate) struct Import {
    pub(crate) writes: Vec<Prepared>,
    /// The words of all texts, each with the writes that contain it, counted from 1; empty if each write has its words.
    pub(crate) words: Vec<(Box<str>, Postings)>,
}

pub(crate) enum Operation {
    Write(Box<Prepared>),
    Import(Import),
    SetEdges(Vec<String>),
    Purge(String),
    Purged { edge: String, through: u64 },
    SetValue { key: String, expected: Option<Option<String>>, value: Option<String> },
    Erase { targets: Vec<Target>, time: Millis },
    EraseAuthor(String),
}

#[derive(Debug)]
pub(crate) enum OperationOutcome {
    Committed(Committed),
    /// How many writes an import executed, or how many changes had an author.
    Counted(u64),
    /// Other places of the erased bytes.
    Erased(Result<Vec<Target>, EraseError>),
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
            Self::SetEdges(_)
            | Self::Purge(_)
            | Self::Purged { .. }
            | Self::SetValue { .. }
            | Self::Erase { .. }
            | Self::EraseAuthor(_) => 0,
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
pub struct OperationQueue {
    jobs: mpsc::Sender<Job>,
    texts: Texts,
}

impl OperationQueue {
    pub(crate) fn new(texts: Texts) -> (Self, mpsc::Receiver<Job>) {
        let (jobs, receiver) = mpsc::channel(QUEUED_MAX);
        (Self { jobs, texts }, receiver)
    }

    /// See [`Database::write`](crate::Database::write).
    pub(crate) async fn write(&self, write: Write) -> Result<Committed, WriteError> {
        let operation = Operation::Write(Box::new(prepare(write, self.texts).await?));
        Ok(self.carry_out(operation).await?.committed()?)
    }

    /// See [`Database::import`](crate::Database::import).
    pub(crate) async fn import(&self, writes: Writes) -> Result<u64, DatabaseError> {
        in_chunks(writes, self.texts, |chunk| async { self.change(Operation::Import(chunk)).await?.counted() }).await
    }

    /// See [`Database::erase`](crate::Database::erase).
    pub(crate) async fn erase(&self, targets: &[Target], time: Millis) -> Result<Vec<Target>, EraseError> {
        self.change(Operation::Erase { targets: targets.to_vec(), time }).await?.erased()?
    }

    /// See [`Database::erase_author`](crate::Database::erase_author).
    pub(crate) async fn erase_author(&self, author: &str) -> Result<u64, DatabaseError> {
        self.change(Operation::EraseAuthor(author.to_owned())).await?.counted()
    }

    /// See [`Database::queue_purge`](crate::Database::queue_purge).
    pub(crate) async fn queue_purge(&self, key: &str) -> Result<(), DatabaseError> {
        self.change(Operation::Purge(key.to_owned())).await.map(|_| ())
    }

    /// See [`Database::confirm_purges`](crate::Database::confirm_purges).
    pub(crate) async fn confirm_purges(&self, edge: &str, through: u64) -> Result<(), DatabaseError> {
        self.change(Operation::Purged { edge: edge.to_owned(), through }).await.map(|_| ())
    }

    /// See [`Database::set_edges`](crate::Database::set_edges).
    pub(crate) async fn set_edges(&self, edges: &[String]) -> Result<(), DatabaseError> {
        self.change(Operation::SetEdges(edges.to_vec())).await.map(|_| ())
    }

    /// See [`Database::set_value`](crate::Database::set_value).
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

    fn counted(self) -> Result<u64, DatabaseError> {
        if let Self::Counted(count) = self { Ok(count) } else { Err(self.unexpected()) }
    }

    fn erased(self) -> Result<Result<Vec<Target>, EraseError>, DatabaseError> {
        if let Self::Erased(erased) = self { Ok(erased) } else { Err(self.unexpected()) }
    }

    fn done(self) -> Result<bool, DatabaseError> {
        if let Self::Done(changed) = self { Ok(changed) } else { Err(self.unexpected()) }
    }

    fn unexpected(self) -> DatabaseError {
        DatabaseError { action: "write", reason: format!("the writer returned {self:?}"), is_temporary: false }
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

async fn prepare(write: Write, texts: Texts) -> Result<Prepared, DatabaseError> {
    if Prepared::input_bytes(&write) <= PREPARED_INLINE_BYTES_MAX {
        return Prepared::new(write, texts);
    }
    let task = tokio::task::spawn_blocking(move || Prepared::new(write, texts));
    task.await.unwrap_or_else(|error| Err(DatabaseError::temporary("write", &error.to_string())))
}

/// Prepares the writes of an import, one chunk while the previous one is executed.
async fn in_chunks<F>(writes: Writes, texts: Texts, carry_out: impl Fn(Import) -> F) -> Result<u64, DatabaseError>
where
    F: Future<Output = Result<u64, DatabaseError>>,
{
    let prepare = |mut writes: Writes| tokio::task::spawn_blocking(move || (chunk(&mut writes, texts), writes));
    let mut next = prepare(writes);
    let mut count = 0;
    loop {
        let (chunk, rest) = next.await.map_err(|error| DatabaseError::temporary("import", &error.to_string()))?;
        let chunk = chunk?;
        if chunk.writes.is_empty() {
            return Ok(count);
        }
        next = prepare(rest);
        count += carry_out(chunk).await?;
    }
}

/// The writes of one transaction.
fn chunk(writes: &mut Writes, texts: Texts) -> Result<Import, DatabaseError> {
    let mut chunk = Vec::new();
    let mut words = Inversion::default();
    let mut bytes = 0;
    while chunk.len() < IMPORT_WRITES_MAX && bytes < IMPORT_BYTES_MAX {
        let Some(write) = writes.next() else { break };
        let prepared = Prepared::new(Write { condition: Condition::Any, ..write }, texts)?;
        bytes += prepared.bytes();
        chunk.push(prepared);
        if let (Texts::Together, Some(prepared)) = (texts, chunk.last())
            && let WriteAction::Save { content, .. } = &prepared.write.action
        {
            words.add(chunk.len() as u64, prepared.write.name.as_str(), &content.text);
        }
    }
    Ok(Import { writes: chunk, words: words.into_sorted() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::page::Content;

    fn save(number: usize, text: &str) -> Write {
        let content = Content { text: text.to_owned(), ..Content::default() };
        Write {
            name: Name::parse(&format!("P{number}")).unwrap(),
            condition: Condition::Absent,
            action: WriteAction::Save { content, links: Vec::new() },
            author: None,
            comment: String::new(),
            time: 0,
        }
    }

    #[test]
    fn the_transactions_of_an_import_are_bounded() {
        let lengths = |count: usize, text: &'static str| {
            let mut writes: Writes = Box::new((0..count).map(move |number| save(number, text)));
            let mut numbers = 0..;
            let mut length = || {
                let chunk = chunk(&mut writes, Texts::OneByOne).unwrap().writes;
                let expected = numbers.by_ref().take(chunk.len()).map(|number| format!("P{number}"));
                assert!(chunk.iter().map(|prepared| prepared.write.name.as_str().to_owned()).eq(expected));
                chunk.len()
            };
            std::iter::from_fn(|| Some(length()).filter(|length| *length > 0)).collect::<Vec<usize>>()
        };
        assert_eq!(lengths(2 * IMPORT_WRITES_MAX + 7, "x"), [IMPORT_WRITES_MAX, IMPORT_WRITES_MAX, 7]);
        let long: &'static str = Box::leak("x".repeat(IMPORT_BYTES_MAX / 8).into());
        assert_eq!(lengths(6, long), [4, 2], "texts count twice: what is indexed of them needs memory too");
        assert!(lengths(0, "").is_empty());
    }
}
