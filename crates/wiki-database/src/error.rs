//! How the operations of databases fail.

use thiserror::Error;

use crate::page::Found;

/// Why a database operation failed.
#[derive(Debug, Error)]
#[error("cannot {action}: {reason}")]
pub struct DatabaseError {
    /// The attempted action.
    pub action: &'static str,
    pub reason: String,
    /// Whether a retry may succeed (the database is unreachable, busy or full).
    pub is_temporary: bool,
}

/// Why a write was not executed.
#[derive(Debug)]
pub enum WriteError {
    /// Its condition did not hold: the current state of the name.
    Conflict(Found),
    /// The condition on its attachment did not hold.
    FileConflict,
    /// There is no such page or attachment.
    Missing,
    NameTaken,
    /// The database failed. Nothing of the write was stored, unless the connection was lost at the commit.
    Database(DatabaseError),
}

impl DatabaseError {
    pub(crate) fn temporary(action: &'static str, reason: &str) -> Self {
        Self { action, reason: reason.to_owned(), is_temporary: true }
    }

    /// A write to a read-only database.
    pub(crate) fn open_read_only() -> Self {
        Self { action: "write", reason: "it is open read-only".to_owned(), is_temporary: false }
    }
}

impl From<DatabaseError> for WriteError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}
