//! The index of words: which pages contain which words.
//!
//! Pages are indexed in groups. Each group is a *generation* and writes a *segment*: a row for each word, with the list
//! of pages that contain it. Segments are immutable. A page that is indexed again is also in a later segment; its row
//! contains its current generation, and searches ignore its entries in other segments. Since many segments make
//! searches slow, neighbours of about the same size are merged, and obsolete entries are dropped.
//!
//! FTS5 would do the same, but processes the words page by page: half of the CPU time of an import's writer went to its
//! table of words in memory (`sqlite3Fts5HashWrite`), and imports reached 2,600 to 3,200 pages/s of 5 kB. Here the
//! words of many pages are sorted concurrently with the writer, which then only appends rows: 7,000 to 8,000 pages/s,
//! up to 250,000 pages.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::read::{one, rows};
use crate::inversion::Inversion;
use crate::postings::{Postings, PostingsIter};

/// Number of segments of the same size class that are merged.
const MERGED_SEGMENTS: usize = 8;

/// The upper limits of the size classes, in bytes. Larger segments are not merged any more: it would take seconds.
const SIZE_CLASSES: [u64; 3] = [1 << 20, 8 << 20, 64 << 20];

/// Bytes of rows that a merge writes at once: after each write it has to find its position in the segments again.
const MERGE_ROWS_BYTES: usize = 4 << 20;

/// Longer lists are not cleaned by [`remove_obsolete`], in bytes: each of their pages would be looked up, and a word of
/// so many pages tells nothing about one of them.
const CLEANED_LIST_BYTES_MAX: usize = 1024;

/// Bytes of texts whose words a check holds in memory, without the last text.
const VERIFIED_BYTES_MAX: usize = 64 << 20;

/// The words of the generations `first` to `last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexSegment {
    id: i64,
    pub(super) first: i64,
    pub(super) last: i64,
    /// Number of pages when it was written.
    pages: u64,
    /// Bytes of words and lists.
    bytes: u64,
}

/// All segments, sorted by generation.
fn segments(connection: &Connection) -> rusqlite::Result<Vec<IndexSegment>> {
    let sql = "SELECT id, first, last, pages, bytes FROM text_segments ORDER BY first";
    rows(connection, sql, [], |row| {
        Ok(IndexSegment {
            id: row.get(0)?,
            first: row.get(1)?,
            last: row.get(2)?,
            pages: row.get(3)?,
            bytes: row.get(4)?,
        })
    })
}

/// The generation of the next group of pages.
pub(super) fn next_generation(connection: &Connection) -> rusqlite::Result<i64> {
    one(connection, "SELECT coalesce(max(last), 0) + 1 FROM text_segments", &[])
}

/// A segment under construction.
pub(super) struct NewSegment<'a> {
    connection: &'a Connection,
    id: i64,
    words: u64,
    bytes: u64,
}

impl<'a> NewSegment<'a> {
    pub(super) fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        let id = one(connection, "SELECT coalesce(max(id), 0) + 1 FROM text_segments", &[])?;
        Ok(Self { connection, id, words: 0, bytes: 0 })
    }

    /// Adds a word, in sorted order.
    pub(super) fn add(&mut self, word: &str, pages: &Postings) -> rusqlite::Result<()> {
        let pages = pages.bytes();
        if pages.is_empty() {
            return Ok(());
        }
        self.connection
            .prepare_cached("INSERT INTO text_words (segment, word, pages) VALUES (?1, ?2, ?3)")?
            .execute(params![self.id, word, pages])?;
        self.words += 1;
        self.bytes += (word.len() + pages.len()) as u64;
        Ok(())
    }

    pub(super) fn finish(self, generations: (i64, i64), pages: u64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO text_segments (id, first, last, pages, words, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![self.id, generations.0, generations.1, pages, self.words, self.bytes])
            .map(|_| ())
    }
}

