//! Reads of pages, histories, lists, attachments, and searches.

use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::GenericClient;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::Error;
use crate::erasure::Target;
use crate::keys;
use crate::name::Name;
use crate::page::{AttachmentInfo, Change, ChangeKind, Content, FileChange, Found, Match, Page, Revision};
use crate::prepared_write::{field_path, field_value};
use crate::results::{TEXT_CANDIDATES_MAX, TITLE_CANDIDATES_MAX, best, clamp, read_fields};
use crate::words::{Rating, TextQuery, TitleQuery};

type SqlParameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// All rows of a statement, which is prepared once per connection.
pub(super) async fn rows(
    client: &impl GenericClient,
    sql: &str,
    parameters: SqlParameters<'_>,
) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, parameters).await?)
}

/// A number that is never negative.
pub(super) fn number(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

fn limit(limit: usize) -> i64 {
    clamp(limit as u64)
}

fn parse_name(text: &str) -> Result<Name, Error> {
    Name::parse(text).map_err(|error| Error::Content(format!("{text:?} is not a name: {error}")))
}

fn name(row: &Row, column: usize) -> Result<Name, Error> {
    parse_name(row.get(column))
}

/// The state of a name, in one statement, and so at one instant.
pub(super) async fn found(client: &impl GenericClient, page: &Name) -> Result<Found, Error> {
    let sql = "SELECT p.live, p.revision, r.time, p.links_version, r.text, r.fields, r.redirect,
                   ARRAY(SELECT l.target FROM wiki.links l WHERE l.page = p.id AND NOT EXISTS
                       (SELECT 1 FROM wiki.pages q WHERE q.name = l.target AND q.live) ORDER BY l.target)
               FROM wiki.pages p JOIN wiki.revisions r ON r.sequence = p.current WHERE p.name = $1";
    let rows = rows(client, sql, &[&page.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(Found::Nothing) };
    let (revision, modified) = (number(row, 1), row.get(2));
    if !row.get::<_, bool>(0) {
        return Ok(Found::Deleted { revision, modified });
    }
    let red_links: Vec<&str> = row.get(7);
    Ok(Found::Page(Arc::new(Page {
        name: page.clone(),
        revision,
        links_version: number(row, 3),
        modified,
        content: content(row, 4)?,
        red_links: red_links.into_iter().map(parse_name).collect::<Result<_, _>>()?,
    })))
}

/// Reads the columns text, fields, redirect.
fn content(row: &Row, first: usize) -> Result<Content, Error> {
    let fields = match row.get::<_, Option<&str>>(first + 1) {
        Some(json) => read_fields(json).map_err(|error| Error::Content(error.to_string()))?,
        None => serde_json::Map::new(),
    };
    let redirect = row.get::<_, Option<&str>>(first + 2).map(parse_name).transpose()?;
    Ok(Content { text: row.get(first), fields, redirect })
}

/// The columns of a [`Change`], with revisions as `r` and pages as `p`.
const REVISION: &str = "r.sequence, p.name, r.revision, r.kind, r.time, r.author, r.comment, r.bytes,
    NULL::text AS file, NULL::bigint AS former_bytes, r.erased";

/// The same of a change to an attachment, as `f`.
const FILE_CHANGE: &str = "f.sequence, p.name, f.revision, f.kind, f.time, f.author, f.comment, f.bytes, f.file,
    CASE WHEN f.former_digest IS NOT NULL THEN f.former_bytes END, f.erased";

fn change(row: &Row) -> Result<Change, Error> {
    let kind = row.get(3);
    Ok(Change {
        sequence: number(row, 0),
        name: name(row, 1)?,
        revision: number(row, 2),
        kind: ChangeKind::from_number(kind).ok_or_else(|| Error::Content(format!("{kind} is no kind of change")))?,
        time: row.get(4),
        author: row.get(5),
        comment: row.get(6),
        bytes: number(row, 7),
        erased: row.get(10),
        file: match row.get(8) {
            Some(file) => {
                let earlier_bytes = row.get::<_, Option<i64>>(9).and_then(|bytes| u64::try_from(bytes).ok());
                Some(FileChange { name: parse_name(file)?, earlier_bytes })
            }
            None => None,
        },
    })
}

pub(super) async fn revision(
    client: &impl GenericClient,
    page: &Name,
    revision: u64,
) -> Result<Option<Revision>, Error> {
    let sql = format!(
        "SELECT {REVISION}, r.text, r.fields, r.redirect FROM wiki.pages p JOIN wiki.revisions r ON r.page = p.id
         WHERE p.name = $1 AND r.revision = $2"
    );
    let rows = rows(client, &sql, &[&page.as_str(), &clamp(revision)]).await?;
    let revision = |row: &Row| {
        let change = change(row)?;
        let has_content = change.kind != ChangeKind::Deleted && change.erased.is_none();
        let content = has_content.then(|| content(row, 11)).transpose()?;
        Ok(Revision { change, content })
    };
    rows.first().map(revision).transpose()
}

pub(super) async fn history(
    client: &impl GenericClient,
    page: &Name,
    before: Option<(u64, u64)>,
    most: usize,
) -> Result<Vec<Change>, Error> {
    let sql = format!(
        "SELECT * FROM (
             (SELECT {REVISION} FROM wiki.pages p JOIN wiki.revisions r ON r.page = p.id
              WHERE p.name = $1 AND (r.revision, r.sequence) < ($2, $3) ORDER BY r.revision DESC LIMIT $4)
             UNION ALL
             (SELECT {FILE_CHANGE} FROM wiki.pages p JOIN wiki.file_changes f ON f.page = p.id
              WHERE p.name = $1 AND (f.revision, f.sequence) < ($2, $3)
              ORDER BY f.revision DESC, f.sequence DESC LIMIT $4)
         ) AS changes ORDER BY revision DESC, sequence DESC LIMIT $4"
    );
    let (revision, sequence) = before.map_or((i64::MAX, 0), |(revision, sequence)| (clamp(revision), clamp(sequence)));
    let parameters: SqlParameters<'_> = &[&page.as_str(), &revision, &sequence, &limit(most)];
    rows(client, &sql, parameters).await?.iter().map(change).collect()
}

pub(super) async fn file_history(
    client: &impl GenericClient,
    page: &Name,
    file: &Name,
    before: Option<u64>,
    most: usize,
) -> Result<Vec<Change>, Error> {
    let sql = format!(
        "SELECT {FILE_CHANGE} FROM wiki.pages p JOIN wiki.file_changes f ON f.page = p.id
         WHERE p.name = $1 AND f.file = $2 AND f.sequence < $3 ORDER BY f.sequence DESC LIMIT $4"
    );
    let parameters: SqlParameters<'_> =
        &[&page.as_str(), &file.as_str(), &before.map_or(i64::MAX, clamp), &limit(most)];
    rows(client, &sql, parameters).await?.iter().map(change).collect()
}

pub(super) async fn recent(
    client: &impl GenericClient,
    before: Option<u64>,
    most: usize,
) -> Result<Vec<Change>, Error> {
    let sql = format!(
        "SELECT * FROM (
             (SELECT {REVISION} FROM wiki.revisions r JOIN wiki.pages p ON p.id = r.page
              WHERE r.sequence < $1 ORDER BY r.sequence DESC LIMIT $2)
             UNION ALL
             (SELECT {FILE_CHANGE} FROM wiki.file_changes f JOIN wiki.pages p ON p.id = f.page
              WHERE f.sequence < $1 ORDER BY f.sequence DESC LIMIT $2)
         ) AS changes ORDER BY sequence DESC LIMIT $2"
    );
    rows(client, &sql, &[&before.map_or(i64::MAX, clamp), &limit(most)]).await?.iter().map(change).collect()
}

