//! A fast path for the most frequent request, without the router: a page with cached HTML, for a visitor without
//! credentials. The response is the same as the router's.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::Page;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG};
use http::{HeaderMap, Method, Request, StatusCode, Uri};

use super::finish;
use super::guard::session_cookie;
use super::negotiation::{Format, negotiate};
use super::pages::{FORMATS, html_of, is_canonical};
use super::state::Wiki;
use super::validators::{Audience, is_current};
use crate::settings::Readers;

const PAGES: &str = "/wiki/";

impl Wiki {
    /// The response to such a request; `None` for any other.
    pub(super) fn respond_from_memory<B>(&self, request: &Request<B>) -> Option<Response> {
        let headers = request.headers();
        if request.method() != Method::GET || !self.is_for_everybody(headers) {
            return None;
        }
        let page = self.page_in_memory(request.uri())?;
        if negotiate(headers, &FORMATS) != Format::Html {
            return None;
        }
        let document = self.documents.get(&page, self.has_accounts())?;
        let head = document.head.get_or_init(|| {
            let html = html_of(self, &page, document.html.clone(), None, Audience::Everybody, true);
            let mut head = html.headers(&self.settings.cache_control);
            head.insert(CONTENT_TYPE, html.media_type);
            finish(&mut head);
            head
        });
        self.counts.requests.add(1);
        self.counts.since_read.add(1);
        self.counts.render_hits.add(1);
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = head.clone();
        if head.get(ETAG).is_some_and(|tag| is_current(headers, tag, None)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
        } else {
            *response.body_mut() = Body::from(document.html.clone());
        }
        self.counts.count(response.status());
        Some(response)
    }

    /// Whether the visitor gets the public response.
    fn is_for_everybody(&self, headers: &HeaderMap) -> bool {
        self.settings.readers == Readers::Anyone
            && !headers.contains_key(AUTHORIZATION)
            && session_cookie(headers, &self.settings).is_none()
    }

    /// The cached page at exactly this address, unless it redirects.
    fn page_in_memory(&self, uri: &Uri) -> Option<Arc<Page>> {
        let text = uri.path().strip_prefix(PAGES).filter(|text| !text.contains(['/', '%']))?;
        let name = Name::parse(text).ok().filter(|name| uri.query().is_none() && is_canonical(text, name))?;
        self.database.page_in_memory(&name).filter(|page| page.content.redirect.is_none())
    }
}
