//! The state shared by all handlers, and what each needs of it to respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::response::Response;
use breme_http::media_type;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::Page;
use breme_wiki_database::{Database, DatabaseError, keys};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use tokio::sync::Semaphore;

use super::counts::{Counts, Reading};
use super::documents::Documents;
use super::limiter::Limiter;
use super::problem::Problem;
use super::validators::{Audience, Representation, digest};
use super::visitor::{Visitor, authority};
use crate::purges::Edges;
use crate::render::{Rendered, render};
use crate::settings::{Readers, Settings, Writers};
use crate::{accounts, views};

/// Identifies the templates with which the wiki last ran.
const TEMPLATE_KEY: &str = "template";

/// Identifies who could read what caches stored when the wiki last ran, and for how long.
const SHARING_KEY: &str = "sharing";

/// Limit of the concurrent merges, comparisons and renderings of long texts: each may occupy a core for a while.
pub(super) const WORKING_MAX: usize = 2;

/// Limit of a form with files, relative to that of one attachment.
pub(super) const UPLOAD_FACTOR: usize = 8;

/// Limit of those that wait for others; further requests are refused.
pub(super) const WAITING_MAX: usize = 64;

/// After which time a refused request may be repeated, in seconds.
const REFUSED_SECONDS: &str = "2";

/// Longest text that is parsed and rendered inline.
pub(super) const SHORT_BYTES: usize = 16 * 1024;

/// Limit of the memory for the bodies of uploads, as a multiple of that of the largest form.
const UPLOAD_FORMS_MAX: usize = 4;

/// The unit in which that memory is counted, in bytes.
pub(super) const UPLOAD_UNIT: usize = 1024;

/// State shared by all handlers.
pub struct Wiki {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) edges: Edges,
    pub(crate) limiter: Limiter,
    pub(super) documents: Documents,
    /// Digests of everything around a page's text: the program's version, its stylesheet, the title of the wiki.
    /// Without and with accounts.
    templates: [String; 2],
    has_accounts: AtomicBool,
    /// Whether the first account was found, and earlier pages are not purged yet.
    purge_due: AtomicBool,
    /// Concurrent password hashes: each takes 19 MiB.
    pub(super) hashing: Semaphore,
    working: Arc<Semaphore>,
    /// A permit for each piece of work, whether it waits or not.
    admitted: Arc<Semaphore>,
    /// A permit for each [`UPLOAD_UNIT`] of a body with files.
    pub(super) uploads: Arc<Semaphore>,
}

pub(crate) type WikiState = State<Arc<Wiki>>;
pub(crate) type HandlerResult = Result<Response, Problem>;

impl Wiki {
    /// Creates a wiki on a database. [`Edges::run`](crate::purges::Edges::run) must be running for its edges to be
    /// purged.
    #[must_use]
    pub fn new(database: Arc<dyn Database>, settings: Settings, edges: Edges) -> Self {
        let template = |has_accounts| digest(views::sample(&settings, has_accounts).as_bytes());
        let templates = [false, true].map(template);
        let has_accounts = AtomicBool::new(settings.has_accounts);
        let form_units = (settings.attachment_bytes_max * UPLOAD_FACTOR).div_ceil(UPLOAD_UNIT);
        let uploads = Semaphore::new((form_units * UPLOAD_FORMS_MAX).min(Semaphore::MAX_PERMITS));
        Self {
            database,
            counts: Counts::default(),
            edges,
            limiter: Limiter::default(),
            documents: Documents::new(settings.rendered_bytes_max),
            settings,
            templates,
            has_accounts,
            purge_due: AtomicBool::new(false),
            hashing: Semaphore::new(2),
            working: Arc::new(Semaphore::new(WORKING_MAX)),
            admitted: Arc::new(Semaphore::new(WORKING_MAX + WAITING_MAX)),
            uploads: Arc::new(uploads),
        }
    }

