//! The wiki as an axum application.
//!
//! | module | does |
//! |---|---|
//! | `guard` | authentication and authorisation: forged requests, permissions, rate limits |
//! | `negotiation`, `validators` | which representation; validators and headers for caches |
//! | `documents`, `memory` | cached HTML of pages; requests that need nothing else |
//! | `pages`, `lists` | pages, revisions, differences; lists, searches, feeds |
//! | `changes`, `submission` | changes, their conditions and conflicts; bodies of requests |
//! | `files` | attachments |
//! | `sign_in` | sign-in and sign-out |
//! | `problem` | errors as responses |

pub(crate) mod assets;
mod changes;
mod counts;
mod documents;
mod files;
mod guard;
mod lists;
mod memory;
mod negotiation;
mod pages;
mod problem;
mod sign_in;
mod submission;
mod validators;

pub(crate) use files::media_type;
pub(crate) use submission::Submission;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{FromRequestParts, Path, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::Page;
use breme_wiki_database::{Database, DatabaseError, keys};
use bytes::Bytes;
use counts::Counts;
pub use counts::Reading;
use documents::Documents;
use guard::{Limiter, Visitor, admit, identify};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::Incoming;
use negotiation::names_html;
use problem::Problem;
use tower_service::Service;
use validators::{Audience, Representation, digest, insert};

use crate::purges::Edges;
use crate::render::{Rendered, render};
use crate::settings::{Readers, Settings, Writers};
use crate::{accounts, paths, views};

/// The page to which `/` redirects.
const HOME: &str = "Home";

/// Only the wiki's own scripts and styles are allowed, and they may connect only to the wiki; images may come from
/// anywhere over TLS.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' https:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Identifies the templates with which the wiki last ran.
const TEMPLATE_KEY: &str = "template";

/// Longest text that is parsed and rendered inline.
const SHORT_BYTES: usize = 16 * 1024;

/// State shared by all handlers.
pub struct Wiki {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) edges: Edges,
    pub(crate) limiter: Limiter,
    documents: Documents,
    /// Digests of everything around a page's text: the program's version, its stylesheet, the title of the wiki.
    /// Without and with accounts.
    templates: [String; 2],
    has_accounts: AtomicBool,
    /// Whether the first account was found, and earlier pages are not purged yet.
    purge_due: AtomicBool,
    /// Concurrent password hashes: each takes 19 MiB.
    hashing: tokio::sync::Semaphore,
    /// Concurrent merges, comparisons and renderings of long texts: each may occupy a core for a while.
    working: tokio::sync::Semaphore,
}

