//! The connections to the server.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};

use super::error::Error;
use super::tls;
use crate::error::DatabaseError;

/// Limit of the connections to the server.
const CONNECTIONS_MAX: usize = 16;

/// Time limit for connecting, and for waiting for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn client(pool: &Pool, action: &'static str) -> Result<Object, DatabaseError> {
    pool.get().await.map_err(|error| Error::from(error).describe(action))
}

/// Runs `work` with a time limit; closes its connection when that is exceeded.
pub(super) async fn within<T>(
    limit: Duration,
    client: Object,
    work: impl AsyncFnOnce(&mut Object) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut client = client;
    let ended = tokio::time::timeout(limit, work(&mut client)).await;
    ended.unwrap_or_else(|_| {
        drop(Object::take(client));
        Err(Error::Timeout(limit))
    })
}

pub(super) fn pool(url: &str) -> Result<Pool, DatabaseError> {
    let refused = |reason: String| DatabaseError { action: "open the database", reason, is_temporary: false };
    let (mut config, tls) = tls::configure(url).map_err(|error| refused(error.to_string()))?;
    config.application_name("breme wiki").connect_timeout(CONNECT_TIMEOUT);
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager).max_size(CONNECTIONS_MAX).runtime(Runtime::Tokio1);
    pool.wait_timeout(Some(CONNECT_TIMEOUT)).build().map_err(|error| refused(error.to_string()))
}
