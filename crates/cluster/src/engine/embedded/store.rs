//! The database file and its statements.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use breme_session::{Durability, EngineRequest, EngineResponse, Moment, Register, Sequence};
use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::clock::moment;
use crate::engine::{EngineError, NodeChange};
use crate::reports::Reports;

const FILE: &str = "sessions.db";
/// Marks the file as breme's (SQLite's `application_id`): "brem".
const APPLICATION: i32 = 0x6272_656d;
const VERSION: i32 = 1;
/// The length to which the log is truncated after a checkpoint, in bytes. A checkpoint follows 4 MiB, SQLite's default:
/// with 32 MiB and a page cache of 16 MiB, 90 users had the same rate (0.984; 0.929–1.043), and the 99th percentile of
/// the response time was 3.3 times as long.
const LOG_BYTES_MAX: i64 = 64 << 20;
/// Number of expired registers deleted at a time, so that requests do not wait long.
const PURGE_MAX: usize = 1_000;

/// A value may expire later than requested, by its lifetime divided by this: then the next changes keep its expiry, and
/// need not update the index.
const EXPIRY_SLACK: i64 = 32;

/// An update of the index costs a twelfth of the bytes if 8 changes share a transaction, a fifth if each has its own,
/// next to nothing in larger ones, and at most 6 µs of CPU time for each change, so most changes of a session do not
/// update it ([`KEEP`]). Without the index, a scan for expired sessions would read the whole file.
///
/// A `sequence` is never reused, so that no compare-and-set intended for an earlier value takes effect on a later one:
/// the last one is stored separately from the registers, which expire.
const SCHEMA: &str = "
    CREATE TABLE registers (name TEXT PRIMARY KEY, sequence INTEGER NOT NULL, value BLOB NOT NULL, expires INTEGER)
        STRICT;
    CREATE INDEX by_expiry ON registers (expires) WHERE expires IS NOT NULL;
    CREATE TABLE last (sequence INTEGER NOT NULL) STRICT;
    INSERT INTO last VALUES (0);";
const READ: &str = "SELECT sequence, value FROM registers WHERE name = ?1 AND (expires IS NULL OR expires > ?2)";
const NODES: &str = "SELECT name, sequence, value FROM registers WHERE name GLOB 'n.*'";
const CREATE: &str = "
    INSERT INTO registers (name, sequence, value, expires) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET sequence = ?2, value = ?3, expires = ?4 WHERE registers.expires <= ?5";
const REPLACE: &str = "
    UPDATE registers SET sequence = ?2, value = ?3, expires = ?4
    WHERE name = ?1 AND sequence = ?6 AND (expires IS NULL OR expires > ?5)";
/// Like `REPLACE`, for a register whose expiry is in the allowed range.
const KEEP: &str = "
    UPDATE registers SET sequence = ?2, value = ?3 WHERE name = ?1 AND sequence = ?4 AND expires BETWEEN ?5 AND ?6";
const PURGE: &str = "
    DELETE FROM registers WHERE rowid IN (SELECT rowid FROM registers WHERE expires <= ?1 LIMIT ?2)";

pub(super) struct Store {
    path: PathBuf,
    durability: Durability,
    clock: Clock,
    /// `None` after a failed commit, until it is reopened: only the file shows what took effect.
    connection: Option<Connection>,
    /// On a full disk, small transactions succeed between those that fail with the same error.
    reports: Reports,
}

/// Milliseconds since 1970, without the jumps of the system's clock while the process runs: a jump must not end
/// sessions early.
struct Clock {
    started: Moment,
}

impl Clock {
    fn start() -> Self {
        Self { started: moment() }
    }

    fn now(&self) -> i64 {
        let elapsed = moment().now.since(self.started.now);
        let now = u128::from(self.started.wall.0) + elapsed.as_millis();
        i64::try_from(now).unwrap_or(i64::MAX)
    }
}

impl Store {
    pub(super) fn open(folder: &Path, durability: Durability) -> Result<Self, EngineError> {
        fs::create_dir_all(folder)
            .map_err(|error| EngineError::new(format!("cannot create the folder {}: {error}", folder.display())))?;
        let path = folder.join(FILE);
        let connection = connect(&path, durability)?;
        Ok(Self { path, durability, clock: Clock::start(), connection: Some(connection), reports: Reports::default() })
    }

    /// Executes the requests in order, in one transaction.
    pub(super) fn execute(&mut self, requests: &[EngineRequest]) -> Vec<EngineResponse> {
        let now = self.clock.now();
        match self.connected().and_then(|connection| transact(connection, now, requests)) {
            Ok(responses) => responses,
            Err(failure) => {
                if failure.in_commit {
                    self.connection = None;
                }
                self.reports.report(&format!("{}: {}", self.path.display(), failure.error));
                requests.iter().map(|request| failure.response_to(request)).collect()
            }
        }
    }