/// The peer's address of a request's connection, as an extension of the request.
#[derive(Clone, Copy, Debug)]
struct Peer(IpAddr);

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
            hashing: tokio::sync::Semaphore::new(2),
            working: tokio::sync::Semaphore::new(2),
        }
    }

    /// Purges all HTML if the templates have changed since the wiki last ran, because of another version or title.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn purge_earlier_templates(&self) -> Result<(), DatabaseError> {
        match self.database.value(TEMPLATE_KEY).await? {
            Some(earlier) if earlier != self.template() => self.purge_templates().await,
            Some(_) => Ok(()),
            None => self.set_template().await,
        }
    }

    async fn purge_templates(&self) -> Result<(), DatabaseError> {
        self.database.purge(keys::TEMPLATES).await?;
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

    fn template(&self) -> &str {
        &self.templates[usize::from(self.has_accounts())]
    }

    /// Its counters, for metrics.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.counts.reading(self.documents.bytes(), self.edges.states())
    }

    /// A page as HTML, as the visitor sees it.
    async fn document(&self, visitor: &Visitor, page: &Page) -> Bytes {
        let frame = self.frame(visitor);
        let document = match self.documents.get(page, frame.has_accounts) {
            Some(document) => {
                self.counts.render_hits.add(1);
                document
            }
            None => {
                self.counts.render_misses.add(1);
                let rendered = self.render(&page.content.text, &page.name, &page.red_links).await;
                let html = views::page(&views::Frame { user: None, ..frame }, page, &rendered);
                self.documents.insert(page, frame.has_accounts, html)
            }
        };
        match visitor.user() {
            None => document.html.clone(),
            Some(_) => views::greet(&frame, &document.html).into(),
        }
    }

    /// Renders a text; a long one on a blocking thread, since it takes a while.
    async fn render(&self, text: &str, name: &Name, missing: &[Name]) -> Rendered {
        if text.len() <= SHORT_BYTES {
            return render(text, name, missing);
        }
        let (text, name, missing) = (text.to_owned(), name.clone(), missing.to_owned());
        self.work(move || render(&text, &name, &missing)).await.unwrap_or_default()
    }

    /// Runs CPU-intensive work on a blocking thread; none if it panicked.
    async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _permit = self.working.acquire().await;
        tokio::task::spawn_blocking(work).await.ok()
    }

    /// Which caches may store responses to a visitor.
    pub(crate) fn audience(&self, visitor: &Visitor) -> Audience {
        let is_for_everybody = self.settings.readers == Readers::Anyone && visitor.user().is_none();
        if is_for_everybody { Audience::Everybody } else { Audience::One }
    }

    fn frame<'a>(&'a self, visitor: &'a Visitor) -> views::Frame<'a> {
        self.frame_of(visitor.user())
    }

    fn frame_of<'a>(&'a self, user: Option<&'a str>) -> views::Frame<'a> {
        views::Frame {
            title: &self.settings.title,
            user,
            has_accounts: self.has_accounts(),
            // Never by visitor: public pages are cached.
            is_writable: self.settings.writers != Writers::Nobody,
        }
    }

    /// A page of HTML, cached under `keys`.
    fn show(&self, request: &HeaderMap, visitor: &Visitor, html: String, keys: Vec<String>) -> Response {
        let mut page = Representation::html(html, keys, self.audience(visitor));
        page.vary = self.vary("Accept", "Accept, Cookie");
        page.respond(request, &self.settings.cache_control)
    }

    /// A list as JSON, cached under `keys`.
    fn show_json(
        &self,
        request: &HeaderMap,
        visitor: &Visitor,
        value: &serde_json::Value,
        keys: Vec<String>,
    ) -> Response {
        let body = Bytes::from(format!("{value}\n"));
        let mut page = Representation::digested("application/json", body, keys, self.audience(visitor));
        page.vary = self.vary("Accept", "Accept, Cookie");
        page.respond(request, &self.settings.cache_control)
    }

    /// Without accounts no response depends on a cookie.
    fn vary(&self, without: &'static str, with_accounts: &'static str) -> &'static str {
        if self.has_accounts() { with_accounts } else { without }
    }

    /// Absolute URLs for the home page, feeds and mails.
    fn base_url(&self, headers: &HeaderMap, uri: &Uri) -> String {
        match &self.settings.public_url {
            Some(url) => url.to_string().trim_end_matches('/').to_owned(),
            None => format!("http://{}", guard::authority(headers, uri)),
        }
    }
}

/// The application.
#[derive(Clone)]
pub struct Application {
    wiki: Arc<Wiki>,
    router: Router,
}

impl Application {
    pub fn new(wiki: Arc<Wiki>) -> Self {
        Self { router: router(Arc::clone(&wiki)), wiki }
    }

    /// Responds to a request of a peer.
    pub async fn respond<B>(&self, mut request: Request<B>, peer: IpAddr) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        if let Some(response) = self.wiki.respond_from_memory(&request) {
            return response;
        }
        request.extensions_mut().insert(Peer(peer));
        let mut router = self.router.clone();
        let Ok(response) = Service::call(&mut router, request).await;
        response
    }
}

impl breme_serving::Application for Application {
    async fn respond(&self, request: Request<Incoming>, peer: IpAddr) -> Response {
        Self::respond(self, request, peer).await
    }
}

