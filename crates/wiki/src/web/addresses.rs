//! Addresses: the names in them, requests to pages, and redirects to others.

use std::sync::Arc;

use axum::extract::{Extension, FromRequestParts};
use axum::response::{IntoResponse, Response};
use breme_wiki_database::name::Name;
use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};

use super::path::Path;
use super::problem::Problem;
use super::state::Wiki;
use super::validators::insert;
use super::visitor::Visitor;

/// Parses a name in a path or a form.
pub(crate) fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|error| Problem::bad_request(format!("{text:?} is not a name: {error}.")))
}

/// Refuses an invisible name for a new page or attachment.
pub(crate) fn require_visible(name: &Name) -> Result<(), Problem> {
    let refuse = |c| {
        let detail = format!("A name cannot contain the invisible character {c:?}.");
        Err(Problem::bad_request(detail))
    };
    name.invisible().map_or(Ok(()), refuse)
}

/// A request to the page in its path: `/wiki/NAME/…`.
pub(crate) struct PageRequest {
    pub(crate) wiki: Arc<Wiki>,
    pub(crate) visitor: Visitor,
    pub(crate) name: Name,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl FromRequestParts<Arc<Wiki>> for PageRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, wiki: &Arc<Wiki>) -> Result<Self, Response> {
        let visitor = visitor(parts, wiki).await?;
        let Path(text) = Path::<String>::from_request_parts(parts, wiki).await.map_err(IntoResponse::into_response)?;
        let name = name(&text).map_err(IntoResponse::into_response)?;
        Ok(Self { wiki: Arc::clone(wiki), visitor, name, uri: parts.uri.clone(), headers: parts.headers.clone() })
    }
}

/// A request to the attachment in its path: `/wiki/NAME/files/FILE/…`.
pub(crate) struct FileRequest {
    pub(crate) wiki: Arc<Wiki>,
    pub(crate) visitor: Visitor,
    pub(crate) page: Name,
    pub(crate) file: Name,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl FromRequestParts<Arc<Wiki>> for FileRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, wiki: &Arc<Wiki>) -> Result<Self, Response> {
        let visitor = visitor(parts, wiki).await?;
        let path = Path::<(String, String)>::from_request_parts(parts, wiki).await;
        let Path((page, file)) = path.map_err(IntoResponse::into_response)?;
        let names = name(&page).and_then(|page| Ok((page, name(&file)?)));
        let (page, file) = names.map_err(IntoResponse::into_response)?;
        Ok(Self { wiki: Arc::clone(wiki), visitor, page, file, uri: parts.uri.clone(), headers: parts.headers.clone() })
    }
}

async fn visitor(parts: &mut Parts, wiki: &Arc<Wiki>) -> Result<Visitor, Response> {
    let visitor = Extension::<Visitor>::from_request_parts(parts, wiki).await;
    visitor.map(|Extension(visitor)| visitor).map_err(IntoResponse::into_response)
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
