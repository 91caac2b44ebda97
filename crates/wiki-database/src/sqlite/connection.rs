//! Connections to the file: how they are opened, and how they fail.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::DatabaseError;

/// SQLite's own cache of each connection, KiB.
const CONNECTION_CACHE_KIB: i64 = 8 << 10;

/// SQLite's own cache of the writing connection, KiB: it changes pages of indexes in random order.
pub(super) const WRITER_CACHE_KIB: i64 = 32 << 10;

/// SQLite's own cache of the writing connection during an import, KiB.
pub(super) const IMPORT_CACHE_KIB: i64 = 256 << 10;

/// Size of the log, in pages, at which it is checkpointed at the next commit: a page changed by many commits is copied
/// once.
pub(super) const LOG_PAGES_MAX: i64 = 16_000;

/// The length to which the log is truncated after a checkpoint, in bytes.
pub(super) const LOG_BYTES_MAX: i64 = 64 << 20;

/// How long a statement waits for another program that uses the file, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the writes of a wiki wait: while an erasure rewrites the file. Those that arrive meanwhile wait for these
/// first, and so twice as long at most; proxies in front give up after 60 s.
pub(super) const WRITER_BUSY_TIMEOUT: Duration = Duration::from_secs(25);

/// How long the emptying of the log waits for the checkpoint of another connection, which may write the whole file, and
/// how often it tries.
const CHECKPOINT_MAX: Duration = Duration::from_secs(600);
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(50);

/// Limit of the prepared statements of a connection.
const STATEMENTS_MAX: usize = 64;

pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, DatabaseError> {
    let failed = |error: rusqlite::Error| failure("open the database", path, &error);
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.pragma_update(None, "cache_size", -CONNECTION_CACHE_KIB).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Creates an empty file that only its owner may read: it will hold password hashes, and pages that may be for members
/// only. SQLite gives the files beside it the same permissions.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path).map(drop)
}

/// For a writing connection: a commit is on disk when it returns.
pub(super) fn make_durable(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Writes the whole file anew, and empties the log: SQLite leaves what was deleted in free pages, and in the log, until
/// it writes something else there.
pub(super) fn rewrite(path: &Path) -> Result<(), DatabaseError> {
    const ACTION: &str = "rewrite the file without what was erased";
    let connection = connect(path, OpenFlags::empty())?;
    let failed = |error: rusqlite::Error| {
        let DatabaseError { reason, is_temporary, .. } = failure(ACTION, path, &error);
        let reason = format!("{reason}; nobody can read it any more, but run the command again to remove its bytes");
        DatabaseError { action: ACTION, reason, is_temporary }
    };
    make_durable(&connection).map_err(failed)?;
    // The index of titles keeps the parts of removed names until it is merged.
    connection.execute_batch("INSERT INTO title_grams (title_grams) VALUES ('optimize'); VACUUM").map_err(failed)?;
    if !empty_log(&connection).map_err(failed)? {
        let reason = "another program reads the file, so that its log still has the bytes; run the command again";
        return Err(DatabaseError::temporary(ACTION, &format!("{}: {reason}", path.display())));
    }
    Ok(())
}

/// Empties the log; returns false if another program reads from it for too long.
fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    let until = Instant::now() + CHECKPOINT_MAX;
    loop {
        let begun = Instant::now();
        let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy {
            return Ok(true);
        }
        // SQLite waits for readers and writers, but not for the checkpoint of another connection, such as the one after
        // a commit of the wiki.
        let has_waited = begun.elapsed() >= BUSY_TIMEOUT / 2;
        if has_waited || Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(CHECKPOINT_INTERVAL);
    }
}

pub(super) fn failure(action: &'static str, path: &Path, error: &rusqlite::Error) -> DatabaseError {
    let DatabaseError { reason, is_temporary, .. } = database_error(action, error);
    DatabaseError { action, reason: format!("{}: {reason}", path.display()), is_temporary }
}

pub(super) fn database_error(action: &'static str, error: &rusqlite::Error) -> DatabaseError {
    let is_temporary = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull | ErrorCode::OutOfMemory)
    );
    DatabaseError { action, reason: error.to_string(), is_temporary }
}
