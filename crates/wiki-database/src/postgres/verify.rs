//! Checks of the rules of the wiki. Damaged files are detected by PostgreSQL's own tools (`pg_amcheck`, checksums).

use deadpool_postgres::GenericClient;

use super::error::Error;
use super::read::{number, rows};
use crate::digest::sha256;
use crate::results::{FAULTS_MAX, clamp, fields_fault};

/// Fields read at a time: each may have the size of a page.
const FIELDS_BATCH: u64 = 100;

/// Rules, each with a statement that returns its violations.
const RULES: &[(&str, &str)] = &[
    (
        "the page has no current revision",
        "SELECT p.name FROM wiki.pages p LEFT JOIN wiki.revisions r ON r.sequence = p.current AND r.page = p.id
             AND r.revision = p.revision WHERE r.sequence IS NULL",
    ),
    (
        "the page has revisions after its current one",
        "SELECT DISTINCT p.name FROM wiki.pages p JOIN wiki.revisions r ON r.page = p.id AND r.revision > p.revision",
    ),
    (
        // Earlier versions left one after a deletion, when a redirect moved to the name of the deleted page.
        "the page has a gap in its revisions",
        "SELECT DISTINCT name FROM (
             SELECT p.name, r.revision - lag(r.revision) OVER w AS step, lag(r.kind) OVER w AS preceding
             FROM wiki.pages p JOIN wiki.revisions r ON r.page = p.id
             WINDOW w AS (PARTITION BY r.page ORDER BY r.revision)
         ) AS steps WHERE step > 1 AND preceding <> 2",
    ),
    (
        "the page is deleted, but its current revision is not a deletion, or the reverse",
        "SELECT p.name FROM wiki.pages p JOIN wiki.revisions r ON r.sequence = p.current WHERE (r.kind = 2) = p.live",
    ),
    (
        "a revision's text does not have its recorded length",
        "SELECT p.name || ', revision ' || r.revision FROM wiki.revisions r JOIN wiki.pages p ON p.id = r.page
         WHERE octet_length(r.text) <> r.bytes",
    ),
    (
        "the deleted page has links or fields",
        "SELECT p.name FROM wiki.pages p WHERE NOT p.live AND (EXISTS (SELECT FROM wiki.links l WHERE l.page = p.id)
         OR EXISTS (SELECT FROM wiki.fields f WHERE f.page = p.id))",
    ),
    (
        "the page is not in the full-text index, or is deleted and still in it",
        "SELECT p.name FROM wiki.pages p LEFT JOIN wiki.words w ON w.page = p.id WHERE p.live = (w.page IS NULL)",
    ),
    (
        "the page is not in the index of titles, or is deleted and still in it",
        "SELECT p.name FROM wiki.pages p LEFT JOIN wiki.grams g ON g.page = p.id WHERE p.live = (g.page IS NULL)",
    ),
    (
        "the attachment does not have its recorded length",
        "SELECT p.name || ', ' || a.file FROM wiki.attachments a JOIN wiki.pages p ON p.id = a.page
             JOIN wiki.blobs b ON b.digest = a.digest WHERE length(b.bytes) <> a.bytes",
    ),
    (
        "the bytes belong to no attachment",
        "SELECT 'digest ' || digest FROM wiki.blobs b
         WHERE NOT EXISTS (SELECT FROM wiki.attachments a WHERE a.digest = b.digest)
             AND NOT EXISTS (SELECT FROM wiki.file_changes f WHERE f.former_digest = b.digest)",
    ),
    (
        "the edge has confirmed purges that do not exist yet",
        "SELECT edge FROM wiki.edges WHERE through > (SELECT max(sequence) FROM wiki.newest_purge)",
    ),
];

/// One line for each error, at most [`FAULTS_MAX`].
pub(super) async fn faults(client: &impl GenericClient) -> Result<Vec<String>, Error> {
    let mut faults = Vec::new();
    for (rule, sql) in RULES {
        for row in rows(client, &format!("{sql} LIMIT {FAULTS_MAX}"), &[]).await? {
            faults.push(format!("{}: {rule}", row.get::<_, &str>(0)));
        }
    }
    faults.extend(unreadable_fields(client).await?);
    // One at a time: an attachment may be large.
    for row in rows(client, "SELECT digest FROM wiki.blobs", &[]).await? {
        let digest: &str = row.get(0);
        let blobs = rows(client, "SELECT bytes FROM wiki.blobs WHERE digest = $1", &[&digest]).await?;
        if blobs.first().is_some_and(|blob| sha256(blob.get(0)) != digest) {
            faults.push(format!("digest {digest}: the bytes of the attachment have another digest"));
        }
    }
    faults.truncate(FAULTS_MAX);
    Ok(faults)
}

async fn unreadable_fields(client: &impl GenericClient) -> Result<Vec<String>, Error> {
    let sql = "SELECT r.sequence, p.name, r.revision, r.fields FROM wiki.revisions r JOIN wiki.pages p ON p.id = r.page
               WHERE r.fields IS NOT NULL AND r.sequence > $1 ORDER BY r.sequence LIMIT $2";
    let (mut faults, mut after) = (Vec::new(), 0);
    while faults.len() < FAULTS_MAX {
        let batch = rows(client, sql, &[&clamp(after), &clamp(FIELDS_BATCH)]).await?;
        let Some(last) = batch.last() else { break };
        after = number(last, 0);
        faults.extend(batch.iter().filter_map(|row| fields_fault(row.get(1), number(row, 2), row.get(3))));
    }
    Ok(faults)
}
