//! A connection whose writes fail when its peer reads nothing for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Timeout of a write without progress. Otherwise, a client that reads nothing would hold its connection for ever.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Limits how long a write may be pending. It belongs below TLS, whose own buffers hide the progress.
pub(crate) struct SendTimeout<S> {
    stream: S,
    /// When the pending write fails; `None` while no write is pending.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> SendTimeout<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, deadline: None }
    }

    fn limit(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(SEND_TIMEOUT)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SendTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SendTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // On a socket neither of these waits.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_when_nothing_is_read() {
        let (stream, _client) = duplex(8);
        let start = Instant::now();
        let error = SendTimeout::new(stream).write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, SEND_TIMEOUT.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_everything() {
        let (stream, mut client) = duplex(1);
        let mut stream = SendTimeout::new(stream);
        let write = async {
            stream.write_all(&[0; 4]).await.unwrap();
            // Idle time does not count.
            sleep(2 * SEND_TIMEOUT).await;
            stream.write_all(&[0; 4]).await.unwrap();
        };
        let read = async {
            for _ in 0..8 {
                sleep(SEND_TIMEOUT - Duration::from_secs(1)).await;
                client.read_u8().await.unwrap();
            }
        };
        tokio::join!(write, read);
    }
}
