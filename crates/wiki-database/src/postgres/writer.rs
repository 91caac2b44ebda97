//! The writer task: it executes all queued operations as one transaction, and responds after the commit.

use std::time::Duration;

use deadpool_postgres::{Object, Pool};

use super::batch::Batch;
use super::connections::within;
use super::error::Error;
use crate::error::WriteError;
use crate::operation::{Job, Operation, OperationQueue, OperationResult, batch};
use crate::prepared_write::Texts;

/// Time limit of a transaction of writes, including waiting for those of other wikis. An import has none.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts the task. When the queue is dropped, it ends after its last job.
pub(super) fn start(pool: Pool) -> OperationQueue {
    let (queue, mut jobs) = OperationQueue::new(Texts::OneByOne);
    tokio::spawn(async move {
        while let Some(first) = jobs.recv().await {
            carry_out(&pool, batch(first, &mut jobs)).await;
        }
    });
    queue
}

enum BatchFailure {
    /// Before the commit: nothing of it is stored.
    Before(Error),
    /// At the commit: the server may have stored it.
    AtCommit(Error),
}

/// Executes all jobs in one transaction; if that fails, each in its own, so that only the faulty one fails.
async fn carry_out(pool: &Pool, jobs: Vec<Job>) {
    match transact(pool, &jobs).await {
        Ok(results) => jobs.into_iter().zip(results).for_each(|(job, result)| job.respond(result)),
        Err(BatchFailure::Before(error)) if jobs.len() > 1 && !error.is_connection() => {
            for job in jobs {
                let result = match transact(pool, std::slice::from_ref(&job)).await {
                    Ok(mut results) => results.remove(0),
                    Err(BatchFailure::Before(error) | BatchFailure::AtCommit(error)) => refuse(&error),
                };
                job.respond(result);
            }
        }
        Err(BatchFailure::Before(error) | BatchFailure::AtCommit(error)) => {
            jobs.into_iter().for_each(|job| job.respond(refuse(&error)));
        }
    }
}

fn refuse(error: &Error) -> OperationResult {
    Err(WriteError::Database(error.describe("write")))
}

async fn transact(pool: &Pool, jobs: &[Job]) -> Result<Vec<OperationResult>, BatchFailure> {
    let client = pool.get().await.map_err(|error| BatchFailure::Before(error.into()))?;
    let imports = jobs.iter().any(|job| matches!(job.operation, Operation::Import(_)));
    let limit = if imports { Duration::MAX } else { WRITE_TIMEOUT };
    within(limit, client, async |client| Ok(transact_on(client, jobs).await))
        .await
        .unwrap_or_else(|error| Err(BatchFailure::AtCommit(error)))
}

async fn transact_on(client: &mut Object, jobs: &[Job]) -> Result<Vec<OperationResult>, BatchFailure> {
    let before = |error: Error| BatchFailure::Before(error);
    let transaction = client.transaction().await.map_err(|error| before(error.into()))?;
    let mut batch = Batch::new(&transaction).await.map_err(before)?;
    let mut results = Vec::with_capacity(jobs.len());
    for job in jobs {
        results.push(batch.carry_out(&job.operation).await.map_err(before)?);
    }
    batch.finish().await.map_err(before)?;
    transaction.commit().await.map_err(|error| BatchFailure::AtCommit(error.into()))?;
    Ok(results)
}