fn router(wiki: Arc<Wiki>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/wiki", get(all_pages))
        .route("/wiki/", get(all_pages))
        .route("/wiki/stevec", get(counter))
        .route("/wiki/{name}", get(pages::page).post(changes::post).put(changes::put).delete(changes::delete))
        .route("/wiki/{name}/edit", get(changes::edit_form))
        .route("/wiki/{name}/history", get(pages::history))
        .route("/wiki/{name}/revisions/{revision}", get(pages::revision))
        .route("/wiki/{name}/diff", get(pages::difference))
        .route("/wiki/{name}/backlinks", get(pages::backlinks))
        .route("/wiki/{name}/rename", get(changes::rename_form).post(changes::rename))
        .route("/wiki/{name}/delete", get(changes::delete_form).post(changes::delete_by_form))
        .route("/wiki/{name}/revert", post(changes::revert))
        .route("/wiki/{name}/files", get(files::list).post(files::upload))
        .route("/wiki/{name}/files/{file}", get(files::download).put(files::put).delete(files::delete))
        .route("/wiki/{name}/files/{file}/delete", post(files::delete_by_form))
        .route("/pages", get(lists::pages))
        .route("/new", get(changes::new_form))
        .route("/recent", get(lists::recent))
        .route("/recent.atom", get(lists::feed))
        .route("/search", get(lists::search))
        .route("/suggest", get(lists::suggest))
        .route("/preview", post(changes::preview))
        .route("/login", get(sign_in::form).post(sign_in::sign_in))
        .route("/logout", post(sign_in::sign_out))
        .route("/openapi.json", get(assets::openapi))
        .route("/robots.txt", get(assets::robots))
        .route("/assets/{file}", get(assets::asset))
        .fallback(async || Problem::not_found("There is nothing at this address."))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "This address does not support this method.")
        })
        // Handlers that read bodies themselves apply the limits of the settings.
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&wiki), outermost))
        .with_state(wiki)
}

/// Wraps every request: authentication and authorisation, error pages, common headers.
async fn outermost(State(wiki): WikiState, mut request: axum::extract::Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    wiki.counts.requests.add(1);
    if uri.path() != COUNTER_PATH {
        wiki.counts.since_read.add(1);
    }
    let is_html = names_html(request.headers());
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0);
    let identified = identify(&wiki, request.headers(), &uri, peer).await;
    let admitted =
        identified.and_then(|visitor| admit(&wiki, &method, &uri, request.headers(), &visitor).map(|()| visitor));
    let visitor = admitted.as_ref().ok().cloned();
    let mut response = match admitted {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        write_problem(&wiki, &problem, (&method, &uri, is_html), visitor.as_ref(), &mut response);
    }
    wiki.counts.count(response.status());
    finish(response.headers_mut());
    response
}

/// Adds the headers common to all responses.
fn finish(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    // Not cacheable unless declared so.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

fn write_problem(
    wiki: &Wiki,
    problem: &Problem,
    (method, uri, is_html): (&Method, &Uri, bool),
    visitor: Option<&Visitor>,
    response: &mut Response,
) {
    if !is_html {
        insert(response.headers_mut(), CONTENT_TYPE, "application/problem+json");
        *response.body_mut() = format!("{}\n", problem.to_json()).into();
        return;
    }
    let signs_in = wiki.has_accounts() && problem.status == StatusCode::UNAUTHORIZED && uri.path() != "/login";
    if signs_in && method == Method::GET {
        let next = uri.path_and_query().map_or("/", |path| path.as_str());
        *response = see_other(&format!("/login?next={}", paths::query_value(next)));
        return;
    }
    insert(response.headers_mut(), CONTENT_TYPE, "text/html; charset=utf-8");
    let frame = wiki.frame_of(visitor.and_then(Visitor::user));
    *response.body_mut() = views::problem(&frame, problem.title(), &problem.detail).into();
}

/// 303: the next resource is at another address.
pub(crate) fn see_other(path: &str) -> Response {
    redirect(StatusCode::SEE_OTHER, path)
}

pub(crate) fn redirect(status: StatusCode, path: &str) -> Response {
    let mut response = status.into_response();
    insert(response.headers_mut(), LOCATION, path);
    response
}

async fn home() -> Response {
    redirect(StatusCode::FOUND, &format!("/wiki/{HOME}"))
}

async fn all_pages() -> Response {
    redirect(StatusCode::MOVED_PERMANENTLY, "/pages")
}

const COUNTER_PATH: &str = "/wiki/stevec";

/// The study's counter: requests since it was last read. Only GET resets it.
async fn counter(State(wiki): WikiState, method: Method) -> Response {
    let count = if method == Method::GET { wiki.counts.since_read.take() } else { wiki.counts.since_read.value() };
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{count}\n")).into_response()
}

/// Parses a name in a path or a form.
pub(crate) fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|error| Problem::bad_request(format!("{text:?} is not a name: {error}.")))
}

/// The page in the path of a request: `/wiki/NAME/…`.
pub(crate) struct PageName(pub(crate) Name);

impl<S: Send + Sync> FromRequestParts<S> for PageName {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        name(&text).map(Self).map_err(IntoResponse::into_response)
    }
}

#[cfg(test)]
mod tests;