/// The neighbours to be merged next, if any. The numbers are those of current pages.
fn merge_plan(segments: &[(IndexSegment, u64)]) -> Option<Range<usize>> {
    for end in SIZE_CLASSES {
        let mut from = 0;
        for run in segments.split_inclusive(|(segment, _)| segment.bytes >= end) {
            let small = run.iter().take_while(|(segment, _)| segment.bytes < end).count();
            let smaller = SIZE_CLASSES.iter().rev().find(|class| **class < end).copied().unwrap_or(0);
            let of_class = run[..small].iter().filter(|(segment, _)| segment.bytes >= smaller).count();
            if of_class >= MERGED_SEGMENTS {
                return Some(from..from + small);
            }
            from += run.len();
        }
    }
    // A segment is rewritten alone when most of its entries are obsolete.
    let stale = segments.iter().position(|(segment, pages)| *pages < segment.pages.div_ceil(2));
    stale.map(|at| at..at + 1)
}

/// Merges segments in a separate transaction, if there are too many. To be called after each new segment: it only acts
/// when their number is a multiple of [`MERGED_SEGMENTS`], because it then counts all pages.
pub(super) fn merge(connection: &mut Connection) -> rusqlite::Result<()> {
    let count: usize = one(connection, "SELECT count(*) FROM text_segments", &[])?;
    let is_due = count.is_multiple_of(MERGED_SEGMENTS);
    if !is_due {
        return Ok(());
    }
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let counted = |segment: IndexSegment| {
            let sql = "SELECT count(*) FROM pages WHERE generation BETWEEN ?1 AND ?2";
            let pages = one(&transaction, sql, &[&segment.first, &segment.last])?;
            Ok((segment, pages))
        };
        let segments =
            segments(&transaction)?.into_iter().map(counted).collect::<rusqlite::Result<Vec<(IndexSegment, u64)>>>()?;
        let Some(merged) = merge_plan(&segments) else { return Ok(()) };
        merge_segments(&transaction, &segments[merged])?;
        transaction.commit()?;
    }
}

/// The rows of a segment during a merge.
struct MergeSource<'a> {
    rows: rusqlite::Rows<'a>,
    next: Option<(String, Vec<u8>)>,
    /// The current pages, unless all are.
    pages: Option<HashSet<u64, foldhash::fast::RandomState>>,
}

impl MergeSource<'_> {
    fn advance(&mut self) -> rusqlite::Result<()> {
        self.next = self.rows.next()?.map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?))).transpose()?;
        Ok(())
    }
}

fn merge_segments(connection: &Connection, merged: &[(IndexSegment, u64)]) -> rusqlite::Result<()> {
    let (Some((first, _)), Some((last, _))) = (merged.first(), merged.last()) else { return Ok(()) };
    let pages: u64 = merged.iter().map(|(_, pages)| pages).sum();
    if pages > 0 {
        let mut segment = NewSegment::new(connection)?;
        let sql = "SELECT word, pages FROM text_words WHERE segment = ?1 ORDER BY word";
        let mut statements = merged
            .iter()
            .map(|_| connection.prepare(sql))
            .collect::<rusqlite::Result<Vec<rusqlite::Statement<'_>>>>()?;
        let mut sources = Vec::new();
        for (statement, (segment, counting)) in statements.iter_mut().zip(merged) {
            let pages = if *counting == segment.pages { None } else { Some(counting_pages(connection, segment)?) };
            let mut source = MergeSource { rows: statement.query([segment.id])?, next: None, pages };
            source.advance()?;
            sources.push(source);
        }
        loop {
            let merged = next_words(&mut sources)?;
            if merged.is_empty() {
                break;
            }
            for (word, pages) in &merged {
                segment.add(word, pages)?;
            }
        }
        segment.finish((first.first, last.last), pages)?;
    }
    for (segment, _) in merged {
        connection.prepare_cached("DELETE FROM text_words WHERE segment = ?1")?.execute([segment.id])?;
        connection.prepare_cached("DELETE FROM text_segments WHERE id = ?1")?.execute([segment.id])?;
    }
    Ok(())
}

