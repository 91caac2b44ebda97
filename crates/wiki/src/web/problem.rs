//! Errors as responses: a page for browsers, `application/problem+json` (RFC 9457) for programs.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use breme_wiki_database::{DatabaseError, WriteError};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    /// The error and its remedy, in one or two sentences.
    pub(crate) detail: String,
    /// A header that the status requires; boxed, since problems are returned through many calls.
    pub(crate) header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Additional members for programs.
    pub(crate) members: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), header: None, members: Map::new() }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        self.header = HeaderValue::from_str(value.as_ref()).ok().map(|value| Box::new((name, value)));
        self
    }

    /// The meaning of the status.
    pub(crate) fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut members = json!({ "title": self.title(), "status": self.status.as_u16(), "detail": self.detail });
        if let Value::Object(object) = &mut members {
            object.extend(self.members.clone());
        }
        members
    }
}

/// The middleware writes the body, in the format that the client accepts.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        if let Some((name, value)) = self.header.as_deref() {
            response.headers_mut().insert(name, value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Self {
        // The database's message may contain names of tables or addresses: it is for the operator's log only.
        breme_base::error_line!("breme wiki: {error}");
        if error.is_temporary {
            let detail = "The database is not available; try again later.";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_header(header::RETRY_AFTER, "2");
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "The database failed; see the log of the server.")
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Database(error) => error.into(),
            WriteError::Missing => Self::not_found("There is nothing with this name."),
            WriteError::NameTaken => {
                Self::new(StatusCode::CONFLICT, "A page with this name already exists; choose another name.")
            }
            WriteError::Conflict(_) => Self::new(
                StatusCode::CONFLICT,
                "The page has changed in the meantime; load it again and repeat the change.",
            ),
            WriteError::FileConflict => Self::new(
                StatusCode::PRECONDITION_FAILED,
                "The file has changed in the meantime, or exists already; load the list of files again.",
            ),
        }
    }
}
