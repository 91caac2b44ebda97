//! The statements of one transaction, which executes a batch of operations.
//!
//! Write transactions are serialised, also between several wikis: a lock is held from the first statement to the
//! commit. So the sequences of changes and of purges match the order of commits, and no two transactions wait for each
//! other's rows.

mod erase;

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::Error;
use super::read::{INFO, found, info, number, rows, value};
use crate::effects::Effects;
use crate::error::WriteError;
use crate::keys::PURGES_QUEUED_MAX;
use crate::name::{Name, PSEUDONYM_KEY};
use crate::operation::{Operation, OperationOutcome, OperationResult};
use crate::page::{AttachmentInfo, ChangeKind, Committed, Content, Write, WriteAction};
use crate::prepared_write::{Derived, Indexed, Prepared, State, holds};
use crate::results::{FILE_VERSIONS_MAX, clamp};
use crate::words::{fold, index_grams, index_words};

/// Held by the writing transaction: "brwk", 2.
const WRITE_LOCK: i64 = 0x6272_776b_0000_0002;

type WriteResult = Result<Committed, WriteError>;

/// A transaction in progress.
pub(super) struct Batch<'a> {
    transaction: &'a Transaction<'a>,
    /// Last number used in the sequence of changes.
    sequence: u64,
    has_edges: bool,
    /// The key of [`Name::pseudonym`]; `None` if no name was erased yet.
    pseudonym_key: Option<String>,
    effects: Effects,
}

