//! The server of axum applications: HTTP/1.1 by hyper, with or without TLS. Connections, heads and times are limited,
//! and a stopped server completes the requests in progress.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::body::Body;
pub use axum::response::Response;
use http::Request;
pub use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// A handler of requests. Clones share it.
pub trait Application: Clone + Send + Sync + 'static {
    fn respond(&self, request: Request<Incoming>, peer: IpAddr) -> impl Future<Output = Response> + Send;
}

impl Application for Router {
    async fn respond(&self, request: Request<Incoming>, _: IpAddr) -> Response {
        let Ok(response) = Service::call(&mut self.clone(), request.map(Body::new)).await;
        response
    }
}

/// Limits of a server, for all its listeners together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections; further ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Timeout of a TLS handshake.
    pub handshake_timeout: Duration,
    /// Timeout of the head of a request, and of an idle connection.
    pub head_timeout: Duration,
    /// Limit of the head of a request, in bytes.
    pub head_bytes_max: usize,
    /// How long requests may take after the server has been stopped.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            head_bytes_max: 32 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Pause after a failed accept: file descriptors or memory are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listening socket, with the TLS of its connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
}

impl Listener {
    /// Port 0 selects a free port.
    ///
    /// # Errors
    /// The address is in use or not local, or the port is privileged.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: TcpListener::from_std(socket)?, tls: None })
    }

    /// Connections begin with a TLS handshake.
    #[must_use]
    pub fn with_tls(self, config: Arc<ServerConfig>) -> Self {
        Self { tls: Some(config), ..self }
    }

    /// The address, with the selected port.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Serves until `end`; then stops listening and completes the requests in progress. Returns whether all were completed
/// within [`Limits::drain_timeout`].
pub async fn serve(
    listeners: Vec<Listener>,
    application: impl Application,
    limits: Limits,
    end: impl Future<Output = ()>,
) -> bool {
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = Arc::new(GracefulShutdown::new());
    let mut acceptors = JoinSet::new();
    for listener in listeners {
        let (application, permits, graceful) = (application.clone(), Arc::clone(&permits), Arc::clone(&graceful));
        acceptors.spawn(accept(listener, application, limits, permits, graceful));
    }
    end.await;
    acceptors.shutdown().await;
    let Some(graceful) = Arc::into_inner(graceful) else { return false };
    timeout(limits.drain_timeout, graceful.shutdown()).await.is_ok()
}

/// The accept loop of a listener.
async fn accept(
    listener: Listener,
    application: impl Application,
    limits: Limits,
    permits: Arc<Semaphore>,
    graceful: Arc<GracefulShutdown>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    let tls = listener.tls.map(TlsAcceptor::from);
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (stream, peer) = match listener.socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_connection_error(&error) {
                    sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let _ = stream.set_nodelay(true); // a failure only costs latency
        let connection = AcceptedConnection {
            http: http.clone(),
            application: application.clone(),
            peer: peer.ip(),
            watcher: graceful.watcher(),
            permit,
        };
        tokio::spawn(connection.serve(stream, tls.clone(), limits.handshake_timeout));
    }
}

/// Whether only the new connection failed, so that the next accept may succeed at once (accept(2)).
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A connection with TLS or without: one type, so that hyper is compiled once for both.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An accepted connection, with its share of [`Limits::connections_max`].
struct AcceptedConnection<A> {
    http: http1::Builder,
    application: A,
    peer: IpAddr,
    watcher: Watcher,
    permit: OwnedSemaphorePermit,
}

impl<A: Application> AcceptedConnection<A> {
    /// Errors of a connection are its client's and are not reported.
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>, handshake_timeout: Duration) {
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(tls) => match timeout(handshake_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(_)) | Err(_) => return,
            },
        };
        let service = service(self.application, self.peer);
        let _ = self.watcher.watch(self.http.serve_connection(TokioIo::new(stream), service)).await;
        drop(self.permit);
    }
}

/// The application, for the requests of one peer.
fn service(
    application: impl Application,
    peer: IpAddr,
) -> impl hyper::service::Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let application = Arc::new(application);
    service_fn(move |request: Request<Incoming>| {
        let application = Arc::clone(&application);
        async move { Ok(application.respond(request, peer).await) }
    })
}
