//! Erases texts and bytes for good. The full-text index has only present texts, and so nothing of them.

use std::collections::BTreeSet;

use tokio_postgres::types::ToSql;

use super::Batch;
use crate::erasure::{EraseError, OTHER_PLACES_MAX, Target, TargetPart};
use crate::keys;
use crate::name::{Name, PSEUDONYM_KEY};
use crate::page::Millis;
use crate::postgres::error::Error;
use crate::postgres::read::target;
use crate::results::clamp;
use crate::words::fold;

/// The digests of the bytes at a target.
type Digests = BTreeSet<String>;

impl Batch<'_> {
    /// Erases all targets, or none if one of them cannot be erased. Returns other places of the same bytes.
    pub(super) async fn erase(
        &mut self,
        targets: &[Target],
        time: Millis,
    ) -> Result<Result<Vec<Target>, EraseError>, Error> {
        let mut pages = Vec::with_capacity(targets.len());
        for target in targets {
            match self.erasable(target).await? {
                Ok(page) => pages.push(page),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let mut digests = Digests::new();
        for (target, page) in targets.iter().zip(pages) {
            match &target.part {
                TargetPart::Page => digests.append(&mut self.erase_page(page, &target.page, time).await?),
                TargetPart::Revision(revision) => self.erase_revision(page, *revision, time).await?,
                TargetPart::Change(sequence) => self.erase_author_and_comment(page, *sequence).await?,
                TargetPart::File(file) => digests.append(&mut self.erase_file(page, file, time).await?),
                TargetPart::Version(file, sequence) => {
                    digests.append(&mut self.erase_version(page, file, *sequence, time).await?);
                }
            }
            self.effects.erased(&target.page);
        }
        let mut others = Vec::new();
        for digest in &digests {
            self.remove_unused_bytes(digest).await?;
            others.append(&mut self.places(digest).await?);
        }
        others.truncate(OTHER_PLACES_MAX);
        Ok(Ok(others))
    }

    /// The page of the target, if the target exists and is not in use.
    async fn erasable(&self, target: &Target) -> Result<Result<i64, EraseError>, Error> {
        let Some(state) = self.state(&target.page).await? else {
            return Ok(Err(EraseError::Missing(target.clone())));
        };
        let (exists, is_in_use) = match &target.part {
            TargetPart::Page => (true, state.is_live),
            TargetPart::Revision(revision) => {
                let sql = "SELECT 1 FROM wiki.revisions WHERE page = $1 AND revision = $2";
                let exists = self.exists(sql, &[&state.id, &clamp(*revision)]).await?;
                (exists, state.is_live && *revision == state.revision)
            }
            TargetPart::Change(sequence) => {
                let sql = "SELECT 1 FROM wiki.revisions WHERE page = $1 AND sequence = $2
                           UNION ALL SELECT 1 FROM wiki.file_changes WHERE page = $1 AND sequence = $2";
                (self.exists(sql, &[&state.id, &clamp(*sequence)]).await?, false)
            }
            TargetPart::File(file) => {
                let is_attached = self.attachment(state.id, file).await?.is_some();
                // It may have been erased before.
                let pseudonym = self.pseudonym_key.as_ref().map(|key| file.pseudonym(key));
                let pseudonym = pseudonym.as_ref().map(Name::as_str);
                let sql = "SELECT 1 FROM wiki.file_changes WHERE page = $1 AND file IN ($2, $3) LIMIT 1";
                let has_history = self.exists(sql, &[&state.id, &file.as_str(), &pseudonym]).await?;
                (is_attached || has_history, is_attached && state.is_live)
            }
            TargetPart::Version(file, sequence) => {
                let sql = "SELECT 1 FROM wiki.file_changes
                           WHERE page = $1 AND file = $2 AND sequence = $3 AND former_bytes IS NOT NULL";
                (self.exists(sql, &[&state.id, &file.as_str(), &clamp(*sequence)]).await?, false)
            }
        };
        Ok(target.check(exists, is_in_use).map(|()| state.id))
    }

    async fn exists(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<bool, Error> {
        Ok(!self.rows(sql, parameters).await?.is_empty())
    }

    /// Erases a deleted page except its deletion, under a pseudonym: its numbers continue, since its earlier ones are
    /// in entity tags.
    async fn erase_page(&mut self, page: i64, name: &Name, time: Millis) -> Result<Digests, Error> {
        let sql = "SELECT digest FROM wiki.attachments WHERE page = $1
                   UNION SELECT former_digest FROM wiki.file_changes WHERE page = $1 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, &[&page]).await?;
        self.execute("DELETE FROM wiki.attachments WHERE page = $1", &[&page]).await?;
        self.execute("DELETE FROM wiki.file_changes WHERE page = $1", &[&page]).await?;
        let sql = "DELETE FROM wiki.revisions
                   WHERE page = $1 AND sequence <> (SELECT current FROM wiki.pages WHERE id = $1)";
        self.execute(sql, &[&page]).await?;
        let sql =
            "UPDATE wiki.revisions SET author = NULL, comment = '', erased = coalesce(erased, $2) WHERE page = $1";
        self.execute(sql, &[&page, &time]).await?;
        let pseudonym = self.pseudonym(name).await?;
        let sql = "UPDATE wiki.pages SET name = $2, folded = $3 WHERE id = $1";
        self.execute(sql, &[&page, &pseudonym.as_str(), &&*fold(pseudonym.as_str())]).await?;
        Ok(digests)
    }

    /// The pseudonym of the name, with a new key if there is none yet.
    async fn pseudonym(&mut self, name: &Name) -> Result<Name, Error> {
        let key = match self.pseudonym_key.take() {
            Some(key) => key,
            None => {
                let sql = "INSERT INTO wiki.values (key, value) VALUES ($1, gen_random_uuid()::text) RETURNING value";
                let rows = self.rows(sql, &[&PSEUDONYM_KEY]).await?;
                let none = || Error::Content("the key of pseudonyms was not stored".into());
                rows.first().map(|row| row.get(0)).ok_or_else(none)?
            }
        };
        Ok(name.pseudonym(self.pseudonym_key.insert(key)))
    }

    /// Erases the name of an author from all changes. Returns their number.
    pub(super) async fn erase_author(&mut self, author: &str) -> Result<u64, Error> {
        let mut count = 0;
        for table in ["revisions", "file_changes"] {
            let sql = format!("UPDATE wiki.{table} SET author = NULL WHERE author = $1");
            count += self.execute(&sql, &[&author]).await?;
        }
        if count > 0 {
            // The author may have changed any page, and more of them than the queues of purges hold.
            self.effects.purge(keys::EVERYTHING);
        }
        Ok(count)
    }

    async fn erase_author_and_comment(&self, page: i64, sequence: u64) -> Result<(), Error> {
        for table in ["revisions", "file_changes"] {
            let sql = format!("UPDATE wiki.{table} SET author = NULL, comment = '' WHERE page = $1 AND sequence = $2");
            self.execute(&sql, &[&page, &clamp(sequence)]).await?;
        }
        Ok(())
    }

    async fn erase_revision(&self, page: i64, revision: u64, time: Millis) -> Result<(), Error> {
        let sql = "UPDATE wiki.revisions SET author = NULL, comment = '', bytes = 0, redirect = NULL, fields = NULL,
                       text = '', erased = coalesce(erased, $3)
                   WHERE page = $1 AND revision = $2";
        self.execute(sql, &[&page, &clamp(revision), &time]).await.map(|_| ())
    }

    /// Erases an attachment except its last change, under a pseudonym: its number is not used again.
    async fn erase_file(&mut self, page: i64, file: &Name, time: Millis) -> Result<Digests, Error> {
        let pseudonym = self.pseudonym(file).await?;
        let file = file.as_str();
        let sql = "SELECT digest FROM wiki.attachments WHERE page = $1 AND file = $2
                   UNION SELECT former_digest FROM wiki.file_changes
                   WHERE page = $1 AND file = $2 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, &[&page, &file]).await?;
        self.execute("DELETE FROM wiki.attachments WHERE page = $1 AND file = $2", &[&page, &file]).await?;
        let sql = "DELETE FROM wiki.file_changes WHERE page = $1 AND file = $2
                       AND sequence < (SELECT max(sequence) FROM wiki.file_changes WHERE page = $1 AND file = $2)";
        self.execute(sql, &[&page, &file]).await?;
        let sql = "UPDATE wiki.file_changes SET author = NULL, comment = '', former_digest = NULL, file = $4,
                       erased = coalesce(erased, $3)
                   WHERE page = $1 AND file = $2";
        self.execute(sql, &[&page, &file, &time, &pseudonym.as_str()]).await?;
        Ok(digests)
    }

    async fn erase_version(&self, page: i64, file: &Name, sequence: u64, time: Millis) -> Result<Digests, Error> {
        let (file, sequence) = (file.as_str(), clamp(sequence));
        let sql = "SELECT former_digest FROM wiki.file_changes
                   WHERE page = $1 AND file = $2 AND sequence = $3 AND former_digest IS NOT NULL";
        let digests = self.digests(sql, &[&page, &file, &sequence]).await?;
        let sql = "UPDATE wiki.file_changes SET former_digest = NULL, erased = coalesce(erased, $4)
                   WHERE page = $1 AND file = $2 AND sequence = $3";
        self.execute(sql, &[&page, &file, &sequence, &time]).await?;
        Ok(digests)
    }

    async fn digests(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Digests, Error> {
        Ok(self.rows(sql, parameters).await?.iter().map(|row| row.get(0)).collect())
    }

    /// Where these bytes are attached or kept.
    async fn places(&self, digest: &str) -> Result<Vec<Target>, Error> {
        let sql = "SELECT p.name, a.file, NULL::bigint FROM wiki.attachments a JOIN wiki.pages p ON p.id = a.page
                   WHERE a.digest = $1
                   UNION ALL
                   SELECT p.name, f.file, f.sequence FROM wiki.file_changes f JOIN wiki.pages p ON p.id = f.page
                   WHERE f.former_digest = $1 LIMIT $2";
        let rows = self.rows(sql, &[&digest, &clamp(OTHER_PLACES_MAX as u64)]).await?;
        rows.iter().map(target).collect()
    }
}
