//! The server of axum applications: HTTP/1.1 by hyper, with or without TLS. Connections, heads and times are limited,
//! and a stopped server completes the requests in progress.

mod send_timeout;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::body::Body;
pub use axum::response::Response;
use breme_sys::ignore_handshakes;
use http::Request;
pub use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use send_timeout::SendTimeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            head_bytes_max: 32 * 1024,
        }
    }
}

/// Pause after a failed accept: file descriptors or memory are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Timeout of the head of a request on a connection that was in the backlog when the server was stopped.
const LATE_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

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
/// by the instant that `end` returns.
pub async fn serve(
    listeners: Vec<Listener>,
    application: impl Application,
    limits: Limits,
    end: impl Future<Output = Instant>,
) -> bool {
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = Arc::new(GracefulShutdown::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes_max);
    let acceptor = |Listener { socket, tls }| {
        Arc::new(Acceptor {
            socket,
            tls: tls.map(TlsAcceptor::from),
            handshake_timeout: limits.handshake_timeout,
            http: http.clone(),
            application: application.clone(),
            permits: Arc::clone(&permits),
            graceful: Arc::clone(&graceful),
        })
    };
    let acceptors: Vec<_> = listeners.into_iter().map(acceptor).collect();
    let mut loops: JoinSet<()> = acceptors.iter().map(|acceptor| Arc::clone(acceptor).run()).collect();
    let deadline = end.await;
    acceptors.iter().for_each(|acceptor| ignore_handshakes(&acceptor.socket));
    loops.shutdown().await;
    let late = acceptors.iter().flat_map(|acceptor| acceptor.empty_backlog()).collect::<JoinSet<()>>();
    drop(acceptors);
    let Some(graceful) = Arc::into_inner(graceful) else { return false };
    let all = async {
        graceful.shutdown().await;
        late.join_all().await;
    };
    timeout_at(deadline, all).await.is_ok()
}

/// A listening socket, and what its connections need.
struct Acceptor<A> {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    handshake_timeout: Duration,
    http: http1::Builder,
    application: A,
    permits: Arc<Semaphore>,
    graceful: Arc<GracefulShutdown>,
}

impl<A: Application> Acceptor<A> {
    async fn run(self: Arc<Self>) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    let watcher = Some(self.graceful.watcher());
                    tokio::spawn(self.serve(self.http.clone(), watcher, stream, peer, permit));
                }
                Err(error) if is_connection_error(&error) => {}
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Connections in the backlog are established: closing the socket would reset them, as it does those beyond
    /// [`Limits::connections_max`]. Each serves one request. Tokio may not know yet that they are there, so the socket
    /// itself is asked.
    fn empty_backlog(&self) -> Vec<impl Future<Output = ()> + use<A>> {
        let mut late = Vec::new();
        let Ok(socket) = self.socket.as_fd().try_clone_to_owned().map(std::net::TcpListener::from) else { return late };
        let mut http = self.http.clone();
        http.keep_alive(false).header_read_timeout(LATE_HEAD_TIMEOUT);
        while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            match socket.accept().and_then(non_blocking) {
                Ok((stream, peer)) => late.push(self.serve(http.clone(), None, stream, peer, permit)),
                Err(error) if is_connection_error(&error) => {}
                Err(_) => break,
            }
        }
        late
    }

    /// A connection without a watcher is not closed before it has sent a request.
    fn serve(
        &self,
        http: http1::Builder,
        watcher: Option<Watcher>,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) -> impl Future<Output = ()> + use<A> {
        let _ = stream.set_nodelay(true); // a failure only costs latency
        let connection =
            AcceptedConnection { http, application: self.application.clone(), peer: peer.ip(), watcher, permit };
        connection.serve(stream, self.tls.clone(), self.handshake_timeout)
    }
}

fn non_blocking((stream, peer): (std::net::TcpStream, SocketAddr)) -> io::Result<(TcpStream, SocketAddr)> {
    stream.set_nonblocking(true)?;
    Ok((TcpStream::from_std(stream)?, peer))
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
    watcher: Option<Watcher>,
    permit: OwnedSemaphorePermit,
}

impl<A: Application> AcceptedConnection<A> {
    /// Errors of a connection are its client's and are not reported.
    async fn serve(self, stream: impl Stream + 'static, tls: Option<TlsAcceptor>, handshake_timeout: Duration) {
        let stream = SendTimeout::new(stream);
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(tls) => match timeout(handshake_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(_)) | Err(_) => return,
            },
        };
        let service = service(self.application, self.peer);
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        let _ = match self.watcher {
            Some(watcher) => watcher.watch(connection).await,
            None => connection.await,
        };
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::send_timeout::SEND_TIMEOUT;

    #[derive(Clone)]
    struct Greeting;

    impl Application for Greeting {
        async fn respond(&self, _: Request<Incoming>, _: IpAddr) -> Response {
            Response::new("good morning".into())
        }
    }

    /// The connection of a client that never reads a response longer than all buffers.
    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_its_client_reads_nothing() {
        let long = Router::new().fallback(async || vec![0; 1 << 20]);
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let connection = AcceptedConnection {
            http: http1::Builder::new(),
            application: long,
            peer: IpAddr::from([127, 0, 0, 1]),
            watcher: None,
            permit: Arc::clone(&permits).try_acquire_owned().unwrap(),
        };
        let end = timeout(10 * SEND_TIMEOUT, connection.serve(server, None, SEND_TIMEOUT)).await;
        assert!(end.is_ok() && permits.available_permits() == 1);
        drop(client);
    }

    #[test]
    fn connections_in_the_backlog_are_served_before_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut client = runtime.block_on(async {
            let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let mut client = std::net::TcpStream::connect(listener.address().unwrap()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            // The end is reached before the accept loop has begun.
            let deadline = Instant::now() + Duration::from_secs(30);
            assert!(serve(vec![listener], Greeting, Limits::default(), std::future::ready(deadline)).await);
            client
        });
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("good morning"), "{response}");
        assert!(response.contains("connection: close"), "{response}");
    }
}
