//! Reads of pages, histories, lists and attachments.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params};
use serde_json::Value;

use crate::erasure::Target;
use crate::keys;
use crate::name::Name;
use crate::page::{AttachmentInfo, Change, ChangeKind, Content, Fields, FileChange, Found, Page, Revision};
use crate::results::{clamp, read_fields};

/// The state of a name, in one statement, and so at one instant.
pub(super) fn found(connection: &Connection, name: &Name) -> rusqlite::Result<Found> {
    let mut statement = connection.prepare_cached(
        "SELECT p.live, p.revision, r.time, p.links_version, r.text, r.fields, r.redirect, p.red_links
         FROM pages p JOIN revisions r ON r.sequence = p.current WHERE p.name = ?1",
    )?;
    let row = |row: &Row<'_>| {
        let (revision, modified) = (row.get(1)?, row.get(2)?);
        if !row.get::<_, bool>(0)? {
            return Ok(Found::Deleted { revision, modified });
        }
        let mut red_links: Vec<Name> = match row.get_ref(7)?.as_str_or_null()? {
            Some(names) => names.split('\n').map(|name| parse_name(7, name)).collect::<rusqlite::Result<_>>()?,
            None => Vec::new(),
        };
        red_links.sort_unstable();
        Ok(Found::Page(Arc::new(Page {
            name: name.clone(),
            revision,
            links_version: row.get(3)?,
            modified,
            content: content(row, 4)?,
            red_links,
        })))
    };
    Ok(statement.query_row([name.as_str()], row).optional()?.unwrap_or(Found::Nothing))
}

/// Reads the columns text, fields, redirect.
fn content(row: &Row<'_>, first: usize) -> rusqlite::Result<Content> {
    let fields: Option<&str> = row.get_ref(first + 1)?.as_str_or_null()?;
    let fields: Fields = match fields {
        Some(json) => read_fields(json)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(first + 1, Type::Text, Box::new(error)))?,
        None => Fields::default(),
    };
    let redirect = row.get_ref(first + 2)?.as_str_or_null()?.map(|name| parse_name(first + 2, name)).transpose()?;
    Ok(Content { text: row.get(first)?, fields, redirect })
}

fn parse_name(column: usize, text: &str) -> rusqlite::Result<Name> {
    Name::parse(text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    parse_name(column, row.get_ref(column)?.as_str()?)
}

/// The columns of a [`Change`], with revisions as `r` and pages as `p`.
const REVISION: &str = "r.sequence, p.name, r.revision, r.kind, r.time, r.author, r.comment, r.bytes, NULL, NULL,
    r.erased";

/// The same of a change to an attachment, as `f`.
const FILE_CHANGE: &str = "f.sequence, p.name, f.revision, f.kind, f.time, f.author, f.comment, f.bytes, f.file,
    iif(f.former_digest IS NULL, NULL, f.former_bytes), f.erased";

fn change(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change {
        sequence: row.get(0)?,
        name: name(row, 1)?,
        revision: row.get(2)?,
        kind: kind(row.get(3)?)?,
        time: row.get(4)?,
        author: row.get(5)?,
        comment: row.get(6)?,
        bytes: row.get(7)?,
        erased: row.get(10)?,
        file: match row.get_ref(8)?.as_str_or_null()? {
            Some(file) => Some(FileChange { name: parse_name(8, file)?, earlier_bytes: row.get(9)? }),
            None => None,
        },
    })
}

fn kind(number: i64) -> rusqlite::Result<ChangeKind> {
    ChangeKind::from_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(3, number))
}

pub(super) fn revision(connection: &Connection, name: &Name, revision: u64) -> rusqlite::Result<Option<Revision>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {REVISION}, r.text, r.fields, r.redirect FROM pages p JOIN revisions r ON r.page = p.id
         WHERE p.name = ?1 AND r.revision = ?2"
    ))?;
    let row = |row: &Row<'_>| {
        let change = change(row)?;
        let has_content = change.kind != ChangeKind::Deleted && change.erased.is_none();
        let content = has_content.then(|| content(row, 11)).transpose()?;
        Ok(Revision { change, content })
    };
    statement.query_row(params![name.as_str(), clamp(revision)], row).optional()
}

