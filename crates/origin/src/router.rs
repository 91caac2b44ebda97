//! Routes requests.
//!
//! | method | response |
//! |---|---|
//! | GET, HEAD | a lab path, the visitors' report, a visitor's own count, a file, a directory |
//! | POST | in the lab the request's own content; otherwise 405 if the path exists, else 404 |
//! | OPTIONS | 204 with Allow, for any path and for `*` |
//! | any other | 501 |

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, UnixSeconds};
use breme_http::media_type::OCTET_STREAM;
use breme_http::{FieldBlock, Method, RequestHead, Target, cookie_pairs};

use crate::directory_page::{self, LISTING_ENTRIES_MAX};
use crate::entry::{EntryOutcome, line};
use crate::file_cache::{FileCache, RecentEntries};
use crate::files;
use crate::lab;
use crate::path::{PathError, may_be_requested, site_name, url_path};
use crate::response::{Body, CacheControl, HeaderLines, Response};
use crate::site::SiteState;
use crate::visitors::{COOKIE, Visit, Visitors};

/// How to respond to a request.
#[derive(Debug)]
pub(crate) enum RouteDecision {
    Response(Response),
    Delay(Response, Duration),
    /// Send the request's content back, with these header lines.
    Echo(FieldBlock),
}

/// What the response to a request depends on.
pub(crate) struct Router<'a> {
    pub(crate) site: &'a SiteState,
    pub(crate) recent: &'a mut RecentEntries,
    pub(crate) random: &'a mut Random,
    pub(crate) now: Instant,
    pub(crate) wall: UnixSeconds,
    /// The connection uses TLS.
    pub(crate) is_secured: bool,
}

