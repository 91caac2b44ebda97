//! Connections → the application: HTTP/1.1 by hyper, with bounds on connections and times.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::web::Application;

/// The bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// The time for the head of a request, and also how long a connection may be idle.
    pub head_timeout: Duration,
    /// The longest head, bytes.
    pub head_bytes_max: usize,
    /// How long requests may take after the end has begun.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_timeout: Duration::from_secs(30),
            head_bytes_max: 32 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// How long to wait when no connection can be accepted, as descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `end`; then finishes the requests that have begun. Returns whether all were finished in time.
pub async fn serve(
    listeners: Vec<TcpListener>,
    application: Application,
    limits: Limits,
    end: impl Future<Output = ()>,
) -> bool {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = Arc::new(GracefulShutdown::new());
    let mut acceptors = JoinSet::new();
    for listener in listeners {
        let (application, places, graceful) = (application.clone(), Arc::clone(&places), Arc::clone(&graceful));
        acceptors.spawn(accept(listener, application, limits, places, graceful));
    }
    end.await;
    acceptors.shutdown().await;
    let Some(graceful) = Arc::into_inner(graceful) else { return false };
    tokio::time::timeout(limits.drain_timeout, graceful.shutdown()).await.is_ok()
}

async fn accept(
    listener: TcpListener,
    application: Application,
    limits: Limits,
    places: Arc<Semaphore>,
    graceful: Arc<GracefulShutdown>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let _ = stream.set_nodelay(true); // it would only be slower
        let connection = http.serve_connection(TokioIo::new(stream), service(application.clone(), peer.ip()));
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // A connection that fails concerns its client only.
            let _ = watched.await;
            drop(place);
        });
    }
}

/// Whether the connection that failed to be accepted is to blame, and the next one may succeed at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The application, for the requests of one peer.
fn service(
    application: Application,
    peer: IpAddr,
) -> impl hyper::service::Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let application = Arc::new(application);
    service_fn(move |request: Request<Incoming>| {
        let application = Arc::clone(&application);
        async move { Ok(application.respond(request, peer).await) }
    })
}

/// Listens at an address.
///
/// # Errors
///
/// It is in use, or may not be used.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