/// The pages for which the segment is current.
fn counting_pages(
    connection: &Connection,
    segment: &IndexSegment,
) -> rusqlite::Result<HashSet<u64, foldhash::fast::RandomState>> {
    let mut statement = connection.prepare_cached("SELECT id FROM pages WHERE generation BETWEEN ?1 AND ?2")?;
    statement.query_map([segment.first, segment.last], |row| row.get(0))?.collect()
}

/// The next words of all sources with their current pages, up to a size; none at the end.
fn next_words(sources: &mut [MergeSource<'_>]) -> rusqlite::Result<Vec<(String, Postings)>> {
    let mut words = Vec::new();
    let mut bytes = 0;
    let mut pages: Vec<u64> = Vec::new();
    while bytes < MERGE_ROWS_BYTES {
        let next = sources.iter().filter_map(|source| source.next.as_ref()).map(|(word, _)| word).min();
        let Some(word) = next.cloned() else { break };
        pages.clear();
        for source in &mut *sources {
            let Some((_, list)) = source.next.take_if(|(next, _)| *next == word) else { continue };
            match &source.pages {
                None => pages.extend(PostingsIter::from_bytes(&list)),
                Some(counting) => pages.extend(PostingsIter::from_bytes(&list).filter(|page| counting.contains(page))),
            }
            source.advance()?;
        }
        if !pages.is_sorted() {
            pages.sort_unstable();
        }
        let list: Postings = pages.iter().copied().collect();
        bytes += word.len() + list.bytes().len();
        words.push((word, list));
    }
    Ok(words)
}

/// Removes from the lists of these words the pages that were indexed again since, deleted or removed.
pub(super) fn remove_obsolete(connection: &Connection, words: &BTreeSet<String>) -> rusqlite::Result<()> {
    let mut select = connection
        .prepare_cached("SELECT pages FROM text_words WHERE segment = ?1 AND word = ?2 AND length(pages) <= ?3")?;
    let mut is_current = connection.prepare_cached(
        "SELECT 1 FROM pages WHERE id = ?1 AND live = 1 AND generation BETWEEN ?2 AND ?3
             AND NOT EXISTS (SELECT 1 FROM unindexed WHERE page = ?1)",
    )?;
    for segment in segments(connection)? {
        let (mut removed_words, mut removed_bytes) = (0, 0);
        for word in words {
            let parameters = params![segment.id, word, CLEANED_LIST_BYTES_MAX];
            let list: Option<Vec<u8>> = select.query_row(parameters, |row| row.get(0)).optional()?;
            let Some(list) = list else { continue };
            let mut kept = Postings::default();
            for page in PostingsIter::from_bytes(&list) {
                if is_current.exists(params![page, segment.first, segment.last])? {
                    kept.push(page);
                }
            }
            let kept = kept.bytes();
            removed_bytes += list.len() - kept.len();
            if kept.is_empty() {
                connection
                    .prepare_cached("DELETE FROM text_words WHERE segment = ?1 AND word = ?2")?
                    .execute(params![segment.id, word])?;
                removed_words += 1;
                removed_bytes += word.len();
            } else if kept != list {
                connection
                    .prepare_cached("UPDATE text_words SET pages = ?3 WHERE segment = ?1 AND word = ?2")?
                    .execute(params![segment.id, word, kept])?;
            }
        }
        connection
            .prepare_cached("UPDATE text_segments SET words = words - ?2, bytes = bytes - ?3 WHERE id = ?1")?
            .execute(params![segment.id, removed_words, removed_bytes])?;
    }
    Ok(())
}

/// The lists of the words of a query, from each segment that has all of them.
pub(super) struct Lists(Vec<(IndexSegment, Vec<Vec<u8>>)>);

impl Lists {
    pub(super) fn read(connection: &Connection, words: &[String]) -> rusqlite::Result<Self> {
        let mut found = Vec::new();
        let mut statement =
            connection.prepare_cached("SELECT pages FROM text_words WHERE segment = ?1 AND word = ?2")?;
        for segment in segments(connection)? {
            let mut list = |word: &String| statement.query_row(params![segment.id, word], |row| row.get(0)).optional();
            let lists = words.iter().map_while(|word| list(word).transpose());
            let mut lists = lists.collect::<rusqlite::Result<Vec<Vec<u8>>>>()?;
            if lists.len() == words.len() {
                // The shortest list first: its pages are looked up in the others.
                lists.sort_unstable_by_key(Vec::len);
                found.push((segment, lists));
            }
        }
        Ok(Self(found))
    }

    /// The pages with all the words, ascending, each with the segment that contains them. A page may occur more than
    /// once; a segment other than that of the page's generation does not count.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, &IndexSegment)> {
        let mut sources: Vec<_> =
            self.0.iter().map(|(segment, lists)| (Intersection::from_lists(lists).peekable(), segment)).collect();
        std::iter::from_fn(move || {
            let next = sources.iter_mut().filter_map(|(pages, segment)| Some((*pages.peek()?, pages, *segment)));
            let (page, pages, segment) = next.min_by_key(|(page, ..)| *page)?;
            pages.next();
            Some((page, segment))
        })
    }
}

