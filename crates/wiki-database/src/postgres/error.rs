//! Errors of PostgreSQL.

use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::error::DatabaseError;

/// Why an operation on PostgreSQL failed.
pub(super) enum Error {
    Pool(PoolError),
    Postgres(tokio_postgres::Error),
    /// No response in this time.
    Timeout(Duration),
    /// Stored data that the wiki did not write.
    Content(String),
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl Error {
    pub(super) fn describe(&self, action: &'static str) -> DatabaseError {
        match self {
            Self::Pool(PoolError::Backend(error)) | Self::Postgres(error) => failure(action, error),
            Self::Pool(error) => DatabaseError::temporary(action, &error.to_string()),
            Self::Timeout(limit) => {
                DatabaseError::temporary(action, &format!("PostgreSQL did not respond within {limit:?}"))
            }
            Self::Content(reason) => DatabaseError { action, reason: reason.clone(), is_temporary: false },
        }
    }

    /// Whether the connection failed, rather than a statement.
    pub(super) fn is_connection(&self) -> bool {
        match self {
            Self::Pool(_) | Self::Timeout(_) => true,
            Self::Postgres(error) => error.as_db_error().is_none(),
            Self::Content(_) => false,
        }
    }
}

pub(super) fn failure(action: &'static str, error: &tokio_postgres::Error) -> DatabaseError {
    let Some(reported) = error.as_db_error() else {
        // The source contains the operating system's message.
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        return DatabaseError { action, reason: format!("PostgreSQL: {error}{source}"), is_temporary: true };
    };
    // Connection, resources, operator's intervention, serialisation; see the manual's table of error codes.
    let is_temporary = ["08", "53", "57", "40"].iter().any(|class| reported.code().code().starts_with(class))
        || *reported.code() == SqlState::READ_ONLY_SQL_TRANSACTION;
    DatabaseError { action, reason: format!("PostgreSQL: {}", reported.message()), is_temporary }
}
