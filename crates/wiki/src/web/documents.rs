//! A cache of pages as whole HTML documents, as seen by visitors who have not signed in. For a signed-in user only the
//! greeting differs.

use std::sync::{Arc, OnceLock};

use breme_wiki_database::name::Name;
use breme_wiki_database::page::Page;
use bytes::Bytes;
use http::HeaderMap;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Size of a typical document, in bytes: with the capacity, it determines the number of entries.
const DOCUMENT_BYTES_USUAL: u64 = 8 << 10;

/// Approximate overhead of a document in addition to its bytes: mostly its headers.
const DOCUMENT_BYTES_FIXED: usize = 2000;

/// The documents of popular pages.
pub(super) struct Documents(Cache<Name, Arc<Document>, ByBytes>);

/// The HTML of a page.
pub(super) struct Document {
    revision: u64,
    links_version: u64,
    /// Whether it contains a link to sign in.
    has_accounts: bool,
    pub(super) html: Bytes,
    /// The headers of the response to visitors without credentials.
    pub(super) head: OnceLock<HeaderMap>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Name, Arc<Document>> for ByBytes {
    fn weight(&self, name: &Name, document: &Arc<Document>) -> u64 {
        (name.as_str().len() + document.html.len() + DOCUMENT_BYTES_FIXED) as u64
    }
}

impl Documents {
    pub(super) fn new(bytes_max: u64) -> Self {
        let places = usize::try_from(bytes_max / DOCUMENT_BYTES_USUAL).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(places, bytes_max, ByBytes))
    }

    /// The document of the page, unless it is of another revision, some of its links have changed colour since, or the
    /// first account was added.
    pub(super) fn get(&self, page: &Page, has_accounts: bool) -> Option<Arc<Document>> {
        self.0.get(&page.name).filter(|document| {
            document.revision == page.revision
                && document.links_version == page.links_version
                && document.has_accounts == has_accounts
        })
    }

    pub(super) fn insert(&self, page: &Page, has_accounts: bool, html: String) -> Arc<Document> {
        let Page { revision, links_version, .. } = *page;
        let head = OnceLock::new();
        let document = Arc::new(Document { revision, links_version, has_accounts, html: html.into(), head });
        self.0.insert(page.name.clone(), Arc::clone(&document));
        document
    }

    /// Approximate memory usage.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}