/// The pages that are in all lists.
struct Intersection<'a> {
    first: PostingsIter<'a>,
    others: Vec<std::iter::Peekable<PostingsIter<'a>>>,
}

impl<'a> Intersection<'a> {
    fn from_lists(lists: &'a [Vec<u8>]) -> Self {
        let mut lists = lists.iter().map(|list| PostingsIter::from_bytes(list));
        let first = lists.next().unwrap_or(PostingsIter::from_bytes(&[]));
        Self { first, others: lists.map(Iterator::peekable).collect() }
    }
}

impl Iterator for Intersection<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        'pages: loop {
            let page = self.first.next()?;
            for other in &mut self.others {
                while other.next_if(|next| *next < page).is_some() {}
                if *other.peek()? != page {
                    continue 'pages;
                }
            }
            return Some(page);
        }
    }
}

/// The errors of the index: damaged segments, and missing words.
pub(super) fn faults(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut faults = Vec::new();
    let sql = "SELECT DISTINCT segment FROM text_words WHERE segment NOT IN (SELECT id FROM text_segments)";
    for segment in rows::<i64>(connection, sql, [], |row| row.get(0))? {
        faults.push(format!(
            "segment {segment} of the full-text index: it has words, but is not in the list of segments"
        ));
    }
    let mut after = 0;
    for segment in segments(connection)? {
        let mut fault = |what: &str| faults.push(format!("segment {} of the full-text index: {what}", segment.id));
        if segment.first <= after || segment.last < segment.first {
            fault("its generations are those of another one");
        }
        after = segment.last;
        let recorded = "SELECT words FROM text_segments WHERE id = ?1";
        let counted = "SELECT count(*) FROM text_words WHERE segment = ?1";
        if one::<i64>(connection, recorded, &[&segment.id])? != one::<i64>(connection, counted, &[&segment.id])? {
            fault("words are missing");
        }
        let missing = missing_words(connection, &segment)?;
        for word in missing.iter().take(3) {
            fault(&format!("the list of the word {word:?} is damaged, or lacks a page"));
        }
    }
    Ok(faults)
}