async fn names(client: &impl GenericClient, sql: &str, parameters: SqlParameters<'_>) -> Result<Vec<Name>, Error> {
    rows(client, sql, parameters).await?.iter().map(|row| name(row, 0)).collect()
}

pub(super) async fn backlinks(
    client: &impl GenericClient,
    target: &Name,
    after: Option<&Name>,
    most: usize,
) -> Result<Vec<Name>, Error> {
    let sql = "SELECT p.name FROM wiki.links l JOIN wiki.pages p ON p.id = l.page
               WHERE l.target = $1 AND p.name > $2 ORDER BY p.name LIMIT $3";
    names(client, sql, &[&target.as_str(), &after.map_or("", Name::as_str), &limit(most)]).await
}

pub(super) async fn list(client: &impl GenericClient, after: Option<&Name>, most: usize) -> Result<Vec<Name>, Error> {
    let sql = "SELECT name FROM wiki.pages WHERE live AND name > $1 ORDER BY name LIMIT $2";
    names(client, sql, &[&after.map_or("", Name::as_str), &limit(most)]).await
}

/// An attachment or its version, from the columns page, file, sequence.
pub(super) fn target(row: &Row) -> Result<Target, Error> {
    let version = row.get::<_, Option<i64>>(2).and_then(|sequence| u64::try_from(sequence).ok());
    Ok(Target::attachment(name(row, 0)?, name(row, 1)?, version))
}

