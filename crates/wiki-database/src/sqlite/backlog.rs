//! Pages whose words are not indexed yet.
//!
//! Indexing a text takes longer than storing it. So a write only records its page, in its own transaction, and the
//! writer indexes many pages in one transaction: when [`PAGES_MAX`] or [`BYTES_MAX`] are waiting, or when there is no
//! write for a while. A page that changes again before that is indexed once. Searches miss nothing meanwhile, since
//! they read the waiting pages; and since the list is in the file, the next process indexes those of a killed wiki.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::read::rows;
use super::word_index::{self, NewSegment, next_generation};
use crate::inversion::Inversion;

/// Limits of the waiting pages and the bytes of their texts; a transaction in progress may add more.
const PAGES_MAX: usize = 256;
const BYTES_MAX: usize = 2 << 20;

/// Limits of the pages indexed in one transaction and of the bytes of their texts without the last one: more may wait
/// in a file of an earlier version.
const INDEXED_PAGES_MAX: usize = 16_384;
const INDEXED_BYTES_MAX: usize = 64 << 20;

/// Time without a write after which fewer pages are indexed.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// The waiting pages, with the lengths of their texts.
#[derive(Debug, Default)]
pub(super) struct Backlog(BTreeMap<i64, usize>);

impl Backlog {
    /// The pages left by an earlier writer.
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT u.page, coalesce(r.bytes, 0) FROM unindexed u LEFT JOIN pages p ON p.id = u.page
                   LEFT JOIN revisions r ON r.sequence = p.current";
        let pages: Vec<(i64, usize)> = rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(pages.into_iter().collect()))
    }

    /// Adds the pages of a committed transaction.
    pub(super) fn add(&mut self, pages: BTreeMap<i64, usize>) {
        self.0.extend(pages);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PAGES_MAX || self.0.values().sum::<usize>() >= BYTES_MAX
    }

    /// Indexes the pages, as many as allowed in each transaction, and merges segments. If one fails, its pages and
    /// those after it remain in the backlog.
    pub(super) fn index(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        while !self.is_empty() {
            let mut bytes = 0;
            let fits = |(_, length): &(&i64, &usize)| {
                let fits = bytes < INDEXED_BYTES_MAX;
                bytes += *length;
                fits
            };
            let pages: Vec<i64> =
                self.0.iter().take(INDEXED_PAGES_MAX).take_while(fits).map(|(page, _)| *page).collect();
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            index_pages(&transaction, &pages)?;
            transaction.commit()?;
            self.0.retain(|page, _| pages.binary_search(page).is_err());
            word_index::merge(connection)?;
        }
        Ok(())
    }
}

/// Indexes pages, in ascending order.
fn index_pages(connection: &Connection, pages: &[i64]) -> rusqlite::Result<()> {
    let generation = next_generation(connection)?;
    let mut words = Inversion::default();
    for page in pages {
        let is_live = add_words(connection, *page, &mut words)?;
        connection
            .prepare_cached("UPDATE pages SET generation = ?2 WHERE id = ?1")?
            .execute((page, is_live.then_some(generation)))?;
        connection.prepare_cached("DELETE FROM unindexed WHERE page = ?1")?.execute([page])?;
    }
    if words.pages() > 0 {
        let pages = words.pages();
        let mut segment = NewSegment::new(connection)?;
        for (word, pages) in words.into_sorted() {
            segment.add(&word, &pages)?;
        }
        segment.finish((generation, generation), pages)?;
    }
    Ok(())
}

/// Adds the words of the page; returns false if it no longer exists.
fn add_words(connection: &Connection, page: i64, words: &mut Inversion) -> rusqlite::Result<bool> {
    let added = connection
        .prepare_cached(
            "SELECT p.name, r.text FROM pages p JOIN revisions r ON r.sequence = p.current
             WHERE p.id = ?1 AND p.live = 1",
        )?
        .query_row([page], |row| {
            words.add(page.unsigned_abs(), row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            Ok(())
        })
        .optional()?;
    Ok(added.is_some())
}
