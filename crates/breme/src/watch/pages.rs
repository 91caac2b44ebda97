//! Pages at `--admin`, rendered from the journal for each request.

use std::path::PathBuf;

use breme_admin::{AdminPage, Api, Call};
use breme_command::failure::Failure;
use breme_http::media_type::HTML;

use super::export::{self, LoadedJournal};

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

    fn page(&self) -> Result<AdminPage, Failure> {
        let journal = LoadedJournal::read(&self.journal)?;
        Ok(AdminPage { media_type: HTML, ..AdminPage::plain(200, export::html(&journal, Some(RELOAD_S))) })
    }

    fn document(&self) -> Result<AdminPage, Failure> {
        Ok(AdminPage::json(200, &export::document(&LoadedJournal::read(&self.journal)?)))
    }
}

impl Api for AdminPages {
    fn index(&self) -> String {
        String::from("GET /watch       findings and charts; reloads itself\nGET /watch.json  the same as JSON\n")
    }

    fn answer(&self, call: &Call<'_>) -> AdminPage {
        let page = match call.path {
            "/watch" => self.page(),
            "/watch.json" => self.document(),
            _ => return AdminPage::plain(404, "there is /watch, /watch.json, /metrics, /health and /ready\n"),
        };
        page.unwrap_or_else(|failure| AdminPage::fault(500, failure.message))
    }
}
