//! The statements of one transaction, which executes a batch of operations.
//!
//! Changes to the index of titles are deferred to the end of the transaction: FTS5 then writes one segment for the
//! whole batch, and there are no more statements with their own rollback, which would make it write earlier. The links
//! and fields of an import are deferred too, so that they are inserted in the order of their indexes (see
//! [`pending_saves`](super::pending_saves)).

mod erase;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::pending_saves::{LinkStep, PendingSaves};
use super::read::{INFO, found, info, one, rows, value};
use super::word_index::{NewSegment, next_generation};
use crate::effects::Effects;
use crate::error::WriteError;
use crate::keys::PURGES_QUEUED_MAX;
use crate::name::{Name, PSEUDONYM_KEY};
use crate::operation::{Import, Operation, OperationOutcome, OperationResult};
use crate::page::{AttachmentInfo, ChangeKind, Committed, Condition, Content, Write, WriteAction};
use crate::postings::{Postings, PostingsIter};
use crate::prepared_write::{Derived, Indexed, Prepared, State, holds};
use crate::results::FILE_VERSIONS_MAX;
use crate::words::{fold, index_grams};

type WriteResult = Result<Committed, WriteError>;

const LAST_SEQUENCE: &str = "SELECT max(coalesce((SELECT max(sequence) FROM revisions), 0),
    coalesce((SELECT max(sequence) FROM file_changes), 0))";

/// The versions of a file that are not kept.
const OLD_VERSIONS: &str = "SELECT sequence, former_digest FROM file_changes
    WHERE page = ?1 AND file = ?2 AND former_digest IS NOT NULL ORDER BY sequence DESC LIMIT -1 OFFSET ?3";

/// A transaction in progress.
pub(super) struct Batch<'a> {
    connection: &'a Connection,
    /// Last number used in the sequence of changes.
    sequence: u64,
    has_edges: bool,
    /// The key of [`Name::pseudonym`]; `None` if no name was erased yet.
    pseudonym_key: Option<String>,
    imported: Option<Imported<'a>>,
    /// Pages whose names change: their entries in the index of titles, or `None` to remove them.
    grams: BTreeMap<i64, Option<Cow<'a, str>>>,
    /// Pages whose words are indexed later, with the lengths of their texts.
    unindexed: BTreeMap<i64, usize>,
    effects: Effects,
}

/// The pages of an import in progress: their words are indexed with it, their links and fields at its end.
struct Imported<'a> {
    generation: i64,
    /// Number of the current write, from 1.
    write: u64,
    /// The last write of each page.
    writes: HashMap<i64, u64>,
    pending: PendingSaves<'a>,
}

/// The changes of a transaction, for the caches.
pub(super) struct Changed {
    /// Pages whose representations changed.
    pub(super) pages: BTreeSet<Name>,
    /// Pages whose words are indexed later, with the lengths of their texts.
    pub(super) unindexed: BTreeMap<i64, usize>,
}

/// How links to a name are displayed.
#[derive(Clone, Copy)]
enum Appearance {
    /// There is no page.
    Red,
    Present,
}

