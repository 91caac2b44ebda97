//! Connections to other nodes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use breme_base::loopback_addresses;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::tls::PeerTls;

/// Time limit for connecting, including the handshake.
const CONNECT_TIME: Duration = Duration::from_secs(1);

/// Connects to the host and port of a URI.
#[derive(Clone)]
pub(super) struct Connector(Option<PeerTls>);

impl Connector {
    pub(super) const fn plain() -> Self {
        Self(None)
    }

    pub(super) const fn tls(tls: PeerTls) -> Self {
        Self(Some(tls))
    }

    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Stream>> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let host = uri.host().ok_or_else(|| invalid("no host"))?.trim_matches(['[', ']']);
        let port = uri.port_u16().ok_or_else(|| invalid("no port"))?;
        let credentials = self.0.map(|tls| tls.current());
        if let Some(credentials) = &credentials {
            credentials.check_dates()?;
        }
        let stream = match loopback_addresses(host) {
            Some(addresses) => TcpStream::connect(&addresses.map(|address| SocketAddr::new(address, port))[..]).await?,
            None => TcpStream::connect((host, port)).await?,
        };
        let _ = stream.set_nodelay(true); // it would only be slower
        let Some(credentials) = credentials else { return Ok(TokioIo::new(Stream::new(stream))) };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| invalid("no name for a certificate"))?;
        let stream = TlsConnector::from(Arc::clone(&credentials.client)).connect(name, stream).await?;
        Ok(TokioIo::new(Stream::new(stream)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connect = self.clone().connect(uri);
        Box::pin(async { timeout(CONNECT_TIME, connect).await.unwrap_or_else(|late| Err(late.into())) })
    }
}

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, with TLS or without: one type, so that hyper is compiled once for both.
pub(super) struct Stream(Box<dyn Io>);

impl Stream {
    pub(super) fn new(stream: impl Io + 'static) -> Self {
        Self(Box::new(stream))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }
}
