//! The tables in the schema `wiki`, and their migration from earlier versions.

use deadpool_postgres::{GenericClient, Object};

use super::error::failure;
use crate::error::DatabaseError;
use crate::words::index_words;

/// The steps from an empty database to the current schema; `wiki.schema` contains the number of steps done.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql"), include_str!("migrations/3.sql")];

/// The version since which Hangul is indexed by pairs of characters.
const HANGUL_VERSION: usize = 2;

/// Pages whose texts are read at a time.
const INDEXED_TOGETHER: i64 = 100;

/// Held while one process creates or migrates the tables: "brwk", 1.
const MIGRATION_LOCK: i64 = 0x6272_776b_0000_0001;

/// Migrates the tables to the current version; one process does it, others wait.
///
/// # Errors
///
/// Tables of a later version are not changed.
pub(super) async fn migrate(client: &mut Object) -> Result<(), DatabaseError> {
    check_encoding(client).await?;
    let failed = |error: tokio_postgres::Error| failure("migrate the database", &error);
    let transaction = client.transaction().await.map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(failed)?;
    if version(&transaction).await?.is_none() {
        let create = "CREATE SCHEMA wiki; CREATE TABLE wiki.schema (version bigint NOT NULL);
                      INSERT INTO wiki.schema VALUES (0)";
        transaction.batch_execute(create).await.map_err(failed)?;
    }
    let version = check(&transaction).await?;
    for migration in MIGRATIONS.iter().skip(version) {
        transaction.batch_execute(migration).await.map_err(failed)?;
    }
    if version < HANGUL_VERSION {
        index_hangul(&transaction).await.map_err(failed)?;
    }
    if version < MIGRATIONS.len() {
        let present = clamp_usize(MIGRATIONS.len());
        transaction.execute("UPDATE wiki.schema SET version = $1", &[&present]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Indexes the words of all pages with Hangul again.
async fn index_hangul(client: &impl GenericClient) -> Result<(), tokio_postgres::Error> {
    let sql = "SELECT p.id, p.name, r.text FROM wiki.pages p JOIN wiki.revisions r ON r.sequence = p.current
               WHERE p.live AND p.id > $1 AND p.name || r.text ~ ('[ᄀ-ᇿ㄰-㆏ꥠ-꥿가-퟿ﾠ-ￜ]' COLLATE \"C\")
               ORDER BY p.id LIMIT $2";
    let mut after = 0_i64;
    loop {
        let pages = client.query(sql, &[&after, &INDEXED_TOGETHER]).await?;
        let Some(last) = pages.last() else { return Ok(()) };
        after = last.get(0);
        for page in &pages {
            let words = index_words(page.get(1), page.get(2));
            let sql = "UPDATE wiki.words SET words = array_to_tsvector(string_to_array($2, ' ')) WHERE page = $1";
            client.execute(sql, &[&page.get::<_, i64>(0), &words]).await?;
        }
    }
}

/// Rejects a database without tables or with another version.
pub(super) async fn require_current(client: &Object) -> Result<(), DatabaseError> {
    if check(client).await? == MIGRATIONS.len() {
        return Ok(());
    }
    refused("the database has no wiki, or the schema of an earlier version: start the wiki with it once".into())
}

async fn check_encoding(client: &Object) -> Result<(), DatabaseError> {
    let row = client.query_one("SHOW server_encoding", &[]).await;
    let encoding: String = row.map_err(|error| failure("open the database", &error))?.get(0);
    if encoding == "UTF8" {
        return Ok(());
    }
    refused(format!("its encoding is {encoding}; create it with ENCODING 'UTF8' TEMPLATE template0"))
}

/// The version, 0 without tables; an error if it is a later one.
async fn check(client: &impl GenericClient) -> Result<usize, DatabaseError> {
    let version = version(client).await?.unwrap_or(0);
    let known = clamp_usize(MIGRATIONS.len());
    match usize::try_from(version) {
        Ok(version) if version <= MIGRATIONS.len() => Ok(version),
        _ => refused(format!(
            "schema wiki has version {version}, and this program knows versions up to {known}; use the program that \
             wrote it, or a newer one"
        )),
    }
}

async fn version(client: &impl GenericClient) -> Result<Option<i64>, DatabaseError> {
    let failed = |error: tokio_postgres::Error| failure("open the database", &error);
    let row = client.query_one("SELECT to_regclass('wiki.schema') IS NOT NULL", &[]).await.map_err(failed)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    Ok(Some(client.query_one("SELECT version FROM wiki.schema", &[]).await.map_err(failed)?.get(0)))
}

fn clamp_usize(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn refused<T>(reason: String) -> Result<T, DatabaseError> {
    Err(DatabaseError { action: "open the database", reason, is_temporary: false })
}
