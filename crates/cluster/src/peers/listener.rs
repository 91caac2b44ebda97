//! The server for other nodes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use breme_session::HandOverAnswer;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::connection::Stream;
use super::message::{HAND_OVER, MESSAGE, RAN_ON, SECRET, STRANGER};
use super::{Trust, message};
use crate::node::Node;

/// Limit of the connections of other nodes; further ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Time limit for the head of a request, and for an idle connection: longer than the clients' idle time.
const HEAD_TIME: Duration = Duration::from_secs(60);
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Pause after a failed accept, when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The hops of a request, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hops(pub(crate) u8);

/// Serves other nodes until the future is dropped: hands sessions over to them, and passes their requests to
/// `application`, which is the same as for clients.
pub async fn serve(listener: TcpListener, node: Node, application: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (node, application) = (node.clone(), application.clone());
        connections.spawn(async move {
            greet(stream, peer, node, application).await;
            drop(place);
        });
    }
}

async fn greet(stream: TcpStream, peer: SocketAddr, node: Node, application: Router) {
    let _ = stream.set_nodelay(true); // it would only be slower
    match &node.peers().trust {
        Trust::Secret(_) => serve_connection(Stream::new(stream), node, application).await,
        Trust::Tls(tls) => {
            let accept = TlsAcceptor::from(Arc::clone(&tls.current().server)).accept(stream);
            // A node without a valid certificate fails in the handshake.
            match timeout(HANDSHAKE_TIME, accept).await {
                Ok(Ok(stream)) => serve_connection(Stream::new(stream), node, application).await,
                Ok(Err(error)) => node.peers().report_distrust(&format!("the node at {}", peer.ip()), &error),
                Err(_) => {}
            }
        }
    }
}

async fn serve_connection(stream: Stream, node: Node, application: Router) {
    let service = service_fn(move |request| {
        let (node, application) = (node.clone(), application.clone());
        async move { Ok::<_, Infallible>(respond(request, &node, application).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).pipeline_flush(true);
    // A failed connection concerns only its node.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(mut request: Request<Incoming>, node: &Node, mut application: Router) -> Response {
    if !knows_secret(&node.peers().trust, request.headers_mut()) {
        let text = "only nodes of this cluster are served here\n";
        return (StatusCode::FORBIDDEN, [(MESSAGE, STRANGER)], text).into_response();
    }
    let message = request.headers_mut().remove(MESSAGE);
    let hops = message.as_ref().and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(hops) = hops {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Hops(hops));
        let Ok(mut response) = application.call(request).await;
        let ran_on = response.extensions().get().and_then(message::encode_ran_on);
        if let Some(ran_on) = ran_on {
            response.headers_mut().insert(RAN_ON, ran_on);
        }
        response
    } else if message == Some(HAND_OVER) {
        hand_over(request.into_body(), node).await
    } else {
        (StatusCode::BAD_REQUEST, "a node of another version?\n").into_response()
    }
}

fn knows_secret(trust: &Trust, headers: &mut HeaderMap) -> bool {
    match (trust, headers.remove(SECRET)) {
        (Trust::Secret(secret), Some(shown)) => secret.as_bytes().ct_eq(shown.as_bytes()).into(),
        (Trust::Secret(_), None) => false,
        // Verified in the handshake.
        (Trust::Tls(_), _) => true,
    }
}

async fn hand_over(body: Incoming, node: &Node) -> Response {
    let body = Limited::new(body, message::QUESTION_MAX).collect().await;
    let question = body.ok().and_then(|body| message::decode_question(&body.to_bytes()));
    let Some(question) = question else {
        return (StatusCode::BAD_REQUEST, "no question for a session\n").into_response();
    };
    let answer: HandOverAnswer = node.hand_over(question.to.node, question).await;
    match message::encode_answer(&question.session, &answer) {
        Some(bytes) => bytes.into_response(),
        None => StatusCode::CONFLICT.into_response(),
    }
}