/// Words of the segment's pages that are missing after indexing them again; some of them if there are many.
fn missing_words(connection: &Connection, segment: &IndexSegment) -> rusqlite::Result<Vec<String>> {
    let mut pages: Vec<u64> = counting_pages(connection, segment)?.into_iter().collect();
    pages.sort_unstable();
    let mut pages = pages.into_iter().peekable();
    let mut missing = Vec::new();
    while pages.peek().is_some() && missing.is_empty() {
        let mut words = Inversion::default();
        let mut bytes = 0;
        for page in pages.by_ref() {
            bytes += add_text(connection, page, &mut words)?;
            if bytes >= VERIFIED_BYTES_MAX {
                break;
            }
        }
        add_missing(connection, segment, words, &mut missing)?;
    }
    Ok(missing)
}

/// Adds the words of the page, unless it is in the backlog; returns the length of its text.
fn add_text(connection: &Connection, page: u64, words: &mut Inversion) -> rusqlite::Result<usize> {
    let length = connection
        .prepare_cached(
            "SELECT p.name, r.text FROM pages p JOIN revisions r ON r.sequence = p.current
             WHERE p.id = ?1 AND p.live = 1 AND NOT EXISTS (SELECT 1 FROM unindexed u WHERE u.page = p.id)",
        )?
        .query_row([page], |row| {
            let text = row.get_ref(1)?.as_str()?;
            words.add(page, row.get_ref(0)?.as_str()?, text);
            Ok(text.len())
        })
        .optional()?;
    Ok(length.unwrap_or(0))
}

