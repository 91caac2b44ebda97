//! A cache of pages, so that reading a popular page requires no SQL.
//!
//! A cached page is in the state of the last commit. Before a commit, the writer removes the pages that it changes; a
//! reader may add a page only if no commit began after the start of its read.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::name::Name;
use crate::page::Page;

/// Size of a typical page, in bytes: with the capacity, it determines the number of entries.
const PAGE_BYTES_USUAL: usize = 5_000;

/// Approximate overhead of a page in addition to its text, in bytes.
const PAGE_BYTES_FIXED: usize = 400;

pub(super) struct Pages {
    pages: Cache<Name, Arc<Page>, Bytes>,
    commits: Mutex<Commits>,
}

struct Commits {
    /// Number of beginnings and ends of commits: odd during a commit.
    count: u64,
}

/// When a read began.
#[derive(Clone, Copy)]
pub(super) struct ReadStart(u64);

#[derive(Clone)]
struct Bytes;

impl Weighter<Name, Arc<Page>> for Bytes {
    fn weight(&self, name: &Name, page: &Arc<Page>) -> u64 {
        let content = &page.content;
        let links: usize = page.red_links.iter().map(|link| link.as_str().len() + 16).sum();
        let fields = if content.fields.is_empty() { 0 } else { 2 * content.text.len().max(PAGE_BYTES_USUAL) };
        (content.text.len() + name.as_str().len() + links + fields + PAGE_BYTES_FIXED) as u64
    }
}

impl Pages {
    pub(super) fn new(bytes: usize) -> Self {
        let pages = Cache::with_weighter(bytes / PAGE_BYTES_USUAL, bytes as u64, Bytes);
        Self { pages, commits: Mutex::new(Commits { count: 0 }) }
    }

    pub(super) fn page(&self, name: &Name) -> Option<Arc<Page>> {
        self.pages.get(name)
    }

    /// Must be called before the transaction of the read begins.
    pub(super) fn start_read(&self) -> ReadStart {
        ReadStart(self.commits.lock().count)
    }

    /// Adds a page, unless a commit may have changed it since the read began.
    pub(super) fn add(&self, start: ReadStart, page: &Arc<Page>) {
        let commits = self.commits.lock();
        if commits.count == start.0 && commits.count.is_multiple_of(2) {
            self.pages.insert(page.name.clone(), Arc::clone(page));
        }
    }

    /// Must be called before a commit.
    pub(super) fn start_commit<'a>(&self, changed: impl Iterator<Item = &'a Name>) {
        let mut commits = self.commits.lock();
        commits.count += 1;
        changed.for_each(|name| drop(self.pages.remove(name)));
    }

    /// Must be called after a commit, successful or not.
    pub(super) fn end_commit(&self) {
        self.commits.lock().count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Content;

    fn page(revision: u64) -> Arc<Page> {
        Arc::new(Page {
            name: name(),
            revision,
            links_version: 0,
            modified: 0,
            content: Content::default(),
            red_links: Vec::new(),
        })
    }

    fn name() -> Name {
        Name::parse("a").unwrap()
    }

    #[test]
    fn a_read_that_overlaps_a_commit_is_not_kept() {
        let pages = Pages::new(1 << 20);
        let before = pages.start_read();
        pages.start_commit([&name()].into_iter());
        let during = pages.start_read();
        pages.add(during, &page(1));
        pages.end_commit();
        pages.add(before, &page(1));
        pages.add(during, &page(1));
        assert!(pages.page(&name()).is_none());
        pages.add(pages.start_read(), &page(2));
        assert_eq!(pages.page(&name()).unwrap().revision, 2);
    }

    #[test]
    fn a_commit_removes_only_what_it_changes() {
        let pages = Pages::new(1 << 20);
        pages.add(pages.start_read(), &page(1));
        pages.start_commit([&Name::parse("b").unwrap()].into_iter());
        assert!(pages.page(&name()).is_some());
        pages.end_commit();
        pages.start_commit([&name()].into_iter());
        assert!(pages.page(&name()).is_none());
    }
}