pub(super) fn history(
    connection: &Connection,
    name: &Name,
    before: Option<(u64, u64)>,
    limit: usize,
) -> rusqlite::Result<Vec<Change>> {
    let sql = format!(
        "SELECT * FROM (
             SELECT {REVISION} FROM pages p JOIN revisions r ON r.page = p.id
             WHERE p.name = ?1 AND (r.revision, r.sequence) < (?2, ?3) ORDER BY r.revision DESC LIMIT ?4
         ) UNION ALL SELECT * FROM (
             SELECT {FILE_CHANGE} FROM pages p JOIN file_changes f ON f.page = p.id
             WHERE p.name = ?1 AND (f.revision, f.sequence) < (?2, ?3)
             ORDER BY f.revision DESC, f.sequence DESC LIMIT ?4
         ) ORDER BY 3 DESC, 1 DESC LIMIT ?4"
    );
    let (revision, sequence) = before.map_or((i64::MAX, 0), |(revision, sequence)| (clamp(revision), clamp(sequence)));
    rows(connection, &sql, params![name.as_str(), revision, sequence, limit], change)
}

pub(super) fn file_history(
    connection: &Connection,
    name: &Name,
    file: &Name,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<Change>> {
    let sql = format!(
        "SELECT {FILE_CHANGE} FROM pages p JOIN file_changes f ON f.page = p.id
         WHERE p.name = ?1 AND f.file = ?2 AND f.sequence < ?3 ORDER BY f.sequence DESC LIMIT ?4"
    );
    let before = before.map_or(i64::MAX, clamp);
    rows(connection, &sql, params![name.as_str(), file.as_str(), before, limit], change)
}

pub(super) fn recent(connection: &Connection, before: Option<u64>, limit: usize) -> rusqlite::Result<Vec<Change>> {
    let sql = format!(
        "SELECT * FROM (
             SELECT {REVISION} FROM revisions r JOIN pages p ON p.id = r.page
             WHERE r.sequence < ?1 ORDER BY r.sequence DESC LIMIT ?2
         ) UNION ALL SELECT * FROM (
             SELECT {FILE_CHANGE} FROM file_changes f JOIN pages p ON p.id = f.page
             WHERE f.sequence < ?1 ORDER BY f.sequence DESC LIMIT ?2
         ) ORDER BY 1 DESC LIMIT ?2"
    );
    rows(connection, &sql, params![before.map_or(i64::MAX, clamp), limit], change)
}

pub(super) fn backlinks(
    connection: &Connection,
    target: &Name,
    after: Option<&Name>,
    limit: usize,
) -> rusqlite::Result<Vec<Name>> {
    let sql = "SELECT p.name FROM links l JOIN pages p ON p.id = l.page
               WHERE l.target = ?1 AND p.name > ?2 ORDER BY p.name LIMIT ?3";
    rows(connection, sql, params![target.as_str(), after.map_or("", Name::as_str), limit], |row| name(row, 0))
}

pub(super) fn list(connection: &Connection, after: Option<&Name>, limit: usize) -> rusqlite::Result<Vec<Name>> {
    let sql = "SELECT name FROM pages WHERE live = 1 AND name > ?1 ORDER BY name LIMIT ?2";
    rows(connection, sql, params![after.map_or("", Name::as_str), limit], |row| name(row, 0))
}

/// An attachment or its version, from the columns page, file, sequence.
pub(super) fn target(row: &Row<'_>) -> rusqlite::Result<Target> {
    Ok(Target::attachment(name(row, 0)?, name(row, 1)?, row.get(2)?))
}

/// The columns of an [`AttachmentInfo`].
pub(super) const INFO: &str = "a.file, a.media_type, a.bytes, a.digest, a.modified";

pub(super) fn info(row: &Row<'_>) -> rusqlite::Result<AttachmentInfo> {
    Ok(AttachmentInfo {
        file: name(row, 0)?,
        media_type: row.get(1)?,
        bytes: row.get(2)?,
        digest: row.get(3)?,
        modified: row.get(4)?,
    })
}