/// The columns of an [`AttachmentInfo`].
pub(super) const INFO: &str = "a.file, a.media_type, a.bytes, a.digest, a.modified";

pub(super) fn info(row: &Row) -> Result<AttachmentInfo, Error> {
    Ok(AttachmentInfo {
        file: name(row, 0)?,
        media_type: row.get(1),
        bytes: number(row, 2),
        digest: row.get(3),
        modified: row.get(4),
    })
}

pub(super) async fn attachments(
    client: &impl GenericClient,
    page: &Name,
    after: Option<&Name>,
    most: usize,
) -> Result<Vec<AttachmentInfo>, Error> {
    let sql = format!(
        "SELECT {INFO} FROM wiki.pages p JOIN wiki.attachments a ON a.page = p.id
         WHERE p.name = $1 AND p.live AND a.file > $2 ORDER BY a.file LIMIT $3"
    );
    let parameters: SqlParameters<'_> = &[&page.as_str(), &after.map_or("", Name::as_str), &limit(most)];
    rows(client, &sql, parameters).await?.iter().map(info).collect()
}

pub(super) async fn attachment_info(
    client: &impl GenericClient,
    page: &Name,
    file: &Name,
) -> Result<Option<AttachmentInfo>, Error> {
    let sql = format!(
        "SELECT {INFO} FROM wiki.pages p JOIN wiki.attachments a ON a.page = p.id
         WHERE p.name = $1 AND a.file = $2 AND p.live"
    );
    rows(client, &sql, &[&page.as_str(), &file.as_str()]).await?.first().map(info).transpose()
}

pub(super) async fn attachment(
    client: &impl GenericClient,
    page: &Name,
    file: &Name,
) -> Result<Option<(AttachmentInfo, Bytes)>, Error> {
    let sql = format!(
        "SELECT {INFO}, b.bytes FROM wiki.pages p JOIN wiki.attachments a ON a.page = p.id
             JOIN wiki.blobs b ON b.digest = a.digest
         WHERE p.name = $1 AND a.file = $2 AND p.live"
    );
    let rows = rows(client, &sql, &[&page.as_str(), &file.as_str()]).await?;
    rows.first().map(info_and_bytes).transpose()
}

pub(super) async fn file_version(
    client: &impl GenericClient,
    page: &Name,
    file: &Name,
    sequence: u64,
) -> Result<Option<(AttachmentInfo, Bytes)>, Error> {
    let sql = "SELECT f.file, f.former_media_type, f.former_bytes, f.former_digest, f.former_modified, b.bytes
               FROM wiki.pages p JOIN wiki.file_changes f ON f.page = p.id
                   JOIN wiki.blobs b ON b.digest = f.former_digest
               WHERE p.name = $1 AND f.file = $2 AND f.sequence = $3 AND p.live";
    let rows = rows(client, sql, &[&page.as_str(), &file.as_str(), &clamp(sequence)]).await?;
    rows.first().map(info_and_bytes).transpose()
}

fn info_and_bytes(row: &Row) -> Result<(AttachmentInfo, Bytes), Error> {
    Ok((info(row)?, Bytes::from(row.get::<_, Vec<u8>>(5))))
}

pub(super) async fn by_fields(
    client: &impl GenericClient,
    path: &str,
    value: Option<&Value>,
    most: usize,
) -> Result<Vec<Name>, Error> {
    let (path, most) = (field_path(path), limit(most));
    let select = "SELECT DISTINCT p.name FROM wiki.fields f JOIN wiki.pages p ON p.id = f.page WHERE f.path = $1";
    let order = "ORDER BY p.name LIMIT";
    match value.map(field_value) {
        Some(value) => names(client, &format!("{select} AND f.value = $2 {order} $3"), &[&path, &value, &most]).await,
        None => names(client, &format!("{select} {order} $2"), &[&path, &most]).await,
    }
}