impl<'a> Batch<'a> {
    pub(super) fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            sequence: one(connection, LAST_SEQUENCE, &[])?,
            has_edges: one(connection, "SELECT EXISTS (SELECT 1 FROM edges)", &[])?,
            pseudonym_key: value(connection, PSEUDONYM_KEY)?,
            imported: None,
            grams: BTreeMap::new(),
            unindexed: BTreeMap::new(),
            effects: Effects::default(),
        })
    }

    pub(super) fn carry_out(&mut self, operation: &'a Operation) -> rusqlite::Result<OperationResult> {
        Ok(match operation {
            Operation::Write(prepared) => self.write(prepared)?.map(OperationOutcome::Committed),
            Operation::Import(import) => Ok(OperationOutcome::Counted(self.import(import)?)),
            Operation::SetEdges(edges) => Ok(OperationOutcome::Done(self.set_edges(edges)?)),
            Operation::Purge(key) => {
                self.effects.purge(key);
                Ok(OperationOutcome::Done(true))
            }
            Operation::Purged { edge, through } => Ok(OperationOutcome::Done(self.confirm(edge, *through)?)),
            Operation::SetValue { key, expected, value } => {
                let expected = expected.as_ref().map(|expected| expected.as_deref());
                Ok(OperationOutcome::Done(self.set_value(key, expected, value.as_deref())?))
            }
            Operation::Erase { targets, time } => Ok(OperationOutcome::Erased(self.erase(targets, *time)?)),
            Operation::EraseAuthor(author) => Ok(OperationOutcome::Counted(self.erase_author(author)?)),
        })
    }

    /// Writes the indexes and queues the purges.
    pub(super) fn finish(mut self) -> rusqlite::Result<Changed> {
        self.record_unindexed()?;
        for (page, grams) in std::mem::take(&mut self.grams) {
            match grams {
                Some(grams) => {
                    let sql = "INSERT OR REPLACE INTO title_grams (rowid, grams) VALUES (?1, ?2)";
                    self.execute(sql, params![page, grams])?
                }
                None => self.execute("DELETE FROM title_grams WHERE rowid = ?1", [page])?,
            };
        }
        self.queue_purges()?;
        Ok(Changed { pages: self.effects.into_pages(), unindexed: self.unindexed })
    }

    fn record_unindexed(&self) -> rusqlite::Result<()> {
        for page in self.unindexed.keys() {
            self.execute("INSERT OR IGNORE INTO unindexed (page) VALUES (?1)", [page])?;
        }
        Ok(())
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(parameters)
    }

    /// The state of the page, also if its name was erased.
    fn state(&self, name: &Name) -> rusqlite::Result<Option<State>> {
        match (self.state_of_exactly(name)?, &self.pseudonym_key) {
            (None, Some(key)) => self.state_of_exactly(&name.pseudonym(key)),
            (found, _) => Ok(found),
        }
    }

    fn state_of_exactly(&self, name: &Name) -> rusqlite::Result<Option<State>> {
        self.connection
            .prepare_cached("SELECT id, revision, live FROM pages WHERE name = ?1")?
            .query_row([name.as_str()], |row| {
                Ok(State { id: row.get(0)?, revision: row.get(1)?, is_live: row.get(2)? })
            })
            .optional()
    }

    fn import(&mut self, import: &'a Import) -> rusqlite::Result<u64> {
        let generation = next_generation(self.connection)?;
        self.imported =
            Some(Imported { generation, write: 0, writes: HashMap::new(), pending: PendingSaves::default() });
        let mut count = 0;
        for prepared in &import.writes {
            debug_assert_eq!(prepared.write.condition, Condition::Any);
            if let Some(imported) = &mut self.imported {
                imported.write += 1;
            }
            count += u64::from(self.write(prepared)?.is_ok());
        }
        self.insert_pending()?;
        match self.imported.take() {
            Some(imported) if !imported.writes.is_empty() => self.index(&import.words, &imported)?,
            _ => {}
        }
        Ok(count)
    }

    /// Writes the words of an import, except those of a text that the same import replaced.
    fn index(&self, words: &[(Box<str>, Postings)], imported: &Imported<'_>) -> rusqlite::Result<()> {
        let mut page_of = vec![None; usize::try_from(imported.write).unwrap_or(usize::MAX) + 1];
        for (page, write) in &imported.writes {
            page_of[*write as usize] = Some(page.unsigned_abs());
        }
        let mut segment = NewSegment::new(self.connection)?;
        for (word, writes) in words {
            let pages = PostingsIter::from_bytes(writes.bytes())
                .filter_map(|write| page_of.get(write as usize).copied().flatten());
            let mut pages: Vec<u64> = pages.collect();
            // New pages have ascending numbers; existing ones may be among them.
            if !pages.is_sorted() {
                pages.sort_unstable();
            }
            segment.add(word, &pages.into_iter().collect())?;
        }
        segment.finish((imported.generation, imported.generation), imported.writes.len() as u64)
    }

    fn write(&mut self, prepared: &'a Prepared) -> rusqlite::Result<WriteResult> {
        let write = &prepared.write;
        if write.new_name().is_some_and(Name::is_pseudonym) {
            return Ok(Err(WriteError::NameTaken));
        }
        let state = self.state(&write.name)?;
        if !holds(write.condition, state.as_ref()) {
            return Ok(Err(WriteError::Conflict(found(self.connection, &write.name)?)));
        }
        if let (WriteAction::Save { content, links }, Derived::Saved(indexed)) = (&write.action, &prepared.derived) {
            return self.save(write, content, links, indexed, state.as_ref()).map(Ok);
        }
        let Some(state) = state.filter(|state| state.is_live) else { return Ok(Err(WriteError::Missing)) };
        let mut former = None;
        if let Some((file, condition)) = write.action.file() {
            former = self.attachment(state.id, file)?;
            if !condition.holds(former.as_ref()) {
                return Ok(Err(WriteError::FileConflict));
            }
        }
        if matches!(write.action, WriteAction::Delete | WriteAction::Rename { .. }) {
            // These change existing links.
            self.insert_pending()?;
        }
        match (&write.action, &prepared.derived) {
            (WriteAction::Rename { to }, _) => self.rename(write, to, &state),
            (WriteAction::Attach { bytes, .. }, Derived::Attached(info)) => {
                self.attach(write, &state, info, bytes, former.as_ref()).map(Ok)
            }
            (WriteAction::Detach { .. }, _) => self.detach(write, &state, former.as_ref()),
            _ => self.delete(write, &state).map(Ok),
        }
    }

    fn save(
        &mut self,
        write: &'a Write,
        content: &Content,
        links: &'a [Name],
        indexed: &'a Indexed,
        state: Option<&State>,
    ) -> rusqlite::Result<Committed> {
        let created = !state.is_some_and(|state| state.is_live);
        let revision = state.map_or(1, |state| state.revision + 1);
        self.sequence += 1;
        let generation = self.imported.as_ref().map(|imported| imported.generation);
        let page = match state {
            Some(state) => {
                let sql = "UPDATE pages SET revision = ?2, current = ?3, live = 1, red_links = NULL,
                               generation = coalesce(?4, generation) WHERE id = ?1";
                self.execute(sql, params![state.id, revision, self.sequence, generation])?;
                self.forget(state.id)?;
                if created {
                    // The name may have been erased.
                    let sql = "UPDATE pages SET name = ?2, folded = ?3 WHERE id = ?1";
                    self.execute(sql, params![state.id, write.name.as_str(), indexed.folded])?;
                }
                state.id
            }
            None => self.insert_page(&write.name, &indexed.folded, revision, generation)?,
        };
        let kind = if created { ChangeKind::Created } else { ChangeKind::Edited };
        self.insert_revision(page, revision, kind, write, Some((content, indexed.fields.as_deref())))?;
        let mut changed = vec![write.name.clone()];
        if created {
            self.grams.insert(page, Some(Cow::Borrowed(&indexed.grams)));
        }
        match &mut self.imported {
            Some(imported) => {
                imported.writes.insert(page, imported.write);
                imported.pending.save(page, links, &indexed.field_entries, created.then_some(&write.name));
            }
            None => {
                self.unindexed.insert(page, content.text.len());
                self.insert_links(page, links)?;
                let mut fields = indexed.field_entries.iter();
                fields.try_for_each(|(path, value)| self.insert_field(path, value, page))?;
                if created {
                    changed.append(&mut self.recolour_links(write.name.as_str(), page, Appearance::Present)?);
                }
            }
        }
        Ok(self.effects.revision(self.sequence, revision, created, changed, created))
    }

    fn delete(&mut self, write: &Write, state: &State) -> rusqlite::Result<Committed> {
        let revision = state.revision + 1;
        self.sequence += 1;
        let sql = "UPDATE pages SET revision = ?2, current = ?3, live = 0, red_links = NULL WHERE id = ?1";
        self.execute(sql, params![state.id, revision, self.sequence])?;
        self.insert_revision(state.id, revision, ChangeKind::Deleted, write, None)?;
        self.forget(state.id)?;
        self.unindexed.insert(state.id, 0);
        self.grams.insert(state.id, None);
        let mut changed = vec![write.name.clone()];
        changed.append(&mut self.recolour_links(write.name.as_str(), state.id, Appearance::Red)?);
        Ok(self.effects.revision(self.sequence, revision, false, changed, true))
    }

    /// Moves the page with its history to the new name; revisions of a page deleted there precede its own. At the old
    /// name a redirect begins, whose revision continues the old name's numbers.
    fn rename(&mut self, write: &Write, to: &Name, state: &State) -> rusqlite::Result<WriteResult> {
        let mut target = self.state(to)?;
        if let Some(live) = target.take_if(|target| target.is_live)
            && !self.remove_left_redirect(&live, &write.name)?
        {
            return Ok(Err(WriteError::NameTaken));
        }
        let revision = match &target {
            Some(target) => self.take_history(write, state, target)? + 1,
            None => state.revision + 1,
        };
        let folded = fold(to.as_str());
        self.sequence += 1;
        self.execute(
            "INSERT INTO revisions
                 (sequence, page, revision, kind, time, author, comment, bytes, redirect, fields, text)
             SELECT ?2, page, ?3, ?4, ?5, ?6, ?7, bytes, redirect, fields, text
             FROM revisions WHERE sequence = (SELECT current FROM pages WHERE id = ?1)",
            params![
                state.id,
                self.sequence,
                revision,
                ChangeKind::Renamed.number(),
                write.time,
                write.author,
                write.comment
            ],
        )?;
        self.execute(
            "UPDATE pages SET name = ?2, folded = ?3, revision = ?4, current = ?5 WHERE id = ?1",
            params![state.id, to.as_str(), folded, revision, self.sequence],
        )?;
        let sql = "SELECT bytes FROM revisions WHERE sequence = ?1";
        self.unindexed.insert(state.id, one(self.connection, sql, &[&self.sequence])?);
        self.grams.insert(state.id, Some(Cow::Owned(index_grams(&folded))));
        let mut changed = vec![write.name.clone(), to.clone()];
        changed.append(&mut self.recolour_links(to.as_str(), state.id, Appearance::Present)?);
        let sequence = self.sequence;
        self.redirect(write, to, state.revision + 1)?;
        // The page may link to itself by either name.
        self.find_red_links(state.id)?;
        let mut committed = self.effects.revision(self.sequence, revision, false, changed, true);
        committed.sequence = sequence;
        Ok(Ok(committed))
    }

    /// Removes a page that is nothing but the redirect that a rename left, to the page `from`; returns whether it is.
    fn remove_left_redirect(&mut self, target: &State, from: &Name) -> rusqlite::Result<bool> {
        let sql = "SELECT count(*) = 1 AND max(redirect) IS ?2
                       AND NOT EXISTS (SELECT 1 FROM attachments WHERE page = ?1)
                       AND NOT EXISTS (SELECT 1 FROM file_changes WHERE page = ?1)
                   FROM revisions WHERE page = ?1";
        if !one::<bool>(self.connection, sql, &[&target.id, &from.as_str()])? {
            return Ok(false);
        }
        self.forget(target.id)?;
        self.execute("DELETE FROM revisions WHERE page = ?1", [target.id])?;
        self.execute("DELETE FROM pages WHERE id = ?1", [target.id])?;
        self.unindexed.insert(target.id, 0);
        self.grams.insert(target.id, None);
        Ok(true)
    }

    /// Moves the revisions of the deleted page before those of the renamed one, and removes its row. Returns the last
    /// revision.
    fn take_history(&mut self, write: &Write, state: &State, deleted: &State) -> rusqlite::Result<u64> {
        let page = state.id;
        // A redirect does not begin at 1.
        let sql = "SELECT ?2 + 1 - min(revision) FROM revisions WHERE page = ?1";
        let moved: i64 = one(self.connection, sql, &[&page, &deleted.revision])?;
        self.execute("UPDATE revisions SET revision = -(revision + ?2) WHERE page = ?1", params![page, moved])?;
        self.execute("UPDATE revisions SET revision = -revision WHERE page = ?1", [page])?;
        self.execute("UPDATE revisions SET page = ?1 WHERE page = ?2", [page, deleted.id])?;
        self.execute("UPDATE file_changes SET revision = revision + ?2 WHERE page = ?1", params![page, moved])?;
        self.execute("UPDATE file_changes SET page = ?1 WHERE page = ?2", [page, deleted.id])?;
        let last = one(self.connection, "SELECT max(revision) FROM revisions WHERE page = ?1", &[&page])?;
        self.execute("UPDATE OR IGNORE attachments SET page = ?1 WHERE page = ?2", [page, deleted.id])?;
        // Those of which the renamed page has others of the same name become earlier versions.
        let sql = format!("SELECT {INFO} FROM attachments a WHERE a.page = ?1");
        let hidden: Vec<AttachmentInfo> = rows(self.connection, &sql, [deleted.id], info)?;
        self.execute("DELETE FROM attachments WHERE page = ?1", [deleted.id])?;
        let at = State { revision: last, ..state.clone() };
        for former in &hidden {
            self.record(write, &at, ChangeKind::Detached, former, Some(former))?;
        }
        self.execute("DELETE FROM pages WHERE id = ?1", [deleted.id])?;
        Ok(last)
    }

    /// Creates the page that redirects from the old name to the new one.
    fn redirect(&mut self, write: &Write, to: &Name, revision: u64) -> rusqlite::Result<()> {
        let content = Content { redirect: Some(to.clone()), ..Content::default() };
        let indexed = Indexed::new(&write.name, &content);
        self.sequence += 1;
        let page = self.insert_page(&write.name, &indexed.folded, revision, None)?;
        self.insert_revision(page, revision, ChangeKind::Created, write, Some((&content, None)))?;
        self.insert_links(page, std::slice::from_ref(to))?;
        self.unindexed.insert(page, content.text.len());
        self.grams.insert(page, Some(Cow::Owned(indexed.grams)));
        Ok(())
    }

    fn attach(
        &mut self,
        write: &Write,
        state: &State,
        info: &AttachmentInfo,
        bytes: &Bytes,
        former: Option<&AttachmentInfo>,
    ) -> rusqlite::Result<Committed> {
        if former.is_some_and(|former| former.is_same(info)) {
            return Ok(Committed::unchanged(state.revision));
        }
        let AttachmentInfo { file, media_type, bytes: length, digest, modified } = info;
        let sql = "INSERT INTO blobs (digest, bytes) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING";
        self.execute(sql, params![digest, &bytes[..]])?;
        self.execute(
            "INSERT OR REPLACE INTO attachments (page, file, media_type, digest, bytes, modified)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![state.id, file.as_str(), media_type, digest, length, modified],
        )?;
        let kind = if former.is_some() { ChangeKind::Replaced } else { ChangeKind::Attached };
        self.record(write, state, kind, info, former)?;
        Ok(self.effects.attachment(self.sequence, write, state))
    }

    fn detach(
        &mut self,
        write: &Write,
        state: &State,
        former: Option<&AttachmentInfo>,
    ) -> rusqlite::Result<WriteResult> {
        let Some(former) = former else { return Ok(Err(WriteError::Missing)) };
        let sql = "DELETE FROM attachments WHERE page = ?1 AND file = ?2";
        self.execute(sql, params![state.id, former.file.as_str()])?;
        self.record(write, state, ChangeKind::Detached, former, Some(former))?;
        Ok(Ok(self.effects.attachment(self.sequence, write, state)))
    }

    fn attachment(&self, page: i64, file: &Name) -> rusqlite::Result<Option<AttachmentInfo>> {
        let sql = format!("SELECT {INFO} FROM attachments a WHERE a.page = ?1 AND a.file = ?2");
        Ok(rows(self.connection, &sql, params![page, file.as_str()], info)?.pop())
    }

    /// Adds a change of an attachment to the sequence of changes; `former` is what it replaced or deleted.
    fn record(
        &mut self,
        write: &Write,
        state: &State,
        kind: ChangeKind,
        info: &AttachmentInfo,
        former: Option<&AttachmentInfo>,
    ) -> rusqlite::Result<()> {
        self.sequence += 1;
        self.execute(
            "INSERT INTO file_changes (sequence, page, revision, kind, time, author, comment, bytes, file,
                 former_digest, former_media_type, former_bytes, former_modified)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params![
                self.sequence,
                state.id,
                state.revision,
                kind.number(),
                write.time,
                write.author,
                write.comment,
                if kind == ChangeKind::Detached { 0 } else { info.bytes },
                info.file.as_str(),
                former.map(|former| &former.digest),
                former.map(|former| &former.media_type),
                former.map(|former| former.bytes),
                former.map(|former| former.modified),
            ],
        )?;
        self.remove_old_versions(state.id, &info.file)
    }

    fn remove_old_versions(&self, page: i64, file: &Name) -> rusqlite::Result<()> {
        let parameters = params![page, file.as_str(), FILE_VERSIONS_MAX];
        let old: Vec<(i64, String)> =
            rows(self.connection, OLD_VERSIONS, parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (sequence, digest) in old {
            self.execute("UPDATE file_changes SET former_digest = NULL WHERE sequence = ?1", [sequence])?;
            self.remove_unused_bytes(&digest)?;
        }
        Ok(())
    }

    /// Removes bytes that are neither attached nor an earlier version.
    fn remove_unused_bytes(&self, digest: &str) -> rusqlite::Result<()> {
        let sql = "DELETE FROM blobs WHERE digest = ?1
                   AND NOT EXISTS (SELECT 1 FROM attachments a WHERE a.digest = ?1)
                   AND NOT EXISTS (SELECT 1 FROM file_changes f WHERE f.former_digest = ?1)";
        self.execute(sql, [digest]).map(|_| ())
    }

    fn insert_page(&self, name: &Name, folded: &str, revision: u64, generation: Option<i64>) -> rusqlite::Result<i64> {
        self.execute(
            "INSERT INTO pages (name, folded, revision, current, links_version, live, generation)
             VALUES (?1, ?2, ?3, ?4, 0, 1, ?5)",
            params![name.as_str(), folded, revision, self.sequence, generation],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn insert_revision(
        &self,
        page: i64,
        revision: u64,
        kind: ChangeKind,
        write: &Write,
        content: Option<(&Content, Option<&str>)>,
    ) -> rusqlite::Result<()> {
        let (text, redirect, fields) = match content {
            Some((content, fields)) => (content.text.as_str(), content.redirect.as_ref().map(Name::as_str), fields),
            None => ("", None, None),
        };
        self.execute(
            "INSERT INTO revisions
                 (sequence, page, revision, kind, time, author, comment, bytes, redirect, fields, text)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                self.sequence,
                page,
                revision,
                kind.number(),
                write.time,
                write.author,
                write.comment,
                text.len(),
                redirect,
                fields,
                text
            ],
        )?;
        Ok(())
    }

    fn insert_links(&self, page: i64, links: &[Name]) -> rusqlite::Result<()> {
        for target in links {
            self.insert_link(page, target.as_str())?;
        }
        if links.is_empty() { Ok(()) } else { self.find_red_links(page) }
    }

    fn find_red_links(&self, page: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE pages SET red_links = (
                       SELECT group_concat(l.target, char(10)) FROM links l WHERE l.page = ?1
                       AND NOT EXISTS (SELECT 1 FROM pages q WHERE q.name = l.target AND q.live = 1)
                   ) WHERE id = ?1";
        self.execute(sql, [page]).map(|_| ())
    }

    fn insert_field(&self, path: &str, value: &str, page: i64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO fields (path, value, page) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![path, value, page]).map(|_| ())
    }

    fn insert_link(&self, page: i64, target: &str) -> rusqlite::Result<()> {
        self.execute("INSERT INTO links (page, target) VALUES (?1, ?2)", params![page, target]).map(|_| ())
    }

    /// Inserts the pending links and fields, and finds the red links of their pages.
    fn insert_pending(&mut self) -> rusqlite::Result<()> {
        let Some(imported) = &mut self.imported else { return Ok(()) };
        let pending = std::mem::take(&mut imported.pending);
        for (path, value, page) in pending.fields() {
            self.insert_field(path, value, page)?;
        }
        let mut red_links = Vec::new();
        let mut last = ("", false);
        for (name, step) in pending.steps() {
            match step {
                // Finds earlier links: those of the transaction follow.
                LinkStep::Created(page) => {
                    let changed = self.recolour_links(name, page, Appearance::Present)?;
                    self.effects.recoloured(changed);
                    last = (name, true);
                }
                LinkStep::Linked(page) => {
                    if last.0 != name {
                        last = (name, self.exists(name)?);
                    }
                    self.insert_link(page, name)?;
                    let (_, exists) = last;
                    red_links.extend((!exists).then_some((page, name)));
                }
            }
        }
        self.set_red_links(red_links)
    }

    fn exists(&self, name: &str) -> rusqlite::Result<bool> {
        one(self.connection, "SELECT EXISTS (SELECT 1 FROM pages WHERE name = ?1 AND live = 1)", &[&name])
    }

    /// Sets the red links of pages that have none yet.
    fn set_red_links(&self, mut links: Vec<(i64, &str)>) -> rusqlite::Result<()> {
        links.sort_unstable();
        for links in links.chunk_by(|(page, _), (next, _)| page == next) {
            let names: Vec<&str> = links.iter().map(|(_, name)| *name).collect();
            self.execute("UPDATE pages SET red_links = ?2 WHERE id = ?1", params![links[0].0, names.join("\n")])?;
        }
        Ok(())
    }

    /// Removes the links and the fields of the page's former text.
    fn forget(&self, page: i64) -> rusqlite::Result<()> {
        self.execute("DELETE FROM links WHERE page = ?1", [page])?;
        self.execute("DELETE FROM fields WHERE page = ?1", [page])?;
        Ok(())
    }

    /// Links to `name` are displayed differently from now on: returns the pages that contain them, except `page`.
    fn recolour_links(&self, name: &str, page: i64, appearance: Appearance) -> rusqlite::Result<Vec<Name>> {
        let sql = "SELECT EXISTS (SELECT 1 FROM links WHERE target = ?1 AND page <> ?2)";
        // RETURNING creates a temporary table, and most new pages have no links to them yet.
        if !one::<bool>(self.connection, sql, &[&name, &page])? {
            return Ok(Vec::new());
        }
        let red_links = match appearance {
            Appearance::Red => "coalesce(red_links || char(10), '') || ?1",
            Appearance::Present => {
                "nullif(trim(replace(char(10) || red_links || char(10), char(10) || ?1 || char(10), char(10)),
                     char(10)), '')"
            }
        };
        let sql = format!(
            "UPDATE pages SET links_version = links_version + 1, red_links = {red_links}
             WHERE id IN (SELECT page FROM links WHERE target = ?1) AND id <> ?2 RETURNING name"
        );
        let names: Vec<String> = rows(self.connection, &sql, params![name, page], |row| row.get(0))?;
        Ok(names.iter().filter_map(|name| Name::parse(name).ok()).collect())
    }

    fn queue_purges(&self) -> rusqlite::Result<()> {
        let queued = if self.has_edges { self.effects.keys() } else { Vec::new() };
        if queued.is_empty() {
            return Ok(());
        }
        for key in queued {
            self.execute("INSERT INTO purges (key) VALUES (?1)", [key])?;
        }
        let newest = self.connection.last_insert_rowid();
        let sql = "UPDATE edges SET through = ?1, everything = ?1 WHERE ?1 - through > ?2";
        if self.execute(sql, params![newest, PURGES_QUEUED_MAX])? > 0 {
            self.remove_confirmed()?;
        }
        Ok(())
    }

    fn set_edges(&mut self, edges: &[String]) -> rusqlite::Result<bool> {
        let (newest, mut changed) = (self.newest_purge()?, false);
        let known: Vec<String> = rows(self.connection, "SELECT edge FROM edges", [], |row| row.get(0))?;
        for edge in known.iter().filter(|edge| !edges.contains(edge)) {
            changed |= self.execute("DELETE FROM edges WHERE edge = ?1", [edge])? > 0;
        }
        for edge in edges {
            let sql = "INSERT INTO edges (edge, through) VALUES (?1, ?2) ON CONFLICT (edge) DO NOTHING";
            changed |= self.execute(sql, params![edge, newest])? > 0;
        }
        self.has_edges = !edges.is_empty();
        self.remove_confirmed()?;
        Ok(changed)
    }

    fn newest_purge(&self) -> rusqlite::Result<u64> {
        one(self.connection, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'purges'", &[])
    }

    fn confirm(&self, edge: &str, through: u64) -> rusqlite::Result<bool> {
        let sql = "UPDATE edges SET through = max(through, ?2),
                       everything = CASE WHEN everything > ?2 THEN everything END
                   WHERE edge = ?1 AND (through < ?2 OR everything <= ?2)";
        let through = through.min(self.newest_purge()?);
        let confirmed = self.execute(sql, params![edge, through])? > 0;
        if confirmed {
            self.remove_confirmed()?;
        }
        Ok(confirmed)
    }

    /// Removes the keys that every edge has confirmed; without edges, all.
    fn remove_confirmed(&self) -> rusqlite::Result<()> {
        let sql = "DELETE FROM purges WHERE sequence <= coalesce((SELECT min(through) FROM edges), sequence)";
        self.execute(sql, []).map(|_| ())
    }

    fn set_value(&self, key: &str, expected: Option<Option<&str>>, value: Option<&str>) -> rusqlite::Result<bool> {
        if let Some(expected) = expected
            && super::read::value(self.connection, key)?.as_deref() != expected
        {
            return Ok(false);
        }
        match value {
            Some(value) => {
                self.execute("INSERT OR REPLACE INTO wiki_values (key, value) VALUES (?1, ?2)", [key, value])?
            }
            None => self.execute("DELETE FROM wiki_values WHERE key = ?1", [key])?,
        };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::schema::migrate;
    use super::*;

    #[test]
    fn old_versions_are_found_without_reading_all_changes() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("")).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {OLD_VERSIONS}");
        let plan: Vec<String> = rows(&connection, &sql, params![1, "f", 10], |row| row.get("detail")).unwrap();
        assert_eq!(plan, ["SEARCH file_changes USING INDEX file_changes_versions (page=? AND file=?)"]);
    }
}
