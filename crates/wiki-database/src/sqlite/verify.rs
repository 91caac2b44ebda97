//! Checks of a file: SQLite's own, and the rules of the wiki.

use rusqlite::Connection;

use super::read::rows;
use super::word_index;
use crate::digest::sha256;
use crate::results::{FAULTS_MAX, fields_fault};

/// Rules, each with a statement that returns its violations.
const RULES: &[(&str, &str)] = &[
    (
        "the page has no current revision",
        "SELECT p.name FROM pages p LEFT JOIN revisions r ON r.sequence = p.current AND r.page = p.id
             AND r.revision = p.revision WHERE r.sequence IS NULL",
    ),
    (
        "the page has revisions after its current one",
        "SELECT DISTINCT p.name FROM pages p JOIN revisions r ON r.page = p.id AND r.revision > p.revision",
    ),
    (
        // Earlier versions left one after a deletion, when a redirect moved to the name of the deleted page.
        "the page has a gap in its revisions",
        "SELECT DISTINCT name FROM (
             SELECT p.name, r.revision - lag(r.revision) OVER w AS step, lag(r.kind) OVER w AS preceding
             FROM pages p JOIN revisions r ON r.page = p.id WINDOW w AS (PARTITION BY r.page ORDER BY r.revision)
         ) AS steps WHERE step > 1 AND preceding <> 2",
    ),
    (
        "the page is deleted, but its current revision is not a deletion, or the reverse",
        "SELECT p.name FROM pages p JOIN revisions r ON r.sequence = p.current WHERE (r.kind = 2) = (p.live = 1)",
    ),
    (
        "a revision's text does not have its recorded length",
        "SELECT p.name || ', revision ' || r.revision FROM revisions r JOIN pages p ON p.id = r.page
         WHERE octet_length(r.text) <> r.bytes",
    ),
    (
        "the deleted page has links or fields",
        "SELECT p.name FROM pages p WHERE p.live = 0
         AND (EXISTS (SELECT 1 FROM links l WHERE l.page = p.id) OR EXISTS (SELECT 1 FROM fields f WHERE f.page = p.id))",
    ),
    (
        "the page's red links are not those of its links to which no page exists",
        "SELECT p.name FROM pages p WHERE p.live = 1 AND (
             (SELECT count(*) FROM links l LEFT JOIN pages q ON q.name = l.target AND q.live = 1
              WHERE l.page = p.id AND q.id IS NULL)
             <> coalesce(length(red_links) - length(replace(red_links, char(10), '')) + 1, 0)
             OR EXISTS (SELECT 1 FROM links l LEFT JOIN pages q ON q.name = l.target AND q.live = 1
                        WHERE l.page = p.id AND q.id IS NULL
                        AND instr(char(10) || p.red_links || char(10), char(10) || l.target || char(10)) = 0))",
    ),
    (
        "the page is not in the full-text index",
        "SELECT name FROM pages WHERE live = 1 AND id NOT IN (SELECT page FROM unindexed)
             AND NOT EXISTS (SELECT 1 FROM text_segments s WHERE pages.generation BETWEEN s.first AND s.last)",
    ),
    (
        "the page is not in the index of titles",
        "SELECT name FROM pages WHERE live = 1 AND id NOT IN (SELECT id FROM title_grams_docsize)",
    ),
    (
        "the deleted page is in the full-text index",
        "SELECT name FROM pages WHERE live = 0 AND generation IS NOT NULL AND id NOT IN (SELECT page FROM unindexed)",
    ),
    (
        "the index of titles has a page that does not exist",
        "SELECT 'number ' || id FROM title_grams_docsize WHERE id NOT IN (SELECT id FROM pages WHERE live = 1)",
    ),
    (
        "the attachment does not have its recorded length",
        "SELECT p.name || ', ' || a.file FROM attachments a JOIN pages p ON p.id = a.page
             JOIN blobs b ON b.digest = a.digest WHERE length(b.bytes) <> a.bytes",
    ),
    (
        "the bytes belong to no attachment",
        "SELECT 'digest ' || digest FROM blobs WHERE digest NOT IN (SELECT digest FROM attachments)
             AND NOT EXISTS (SELECT 1 FROM file_changes f WHERE f.former_digest = digest)",
    ),
    (
        "the edge has confirmed purges that do not exist yet",
        "SELECT edge FROM edges WHERE through > coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'purges'), 0)",
    ),
];

/// One line for each error, at most [`FAULTS_MAX`].
pub(super) fn faults(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // All checks see the database at one instant.
    let connection = &*connection.unchecked_transaction()?;
    let mut faults: Vec<String> =
        rows(connection, &format!("PRAGMA integrity_check({FAULTS_MAX})"), [], |row| row.get(0))?;
    faults.retain(|line| line != "ok");
    let key = |row: &rusqlite::Row<'_>| {
        Ok(format!(
            "a row of table {} refers to a row of {} that does not exist",
            row.get::<_, String>(0)?,
            row.get::<_, String>(2)?
        ))
    };
    faults.extend(rows(connection, "PRAGMA foreign_key_check", [], key)?);
    for (rule, sql) in RULES {
        let places: Vec<String> = rows(connection, &format!("{sql} LIMIT {FAULTS_MAX}"), [], |row| row.get(0))?;
        faults.extend(places.iter().map(|place| format!("{place}: {rule}")));
    }
    faults.extend(word_index::faults(connection)?);
    faults.extend(unreadable_fields(connection)?);
    faults.extend(wrong_digests(connection)?);
    faults.truncate(FAULTS_MAX);
    Ok(faults)
}

fn unreadable_fields(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT p.name, r.revision, r.fields FROM revisions r JOIN pages p ON p.id = r.page WHERE r.fields IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut faults = Vec::new();
    while let Some(row) = rows.next()?
        && faults.len() < FAULTS_MAX
    {
        let fault = fields_fault(row.get_ref(0)?.as_str()?, row.get(1)?, row.get_ref(2)?.as_str()?);
        faults.extend(fault);
    }
    Ok(faults)
}

fn wrong_digests(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT digest, bytes FROM blobs")?;
    let mut rows = statement.query([])?;
    let mut faults = Vec::new();
    while let Some(row) = rows.next()? {
        let digest = row.get_ref(0)?.as_str()?;
        if sha256(row.get_ref(1)?.as_blob()?) != digest {
            faults.push(format!("digest {digest}: the bytes of the attachment have another digest"));
        }
    }
    Ok(faults)
}
