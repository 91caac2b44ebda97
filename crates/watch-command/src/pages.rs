//! Pages at `--admin`, rendered from the journal by a thread of their own, once per interval at most.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;

use breme_admin::{AdminPage, Api, Call};
use breme_command::failure::Failure;
use breme_http::media_type::HTML;

use crate::export::{self, LoadedJournal};
use crate::status::Status;

/// The page reloads after this time, seconds.
const RELOAD_S: u32 = 30;
/// Requests that wait for the thread. The admin server has fewer connections.
const WAITING_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PageKind {
    Html,
    Json,
}

#[derive(Debug)]
struct PageRequest {
    kind: PageKind,
    response: Sender<AdminPage>,
}

#[derive(Debug)]
pub(crate) struct AdminPages(SyncSender<PageRequest>);

impl AdminPages {
    pub(crate) fn start(journal: PathBuf, status: Status) -> Result<Self, Failure> {
        let (sender, requests) = sync_channel(WAITING_MAX);
        Builder::new()
            .name("pages".to_owned())
            .spawn(move || render_all(&requests, &journal, &status))
            .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        Ok(Self(sender))
    }
}

impl Api for AdminPages {
    fn index(&self) -> String {
        String::from("GET /watch       findings and charts; reloads itself\nGET /watch.json  the same as JSON\n")
    }

    fn answer(&self, _call: &Call<'_>) -> AdminPage {
        AdminPage::plain(404, "there is /watch, /watch.json, /metrics, /health and /ready\n")
    }

    fn answer_later(&self, call: &Call<'_>) -> Option<Receiver<AdminPage>> {
        let kind = match call.path {
            "/watch" => PageKind::Html,
            "/watch.json" => PageKind::Json,
            _ => return None,
        };
        let (response, page) = channel();
        if let Err(error) = self.0.try_send(PageRequest { kind, response: response.clone() }) {
            let _ = response.send(AdminPage::fault(503, format!("the page cannot be rendered: {error}")));
        }
        Some(page)
    }
}

/// Until the admin server has ended.
fn render_all(requests: &Receiver<PageRequest>, journal: &Path, status: &Status) {
    let mut pages: BTreeMap<PageKind, (u64, AdminPage)> = BTreeMap::new();
    for PageRequest { kind, response } in requests {
        let interval = status.lock().intervals;
        let known = pages.get(&kind).filter(|(of, _)| *of == interval).map(|(_, page)| page.clone());
        let page = known.unwrap_or_else(|| match render(kind, journal) {
            Ok(page) => {
                pages.insert(kind, (interval, page.clone()));
                page
            }
            Err(failure) => AdminPage::fault(500, failure.message),
        });
        let _ = response.send(page); // fails if the client is gone
    }
}

fn render(kind: PageKind, journal: &Path) -> Result<AdminPage, Failure> {
    let journal = LoadedJournal::read(journal)?;
    Ok(match kind {
        PageKind::Html => {
            AdminPage { media_type: HTML, ..AdminPage::plain(200, export::html(&journal, Some(RELOAD_S))) }
        }
        PageKind::Json => AdminPage::json(200, &export::document(&journal)),
    })
}

#[cfg(test)]
mod tests {
    use breme_watch::IntervalLengths;
    use breme_watch::history::JournalInfo;

    use super::*;
    use crate::journal_folder::JournalFolder;

    #[test]
    fn an_error_is_not_kept_until_the_next_interval() {
        let folder = tempfile::tempdir().unwrap();
        let pages = AdminPages::start(folder.path().to_owned(), Status::default()).unwrap();
        let status = || {
            let (response, page) = channel();
            pages.0.send(PageRequest { kind: PageKind::Json, response }).unwrap();
            page.recv().unwrap().status
        };
        assert_eq!(status(), 500, "there is no journal");
        let journal = JournalFolder::open_write(folder.path()).unwrap();
        journal.write_info(JournalInfo::default(), IntervalLengths::default()).unwrap();
        assert_eq!(status(), 200);
    }
}
