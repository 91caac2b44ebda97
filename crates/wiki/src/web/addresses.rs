//! Addresses: the names in them, and redirects to others.

use axum::extract::{FromRequestParts, Path};
use axum::response::{IntoResponse, Response};
use breme_wiki_database::name::Name;
use http::StatusCode;
use http::header::LOCATION;
use http::request::Parts;

use super::problem::Problem;
use super::validators::insert;

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

/// 303: the next resource is at another address.
pub(crate) fn see_other(path: &str) -> Response {
    redirect(StatusCode::SEE_OTHER, path)
}

pub(crate) fn redirect(status: StatusCode, path: &str) -> Response {
    let mut response = status.into_response();
    insert(response.headers_mut(), LOCATION, path);
    response
}
