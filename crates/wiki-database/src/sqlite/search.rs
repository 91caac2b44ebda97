//! Searches of titles and texts.
//!
//! The index returns candidates in the order in which the pages were created; their number is limited, so that words of
//! every page cost no more than rare ones. Of more candidates, only the first are rated. Pages that are not in the
//! index of words yet are few and all rated.

use std::collections::HashSet;

use rusqlite::{Connection, Params, params};

use super::read::rows;
use super::word_index::Lists;
use crate::name::Name;
use crate::page::Match;
use crate::results::{TEXT_CANDIDATES_MAX, TITLE_CANDIDATES_MAX, best, without_excerpts};
use crate::words::{Rating, TextQuery, TitleQuery};

/// Pages whose names contain the text of the query: first those that begin with it.
pub(super) fn titles(connection: &Connection, query: &TitleQuery, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut names = beginning(connection, query, limit)?;
    if names.len() >= limit {
        return Ok(names);
    }
    let mut statement = connection.prepare_cached(
        "SELECT p.name, p.folded FROM title_grams g CROSS JOIN pages p ON p.id = g.rowid
         WHERE title_grams MATCH ?1 AND p.live = 1 LIMIT ?2",
    )?;
    let mut rows = statement.query(params![all_of(&query.grams), TITLE_CANDIDATES_MAX])?;
    let mut others = Vec::new();
    while let Some(row) = rows.next()? {
        let folded = row.get_ref(1)?.as_str()?;
        if folded.contains(&query.folded) && !folded.starts_with(&query.folded) {
            others.push(row.get(0)?);
            if names.len() + others.len() >= limit {
                break;
            }
        }
    }
    others.sort_unstable();
    names.append(&mut others);
    Ok(names)
}

fn beginning(connection: &Connection, query: &TitleQuery, limit: usize) -> rusqlite::Result<Vec<String>> {
    let end = query.end_of_prefix();
    let condition = if end.is_some() { "folded < ?2" } else { "?2 IS NULL" };
    let sql = format!(
        "SELECT name FROM pages WHERE live = 1 AND folded >= ?1 AND {condition} ORDER BY folded, name LIMIT ?3"
    );
    rows(connection, &sql, params![query.folded, end, limit], |row| row.get(0))
}

/// Pages with all words of the query, best first.
pub(super) fn texts(
    connection: &Connection,
    query: &TextQuery,
    title: Option<&TitleQuery>,
    limit: usize,
) -> rusqlite::Result<Vec<Match>> {
    // All statements see one instant: a page indexed meanwhile is neither missed nor found twice.
    let connection = &*connection.unchecked_transaction()?;
    let mut rated: Vec<(String, Rating)> = Vec::new();
    let unindexed = "SELECT p.name, r.text FROM unindexed u CROSS JOIN pages p ON p.id = u.page
                         CROSS JOIN revisions r ON r.sequence = p.current
                     WHERE p.live = 1";
    rate_all(connection, unindexed, [], query, &mut rated)?;
    let indexed = "SELECT p.name, r.text FROM pages p CROSS JOIN revisions r ON r.sequence = p.current
                   WHERE p.id = ?1 AND p.live = 1 AND p.generation BETWEEN ?2 AND ?3
                       AND NOT EXISTS (SELECT 1 FROM unindexed u WHERE u.page = ?1)";
    let lists = Lists::read(connection, &query.index_words())?;
    let mut compared = 0;
    for (page, segment) in lists.pages() {
        compared += rate_all(connection, indexed, params![page, segment.first, segment.last], query, &mut rated)?;
        if compared >= TEXT_CANDIDATES_MAX {
            break;
        }
    }
    if let (true, Some(title)) = (compared >= TEXT_CANDIDATES_MAX, title) {
        add_titles(connection, query, title, limit, &mut rated)?;
    }
    Ok(best(rated, limit))
}

/// Adds the pages of a statement's names and texts that match the query; returns how many it compared.
fn rate_all(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    query: &TextQuery,
    rated: &mut Vec<(String, Rating)>,
) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut compared = 0;
    while let Some(row) = rows.next()? {
        compared += 1;
        let name = row.get_ref(0)?.as_str()?;
        if let Some(rating) = query.rate(name, row.get_ref(1)?.as_str()?) {
            rated.push((name.to_owned(), rating));
        }
    }
    Ok(compared)
}

/// Adds the pages with the whole query in their names, which are the best matches, but may not be among the first.
fn add_titles(
    connection: &Connection,
    query: &TextQuery,
    title: &TitleQuery,
    limit: usize,
    rated: &mut Vec<(String, Rating)>,
) -> rusqlite::Result<()> {
    let known: HashSet<String> = rated.iter().map(|(name, _)| name.clone()).collect();
    let sql = "SELECT r.text FROM pages p JOIN revisions r ON r.sequence = p.current WHERE p.name = ?1 AND p.live = 1";
    for name in titles(connection, title, limit.min(TEXT_CANDIDATES_MAX))? {
        if known.contains(&name) {
            continue;
        }
        let texts: Vec<String> = rows(connection, sql, [&name], |row| row.get(0))?;
        if let Some(rating) = texts.first().and_then(|text| query.rate(&name, text)) {
            rated.push((name, rating));
        }
    }
    Ok(())
}

/// The query of FTS5 for all these words of the index, which contain no quotes.
fn all_of(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    quoted.join(" AND ")
}

/// Converts names of stored pages to results of a search for names.
pub(super) fn names(names: &[String]) -> Vec<Match> {
    without_excerpts(names.iter().filter_map(|name| Name::parse(name).ok()).collect())
}