    /// The registers of nodes; none if they cannot be read.
    pub(super) fn nodes(&mut self) -> Vec<NodeChange> {
        let nodes = self.connected().and_then(|connection| Ok(read_nodes(connection)?));
        nodes.unwrap_or_default()
    }

    /// Deletes some of the expired registers.
    pub(super) fn purge(&mut self) {
        let now = self.clock.now();
        if let Some(connection) = &self.connection {
            // It is retried soon, and reads ignore them anyway.
            let _ = connection.execute(PURGE, params![now, PURGE_MAX]);
        }
    }

    fn connected(&mut self) -> Result<&mut Connection, TransactionFailure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.path, self.durability)?,
        };
        Ok(self.connection.insert(connection))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A transaction that failed.
struct TransactionFailure {
    error: String,
    /// Whether it may have taken effect.
    in_commit: bool,
}

impl TransactionFailure {
    fn response_to(&self, request: &EngineRequest) -> EngineResponse {
        match request {
            EngineRequest::CompareAndSet { .. } if self.in_commit => EngineResponse::Unknown,
            _ => EngineResponse::Refused,
        }
    }
}

impl From<EngineError> for TransactionFailure {
    fn from(error: EngineError) -> Self {
        Self { error: error.to_string(), in_commit: false }
    }
}

impl From<rusqlite::Error> for TransactionFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self { error: error.to_string(), in_commit: false }
    }
}

fn connect(path: &Path, durability: Durability) -> Result<Connection, EngineError> {
    prepare(path, durability)
        .map_err(|error| {
            let remedy = match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy) => "another process uses it; stop that process, or choose another folder",
                Some(ErrorCode::NotADatabase) => "move the file away, or choose another folder",
                _ => return EngineError::new(format!("cannot open {}: {error}", path.display())),
            };
            EngineError::new(format!("cannot open {}: {error}: {remedy}", path.display()))
        })
        .and_then(|(connection, application, version)| match (application, version) {
            (APPLICATION, VERSION) => Ok(connection),
            (APPLICATION, newer) => Err(EngineError::new(format!(
                "{} has format {newer}, and this version of breme knows {VERSION}: use a newer breme",
                path.display()
            ))),
            _ => Err(EngineError::new(format!(
                "{} is not a database of sessions: choose another folder",
                path.display()
            ))),
        })
}

/// The connection, and the file's application and version.
fn prepare(path: &Path, durability: Durability) -> rusqlite::Result<(Connection, i32, i32)> {
    let mut connection = Connection::open(path)?;
    // In this mode the lock is kept from the first access on, and the log's index is in this process's memory.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(
        None,
        "synchronous",
        match durability {
            Durability::Memory | Durability::Quorum => "NORMAL",
            Durability::QuorumFsync => "FULL",
        },
    )?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let is_new: bool = transaction.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
    if is_new {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    let application = transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    transaction.commit()?;
    Ok((connection, application, version))
}

fn transact(
    connection: &mut Connection,
    now: i64,
    requests: &[EngineRequest],
) -> Result<Vec<EngineResponse>, TransactionFailure> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let responses = execute_all(&mut transaction, now, requests)?;
    transaction.commit().map_err(|error| TransactionFailure { error: error.to_string(), in_commit: true })?;
    Ok(responses)
}

fn execute_all(
    transaction: &mut Transaction<'_>,
    now: i64,
    requests: &[EngineRequest],
) -> rusqlite::Result<Vec<EngineResponse>> {
    let mut last = None;
    let mut responses = Vec::with_capacity(requests.len());
    for request in requests {
        responses.push(match request {
            EngineRequest::Read { register } => EngineResponse::Found(read(transaction, now, register)?),
            EngineRequest::CompareAndSet { register, expected, value, time_to_live } => {
                let sequence = match last {
                    Some(last) => last,
                    None => transaction.query_row("SELECT sequence FROM last", [], |row| row.get::<_, u64>(0))?,
                } + 1;
                let expiry = time_to_live.map(|time| Expiry::after(now, time));
                if compare_and_set(transaction, now, register, *expected, sequence, value, expiry)? {
                    last = Some(sequence);
                    EngineResponse::Committed(Sequence(sequence))
                } else {
                    EngineResponse::Conflict
                }
            }
        });
    }
    if let Some(last) = last {
        transaction.prepare_cached("UPDATE last SET sequence = ?1")?.execute([last])?;
    }
    Ok(responses)
}

