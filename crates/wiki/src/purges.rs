//! Purges of the caches in front.
//!
//! The transaction of a change also queues its surrogate keys for each edge, so that no purge is lost in a crash. One
//! task per edge sends the queued keys in order, and removes those that the edge has confirmed. An edge that does not
//! confirm in time is dead: no writer waits for it, and its queue grows until it is back.
//!
//! A writer that waits for the edges takes a ticket after its commit. The task reads the last ticket *before* it reads
//! the queue, so when the queue is empty, the purges of that ticket's change are confirmed. Since `breme proxy` does
//! not store a response that was requested before a purge, no edge then serves anything older than the change.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use breme_base::loopback_addresses;
use breme_http::media_type;
use breme_wiki_database::{Database, DatabaseError, keys};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::settings::{Edge, Settings};

/// Number of keys read from a queue at once. An edge that has missed as many purges everything.
const BATCH: usize = 1000;
/// Shortest and longest pause before the next attempt on a dead edge.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// How often a queue is read without a change: other processes may share the database.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Limit of what is read of an edge's response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The edges of a wiki. Clones share them.
#[derive(Clone, Debug)]
pub struct Edges {
    lanes: Arc<[Lane]>,
    waits: bool,
    edge_timeout: Duration,
}

/// One edge with the state of its purges.
#[derive(Debug)]
struct Lane {
    edge: Edge,
    /// The last ticket taken by a writer.
    requested: AtomicU64,
    /// The last ticket whose change the edge has confirmed.
    confirmed: watch::Sender<u64>,
    wake: Notify,
    is_live: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Why a queue could not be sent.
enum PurgeFailure {
    Database(DatabaseError),
    Edge(EdgeError),
}

impl From<DatabaseError> for PurgeFailure {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Why an edge has not confirmed a purge.
#[derive(Debug, Error)]
enum EdgeError {
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Exchange(#[from] hyper::Error),
    #[error("{0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("its admin server returned {status} to POST /cache/purge: {text}")]
    Refused { status: StatusCode, text: String },
    #[error("no response within {0:?}")]
    TooLate(Duration),
}

/// An edge, for metrics.
#[derive(Clone, Debug)]
pub struct EdgeState {
    pub authority: String,
    /// Whether it confirmed its last purge in time.
    pub is_live: bool,
    /// Number of confirmed purges.
    pub sent: u64,
    /// Number of failed attempts.
    pub failed: u64,
}

impl Edges {
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let lane = |edge: &Edge| Lane {
            edge: edge.clone(),
            requested: AtomicU64::new(0),
            confirmed: watch::Sender::new(0),
            wake: Notify::new(),
            is_live: AtomicBool::new(true),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        Self {
            lanes: settings.edges.iter().map(lane).collect(),
            waits: settings.waits_for_edges,
            edge_timeout: settings.edge_timeout,
        }
    }

    /// Registers the edges in the database and begins to purge, on tasks of the current runtime.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn run(&self, database: &Arc<dyn Database>) -> Result<(), DatabaseError> {
        let names: Vec<String> = self.lanes.iter().map(|lane| lane.edge.authority.clone()).collect();
        database.set_edges(&names).await?;
        for index in 0..self.lanes.len() {
            tokio::spawn(self.clone().serve(index, Arc::clone(database)));
        }
        Ok(())
    }

    /// Reports a committed change; if configured to wait, returns when all live edges have confirmed its purge or timed
    /// out.
    pub(crate) async fn await_purges(&self) {
        let tickets: Vec<u64> = self.lanes.iter().map(Lane::take_ticket).collect();
        if !self.waits {
            return;
        }
        let until = tokio::time::Instant::now() + self.edge_timeout;
        for (lane, ticket) in self.lanes.iter().zip(tickets) {
            if !lane.is_live.load(Ordering::Acquire) {
                continue;
            }
            let mut confirmed = lane.confirmed.subscribe();
            let wait = confirmed.wait_for(|last| *last >= ticket);
            if tokio::time::timeout_at(until, wait).await.is_err() {
                lane.set_live(false, "it did not confirm a purge in time");
            }
        }
    }

    pub(crate) fn states(&self) -> Vec<EdgeState> {
        let state = |lane: &Lane| EdgeState {
            authority: lane.edge.authority.clone(),
            is_live: lane.is_live.load(Ordering::Relaxed),
            sent: lane.sent.load(Ordering::Relaxed),
            failed: lane.failed.load(Ordering::Relaxed),
        };
        self.lanes.iter().map(state).collect()
    }

