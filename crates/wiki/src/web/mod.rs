//! The wiki as an axum application.
//!
//! | module | does |
//! |---|---|
//! | `state` | the state shared by all handlers |
//! | `guard`, `visitor` | authentication and authorisation: forged requests, permissions; the sender of a request |
//! | `limiter` | rate limits |
//! | `addresses` | names in addresses, requests to pages, redirects |
//! | `negotiation`, `validators` | which representation; validators and headers for caches |
//! | `documents`, `memory` | cached HTML of pages; requests that need nothing else |
//! | `pages`, `lists` | pages, revisions, differences; lists, searches, feeds |
//! | `changes`, `submission` | changes, their conditions and conflicts; bodies of requests |
//! | `files` | attachments |
//! | `sign_in` | sign-in and sign-out |
//! | `problem` | errors as responses |

mod addresses;
pub(crate) mod assets;
mod changes;
mod counts;
mod documents;
mod files;
mod guard;
mod limiter;
mod lists;
mod memory;
mod negotiation;
mod pages;
mod path;
mod problem;
mod sign_in;
mod state;
pub(crate) mod submission;
mod validators;
mod visitor;

pub use counts::Reading;
pub(crate) use files::media_type;
pub use state::Wiki;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use addresses::{redirect, see_other};
use axum::Router;
use axum::body::HttpBody;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use guard::{admit, identify};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::Incoming;
use negotiation::names_html;
use problem::Problem;
use state::WikiState;
use tower_service::Service;
use validators::insert;
use visitor::Visitor;

use crate::{paths, views};

/// The page to which `/` redirects.
const HOME: &str = "Home";

/// Only the wiki's own scripts and styles are allowed, and they may connect only to the wiki; images may come from
/// anywhere over TLS.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' https:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The peer's address of a request's connection, as an extension of the request.
#[derive(Clone, Copy, Debug)]
struct Peer(IpAddr);

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

impl breme_axum_server::Application for Application {
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
        .route("/wiki/{name}/files/{file}/delete", get(files::delete_form).post(files::delete_by_form))
        .route("/wiki/{name}/files/{file}/history", get(files::history))
        .route("/wiki/{name}/files/{file}/restore", post(files::restore))
        .route("/wiki/{name}/files/{file}/versions/{sequence}", get(files::version))
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
    if method != Method::GET {
        // Ranges are defined for GET only (RFC 9110, section 14.2).
        request.headers_mut().remove(http::header::RANGE);
    }
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
    insert(response.headers_mut(), CONTENT_TYPE, breme_http::media_type::HTML);
    let frame = wiki.frame_of(visitor.and_then(Visitor::user));
    *response.body_mut() = views::problem(&frame, problem.title(), &problem.detail).into();
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
    ([(CONTENT_TYPE, breme_http::media_type::TEXT)], format!("{count}\n")).into_response()
}

#[cfg(test)]
mod tests;
