//! Two applications that store a user's data in the session, as pairs that any node can show.
//!
//! | request | does |
//! |---|---|
//! | `GET` or `POST /session?name=K&value=V` | stores the pair; responds with all pairs |
//! | `GET /session` | responds with all pairs |
//! | `POST /login` | gives the session a new id; responds with all pairs |
//! | `POST /logout` | ends the session |
//! | `GET` or `POST /xsl?xml=FILE&xsl=FILE` | stores the names of a document and of a stylesheet |
//! | `GET /xsl` | transforms that document with that stylesheet |
//!
//! Parameters are in the query, or in the body of a POST (`application/x-www-form-urlencoded`); the query comes first.

mod messages;
mod pairs;
mod transformation;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use breme_http::media_type;
use breme_session::{Access, BODY_MAX};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode, request};
use tokio::time::timeout;

use crate::layer::{Session, SessionLayer};
use crate::xsl::Transformer;
use messages::{NO_STORE, RequestParameters, acknowledge, fail, refuse};
use pairs::Pairs;

/// Limit of a request's body. The session itself refuses values larger than it may hold.
const BODY_BYTES_MAX: usize = 3 * BODY_MAX;
/// Time limit for its arrival.
const BODY_TIME: Duration = Duration::from_secs(30);
const TEXT: HeaderValue = HeaderValue::from_static(media_type::TEXT);

/// The applications; `/xsl` only if there is a transformer.
pub fn router(sessions: SessionLayer, transformer: Option<Arc<Transformer>>) -> Router {
    let mut routes = Router::new()
        .route("/session", get(store).post(store))
        .route("/login", post(log_in))
        .route("/logout", post(log_out));
    if let Some(transformer) = transformer {
        let transform = move |session, parameters| transformation::respond(transformer.clone(), session, parameters);
        routes = routes.route("/xsl", get(transform.clone()).post(transform));
    }
    // Bodies are in memory by then, so those of forwarded requests need no smaller limit.
    let sessions = sessions.with_access(access).with_forward_body_max(BODY_BYTES_MAX);
    routes.layer(sessions).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).layer(from_fn(gather))
}

/// Reads the body before the request takes its turn: a slow client must not block other requests of its session.
async fn gather(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match timeout(BODY_TIME, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => {
            let text = format!("a body of more than {BODY_BYTES_MAX} bytes, or cut short\n");
            (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        }
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n").into_response(),
    }
}

/// A request without parameters only reads, so several may run together. Only a POST may have them in its body.
fn access(head: &request::Parts) -> Access {
    let is_read = head.method.is_safe() && head.uri.query().is_none_or(str::is_empty);
    if is_read { Access::Shared } else { Access::Exclusive }
}

/// Stores the pair of a request, if there is one.
async fn store(session: Session, parameters: RequestParameters) -> Response {
    let pairs = Pairs::new(session.body());
    let [Some(name), value] = parameters.get(["name", "value"]) else { return show(&pairs) };
    let pairs = match pairs.with(&name, &value.unwrap_or_default()) {
        Ok(pairs) => pairs,
        Err(why) => return refuse(why),
    };
    match session.set_body(pairs.bytes().clone()) {
        Ok(()) => show(&pairs),
        Err(error) => fail(&error),
    }
}

async fn log_in(session: Session) -> Response {
    match session.renew() {
        Ok(()) => show(&Pairs::new(session.body())),
        Err(error) => fail(&error),
    }
}

async fn log_out(session: Session) -> Response {
    match session.destroy() {
        Ok(()) => acknowledge(),
        Err(error) => fail(&error),
    }
}

fn show(pairs: &Pairs) -> Response {
    ([(CONTENT_TYPE, TEXT), (CACHE_CONTROL, NO_STORE)], pairs.bytes().clone()).into_response()
}