    /// Purges what caches have stored since the wiki last ran and must not serve any more: everything if other visitors
    /// may read now, or for another time; all HTML if the templates have changed, because of another version or title.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn purge_earlier_responses(&self) -> Result<(), DatabaseError> {
        let template = self.database.value(TEMPLATE_KEY).await?;
        self.purge_other_sharing(template.is_none()).await?;
        match template {
            Some(earlier) if earlier != self.template() => self.purge_templates().await?,
            Some(_) => (),
            None => self.set_template().await?,
        }
        self.edges.await_purges().await;
        Ok(())
    }

    /// A database without this value has been used by an earlier version, whose settings are unknown, or is new.
    async fn purge_other_sharing(&self, is_new: bool) -> Result<(), DatabaseError> {
        let Settings { readers, cache_control, .. } = &self.settings;
        let sharing = format!("{readers:?}; {}", String::from_utf8_lossy(cache_control.as_bytes()));
        let earlier = self.database.value(SHARING_KEY).await?;
        if earlier.as_ref() == Some(&sharing) {
            return Ok(());
        }
        if earlier.is_some() || !is_new {
            self.database.queue_purge(keys::EVERYTHING).await?;
        }
        self.database.set_value(SHARING_KEY, None, Some(&sharing)).await.map(drop)
    }

    async fn purge_templates(&self) -> Result<(), DatabaseError> {
        self.database.queue_purge(keys::TEMPLATES).await?;
        self.set_template().await
    }

    async fn set_template(&self) -> Result<(), DatabaseError> {
        self.database.set_value(TEMPLATE_KEY, None, Some(self.template())).await.map(drop)
    }

    /// Checks for the first account, which may be added while the wiki runs, and then purges all HTML. Returns whether
    /// it did so.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn look_for_accounts(&self) -> Result<bool, DatabaseError> {
        if !self.has_accounts() {
            if !accounts::exist(&*self.database).await? {
                return Ok(false);
            }
            self.purge_due.store(true, Ordering::Release);
            self.has_accounts.store(true, Ordering::Release);
        }
        if !self.purge_due.load(Ordering::Acquire) {
            return Ok(false);
        }
        // If this fails, the next call retries it.
        self.purge_templates().await?;
        self.purge_due.store(false, Ordering::Release);
        Ok(true)
    }

    /// Whether there are accounts or tokens. Once there were, the wiki does not become public again.
    pub(crate) fn has_accounts(&self) -> bool {
        self.has_accounts.load(Ordering::Acquire)
    }

    /// Who may currently write.
    pub(crate) fn writers(&self) -> Writers {
        match self.settings.writers {
            Writers::Local if self.has_accounts() => Writers::Members,
            writers => writers,
        }
    }

    /// Whether only accounts and tokens may change pages.
    #[must_use]
    pub fn is_for_members(&self) -> bool {
        self.writers() == Writers::Members
    }

    pub(super) fn template(&self) -> &str {
        &self.templates[usize::from(self.has_accounts())]
    }

    /// Its counters, for metrics.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.counts.reading(self.documents.bytes(), self.edges.states())
    }

    /// A page as HTML, as the visitor sees it.
    pub(super) async fn document(&self, visitor: &Visitor, page: &Page) -> Result<Bytes, Problem> {
        let frame = self.frame(visitor);
        let document = match self.documents.get(page, frame.has_accounts) {
            Some(document) => {
                self.counts.render_hits.add(1);
                document
            }
            None => {
                self.counts.render_misses.add(1);
                let rendered = self.render(&page.content.text, &page.name, &page.red_links).await?;
                let html = views::page(&views::Frame { user: None, ..frame }, page, &rendered);
                self.documents.insert(page, frame.has_accounts, html)
            }
        };
        Ok(match visitor.user() {
            None => document.html.clone(),
            Some(_) => views::greet(&frame, &document.html).into(),
        })
    }

    /// Renders a text; a long one on a blocking thread, since it takes a while.
    pub(super) async fn render(&self, text: &str, name: &Name, missing: &[Name]) -> Result<Rendered, Problem> {
        if text.len() <= SHORT_BYTES {
            return Ok(render(text, name, missing));
        }
        let (text, name, missing) = (text.to_owned(), name.clone(), missing.to_owned());
        self.work(move || render(&text, &name, &missing)).await
    }

    /// Runs CPU-intensive work on a blocking thread, when earlier work is done.
    ///
    /// # Errors
    ///
    /// Too much work waits, or it panicked.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(admitted) = Arc::clone(&self.admitted).try_acquire_owned() else {
            let detail = "Too many long texts are being processed; try again later.";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
            return Err(problem.with_header(http::header::RETRY_AFTER, REFUSED_SECONDS));
        };
        let permit = Arc::clone(&self.working).acquire_owned().await;
        // The work is not over when its client has gone.
        let work = move || {
            let _permits = (admitted, permit);
            work()
        };
        let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The text cannot be processed.");
        tokio::task::spawn_blocking(work).await.map_err(failed)
    }

    /// Which caches may store responses to a visitor.
    pub(crate) fn audience(&self, visitor: &Visitor) -> Audience {
        let is_for_everybody = self.settings.readers == Readers::Anyone && visitor.user().is_none();
        if is_for_everybody { Audience::Everybody } else { Audience::One }
    }

    pub(super) fn frame<'a>(&'a self, visitor: &'a Visitor) -> views::Frame<'a> {
        self.frame_of(visitor.user())
    }

    pub(super) fn frame_of<'a>(&'a self, user: Option<&'a str>) -> views::Frame<'a> {
        views::Frame {
            title: &self.settings.title,
            user,
            has_accounts: self.has_accounts(),
            // Never by visitor: public pages are cached.
            is_writable: self.settings.writers != Writers::Nobody,
        }
    }

    /// A page of HTML, cached under `keys`.
    pub(super) fn show(&self, request: &HeaderMap, visitor: &Visitor, html: String, keys: Vec<String>) -> Response {
        let mut page = Representation::html(html, keys, self.audience(visitor));
        page.vary = self.vary("Accept", "Accept, Cookie");
        page.respond(request, &self.settings.cache_control)
    }

    /// A list as JSON, cached under `keys`.
    pub(super) fn show_json(
        &self,
        request: &HeaderMap,
        visitor: &Visitor,
        value: &serde_json::Value,
        keys: Vec<String>,
    ) -> Response {
        let body = Bytes::from(format!("{value}\n"));
        let mut page = Representation::digested(media_type::JSON, body, keys, self.audience(visitor));
        page.vary = self.vary("Accept", "Accept, Cookie");
        page.respond(request, &self.settings.cache_control)
    }

    /// Without accounts no response depends on a cookie.
    pub(super) fn vary(&self, without: &'static str, with_accounts: &'static str) -> &'static str {
        if self.has_accounts() { with_accounts } else { without }
    }

    /// Absolute URLs for the home page, feeds and mails.
    pub(super) fn base_url(&self, headers: &HeaderMap, uri: &Uri) -> String {
        match &self.settings.public_url {
            Some(url) => url.to_string().trim_end_matches('/').to_owned(),
            None => format!("http://{}", authority(headers, uri)),
        }
    }
}
