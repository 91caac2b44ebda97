//! Registers in an SQLite file: for one machine.
//!
//! One thread executes all requests. It executes the queued requests, up to [`BATCH_MAX`], in one transaction, and
//! responds after the commit: with many clients, many compare-and-sets share one `fsync`.

mod store;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use breme_session::{Durability, EngineRequest, EngineResponse, NodeName, NodeRecord, NodeState, Register};
use tokio::sync::{mpsc, oneshot};

use super::{Engine, EngineError, NodeChange, WATCH_MAX};
use store::Store;

/// Limit of the requests queued for the thread; further ones are refused.
pub const QUEUE_MAX: usize = 16_384;
/// Limit of the requests of one transaction.
pub const BATCH_MAX: usize = 1_024;
/// Interval of deleting expired registers. (Reads ignore them before that.)
const PURGE_INTERVAL: Duration = Duration::from_secs(1);

/// Registers in an SQLite file, which no other process may open.
#[derive(Debug)]
pub struct EmbeddedEngine {
    /// `None` only while it is dropped.
    work: Option<SyncSender<Work>>,
    ended: Vec<(NodeName, u64)>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
enum Work {
    Execute(EngineRequest, oneshot::Sender<EngineResponse>),
    Watch(mpsc::Sender<NodeChange>),
}

impl EmbeddedEngine {
    /// Opens `sessions.db` in `folder`; creates both if they do not exist.
    ///
    /// With [`Durability::QuorumFsync`], commits survive a power failure: an `fsync` precedes each response. Otherwise
    /// they are in the page cache, and survive only the end of the process.
    ///
    /// # Errors
    ///
    /// If the folder is not writable, or the file is in use, not a database, or of a newer version.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, EngineError> {
        let mut store = Store::open(folder, durability)?;
        let ended = store.nodes().into_iter().filter_map(|change| life_of(&change)).collect();
        let (work, queue) = sync_channel(QUEUE_MAX);
        let thread = thread::Builder::new()
            .name("session engine".to_owned())
            .spawn(move || Worker { store, watchers: Vec::new() }.run(&queue))
            .map_err(|error| EngineError::new(format!("cannot start the thread of the session engine: {error}")))?;
        Ok(Self { work: Some(work), ended, thread: Some(thread) })
    }

    /// The nodes in the file, with the nonces of their processes. None of them runs, since the file was not in use:
    /// [`Node::exited`](crate::node::Node::exited) spares their successors the wait for their leases.
    #[must_use]
    pub fn ended(&self) -> &[(NodeName, u64)] {
        &self.ended
    }

    fn submit(&self, work: Work) -> bool {
        self.work.as_ref().is_some_and(|queue| queue.try_send(work).is_ok())
    }
}

impl Drop for EmbeddedEngine {
    /// Waits until what was submitted is committed and the file is closed.
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl Engine for EmbeddedEngine {
    async fn execute(&self, request: EngineRequest) -> EngineResponse {
        let (respond, response) = oneshot::channel();
        if self.submit(Work::Execute(request, respond)) {
            // Without a response the thread has ended, perhaps during a commit.
            response.await.unwrap_or(EngineResponse::Unknown)
        } else {
            EngineResponse::Refused
        }
    }

    async fn watch_nodes(&self) -> Result<mpsc::Receiver<NodeChange>, EngineError> {
        let (watcher, changes) = mpsc::channel(WATCH_MAX);
        if self.submit(Work::Watch(watcher)) {
            Ok(changes)
        } else {
            Err(EngineError::new(format!("the session engine has {QUEUE_MAX} requests in its queue; try again later")))
        }
    }
}

fn life_of(change: &NodeChange) -> Option<(NodeName, u64)> {
    let Register::Node(name) = change.register else { return None };
    let record = NodeRecord::decode(&name, &change.value).ok()?;
    (record.state != NodeState::Over).then_some((name, record.incarnation.nonce))
}

struct Worker {
    store: Store,
    watchers: Vec<mpsc::Sender<NodeChange>>,
}

/// Requests that share a commit, and the channels for their responses.
#[derive(Default)]
struct Batch {
    requests: Vec<EngineRequest>,
    respond: Vec<oneshot::Sender<EngineResponse>>,
}

impl Worker {
    fn run(mut self, queue: &Receiver<Work>) {
        let mut purged = Instant::now();
        loop {
            match queue.recv_timeout(PURGE_INTERVAL.saturating_sub(purged.elapsed())) {
                Ok(first) => self.execute_batch(first, queue),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if purged.elapsed() >= PURGE_INTERVAL {
                self.store.purge();
                purged = Instant::now();
            }
        }
    }

    fn execute_batch(&mut self, first: Work, queue: &Receiver<Work>) {
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(work) = next {
            match work {
                Work::Execute(request, respond) => {
                    batch.requests.push(request);
                    batch.respond.push(respond);
                }
                Work::Watch(watcher) => self.add_watcher(watcher),
            }
            next = if batch.requests.len() < BATCH_MAX { queue.try_recv().ok() } else { None };
        }
        let responses = self.store.execute(&batch.requests);
        for ((request, respond), response) in batch.requests.iter().zip(batch.respond).zip(responses) {
            self.notify(request, &response);
            // A client that no longer waits needs no response.
            let _ = respond.send(response);
        }
    }

    /// Sends the existing nodes to the watcher; those of this batch follow with its commit.
    fn add_watcher(&mut self, watcher: mpsc::Sender<NodeChange>) {
        for change in self.store.nodes() {
            let _ = watcher.try_send(change);
        }
        self.watchers.push(watcher);
    }

    fn notify(&mut self, request: &EngineRequest, response: &EngineResponse) {
        if let (
            EngineRequest::CompareAndSet { register: register @ Register::Node(_), value, .. },
            &EngineResponse::Committed(sequence),
        ) = (request, response)
        {
            let change = NodeChange { register: *register, sequence, value: value.clone() };
            self.watchers.retain(|watcher| {
                !matches!(watcher.try_send(change.clone()), Err(mpsc::error::TrySendError::Closed(_)))
            });
        }
    }
}