pub(super) fn attachments(
    connection: &Connection,
    name: &Name,
    after: Option<&Name>,
    limit: usize,
) -> rusqlite::Result<Vec<AttachmentInfo>> {
    let sql = format!(
        "SELECT {INFO} FROM pages p JOIN attachments a ON a.page = p.id
         WHERE p.name = ?1 AND p.live = 1 AND a.file > ?2 ORDER BY a.file LIMIT ?3"
    );
    rows(connection, &sql, params![name.as_str(), after.map_or("", Name::as_str), limit], info)
}

pub(super) fn attachment_info(
    connection: &Connection,
    name: &Name,
    file: &Name,
) -> rusqlite::Result<Option<AttachmentInfo>> {
    let sql = format!(
        "SELECT {INFO} FROM pages p JOIN attachments a ON a.page = p.id
         WHERE p.name = ?1 AND a.file = ?2 AND p.live = 1"
    );
    connection.prepare_cached(&sql)?.query_row([name.as_str(), file.as_str()], info).optional()
}

pub(super) fn attachment(
    connection: &Connection,
    name: &Name,
    file: &Name,
) -> rusqlite::Result<Option<(AttachmentInfo, Bytes)>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {INFO}, b.bytes FROM pages p JOIN attachments a ON a.page = p.id JOIN blobs b ON b.digest = a.digest
         WHERE p.name = ?1 AND a.file = ?2 AND p.live = 1"
    ))?;
    statement.query_row([name.as_str(), file.as_str()], info_and_bytes).optional()
}

pub(super) fn file_version(
    connection: &Connection,
    name: &Name,
    file: &Name,
    sequence: u64,
) -> rusqlite::Result<Option<(AttachmentInfo, Bytes)>> {
    let mut statement = connection.prepare_cached(
        "SELECT f.file, f.former_media_type, f.former_bytes, f.former_digest, f.former_modified, b.bytes
         FROM pages p JOIN file_changes f ON f.page = p.id JOIN blobs b ON b.digest = f.former_digest
         WHERE p.name = ?1 AND f.file = ?2 AND f.sequence = ?3 AND p.live = 1",
    )?;
    statement.query_row(params![name.as_str(), file.as_str(), clamp(sequence)], info_and_bytes).optional()
}

fn info_and_bytes(row: &Row<'_>) -> rusqlite::Result<(AttachmentInfo, Bytes)> {
    Ok((info(row)?, Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?)))
}

pub(super) fn by_fields(
    connection: &Connection,
    path: &str,
    value: Option<&Value>,
    limit: usize,
) -> rusqlite::Result<Vec<Name>> {
    use crate::prepared_write::{field_path, field_value};
    let path = field_path(path);
    let value = value.map(field_value);
    let condition = if value.is_some() { "f.value = ?2" } else { "?2 IS NULL" };
    let sql = format!(
        "SELECT DISTINCT p.name FROM fields f JOIN pages p ON p.id = f.page WHERE f.path = ?1 AND {condition}
         ORDER BY p.name LIMIT ?3"
    );
    rows(connection, &sql, params![path, value, limit], |row| name(row, 0))
}

/// The surrogate keys that the edge has not confirmed.
pub(super) fn queued_purges(connection: &Connection, edge: &str, limit: usize) -> rusqlite::Result<Vec<(u64, String)>> {
    let sql = "SELECT everything, ?2 FROM edges WHERE edge = ?1 AND everything IS NOT NULL
               UNION ALL SELECT sequence, key FROM purges
               WHERE sequence > (SELECT through FROM edges WHERE edge = ?1) ORDER BY 1 LIMIT ?3";
    let everything = keys::EVERYTHING;
    rows(connection, sql, params![edge, everything, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(super) fn value(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT value FROM wiki_values WHERE key = ?1")?;
    statement.query_row([key], |row| row.get(0)).optional()
}

pub(super) fn values(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT key, value FROM wiki_values WHERE key >= ?1 AND substr(key, 1, ?2) = ?1 ORDER BY key";
    let length = prefix.chars().count();
    rows(connection, sql, params![prefix, length], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// All rows of a statement, which is prepared once.
pub(super) fn rows<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(parameters, row)?.collect()
}

/// One value of the first row of a statement, which is prepared once.
pub(super) fn one<T: rusqlite::types::FromSql>(
    connection: &Connection,
    sql: &str,
    parameters: &[&dyn ToSql],
) -> rusqlite::Result<T> {
    connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))
}
