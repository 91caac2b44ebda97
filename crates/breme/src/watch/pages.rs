//! Pages at `--admin`, rendered from the journal for each request.

use std::path::PathBuf;

use super::export::{self, LoadedJournal};
use crate::admin::{Api, Call, Page};
use crate::failure::Failure;

const HTML: &str = "text/html; charset=utf-8";
/// The page reloads after this time, seconds.
const RELOAD_S: u32 = 30;

#[derive(Debug)]
pub(super) struct AdminPages {
    journal: PathBuf,
}

impl AdminPages {
    pub(super) const fn new(journal: PathBuf) -> Self {
        Self { journal }
    }

    fn page(&self) -> Result<Page, Failure> {
        let journal = LoadedJournal::read(&self.journal)?;
        Ok(Page { media_type: HTML, ..Page::plain(200, export::html(&journal, Some(RELOAD_S))) })
    }

    fn document(&self) -> Result<Page, Failure> {
        Ok(Page::json(200, &export::document(&LoadedJournal::read(&self.journal)?)))
    }
}

impl Api for AdminPages {
    fn index(&self) -> String {
        String::from("/watch       findings and charts; reloads itself\n/watch.json  the same as JSON\n")
    }

    fn answer(&self, call: &Call<'_>) -> Page {
        let page = match call.path {
            "/watch" => self.page(),
            "/watch.json" => self.document(),
            _ => return Page::plain(404, "there is /watch, /watch.json, /metrics, /health and /ready\n"),
        };
        page.unwrap_or_else(|failure| Page::fault(500, failure.message))
    }
}
