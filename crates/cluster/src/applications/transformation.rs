//! The XSL application.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};

use super::messages::{NO_STORE, RequestParameters, acknowledge, fail, refuse};
use super::pairs::Pairs;
use crate::layer::Session;
use crate::xsl::{TransformError, Transformer};

const DOCUMENT: &str = "xml";
const STYLESHEET: &str = "xsl";

/// Stores the names of the files in a request, or transforms the stored ones.
pub(super) async fn respond(
    transformer: Arc<Transformer>,
    session: Session,
    parameters: RequestParameters,
) -> Response {
    let pairs = Pairs::new(session.body());
    if let [Some(document), Some(stylesheet)] = parameters.get([DOCUMENT, STYLESHEET]) {
        let pairs = pairs.with(DOCUMENT, &document).and_then(|pairs| pairs.with(STYLESHEET, &stylesheet));
        return match pairs.map(|pairs| session.set_body(pairs.bytes().clone())) {
            Ok(Ok(())) => acknowledge(),
            Ok(Err(error)) => fail(&error),
            Err(why) => refuse(why),
        };
    }
    let (Some(document), Some(stylesheet)) = (pairs.get(DOCUMENT), pairs.get(STYLESHEET)) else {
        let text = "the session names no files: first send a request with xml and xsl\n";
        return (StatusCode::CONFLICT, text).into_response();
    };
    match transformer.transform(stylesheet, document).await {
        Ok(transformed) => {
            ([(CONTENT_TYPE, transformed.media_type)], [(CACHE_CONTROL, NO_STORE)], transformed.content).into_response()
        }
        Err(error) => {
            let mut response = (status(&error), format!("{error}\n")).into_response();
            if matches!(error, TransformError::Busy) {
                response.headers_mut().insert(RETRY_AFTER, 1.into());
            }
            response
        }
    }
}

fn status(error: &TransformError) -> StatusCode {
    match error {
        TransformError::NotFound(_) => StatusCode::NOT_FOUND,
        TransformError::Forbidden(_) => StatusCode::FORBIDDEN,
        TransformError::TooLarge(..) => StatusCode::PAYLOAD_TOO_LARGE,
        TransformError::Refused(..) | TransformError::Failed(_) | TransformError::Exceeded(_) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        TransformError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        TransformError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
