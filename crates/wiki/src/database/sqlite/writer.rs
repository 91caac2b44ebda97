//! The thread that writes: it carries out everything that waits as one transaction, and answers after the commit.

use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc;

use super::batch::Batch;
use super::cache::Pages;
use super::{IMPORT_CACHE_KIB, WRITER_CACHE_KIB};
use crate::database::operation::{Answer, Job, Operation, Queue, batch};
use crate::database::{DatabaseError, WriteError};

/// The way to the thread; it ends after the last of its jobs when this is dropped.
pub(super) struct Writer {
    queue: Option<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, pages: Arc<Pages>) -> Result<Self, DatabaseError> {
        let (queue, jobs) = Queue::new();
        let name = String::from("wiki-writer");
        let thread = std::thread::Builder::new().name(name).spawn(move || run(connection, jobs, &pages));
        let failed =
            |error: std::io::Error| DatabaseError::temporary("start the thread that writes", &error.to_string());
        let thread = thread.map_err(failed)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Whether it panicked does not matter any more.
            let _ = thread.join();
        }
    }
}

fn run(mut connection: Connection, mut queue: mpsc::Receiver<Job>, pages: &Pages) {
    let mut imported = false;
    while let Some(first) = queue.blocking_recv() {
        let jobs = batch(first, &mut queue);
        let imports = jobs.iter().any(|job| matches!(job.operation, Operation::Import(_)));
        if imports != imported {
            // A smaller or larger cache holds the same: an error changes nothing but the speed.
            let _ = set_cache(&connection, imports);
            imported = imports;
        }
        carry_out(&mut connection, jobs, pages);
    }
    // Statistics for the planner of queries; without them, queries are only slower.
    let _ = connection.execute_batch("PRAGMA optimize");
}

/// An import adds to the indexes in random order: the more of their pages are in memory, the fewer are written twice.
/// Afterwards that memory is returned.
fn set_cache(connection: &Connection, imports: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -if imports { IMPORT_CACHE_KIB } else { WRITER_CACHE_KIB })?;
    connection.execute_batch("PRAGMA shrink_memory")
}

/// Carries out all jobs in one transaction; if that fails, each in one of its own, so that only the faulty one fails.
fn carry_out(connection: &mut Connection, jobs: Vec<Job>, pages: &Pages) {
    match transact(connection, &jobs, pages) {
        Ok(answers) => jobs.into_iter().zip(answers).for_each(|(job, answer)| job.answer(answer)),
        Err(_) if jobs.len() > 1 => jobs.into_iter().for_each(|job| carry_out(connection, vec![job], pages)),
        Err(error) => {
            for job in jobs {
                job.answer(Err(WriteError::Database(super::database_error("write", &error))));
            }
        }
    }
}

fn transact(connection: &mut Connection, jobs: &[Job], pages: &Pages) -> rusqlite::Result<Vec<Answer>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Batch::new(&transaction)?;
    let answers = jobs.iter().map(|job| batch.carry_out(&job.operation)).collect::<rusqlite::Result<Vec<Answer>>>()?;
    let changed = batch.finish()?;
    pages.start_commit(changed.iter());
    let committed = transaction.commit();
    pages.end_commit();
    committed.map(|()| answers)
}
