//! Pages whose words are not indexed yet.
//!
//! To index a text takes longer than to store it. So a write only notes its page, in its own transaction, and the
//! writer indexes many pages in one transaction: when [`PAGES_MAX`] or [`BYTES_MAX`] are waiting, or when no write
//! comes for a while. A page that changes again before that is indexed once. A search misses nothing meanwhile, as it
//! reads the pages that are waiting; and since they are in the file, those of a wiki that was killed are indexed by
//! the next.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::read::rows;
use crate::database::words::index_words;

/// The pages, and the bytes of their texts, that may wait; a transaction that is under way may add more.
const PAGES_MAX: usize = 256;
const BYTES_MAX: usize = 2 << 20;

/// How long no write must come before fewer pages are indexed.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// The pages that are waiting, with the lengths of their texts.
#[derive(Debug, Default)]
pub(super) struct Backlog(BTreeMap<i64, usize>);

impl Backlog {
    /// What an earlier writer left.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT u.page, coalesce(r.bytes, 0) FROM unindexed u LEFT JOIN pages p ON p.id = u.page
                   LEFT JOIN revisions r ON r.sequence = p.current";
        let pages: Vec<(i64, usize)> = rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(pages.into_iter().collect()))
    }

    /// Adds the pages of a transaction that was committed.
    pub(super) fn add(&mut self, pages: BTreeMap<i64, usize>) {
        self.0.extend(pages);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PAGES_MAX || self.0.values().sum::<usize>() >= BYTES_MAX
    }

    /// Indexes the pages in a transaction of its own. If that fails, they go on waiting.
    pub(super) fn index(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for page in self.0.keys() {
            index_page(&transaction, *page)?;
        }
        for page in self.0.keys() {
            transaction.prepare_cached("DELETE FROM unindexed WHERE page = ?1")?.execute([page])?;
        }
        transaction.commit()?;
        self.0.clear();
        Ok(())
    }
}

fn index_page(connection: &Connection, page: i64) -> rusqlite::Result<()> {
    let words = connection
        .prepare_cached(
            "SELECT p.name, r.text FROM pages p JOIN revisions r ON r.sequence = p.current
             WHERE p.id = ?1 AND p.live = 1",
        )?
        .query_row([page], |row| Ok(index_words(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?)))
        .optional()?;
    match words {
        Some(words) => connection
            .prepare_cached("INSERT OR REPLACE INTO text_words (rowid, words) VALUES (?1, ?2)")?
            .execute(params![page, words])?,
        None => connection.prepare_cached("DELETE FROM text_words WHERE rowid = ?1")?.execute([page])?,
    };
    Ok(())
}