    async fn serve(self, index: usize, database: Arc<dyn Database>) {
        let lane = &self.lanes[index];
        let mut client = Client { edge: &lane.edge, connection: None };
        let mut pause = RETRY_FIRST;
        loop {
            let ticket = lane.requested.load(Ordering::Acquire);
            match self.drain(lane, &mut client, &*database).await {
                Ok(()) => {
                    pause = RETRY_FIRST;
                    lane.set_live(true, "");
                    lane.confirmed.send_replace(ticket);
                    if lane.requested.load(Ordering::Acquire) == ticket {
                        let _ = timeout(LOOK_EVERY, lane.wake.notified()).await;
                    }
                }
                Err(PurgeFailure::Database(error)) => {
                    // Not the edge's fault; writers wait for it as soon as there are changes again.
                    breme_base::error_line!("breme wiki: {error}");
                    let _ = timeout(LOOK_EVERY, lane.wake.notified()).await;
                }
                Err(PurgeFailure::Edge(error)) => {
                    lane.failed.fetch_add(1, Ordering::Relaxed);
                    lane.set_live(false, &error.to_string());
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
    }

    /// Sends the queue until it is empty.
    async fn drain(&self, lane: &Lane, client: &mut Client<'_>, database: &dyn Database) -> Result<(), PurgeFailure> {
        let authority = &lane.edge.authority;
        loop {
            let queued = database.queued_purges(authority, BATCH).await?;
            let Some((through, _)) = queued.last() else { return Ok(()) };
            let keys: BTreeSet<&str> = queued.iter().map(|(_, key)| key.as_str()).collect();
            let misses_much = queued.len() >= BATCH || keys.contains(keys::EVERYTHING);
            let keys = if misses_much { BTreeSet::from([keys::EVERYTHING]) } else { keys };
            for key in keys {
                timeout(self.edge_timeout, client.purge(&json!({ "key": key })))
                    .await
                    .unwrap_or(Err(EdgeError::TooLate(self.edge_timeout)))
                    .inspect_err(|_| client.connection = None)
                    .map_err(PurgeFailure::Edge)?;
                lane.sent.fetch_add(1, Ordering::Relaxed);
            }
            database.confirm_purges(authority, *through).await?;
            if queued.len() < BATCH {
                return Ok(());
            }
        }
    }
}

impl Lane {
    fn take_ticket(&self) -> u64 {
        let ticket = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake.notify_one();
        ticket
    }

    fn set_live(&self, is_live: bool, reason: &str) {
        if self.is_live.swap(is_live, Ordering::AcqRel) == is_live {
            return;
        }
        let authority = &self.edge.authority;
        match is_live {
            true => breme_base::error_line!("breme wiki: edge {authority} is back and has all purges"),
            false => {
                breme_base::error_line!("breme wiki: edge {authority} counts as dead: {reason}; its purges are queued");
            }
        }
    }
}

/// Connects to a host and port; names of this machine need no resolver.
async fn connect(authority: &str) -> io::Result<TcpStream> {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    match (loopback_addresses(host), port.parse()) {
        (Some(addresses), Ok(port)) => {
            TcpStream::connect(&addresses.map(|address| SocketAddr::new(address, port))[..]).await
        }
        _ => TcpStream::connect(authority).await,
    }
}

/// A connection to the admin server of an edge, reopened when it is lost.
struct Client<'a> {
    edge: &'a Edge,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client<'_> {
    async fn purge(&mut self, purge: &Value) -> Result<(), EdgeError> {
        // The edge may have closed an idle connection in the meantime: then a new one decides.
        if let Some(connection) = &mut self.connection
            && send(connection, self.edge, purge).await.is_ok()
        {
            return Ok(());
        }
        let stream = connect(&self.edge.authority).await.map_err(EdgeError::Connect)?;
        let _ = stream.set_nodelay(true); // without it, purges are only slower
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        send(self.connection.insert(sender), self.edge, purge).await
    }
}

async fn send(connection: &mut SendRequest<Full<Bytes>>, edge: &Edge, purge: &Value) -> Result<(), EdgeError> {
    let request = Request::post("/cache/purge")
        .header(HOST, &edge.authority)
        .header(AUTHORIZATION, format!("Bearer {}", edge.token))
        .header(CONTENT_TYPE, media_type::JSON)
        .body(Full::from(purge.to_string()))?;
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await.map_err(EdgeError::Body)?;
    match status {
        StatusCode::OK => Ok(()),
        status => {
            let text = String::from_utf8_lossy(&body.to_bytes()).split_whitespace().collect::<Vec<_>>().join(" ");
            Err(EdgeError::Refused { status, text })
        }
    }
}
