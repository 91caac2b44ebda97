//! Erases texts and bytes for good.

use std::collections::BTreeSet;

use rusqlite::{Params, params};

use super::Batch;
use crate::erasure::{EraseError, OTHER_PLACES_MAX, Target, TargetPart};
use crate::keys;
use crate::name::{Name, PSEUDONYM_KEY};
use crate::page::Millis;
use crate::results::clamp;
use crate::sqlite::read::{one, rows, target};
use crate::sqlite::word_index::remove_obsolete;
use crate::words::{each_index_word, fold};

/// Limit of the words that are collected at a time, without those of the last text.
const WORDS_MAX: usize = 100_000;

/// The digests of the bytes at a target.
type Digests = BTreeSet<String>;

impl Batch<'_> {
    /// Erases all targets, or none if one of them cannot be erased. Returns other places of the same bytes.
    pub(super) fn erase(
        &mut self,
        targets: &[Target],
        time: Millis,
    ) -> rusqlite::Result<Result<Vec<Target>, EraseError>> {
        let mut pages = Vec::with_capacity(targets.len());
        for target in targets {
            match self.erasable(target)? {
                Ok(page) => pages.push(page),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        // What this transaction has written is not in the full-text index either.
        self.record_unindexed()?;
        let mut digests = Digests::new();
        for (target, page) in targets.iter().zip(pages) {
            match &target.part {
                TargetPart::Page => digests.append(&mut self.erase_page(page, &target.page, time)?),
                TargetPart::Revision(revision) => self.erase_revision(page, *revision, time)?,
                TargetPart::Change(sequence) => self.erase_author_and_comment(page, *sequence)?,
                TargetPart::File(file) => digests.append(&mut self.erase_file(page, file, time)?),
                TargetPart::Version(file, sequence) => {
                    digests.append(&mut self.erase_version(page, file, *sequence, time)?);
                }
            }
            self.effects.erased(&target.page);
        }
        let mut others = Vec::new();
        for digest in &digests {
            self.remove_unused_bytes(digest)?;
            others.append(&mut self.places(digest)?);
        }
        others.truncate(OTHER_PLACES_MAX);
        Ok(Ok(others))
    }

    /// The page of the target, if the target exists and is not in use.
    fn erasable(&self, target: &Target) -> rusqlite::Result<Result<i64, EraseError>> {
        let Some(state) = self.state(&target.page)? else {
            return Ok(Err(EraseError::Missing(target.clone())));
        };
        let (exists, is_in_use) = match &target.part {
            TargetPart::Page => (true, state.is_live),
            TargetPart::Revision(revision) => {
                let sql = "SELECT EXISTS (SELECT 1 FROM revisions WHERE page = ?1 AND revision = ?2)";
                let exists = one(self.connection, sql, &[&state.id, &clamp(*revision)])?;
                (exists, state.is_live && *revision == state.revision)
            }
            TargetPart::Change(sequence) => {
                let sql = "SELECT EXISTS (SELECT 1 FROM revisions WHERE page = ?1 AND sequence = ?2
                               UNION ALL SELECT 1 FROM file_changes WHERE page = ?1 AND sequence = ?2)";
                (one(self.connection, sql, &[&state.id, &clamp(*sequence)])?, false)
            }
            TargetPart::File(file) => {
                let is_attached = self.attachment(state.id, file)?.is_some();
                // It may have been erased before.
                let pseudonym = self.pseudonym_key.as_ref().map(|key| file.pseudonym(key));
                let pseudonym = pseudonym.as_ref().map(Name::as_str);
                let sql = "SELECT EXISTS (SELECT 1 FROM file_changes WHERE page = ?1 AND file IN (?2, ?3))";
                let has_history: bool = one(self.connection, sql, &[&state.id, &file.as_str(), &pseudonym])?;
                (is_attached || has_history, is_attached && state.is_live)
            }
            TargetPart::Version(file, sequence) => {
                let sql = "SELECT EXISTS (SELECT 1 FROM file_changes
                               WHERE page = ?1 AND file = ?2 AND sequence = ?3 AND former_bytes IS NOT NULL)";
                (one(self.connection, sql, &[&state.id, &file.as_str(), &clamp(*sequence)])?, false)
            }
        };
        Ok(target.check(exists, is_in_use).map(|()| state.id))
    }

    /// Erases a deleted page except its deletion, under a pseudonym: its numbers continue, since its earlier ones are
    /// in entity tags.
    fn erase_page(&mut self, page: i64, name: &Name, time: Millis) -> rusqlite::Result<Digests> {
        self.forget_words("SELECT text FROM revisions WHERE page = ?1", [page])?;
        self.forget_words("SELECT name FROM pages WHERE id = ?1", [page])?;
        let sql = "SELECT digest FROM attachments WHERE page = ?1
                   UNION SELECT former_digest FROM file_changes WHERE page = ?1 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, [page])?;
        self.execute("DELETE FROM attachments WHERE page = ?1", [page])?;
        self.execute("DELETE FROM file_changes WHERE page = ?1", [page])?;
        let sql = "DELETE FROM revisions WHERE page = ?1 AND sequence <> (SELECT current FROM pages WHERE id = ?1)";
        self.execute(sql, [page])?;
        let sql = "UPDATE revisions SET author = NULL, comment = '', erased = coalesce(erased, ?2) WHERE page = ?1";
        self.execute(sql, params![page, time])?;
        let pseudonym = self.pseudonym(name)?;
        let sql = "UPDATE pages SET name = ?2, folded = ?3 WHERE id = ?1";
        self.execute(sql, params![page, pseudonym.as_str(), fold(pseudonym.as_str())])?;
        Ok(digests)
    }

    /// The pseudonym of the name, with a new key if there is none yet.
    fn pseudonym(&mut self, name: &Name) -> rusqlite::Result<Name> {
        let key = match self.pseudonym_key.take() {
            Some(key) => key,
            None => {
                let key: String = one(self.connection, "SELECT lower(hex(randomblob(16)))", &[])?;
                self.set_value(PSEUDONYM_KEY, None, Some(&key))?;
                key
            }
        };
        Ok(name.pseudonym(self.pseudonym_key.insert(key)))
    }

    /// Erases the name of an author from all changes. Returns their number.
    pub(super) fn erase_author(&mut self, author: &str) -> rusqlite::Result<u64> {
        let mut count = 0;
        for table in ["revisions", "file_changes"] {
            count += self.execute(&format!("UPDATE {table} SET author = NULL WHERE author = ?1"), [author])?;
        }
        if count > 0 {
            // The author may have changed any page, and more of them than the queues of purges hold.
            self.effects.purge(keys::EVERYTHING);
        }
        Ok(count as u64)
    }

    fn erase_author_and_comment(&self, page: i64, sequence: u64) -> rusqlite::Result<()> {
        for table in ["revisions", "file_changes"] {
            let sql = format!("UPDATE {table} SET author = NULL, comment = '' WHERE page = ?1 AND sequence = ?2");
            self.execute(&sql, params![page, clamp(sequence)])?;
        }
        Ok(())
    }

    fn erase_revision(&self, page: i64, revision: u64, time: Millis) -> rusqlite::Result<()> {
        let revision = clamp(revision);
        self.forget_words("SELECT text FROM revisions WHERE page = ?1 AND revision = ?2", [page, revision])?;
        let sql = "UPDATE revisions SET author = NULL, comment = '', bytes = 0, redirect = NULL, fields = NULL,
                       text = '', erased = coalesce(erased, ?3)
                   WHERE page = ?1 AND revision = ?2";
        self.execute(sql, [page, revision, time]).map(|_| ())
    }

    /// Erases an attachment except its last change, under a pseudonym: its number is not used again.
    fn erase_file(&mut self, page: i64, file: &Name, time: Millis) -> rusqlite::Result<Digests> {
        let pseudonym = self.pseudonym(file)?;
        let file = file.as_str();
        let sql = "SELECT digest FROM attachments WHERE page = ?1 AND file = ?2
                   UNION SELECT former_digest FROM file_changes
                   WHERE page = ?1 AND file = ?2 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, params![page, file])?;
        self.execute("DELETE FROM attachments WHERE page = ?1 AND file = ?2", params![page, file])?;
        let sql = "DELETE FROM file_changes WHERE page = ?1 AND file = ?2
                       AND sequence < (SELECT max(sequence) FROM file_changes WHERE page = ?1 AND file = ?2)";
        self.execute(sql, params![page, file])?;
        let sql = "UPDATE file_changes SET author = NULL, comment = '', former_digest = NULL, file = ?4,
                       erased = coalesce(erased, ?3)
                   WHERE page = ?1 AND file = ?2";
        self.execute(sql, params![page, file, time, pseudonym.as_str()])?;
        Ok(digests)
    }

    fn erase_version(&self, page: i64, file: &Name, sequence: u64, time: Millis) -> rusqlite::Result<Digests> {
        let (file, sequence) = (file.as_str(), clamp(sequence));
        let sql = "SELECT former_digest FROM file_changes
                   WHERE page = ?1 AND file = ?2 AND sequence = ?3 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, params![page, file, sequence])?;
        let sql = "UPDATE file_changes SET former_digest = NULL, erased = coalesce(erased, ?4)
                   WHERE page = ?1 AND file = ?2 AND sequence = ?3";
        self.execute(sql, params![page, file, sequence, time])?;
        Ok(digests)
    }

    fn digests(&self, sql: &str, parameters: impl Params) -> rusqlite::Result<Digests> {
        Ok(rows(self.connection, sql, parameters, |row| row.get(0))?.into_iter().collect())
    }

    /// Removes the words of these texts from the full-text index, where they are not those of present texts.
    fn forget_words(&self, sql: &str, parameters: impl Params) -> rusqlite::Result<()> {
        let mut words = BTreeSet::new();
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut texts = statement.query(parameters)?;
        while let Some(row) = texts.next()? {
            each_index_word("", row.get_ref(0)?.as_str()?, |word| {
                if !words.contains(&*word) {
                    words.insert(word.into_owned());
                }
                // Also those that are not indexed of a long text.
                0
            });
            if words.len() > WORDS_MAX {
                remove_obsolete(self.connection, &std::mem::take(&mut words))?;
            }
        }
        remove_obsolete(self.connection, &words)
    }

    /// Where these bytes are attached or kept.
    fn places(&self, digest: &str) -> rusqlite::Result<Vec<Target>> {
        let sql = "SELECT p.name, a.file, NULL FROM attachments a JOIN pages p ON p.id = a.page WHERE a.digest = ?1
                   UNION ALL
                   SELECT p.name, f.file, f.sequence FROM file_changes f JOIN pages p ON p.id = f.page
                   WHERE f.former_digest = ?1 LIMIT ?2";
        rows(self.connection, sql, params![digest, OTHER_PLACES_MAX], target)
    }
}