impl Router<'_> {
    pub(crate) fn route(&mut self, head: &RequestHead<'_, '_>) -> RouteDecision {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Asterisk => return RouteDecision::Response(self.options()),
            Target::Authority(_) => return RouteDecision::Response(Response::error(501)),
        };
        match head.method {
            Method::Get | Method::Head => self.read(head, path, query),
            Method::Post => self.post(head, path),
            Method::Options => RouteDecision::Response(self.options()),
            _ => RouteDecision::Response(Response::error(501)),
        }
    }

    fn allowed(&self) -> &'static [u8] {
        if self.site.settings.lab { b"GET, HEAD, OPTIONS, POST" } else { b"GET, HEAD, OPTIONS" }
    }

    fn options(&self) -> Response {
        Response::empty(204).with("Allow", self.allowed())
    }

    fn post(&mut self, head: &RequestHead<'_, '_>, path: &str) -> RouteDecision {
        if self.site.settings.lab {
            return RouteDecision::Echo(self.echo_lines(head));
        }
        let response = self.page(head, path, None);
        let is_something = matches!(response.status, 200..400 | 412 | 416);
        let allowed = self.allowed();
        RouteDecision::Response(if is_something { Response::error(405).with("Allow", allowed) } else { response })
    }

    fn echo_lines(&self, head: &RequestHead<'_, '_>) -> FieldBlock {
        let mut lines = FieldBlock::new();
        let media_type = head.fields.first("content-type").filter(|media_type| !media_type.is_empty());
        if media_type.is_none_or(|media_type| lines.push("Content-Type", media_type).is_err()) {
            line(&mut lines, "Content-Type", OCTET_STREAM.as_bytes());
        }
        // Another site's form could have sent this: it must not be executed as content of this site.
        line(&mut lines, "X-Content-Type-Options", b"nosniff");
        line(&mut lines, "Cache-Control", b"no-store");
        if let Some(Visit::New(set_cookie)) = self.visit(head) {
            line(&mut lines, "Set-Cookie", set_cookie.as_bytes());
        }
        lines
    }

    fn read(&mut self, head: &RequestHead<'_, '_>, path: &str, query: Option<&str>) -> RouteDecision {
        if let (Some(visitors), "/visitors") = (&self.site.visitors, path) {
            return RouteDecision::Response(Response::report(visitors.report()));
        }
        if self.site.visitors.is_some() && path == "/visitors/me" {
            return RouteDecision::Response(self.own_count(head));
        }
        let mut delay = Duration::ZERO;
        let lab_response = if self.site.settings.lab { self.lab_response(head, path) } else { None };
        let response = match lab_response {
            Some(lab::LabResponse { response, delay: requested }) => {
                delay = requested;
                response
            }
            None => self.page(head, path, query),
        };
        let response = match self.visit(head) {
            Some(Visit::New(set_cookie)) => response.with_cookie(&set_cookie),
            _ => response,
        };
        if delay.is_zero() { RouteDecision::Response(response) } else { RouteDecision::Delay(response, delay) }
    }

    /// Reports how many requests carried this visitor's cookie. A client that counts too can verify that no other
    /// client has it.
    fn own_count(&self, head: &RequestHead<'_, '_>) -> Response {
        let count_response = |count: u64| Response {
            lines: HeaderLines::Json,
            ..Response::report(format!("{{\"requests\":{count}}}\n"))
        };
        match self.visit(head) {
            Some(Visit::Returning(count)) => count_response(count),
            Some(Visit::New(set_cookie)) => count_response(1).with_cookie(&set_cookie),
            Some(Visit::Uncounted) | None => Response::error(503),
        }
    }

    fn lab_response(&self, head: &RequestHead<'_, '_>, path: &str) -> Option<lab::LabResponse> {
        lab::response(path, head, &self.site.settings, || self.site.counters.responses_total())
    }

    fn visit(&self, head: &RequestHead<'_, '_>) -> Option<Visit> {
        let visitors: &Visitors = self.site.visitors.as_ref()?;
        let pairs = head.fields.all("cookie").flat_map(cookie_pairs);
        Some(visitors.visit(pairs.filter_map(|pair| pair.value_of(COOKIE.as_bytes())), self.is_secured))
    }

    /// The resource at a path.
    fn page(&mut self, head: &RequestHead<'_, '_>, path: &str, query: Option<&str>) -> Response {
        let site = self.site;
        let is_lab_index = site.settings.lab && path == "/";
        let Some(cache) = &site.files else {
            return if is_lab_index { lab_index() } else { Response::error(self.status_of_no_file(path)) };
        };
        let wall = self.wall;
        let entry = match self.recent.find(path, cache, &site.settings, self.now, || wall) {
            Ok(entry) => entry,
            Err(error) => return Response::error(error.status()),
        };
        match &entry.outcome {
            EntryOutcome::File(file) => {
                let is_get = head.method == Method::Get;
                let random = &mut *self.random;
                files::response(Arc::clone(&entry), file, head.fields, is_get, || random.next_u64())
            }
            EntryOutcome::Moved => self.moved(path, query),
            EntryOutcome::Directory if site.settings.listing => self.listing(cache, path),
            _ if is_lab_index => lab_index(),
            EntryOutcome::Directory => Response::error(404),
            EntryOutcome::Refused(error) => Response::error(error.status()),
        }
    }

    /// Validates a path on a site without files as on one with files.
    fn status_of_no_file(&self, path: &str) -> u16 {
        site_name(path, self.site.settings.hidden).map_or_else(PathError::status, |_| 404)
    }

    /// Redirects to the name with its slash. The new path is built from the canonical name: it begins with one slash
    /// and cannot lead to another host.
    fn moved(&self, path: &str, query: Option<&str>) -> Response {
        let Ok(name) = site_name(path, self.site.settings.hidden) else { return Response::error(404) };
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        let location = format!("{}/{query}", url_path(&name));
        Response::with_status(301, "301 Moved Permanently: this is a directory.\n")
            .with("Location", location.as_bytes())
    }

    fn listing(&self, cache: &FileCache, path: &str) -> Response {
        let hidden = self.site.settings.hidden;
        let Ok(name) = site_name(path, hidden) else { return Response::error(404) };
        let is_listed = |entry: &str| may_be_requested(entry, hidden);
        match cache.root().list(name.trim_end_matches('/'), LISTING_ENTRIES_MAX, &is_listed) {
            Ok(listed) => Response {
                lines: HeaderLines::Html,
                caching: CacheControl::NoStore,
                body: Body::Bytes(directory_page::page(&name, listed).into()),
                ..Response::empty(200)
            },
            Err(error) => Response::error(error.status()),
        }
    }
}

fn lab_index() -> Response {
    Response { caching: CacheControl::Site, ..Response::text(lab::INDEX) }
}