fn add_missing(
    connection: &Connection,
    segment: &IndexSegment,
    words: Inversion,
    missing: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT pages FROM text_words WHERE segment = ?1 AND word = ?2")?;
    for (word, pages) in words.into_sorted() {
        let list: Option<Vec<u8>> = statement.query_row(params![segment.id, word], |row| row.get(0)).optional()?;
        let has_all = list.is_some_and(|list| {
            let mut listed = PostingsIter::from_bytes(&list);
            let has_all = PostingsIter::from_bytes(pages.bytes()).all(|page| listed.any(|listed| listed == page));
            listed.by_ref().for_each(drop);
            has_all && listed.is_at_end()
        });
        if !has_all {
            missing.push(word.into_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;
    use crate::sqlite::backlog::Backlog;
    use crate::sqlite::schema;

    /// Segments of these sizes, whose pages are all current.
    fn plan(bytes: &[u64]) -> Option<Range<usize>> {
        let segment = |(at, bytes): (usize, &u64)| {
            let at = at as i64;
            (IndexSegment { id: at, first: at, last: at, pages: 9, bytes: *bytes }, 9)
        };
        merge_plan(&bytes.iter().enumerate().map(segment).collect::<Vec<_>>())
    }

    #[test]
    fn neighbours_of_one_size_are_merged() {
        const SMALL: u64 = 1000;
        let [medium, large, final_one] = SIZE_CLASSES;
        assert_eq!(plan(&[]), None);
        assert_eq!(plan(&[SMALL; 7]), None);
        assert_eq!(plan(&[SMALL; 8]), Some(0..8));
        assert_eq!(plan(&[&[medium; 3][..], &[SMALL; 8]].concat()), Some(3..11));
        assert_eq!(plan(&[&[SMALL; 7][..], &[medium], &[SMALL; 7]].concat()), None, "they are no neighbours");
        let mixed = [&[SMALL; 5][..], &[medium; 7], &[SMALL; 5], &[medium]].concat();
        assert_eq!(plan(&mixed), Some(0..18), "smaller ones between them are merged too");
        assert_eq!(plan(&[&[final_one][..], &[large; 8], &[SMALL]].concat()), Some(1..10));
        assert_eq!(plan(&[final_one; 100]), None);
    }

    #[test]
    fn a_segment_most_of_which_counts_no_more_is_written_again() {
        let segment = |counting| (IndexSegment { id: 1, first: 1, last: 1, pages: 9, bytes: 1 << 40 }, counting);
        assert_eq!(merge_plan(&[segment(9), segment(5)]), None);
        assert_eq!(merge_plan(&[segment(9), segment(4)]), Some(1..2));
    }

    /// The pages that the index returns for all of `words`.
    fn found(connection: &Connection, words: &[&str]) -> BTreeSet<i64> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let lists = Lists::read(connection, &words).unwrap();
        let sql = "SELECT generation FROM pages WHERE id = ?1";
        let mut last = 0;
        let counting = |(page, segment): (u64, &IndexSegment)| {
            assert!(page >= last, "the pages are in order");
            last = page;
            let generation: Option<i64> = one(connection, sql, &[&page]).unwrap();
            let counts = generation.is_some_and(|generation| (segment.first..=segment.last).contains(&generation));
            counts.then_some(page as i64)
        };
        lists.pages().filter_map(counting).collect()
    }

    /// Those of `words` whose lists have obsolete pages.
    fn obsolete(connection: &Connection, words: &BTreeSet<String>) -> Vec<String> {
        let mut obsolete = Vec::new();
        for segment in segments(connection).unwrap() {
            let current = counting_pages(connection, &segment).unwrap();
            let sql = "SELECT word, pages FROM text_words WHERE segment = ?1";
            let lists: Vec<(String, Vec<u8>)> =
                rows(connection, sql, [segment.id], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let lists = lists.into_iter().filter(|(word, _)| words.contains(word));
            let is_obsolete =
                |list: &[u8]| list.is_empty() || PostingsIter::from_bytes(list).any(|page| !current.contains(&page));
            obsolete.extend(lists.filter(|(_, list)| is_obsolete(list)).map(|(word, _)| word));
        }
        obsolete
    }

    #[test]
    fn the_index_has_the_words_of_the_last_texts_through_all_merges() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, Path::new("memory")).unwrap();
        let mut texts: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
        let mut random = 7_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let mut merged = false;
        for round in 0..200 {
            let mut changed = BTreeMap::new();
            for _ in 0..1 + below(6) {
                let page = 1 + below(60) as i64;
                let words: BTreeSet<u64> = (0..below(8)).map(|_| below(20)).collect();
                let text: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
                let is_live = below(5) > 0;
                let sql = "INSERT INTO pages (id, name, folded, revision, current, links_version, live)
                           VALUES (?1, 'p' || ?1, '', 1, ?1, 0, ?2) ON CONFLICT DO UPDATE SET live = ?2";
                connection.execute(sql, params![page, is_live]).unwrap();
                let sql =
                    "INSERT OR REPLACE INTO revisions (sequence, page, revision, kind, time, comment, bytes, text)
                           VALUES (?1, ?1, 1, 0, 0, '', 0, ?2)";
                connection.execute(sql, params![page, text.join(" ")]).unwrap();
                texts.insert(page, if is_live { words } else { BTreeSet::new() });
                changed.insert(page, 1);
            }
            let mut backlog = Backlog::default();
            backlog.add(changed);
            let before = segments(&connection).unwrap().len();
            backlog.index(&mut connection).unwrap();
            let erased: BTreeSet<String> = (0..below(8)).map(|_| format!("w{}", below(20))).collect();
            remove_obsolete(&connection, &erased).unwrap();
            assert_eq!(obsolete(&connection, &erased), [""; 0], "round {round}");
            merged |= segments(&connection).unwrap().len() < before;
            assert!(segments(&connection).unwrap().len() < 2 * MERGED_SEGMENTS, "round {round}");
            assert_eq!(faults(&connection).unwrap(), Vec::<String>::new(), "round {round}");
            for word in 0..20 {
                let other = below(20);
                let expected = texts.iter().filter(|(_, words)| words.contains(&word) && words.contains(&other));
                let expected: BTreeSet<i64> = expected.map(|(page, _)| *page).collect();
                assert_eq!(found(&connection, &[&format!("w{word}"), &format!("w{other}")]), expected);
            }
        }
        assert!(merged);
    }
}
