//! What both applications read from a request, and respond to one that changes a session.

use std::borrow::Cow;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use breme_http::media_type::{FORM, essence};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};

use super::pairs::PairError;
use crate::layer::SessionError;

pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The parameters of a request: those of the query, then those of a form in the body of a POST.
pub(super) struct RequestParameters {
    query: String,
    form: Bytes,
}

impl RequestParameters {
    /// The first value of each name.
    pub(super) fn get<const N: usize>(&self, names: [&str; N]) -> [Option<Cow<'_, str>>; N] {
        let mut values = [const { None }; N];
        let query = form_urlencoded::parse(self.query.as_bytes());
        for (name, value) in query.chain(form_urlencoded::parse(&self.form)) {
            if let Some(place) = names.iter().position(|wanted| *wanted == name) {
                values[place].get_or_insert(value);
            }
        }
        values
    }
}

impl<S: Send + Sync> FromRequest<S> for RequestParameters {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let content_type = request.headers().get(CONTENT_TYPE);
        let is_form = content_type.is_some_and(|value| essence(value.as_bytes()).eq_ignore_ascii_case(FORM.as_bytes()));
        let form = match is_form && request.method() == Method::POST {
            true => Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?,
            false => Bytes::new(),
        };
        Ok(Self { query, form })
    }
}

pub(super) fn acknowledge() -> Response {
    (StatusCode::NO_CONTENT, [(CACHE_CONTROL, NO_STORE)]).into_response()
}

pub(super) fn refuse(why: PairError) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

/// A session refuses changes only after its handler has responded, so this is a bug.
pub(super) fn fail(error: &SessionError) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}
