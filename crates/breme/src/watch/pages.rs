//! The pages of a watch at `--admin`: made from the journal whenever they are wanted.

use std::path::PathBuf;

use super::exporting::{self, Shown};
use crate::admin::{Api, Call, Page};
use crate::failure::Failure;

const HTML: &str = "text/html; charset=utf-8";
/// The page loads itself again after so many seconds.
const RELOAD_S: u32 = 30;

/// Of a journal.
#[derive(Debug)]
pub(super) struct Pages {
    journal: PathBuf,
}

impl Pages {
    pub(super) const fn new(journal: PathBuf) -> Self {
        Self { journal }
    }

    fn page(&self) -> Result<Page, Failure> {
        let shown = Shown::read(&self.journal)?;
        Ok(Page { media_type: HTML, ..Page::plain(200, exporting::html(&shown, Some(RELOAD_S))) })
    }

    fn document(&self) -> Result<Page, Failure> {
        Ok(Page::json(200, &exporting::document(&Shown::read(&self.journal)?)))
    }
}

impl Api for Pages {
    fn index(&self) -> String {
        String::from("/watch       page of the journal, loads itself again\n/watch.json  the same as JSON\n")
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