fn read(transaction: &Transaction<'_>, now: i64, register: &Register) -> rusqlite::Result<Option<(Sequence, Bytes)>> {
    transaction
        .prepare_cached(READ)?
        .query_row(params![register.to_string(), now], |row| {
            Ok((Sequence(row.get(0)?), Bytes::from(row.get::<_, Vec<u8>>(1)?)))
        })
        .optional()
}

/// When a value may expire.
#[derive(Clone, Copy)]
struct Expiry {
    earliest: i64,
    latest: i64,
}

impl Expiry {
    fn after(now: i64, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let earliest = now.saturating_add(millis);
        Self { earliest, latest: earliest.saturating_add(millis / EXPIRY_SLACK) }
    }
}

fn compare_and_set(
    transaction: &Transaction<'_>,
    now: i64,
    register: &Register,
    expected: Sequence,
    sequence: u64,
    value: &Bytes,
    expiry: Option<Expiry>,
) -> rusqlite::Result<bool> {
    let name = register.to_string();
    if expected != Sequence::ABSENT
        && let Some(Expiry { earliest, latest }) = expiry
    {
        let mut keep = transaction.prepare_cached(KEEP)?;
        if keep.execute(params![name, sequence, value.as_ref(), expected.0, earliest, latest])? == 1 {
            return Ok(true);
        }
    }
    let expires = expiry.map(|expiry| expiry.latest);
    let changed = if expected == Sequence::ABSENT {
        transaction.prepare_cached(CREATE)?.execute(params![name, sequence, value.as_ref(), expires, now])?
    } else {
        let mut replace = transaction.prepare_cached(REPLACE)?;
        replace.execute(params![name, sequence, value.as_ref(), expires, now, expected.0])?
    };
    Ok(changed == 1)
}

fn read_nodes(connection: &Connection) -> rusqlite::Result<Vec<NodeChange>> {
    let mut statement = connection.prepare_cached(NODES)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, Sequence(row.get(1)?), Bytes::from(row.get::<_, Vec<u8>>(2)?)))
    })?;
    let mut nodes = Vec::new();
    for row in rows {
        let (name, sequence, value) = row?;
        if let Some(register) = Register::from_name(&name) {
            nodes.push(NodeChange { register, sequence, value });
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use breme_session::SessionKey;

    use super::*;

    const REGISTER: Register = Register::Session(SessionKey::from_bytes([1; 16]));

    fn execute(connection: &mut Connection, now_s: i64, request: EngineRequest) -> EngineResponse {
        let responses = transact(connection, 1_000 * now_s, &[request]);
        responses.unwrap_or_else(|failure| panic!("{}", failure.error)).remove(0)
    }

    fn set(expected: u64, lifetime_s: u64) -> EngineRequest {
        let time_to_live = Some(Duration::from_secs(lifetime_s));
        EngineRequest::CompareAndSet {
            register: REGISTER,
            expected: Sequence(expected),
            value: "x".into(),
            time_to_live,
        }
    }

    /// Whether the value is there at these times, in seconds.
    fn lives_at<const N: usize>(connection: &mut Connection, times_s: [i64; N]) -> [bool; N] {
        times_s.map(|now_s| {
            let response = execute(connection, now_s, EngineRequest::Read { register: REGISTER });
            !matches!(response, EngineResponse::Found(None))
        })
    }

    #[test]
    fn a_value_lives_for_the_lifetime_of_its_last_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = connect(&folder.path().join(FILE), Durability::Quorum).unwrap();
        let committed = |sequence| EngineResponse::Committed(Sequence(sequence));
        assert_eq!(execute(&mut connection, 0, set(0, 3_200)), committed(1));
        assert_eq!(lives_at(&mut connection, [3_299, 3_300]), [true, false]);
        assert_eq!(execute(&mut connection, 100, set(1, 3_200)), committed(2));
        assert_eq!(lives_at(&mut connection, [3_299, 3_300]), [true, false], "kept");
        assert_eq!(execute(&mut connection, 101, set(2, 3_200)), committed(3));
        assert_eq!(lives_at(&mut connection, [3_400, 3_401]), [true, false], "later");
        assert_eq!(execute(&mut connection, 102, set(2, 3_200)), EngineResponse::Conflict);
        assert_eq!(execute(&mut connection, 103, set(3, 64)), committed(4));
        assert_eq!(lives_at(&mut connection, [168, 169]), [true, false], "sooner");
        assert_eq!(execute(&mut connection, 169, set(4, 64)), EngineResponse::Conflict);
        assert_eq!(execute(&mut connection, 169, set(0, 64)), committed(5));
    }
}
