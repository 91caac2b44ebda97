//! The tables, and the migration of files of earlier versions.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::connection::failure;
use crate::error::DatabaseError;

/// `PRAGMA application_id` of the wiki's files: "brwk".
const APPLICATION: i64 = 0x6272_776b;

/// The steps from an empty file to the current schema; `PRAGMA user_version` counts the steps of a file.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
];

/// Migrates the file to the current version.
///
/// # Errors
///
/// A file that is not the wiki's, or of a later version, is not changed.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), DatabaseError> {
    check(connection, path)?;
    let failed = |error: rusqlite::Error| failure("migrate the database", path, &error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let version = version(&transaction).map_err(failed)?;
    for migration in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    if version < MIGRATIONS.len() {
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
        transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// Rejects a file that is not the wiki's, or of a later version.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), DatabaseError> {
    let failed = |error: rusqlite::Error| failure("open the database", path, &error);
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(failed)?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let refused = |reason: String| Err(DatabaseError { action: "open the database", reason, is_temporary: false });
    if tables > 0 && application != APPLICATION {
        return refused(format!("{} is a SQLite database of another program", path.display()));
    }
    let version = version(connection).map_err(failed)?;
    if version > MIGRATIONS.len() {
        return refused(format!(
            "{} has schema version {version}, and this program knows versions up to {}; use the program that wrote it, \
             or a newer one",
            path.display(),
            MIGRATIONS.len()
        ));
    }
    Ok(())
}

/// Whether the file has the current version.
pub(super) fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version(connection)? == MIGRATIONS.len())
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}