/// Pages whose names contain the text of the query: first those that begin with it.
pub(super) async fn titles(client: &impl GenericClient, query: &TitleQuery, most: usize) -> Result<Vec<Name>, Error> {
    let select = "SELECT name FROM wiki.pages WHERE live AND folded >= $1";
    let order = "ORDER BY folded, name LIMIT";
    let mut found = match query.end_of_prefix() {
        Some(end) => {
            let sql = format!("{select} AND folded < $2 {order} $3");
            names(client, &sql, &[&query.folded, &end, &limit(most)]).await?
        }
        None => names(client, &format!("{select} {order} $2"), &[&query.folded, &limit(most)]).await?,
    };
    if found.len() < most {
        let sql = "SELECT name FROM (
                       SELECT p.id, p.name, p.folded FROM wiki.grams g JOIN wiki.pages p ON p.id = g.page
                       WHERE g.grams @@ $1::text::tsquery AND p.live ORDER BY p.id LIMIT $4
                   ) AS candidates
                   WHERE strpos(folded, $2) > 0 AND NOT starts_with(folded, $2) ORDER BY id LIMIT $3";
        let (rest, candidates) = (limit(most - found.len()), limit(TITLE_CANDIDATES_MAX));
        let mut others = names(client, sql, &[&all_of(&query.grams), &query.folded, &rest, &candidates]).await?;
        others.sort_unstable();
        found.append(&mut others);
    }
    Ok(found)
}

/// Pages with all words of the query, best first. If there are too many candidates, only the first, and the pages with
/// the query in their names, are rated.
pub(super) async fn texts(
    client: &impl GenericClient,
    query: &TextQuery,
    title: Option<&TitleQuery>,
    most: usize,
) -> Result<Vec<Match>, Error> {
    let sql = "SELECT p.name, r.text FROM wiki.words w JOIN wiki.pages p ON p.id = w.page
                   JOIN wiki.revisions r ON r.sequence = p.current
               WHERE w.words @@ $1::text::tsquery AND p.live ORDER BY p.id LIMIT $2";
    let mut candidates = rows(client, sql, &[&all_of(&query.index_words()), &limit(TEXT_CANDIDATES_MAX)]).await?;
    if let (true, Some(title)) = (candidates.len() >= TEXT_CANDIDATES_MAX, title) {
        let named = titles(client, title, most.min(TEXT_CANDIDATES_MAX)).await?;
        let named: Vec<&str> = named.iter().map(Name::as_str).collect();
        let sql = "SELECT p.name, r.text FROM wiki.pages p JOIN wiki.revisions r ON r.sequence = p.current
                   WHERE p.name = ANY ($1) AND p.live";
        candidates.extend(rows(client, sql, &[&named]).await?);
    }
    let rate = |row: &Row| Some((row.get::<_, String>(0), query.rate(row.get(0), row.get(1))?));
    let mut rated: Vec<(String, Rating)> = candidates.iter().filter_map(rate).collect();
    rated.sort_by(|(a, _), (b, _)| a.cmp(b));
    rated.dedup_by(|(a, _), (b, _)| a == b);
    Ok(best(rated, most))
}

/// The `tsquery` for all these words of the index, which contain neither quotes nor backslashes.
fn all_of(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    quoted.join(" & ")
}

/// The surrogate keys that the edge has not confirmed.
pub(super) async fn queued_purges(
    client: &impl GenericClient,
    edge: &str,
    most: usize,
) -> Result<Vec<(u64, String)>, Error> {
    let sql = "SELECT everything, $2::text FROM wiki.edges WHERE edge = $1 AND everything IS NOT NULL
               UNION ALL SELECT sequence, key FROM wiki.purges
               WHERE sequence > (SELECT through FROM wiki.edges WHERE edge = $1) ORDER BY 1 LIMIT $3";
    let rows = rows(client, sql, &[&edge, &keys::EVERYTHING, &limit(most)]).await?;
    Ok(rows.iter().map(|row| (number(row, 0), row.get(1))).collect())
}

pub(super) async fn value(client: &impl GenericClient, key: &str) -> Result<Option<String>, Error> {
    let rows = rows(client, "SELECT value FROM wiki.values WHERE key = $1", &[&key]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

pub(super) async fn values(client: &impl GenericClient, prefix: &str) -> Result<Vec<(String, String)>, Error> {
    let sql = "SELECT key, value FROM wiki.values WHERE key >= $1 AND starts_with(key, $1) ORDER BY key";
    Ok(rows(client, sql, &[&prefix]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}