impl<'a> Batch<'a> {
    pub(super) async fn new(transaction: &'a Transaction<'a>) -> Result<Self, Error> {
        let lock = transaction.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
        transaction.execute(&lock, &[&WRITE_LOCK]).await?;
        // A separate statement: it sees what was committed before the lock was acquired.
        let sql = "SELECT greatest((SELECT max(sequence) FROM wiki.revisions),
                       (SELECT max(sequence) FROM wiki.file_changes), 0), EXISTS (SELECT FROM wiki.edges),
                       (SELECT value FROM wiki.values WHERE key = $1)";
        let row = rows(transaction, sql, &[&PSEUDONYM_KEY]).await?.into_iter().next();
        Ok(Self {
            transaction,
            sequence: row.as_ref().map_or(0, |row| number(row, 0)),
            has_edges: row.as_ref().is_some_and(|row| row.get(1)),
            pseudonym_key: row.and_then(|row| row.get(2)),
            effects: Effects::default(),
        })
    }

    pub(super) async fn carry_out(&mut self, operation: &Operation) -> Result<OperationResult, Error> {
        Ok(match operation {
            Operation::Write(prepared) => self.write(prepared).await?.map(OperationOutcome::Committed),
            Operation::Import(import) => Ok(OperationOutcome::Counted(self.import(&import.writes).await?)),
            Operation::SetEdges(edges) => Ok(OperationOutcome::Done(self.set_edges(edges).await?)),
            Operation::Purge(key) => {
                self.effects.purge(key);
                Ok(OperationOutcome::Done(true))
            }
            Operation::Purged { edge, through } => Ok(OperationOutcome::Done(self.confirm(edge, *through).await?)),
            Operation::SetValue { key, expected, value } => {
                let expected = expected.as_ref().map(|expected| expected.as_deref());
                Ok(OperationOutcome::Done(self.set_value(key, expected, value.as_deref()).await?))
            }
            Operation::Erase { targets, time } => Ok(OperationOutcome::Erased(self.erase(targets, *time).await?)),
            Operation::EraseAuthor(author) => Ok(OperationOutcome::Counted(self.erase_author(author).await?)),
        })
    }

    /// Queues the purges.
    pub(super) async fn finish(self) -> Result<(), Error> {
        let queued = if self.has_edges { self.effects.keys() } else { Vec::new() };
        if queued.is_empty() {
            return Ok(());
        }
        let before = self.newest_purge().await?;
        let newest = clamp(before) + clamp(queued.len() as u64);
        let sql = "INSERT INTO wiki.purges (sequence, key)
                   SELECT $1 + place, key FROM unnest($2::text[]) WITH ORDINALITY AS queued (key, place)";
        self.execute(sql, &[&clamp(before), &queued]).await?;
        self.execute("UPDATE wiki.newest_purge SET sequence = $1", &[&newest]).await?;
        let sql = "UPDATE wiki.edges SET through = $1, everything = $1 WHERE $1 - through > $2";
        if self.execute(sql, &[&newest, &clamp(PURGES_QUEUED_MAX)]).await? > 0 {
            self.remove_confirmed().await?;
        }
        Ok(())
    }

    async fn execute(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let statement = self.transaction.prepare_cached(sql).await?;
        Ok(self.transaction.execute(&statement, parameters).await?)
    }

    async fn rows(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        rows(self.transaction, sql, parameters).await
    }

    /// The state of the page, also if its name was erased.
    async fn state(&self, name: &Name) -> Result<Option<State>, Error> {
        match (self.state_of_exactly(name).await?, &self.pseudonym_key) {
            (None, Some(key)) => self.state_of_exactly(&name.pseudonym(key)).await,
            (found, _) => Ok(found),
        }
    }

    async fn state_of_exactly(&self, name: &Name) -> Result<Option<State>, Error> {
        let sql = "SELECT id, revision, live FROM wiki.pages WHERE name = $1";
        let rows = self.rows(sql, &[&name.as_str()]).await?;
        Ok(rows.first().map(|row| State { id: row.get(0), revision: number(row, 1), is_live: row.get(2) }))
    }

    async fn import(&mut self, writes: &[Prepared]) -> Result<u64, Error> {
        let mut count = 0;
        for prepared in writes {
            count += u64::from(self.write(prepared).await?.is_ok());
        }
        Ok(count)
    }

    async fn write(&mut self, prepared: &Prepared) -> Result<WriteResult, Error> {
        let write = &prepared.write;
        if write.new_name().is_some_and(Name::is_pseudonym) {
            return Ok(Err(WriteError::NameTaken));
        }
        let state = self.state(&write.name).await?;
        if !holds(write.condition, state.as_ref()) {
            return Ok(Err(WriteError::Conflict(found(self.transaction, &write.name).await?)));
        }
        if let (WriteAction::Save { content, links }, Derived::Saved(indexed)) = (&write.action, &prepared.derived) {
            return self.save(write, content, links, indexed, state.as_ref()).await.map(Ok);
        }
        let Some(state) = state.filter(|state| state.is_live) else { return Ok(Err(WriteError::Missing)) };
        let mut former = None;
        if let Some((file, condition)) = write.action.file() {
            former = self.attachment(state.id, file).await?;
            if !condition.holds(former.as_ref()) {
                return Ok(Err(WriteError::FileConflict));
            }
        }
        match (&write.action, &prepared.derived) {
            (WriteAction::Rename { to }, _) => self.rename(write, to, &state).await,
            (WriteAction::Attach { bytes, .. }, Derived::Attached(info)) => {
                self.attach(write, &state, info, bytes, former.as_ref()).await.map(Ok)
            }
            (WriteAction::Detach { .. }, _) => self.detach(write, &state, former.as_ref()).await,
            _ => self.delete(write, &state).await.map(Ok),
        }
    }

    async fn save(
        &mut self,
        write: &Write,
        content: &Content,
        links: &[Name],
        indexed: &Indexed,
        state: Option<&State>,
    ) -> Result<Committed, Error> {
        let created = !state.is_some_and(|state| state.is_live);
        let revision = state.map_or(1, |state| state.revision + 1);
        self.sequence += 1;
        let page = match state {
            Some(state) => {
                let sql = "UPDATE wiki.pages SET revision = $2, current = $3, live = true WHERE id = $1";
                self.execute(sql, &[&state.id, &clamp(revision), &clamp(self.sequence)]).await?;
                self.forget(state.id).await?;
                if created {
                    // The name may have been erased.
                    let sql = "UPDATE wiki.pages SET name = $2, folded = $3 WHERE id = $1";
                    self.execute(sql, &[&state.id, &write.name.as_str(), &indexed.folded]).await?;
                }
                state.id
            }
            None => self.insert_page(&write.name, &indexed.folded, revision).await?,
        };
        let kind = if created { ChangeKind::Created } else { ChangeKind::Edited };
        self.insert_revision(page, revision, kind, write, Some((content, indexed.fields.as_deref()))).await?;
        self.insert_links(page, links).await?;
        self.insert_fields(page, &indexed.field_entries).await?;
        self.index_words(page, &indexed.words(&write.name, content)).await?;
        let mut changed = vec![write.name.clone()];
        if created {
            self.index_grams(page, &indexed.grams).await?;
            changed.append(&mut self.recolour_links(&write.name, page).await?);
        }
        Ok(self.effects.revision(self.sequence, revision, created, changed, created))
    }

    async fn delete(&mut self, write: &Write, state: &State) -> Result<Committed, Error> {
        let revision = state.revision + 1;
        self.sequence += 1;
        let sql = "UPDATE wiki.pages SET revision = $2, current = $3, live = false WHERE id = $1";
        self.execute(sql, &[&state.id, &clamp(revision), &clamp(self.sequence)]).await?;
        self.insert_revision(state.id, revision, ChangeKind::Deleted, write, None).await?;
        self.forget(state.id).await?;
        self.execute("DELETE FROM wiki.words WHERE page = $1", &[&state.id]).await?;
        self.execute("DELETE FROM wiki.grams WHERE page = $1", &[&state.id]).await?;
        let mut changed = vec![write.name.clone()];
        changed.append(&mut self.recolour_links(&write.name, state.id).await?);
        Ok(self.effects.revision(self.sequence, revision, false, changed, true))
    }

    /// Moves the page with its history to the new name; revisions of a page deleted there precede its own. At the old
    /// name a redirect begins, whose revision continues the old name's numbers.
    async fn rename(&mut self, write: &Write, to: &Name, state: &State) -> Result<WriteResult, Error> {
        let mut target = self.state(to).await?;
        if let Some(live) = target.take_if(|target| target.is_live)
            && !self.remove_left_redirect(&live, &write.name).await?
        {
            return Ok(Err(WriteError::NameTaken));
        }
        let revision = match &target {
            Some(target) => self.take_history(write, state, target).await? + 1,
            None => state.revision + 1,
        };
        let folded = fold(to.as_str());
        self.sequence += 1;
        let sql = "INSERT INTO wiki.revisions
                       (sequence, page, revision, kind, time, author, comment, bytes, redirect, fields, text)
                   SELECT $2, page, $3, $4, $5, $6, $7, bytes, redirect, fields, text
                   FROM wiki.revisions WHERE sequence = (SELECT current FROM wiki.pages WHERE id = $1) RETURNING text";
        let (sequence, kind) = (clamp(self.sequence), ChangeKind::Renamed.number());
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&state.id, &sequence, &clamp(revision), &kind, &write.time, &write.author, &write.comment];
        let texts = self.rows(sql, &parameters).await?;
        let sql = "UPDATE wiki.pages SET name = $2, folded = $3, revision = $4, current = $5 WHERE id = $1";
        self.execute(sql, &[&state.id, &to.as_str(), &&*folded, &clamp(revision), &sequence]).await?;
        let text = texts.first().map_or("", |row| row.get(0));
        self.index_words(state.id, &index_words(to.as_str(), text)).await?;
        self.index_grams(state.id, &index_grams(&folded)).await?;
        let mut changed = vec![write.name.clone(), to.clone()];
        changed.append(&mut self.recolour_links(to, state.id).await?);
        let renamed = self.sequence;
        self.redirect(write, to, state.revision + 1).await?;
        let mut committed = self.effects.revision(self.sequence, revision, false, changed, true);
        committed.sequence = renamed;
        Ok(Ok(committed))
    }

    /// Removes a page that is nothing but the redirect that a rename left, to the page `from`; returns whether it is.
    async fn remove_left_redirect(&self, target: &State, from: &Name) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM wiki.revisions WHERE page = $1
                       AND NOT EXISTS (SELECT FROM wiki.attachments WHERE page = $1)
                       AND NOT EXISTS (SELECT FROM wiki.file_changes WHERE page = $1)
                   HAVING count(*) = 1 AND max(redirect) = $2";
        if self.rows(sql, &[&target.id, &from.as_str()]).await?.is_empty() {
            return Ok(false);
        }
        self.forget(target.id).await?;
        self.execute("DELETE FROM wiki.words WHERE page = $1", &[&target.id]).await?;
        self.execute("DELETE FROM wiki.grams WHERE page = $1", &[&target.id]).await?;
        self.execute("DELETE FROM wiki.revisions WHERE page = $1", &[&target.id]).await?;
        self.execute("DELETE FROM wiki.pages WHERE id = $1", &[&target.id]).await?;
        Ok(true)
    }

    /// Moves the revisions of the deleted page before those of the renamed one, and removes its row. Returns the last
    /// revision.
    async fn take_history(&mut self, write: &Write, state: &State, deleted: &State) -> Result<u64, Error> {
        let page = state.id;
        // A redirect does not begin at 1.
        let sql = "SELECT $2::bigint + 1 - min(revision) FROM wiki.revisions WHERE page = $1";
        let moved: i64 = self.rows(sql, &[&page, &clamp(deleted.revision)]).await?.first().map_or(0, |row| row.get(0));
        let sql = "UPDATE wiki.revisions SET revision = -(revision + $2) WHERE page = $1";
        self.execute(sql, &[&page, &moved]).await?;
        self.execute("UPDATE wiki.revisions SET revision = -revision WHERE page = $1", &[&page]).await?;
        self.execute("UPDATE wiki.revisions SET page = $1 WHERE page = $2", &[&page, &deleted.id]).await?;
        let sql = "UPDATE wiki.file_changes SET revision = revision + $2 WHERE page = $1";
        self.execute(sql, &[&page, &moved]).await?;
        self.execute("UPDATE wiki.file_changes SET page = $1 WHERE page = $2", &[&page, &deleted.id]).await?;
        let newest = self.rows("SELECT max(revision) FROM wiki.revisions WHERE page = $1", &[&page]).await?;
        let newest = newest.first().map(|row| number(row, 0));
        let last = newest.ok_or_else(|| Error::Content("a page has no revision".into()))?;
        let sql = "UPDATE wiki.attachments SET page = $1 WHERE page = $2
                   AND file NOT IN (SELECT file FROM wiki.attachments WHERE page = $1)";
        self.execute(sql, &[&page, &deleted.id]).await?;
        // Those of which the renamed page has others of the same name become earlier versions.
        let sql = format!("DELETE FROM wiki.attachments a WHERE a.page = $1 RETURNING {INFO}");
        let at = State { revision: last, ..state.clone() };
        for row in self.rows(&sql, &[&deleted.id]).await? {
            let former = info(&row)?;
            self.record(write, &at, ChangeKind::Detached, &former, Some(&former)).await?;
        }
        self.execute("DELETE FROM wiki.pages WHERE id = $1", &[&deleted.id]).await?;
        Ok(last)
    }

    /// Creates the page that redirects from the old name to the new one.
    async fn redirect(&mut self, write: &Write, to: &Name, revision: u64) -> Result<(), Error> {
        let content = Content { redirect: Some(to.clone()), ..Content::default() };
        let indexed = Indexed::new(&write.name, &content);
        self.sequence += 1;
        let page = self.insert_page(&write.name, &indexed.folded, revision).await?;
        self.insert_revision(page, revision, ChangeKind::Created, write, Some((&content, None))).await?;
        self.insert_links(page, std::slice::from_ref(to)).await?;
        self.index_words(page, &indexed.words(&write.name, &content)).await?;
        self.index_grams(page, &indexed.grams).await
    }

    async fn attach(
        &mut self,
        write: &Write,
        state: &State,
        info: &AttachmentInfo,
        bytes: &[u8],
        former: Option<&AttachmentInfo>,
    ) -> Result<Committed, Error> {
        if former.is_some_and(|former| former.is_same(info)) {
            return Ok(Committed::unchanged(state.revision));
        }
        let AttachmentInfo { file, media_type, bytes: length, digest, modified } = info;
        let sql = "INSERT INTO wiki.blobs (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        self.execute(sql, &[digest, &bytes]).await?;
        let sql = "INSERT INTO wiki.attachments (page, file, media_type, digest, bytes, modified)
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (page, file) DO UPDATE
                   SET (media_type, digest, bytes, modified) = ($3, $4, $5, $6)";
        self.execute(sql, &[&state.id, &file.as_str(), media_type, digest, &clamp(*length), modified]).await?;
        let kind = if former.is_some() { ChangeKind::Replaced } else { ChangeKind::Attached };
        self.record(write, state, kind, info, former).await?;
        Ok(self.effects.attachment(self.sequence, write, state))
    }

    async fn detach(
        &mut self,
        write: &Write,
        state: &State,
        former: Option<&AttachmentInfo>,
    ) -> Result<WriteResult, Error> {
        let Some(former) = former else { return Ok(Err(WriteError::Missing)) };
        let sql = "DELETE FROM wiki.attachments WHERE page = $1 AND file = $2";
        self.execute(sql, &[&state.id, &former.file.as_str()]).await?;
        self.record(write, state, ChangeKind::Detached, former, Some(former)).await?;
        Ok(Ok(self.effects.attachment(self.sequence, write, state)))
    }

    async fn attachment(&self, page: i64, file: &Name) -> Result<Option<AttachmentInfo>, Error> {
        let sql = format!("SELECT {INFO} FROM wiki.attachments a WHERE a.page = $1 AND a.file = $2");
        self.rows(&sql, &[&page, &file.as_str()]).await?.first().map(info).transpose()
    }

    /// Adds a change of an attachment to the sequence of changes; `former` is what it replaced or deleted.
    async fn record(
        &mut self,
        write: &Write,
        state: &State,
        kind: ChangeKind,
        info: &AttachmentInfo,
        former: Option<&AttachmentInfo>,
    ) -> Result<(), Error> {
        self.sequence += 1;
        let sql = "INSERT INTO wiki.file_changes (sequence, page, revision, kind, time, author, comment, bytes, file,
                       former_digest, former_media_type, former_bytes, former_modified)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        let parameters: [&(dyn ToSql + Sync); 13] = [
            &clamp(self.sequence),
            &state.id,
            &clamp(state.revision),
            &kind.number(),
            &write.time,
            &write.author,
            &write.comment,
            &(if kind == ChangeKind::Detached { 0 } else { clamp(info.bytes) }),
            &info.file.as_str(),
            &former.map(|former| &former.digest),
            &former.map(|former| &former.media_type),
            &former.map(|former| clamp(former.bytes)),
            &former.map(|former| former.modified),
        ];
        self.execute(sql, &parameters).await?;
        self.remove_old_versions(state.id, &info.file).await
    }

    async fn remove_old_versions(&self, page: i64, file: &Name) -> Result<(), Error> {
        let sql = "SELECT sequence, former_digest FROM wiki.file_changes
                   WHERE page = $1 AND file = $2 AND former_digest IS NOT NULL ORDER BY sequence DESC OFFSET $3";
        for old in self.rows(sql, &[&page, &file.as_str(), &clamp(FILE_VERSIONS_MAX as u64)]).await? {
            let (sequence, digest): (i64, String) = (old.get(0), old.get(1));
            let sql = "UPDATE wiki.file_changes SET former_digest = NULL WHERE sequence = $1";
            self.execute(sql, &[&sequence]).await?;
            self.remove_unused_bytes(&digest).await?;
        }
        Ok(())
    }

    /// Removes bytes that are neither attached nor an earlier version.
    async fn remove_unused_bytes(&self, digest: &str) -> Result<(), Error> {
        let sql = "DELETE FROM wiki.blobs WHERE digest = $1
                   AND NOT EXISTS (SELECT FROM wiki.attachments a WHERE a.digest = $1)
                   AND NOT EXISTS (SELECT FROM wiki.file_changes f WHERE f.former_digest = $1)";
        self.execute(sql, &[&digest]).await.map(|_| ())
    }

    async fn insert_page(&self, name: &Name, folded: &str, revision: u64) -> Result<i64, Error> {
        let sql = "INSERT INTO wiki.pages (name, folded, revision, current, links_version, live)
                   VALUES ($1, $2, $3, $4, 0, true) RETURNING id";
        let rows = self.rows(sql, &[&name.as_str(), &folded, &clamp(revision), &clamp(self.sequence)]).await?;
        rows.first().map(|row| row.get(0)).ok_or_else(|| Error::Content("a new page has no number".into()))
    }

    async fn insert_revision(
        &self,
        page: i64,
        revision: u64,
        kind: ChangeKind,
        write: &Write,
        content: Option<(&Content, Option<&str>)>,
    ) -> Result<(), Error> {
        let (text, redirect, fields) = match content {
            Some((content, fields)) => (content.text.as_str(), content.redirect.as_ref().map(Name::as_str), fields),
            None => ("", None, None),
        };
        let sql = "INSERT INTO wiki.revisions
                       (sequence, page, revision, kind, time, author, comment, bytes, redirect, fields, text)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let (sequence, revision, length) = (clamp(self.sequence), clamp(revision), clamp(text.len() as u64));
        let (author, comment) = (&write.author, &write.comment);
        let parameters: [&(dyn ToSql + Sync); 11] = [
            &sequence,
            &page,
            &revision,
            &kind.number(),
            &write.time,
            author,
            comment,
            &length,
            &redirect,
            &fields,
            &text,
        ];
        self.execute(sql, &parameters).await.map(|_| ())
    }

    async fn insert_links(&self, page: i64, links: &[Name]) -> Result<(), Error> {
        if links.is_empty() {
            return Ok(());
        }
        let targets: Vec<&str> = links.iter().map(Name::as_str).collect();
        let sql = "INSERT INTO wiki.links (page, target) SELECT $1, unnest($2::text[])";
        self.execute(sql, &[&page, &targets]).await.map(|_| ())
    }

    async fn insert_fields(&self, page: i64, entries: &[(String, String)]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let (paths, values): (Vec<&str>, Vec<&str>) =
            entries.iter().map(|(path, value)| (path.as_str(), value.as_str())).unzip();
        let sql = "INSERT INTO wiki.fields (page, path, value) SELECT $1, unnest($2::text[]), unnest($3::text[])";
        self.execute(sql, &[&page, &paths, &values]).await.map(|_| ())
    }

    async fn index_words(&self, page: i64, words: &str) -> Result<(), Error> {
        let sql = "INSERT INTO wiki.words (page, words) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))
                   ON CONFLICT (page) DO UPDATE SET words = excluded.words";
        self.execute(sql, &[&page, &words]).await.map(|_| ())
    }

    async fn index_grams(&self, page: i64, grams: &str) -> Result<(), Error> {
        let sql = "INSERT INTO wiki.grams (page, grams) VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))
                   ON CONFLICT (page) DO UPDATE SET grams = excluded.grams";
        self.execute(sql, &[&page, &grams]).await.map(|_| ())
    }

    /// Removes the links and the fields of the page's former text.
    async fn forget(&self, page: i64) -> Result<(), Error> {
        self.execute("DELETE FROM wiki.links WHERE page = $1", &[&page]).await?;
        self.execute("DELETE FROM wiki.fields WHERE page = $1", &[&page]).await?;
        Ok(())
    }

    /// Links to `name` are displayed differently from now on: returns the pages that contain them, except `page`.
    async fn recolour_links(&self, name: &Name, page: i64) -> Result<Vec<Name>, Error> {
        let sql = "UPDATE wiki.pages SET links_version = links_version + 1
                   WHERE id IN (SELECT page FROM wiki.links WHERE target = $1) AND id <> $2 RETURNING name";
        let rows = self.rows(sql, &[&name.as_str(), &page]).await?;
        let mut names: Vec<Name> = rows.iter().filter_map(|row| Name::parse(row.get(0)).ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn newest_purge(&self) -> Result<u64, Error> {
        let rows = self.rows("SELECT sequence FROM wiki.newest_purge", &[]).await?;
        Ok(rows.first().map_or(0, |row| number(row, 0)))
    }

    async fn set_edges(&mut self, edges: &[String]) -> Result<bool, Error> {
        let newest = clamp(self.newest_purge().await?);
        let removed = self.execute("DELETE FROM wiki.edges WHERE edge <> ALL ($1)", &[&edges]).await?;
        let sql = "INSERT INTO wiki.edges (edge, through) SELECT unnest($1::text[]), $2 ON CONFLICT (edge) DO NOTHING";
        let added = self.execute(sql, &[&edges, &newest]).await?;
        self.has_edges = !edges.is_empty();
        self.remove_confirmed().await?;
        Ok(removed + added > 0)
    }

    async fn confirm(&self, edge: &str, through: u64) -> Result<bool, Error> {
        let through = clamp(through.min(self.newest_purge().await?));
        let sql = "UPDATE wiki.edges SET through = greatest(through, $2),
                       everything = CASE WHEN everything > $2 THEN everything END
                   WHERE edge = $1 AND (through < $2 OR everything <= $2)";
        let confirmed = self.execute(sql, &[&edge, &through]).await? > 0;
        if confirmed {
            self.remove_confirmed().await?;
        }
        Ok(confirmed)
    }

    /// Removes the keys that every edge has confirmed; without edges, all.
    async fn remove_confirmed(&self) -> Result<(), Error> {
        let sql = "DELETE FROM wiki.purges
                   WHERE sequence <= coalesce((SELECT min(through) FROM wiki.edges), sequence)";
        self.execute(sql, &[]).await.map(|_| ())
    }

    async fn set_value(&self, key: &str, expected: Option<Option<&str>>, new: Option<&str>) -> Result<bool, Error> {
        if let Some(expected) = expected
            && value(self.transaction, key).await?.as_deref() != expected
        {
            return Ok(false);
        }
        match new {
            Some(new) => {
                let sql = "INSERT INTO wiki.values (key, value) VALUES ($1, $2)
                           ON CONFLICT (key) DO UPDATE SET value = excluded.value";
                self.execute(sql, &[&key, &new]).await?
            }
            None => self.execute("DELETE FROM wiki.values WHERE key = $1", &[&key]).await?,
        };
        Ok(true)
    }
}
