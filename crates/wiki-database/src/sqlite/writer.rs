//! The writer thread: it executes all queued operations as one transaction, and responds after the commit.

use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::backlog::{Backlog, IDLE};
use super::batch::{Batch, Changed};
use super::cache::Pages;
use super::connection::{IMPORT_CACHE_KIB, WRITER_CACHE_KIB, database_error};
use super::word_index;
use crate::error::{DatabaseError, WriteError};
use crate::operation::{Job, Operation, OperationQueue, OperationResult, batch};
use crate::prepared_write::Texts;

/// A handle of the thread. When it is dropped, the thread ends after its last job.
pub(super) struct Writer {
    queue: Option<OperationQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which indexes the pages of `backlog` and those that are written.
    pub(super) fn start(connection: Connection, backlog: Backlog, pages: Arc<Pages>) -> Result<Self, DatabaseError> {
        let (queue, jobs) = OperationQueue::new(Texts::Together);
        let failed = |error: std::io::Error| DatabaseError::temporary("start the writer thread", &error.to_string());
        let file = OpenFile { connection, backlog, pages };
        let (started, is_started) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            // Only for its clock. A runtime must be dropped where blocking is allowed, so it is created here.
            match Builder::new_current_thread().enable_time().build() {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    run(file, &runtime, jobs);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name(String::from("wiki-writer")).spawn(run).map_err(failed)?;
        is_started.recv().unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(failed)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn queue(&self) -> Option<&OperationQueue> {
        self.queue.as_ref()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been reported when it occurred.
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct OpenFile {
    connection: Connection,
    backlog: Backlog,
    pages: Arc<Pages>,
}

fn run(mut file: OpenFile, runtime: &Runtime, mut queue: mpsc::Receiver<Job>) {
    let mut imported = false;
    loop {
        let first = match file.backlog.is_empty() {
            true => queue.blocking_recv(),
            false => match runtime.block_on(async { timeout(IDLE, queue.recv()).await }) {
                Ok(first) => first,
                Err(_) => {
                    file.index();
                    continue;
                }
            },
        };
        let Some(first) = first else { break };
        let jobs = batch(first, &mut queue);
        let imports = jobs.iter().any(|job| matches!(job.operation, Operation::Import(_)));
        if imports != imported {
            // The size of the cache only affects the speed, so errors are ignored.
            let _ = set_cache(&file.connection, imports);
            imported = imports;
        }
        file.carry_out(jobs);
        if imports {
            file.merge();
        }
        if file.backlog.is_full() {
            file.index();
        }
    }
    file.index();
    // Statistics for the query planner; without them, queries are only slower.
    let _ = file.connection.execute_batch("PRAGMA optimize");
}

/// An import updates the indexes of names in random order: the more of their pages are cached, the fewer are written
/// twice. The memory is released afterwards.
fn set_cache(connection: &Connection, imports: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -if imports { IMPORT_CACHE_KIB } else { WRITER_CACHE_KIB })?;
    connection.execute_batch("PRAGMA shrink_memory")
}

impl OpenFile {
    /// Executes all jobs in one transaction; if that fails, each in its own, so that only the faulty one fails. If
    /// another program holds the lock, all fail: each would wait for it again.
    fn carry_out(&mut self, jobs: Vec<Job>) {
        match self.transact(&jobs) {
            Ok(results) => jobs.into_iter().zip(results).for_each(|(job, result)| job.respond(result)),
            Err(error) if jobs.len() > 1 && error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                jobs.into_iter().for_each(|job| self.carry_out(vec![job]));
            }
            Err(error) => {
                for job in jobs {
                    job.respond(Err(WriteError::Database(database_error("write", &error))));
                }
            }
        }
    }

    fn transact(&mut self, jobs: &[Job]) -> rusqlite::Result<Vec<OperationResult>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut batch = Batch::new(&transaction)?;
        let results = jobs
            .iter()
            .map(|job| batch.carry_out(&job.operation))
            .collect::<rusqlite::Result<Vec<OperationResult>>>()?;
        let Changed { pages, unindexed } = batch.finish()?;
        self.pages.start_commit(pages.iter());
        let committed = transaction.commit();
        self.pages.end_commit();
        committed?;
        self.backlog.add(unindexed);
        Ok(results)
    }

    fn index(&mut self) {
        // If it fails, as on a full disk, the pages remain in the backlog, which searches read.
        let _ = self.backlog.index(&mut self.connection);
    }

    fn merge(&mut self) {
        // If it fails, searches read more segments.
        let _ = word_index::merge(&mut self.connection);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::SqliteDatabase;
    use super::*;

    static WAITS: AtomicUsize = AtomicUsize::new(0);

    #[tokio::test]
    async fn operations_that_find_a_lock_wait_for_it_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wiki.db");
        drop(SqliteDatabase::open(&path, 0).unwrap());
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut connection = Connection::open(&path).unwrap();
        let count = |_| {
            WAITS.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.busy_handler(Some(count)).unwrap();
        let mut file = OpenFile { connection, backlog: Backlog::default(), pages: Arc::new(Pages::new(0)) };
        let (queue, mut jobs) = OperationQueue::new(Texts::Together);
        let carry_out = async {
            let two = vec![jobs.recv().await.unwrap(), jobs.recv().await.unwrap()];
            file.carry_out(two);
        };
        let (first, second, ()) = tokio::join!(queue.queue_purge("a"), queue.queue_purge("b"), carry_out);
        assert!(first.unwrap_err().is_temporary && second.unwrap_err().is_temporary);
        assert_eq!(WAITS.load(Ordering::Relaxed), 1);
    }
}
