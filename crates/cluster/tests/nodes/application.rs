//! The application under test: a session is a list of tokens, one per line.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Redirect;
use axum::routing::{get, post};
use breme_cluster::layer::{Session, SessionLayer};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::{Semaphore, mpsc};

/// Messages of handlers to the test.
#[derive(Clone)]
pub struct Application {
    /// A handler that never ends, or that waits for the test, has begun.
    pub hanging: mpsc::UnboundedSender<()>,
    /// A handler that waits for the test takes one permit.
    pub permits: Arc<Semaphore>,
}

type Response = Result<Bytes, (StatusCode, String)>;

pub fn router(application: Application, sessions: SessionLayer) -> Router {
    let routes = Router::new()
        .route("/begin/{token}", post(begin))
        .route("/append/{token}", post(append))
        .route("/read", get(read))
        .route("/renew", post(renew))
        .route("/logout", post(log_out))
        .route("/panic/{token}", post(panic))
        .route("/hang/{token}", post(hang))
        .route("/hold/{token}", post(hold))
        .route("/save/{token}", post(save))
        .route("/fill/{size}", post(fill))
        .route("/echo", post(echo))
        .route("/count", post(count))
        .route("/client", post(client));
    // These see only part of the path; requests are forwarded with all of it.
    Router::new().nest("/app", routes.layer(sessions)).with_state(Arc::new(application))
}

fn write(session: &Session, token: u64) -> Bytes {
    let body: Bytes = [&session.body()[..], format!("{token}\n").as_bytes()].concat().into();
    session.set_body(body.clone()).unwrap();
    body
}

/// An existing session has a token.
fn existing(session: &Session) -> Result<(), (StatusCode, String)> {
    if session.body().is_empty() { Err((StatusCode::GONE, String::new())) } else { Ok(()) }
}

async fn begin(session: Session, Path(token): Path<u64>) -> Bytes {
    write(&session, token)
}

async fn append(session: Session, Path(token): Path<u64>) -> Response {
    existing(&session)?;
    Ok(write(&session, token))
}

async fn read(session: Session) -> Response {
    existing(&session)?;
    Ok(session.body())
}

async fn renew(session: Session) -> Response {
    existing(&session)?;
    session.renew().unwrap();
    Ok(session.body())
}

async fn log_out(session: Session) -> Response {
    existing(&session)?;
    session.destroy().unwrap();
    Ok(Bytes::new())
}

async fn panic(session: Session, Path(token): Path<u64>) -> StatusCode {
    write(&session, token);
    panic!("the handler fails, as the test wants");
}

async fn hang(State(application): State<Arc<Application>>, session: Session, Path(token): Path<u64>) {
    write(&session, token);
    application.hanging.send(()).unwrap();
    std::future::pending::<()>().await;
}

/// Appends, and responds when the test permits it.
async fn hold(State(application): State<Arc<Application>>, session: Session, Path(token): Path<u64>) -> Response {
    existing(&session)?;
    let body = write(&session, token);
    application.hanging.send(()).unwrap();
    application.permits.acquire().await.unwrap().forget();
    Ok(body)
}

/// Appends, and sends the client to where it sees the list (post, redirect, get).
async fn save(session: Session, Path(token): Path<u64>) -> Redirect {
    write(&session, token);
    Redirect::to("/app/read")
}

async fn fill(session: Session, Path(size): Path<usize>) -> String {
    session.set_body(vec![b'x'; size]).unwrap();
    size.to_string()
}

/// Number of bytes sent, and number of bytes in the session.
async fn echo(session: Session, body: Bytes) -> String {
    format!("{} {}", body.len(), session.body().len())
}

async fn count(session: Session) -> Result<String, (StatusCode, String)> {
    let wrong = |error: breme_cluster::layer::SessionError| (StatusCode::CONFLICT, error.to_string());
    let count = session.get::<u64>("count").map_err(wrong)?.unwrap_or_default() + 1;
    session.insert("count", count).map_err(wrong)?;
    Ok(count.to_string())
}

/// The client of the forwarded request, and the scheme.
async fn client(_: Session, headers: HeaderMap) -> String {
    let named = ["x-forwarded-for", "x-forwarded-proto"].map(|name| {
        let values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        if values.is_empty() { "-".to_owned() } else { values.join(" + ") }
    });
    named.join(" ")
}
