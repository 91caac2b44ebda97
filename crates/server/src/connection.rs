//! The state of an accepted connection, and what it waits for.

use std::sync::Arc;

use breme_base::Instant;
use breme_http::{Limits, Refusal, ResponseFields};
use breme_http1::{FieldStorage, Progress, ServerConnection};
use breme_node::{ConnectionId, Received};

/// Bytes of bodies that are sent to a connection in one call, before other connections are served.
const TURN_CONTENT_BYTES_MAX: u64 = 1024 * 1024;

/// An accepted connection. Small, since a server holds ten thousand idle ones.
#[derive(Debug)]
pub struct Connection<S> {
    pub id: ConnectionId,
    pub http: ServerConnection,
    /// What the role keeps for it.
    pub state: S,
    pub(crate) accepted: Instant,
    pub(crate) wait: Wait,
    /// The role has not closed it.
    pub is_open: bool,
    /// The client has closed its side.
    pub has_ended: bool,
    /// The driver holds received bytes that are not consumed.
    pub has_pending: bool,
    /// The last item of the input is incomplete, or must wait for a response.
    pub needs_more: bool,
    /// The driver's send queue is long: the client reads slowly.
    pub queue_is_long: bool,
    /// It was evicted under pressure, and counted.
    pub(crate) is_evicted: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of content that is discarded.
    Drained,
    /// The exchange in progress, whose deadlines the role sets.
    Exchange,
}

impl<S> Connection<S> {
    pub fn new(id: ConnectionId, accepted: Instant, state: S) -> Self {
        Self {
            id,
            http: ServerConnection::new(),
            state,
            accepted,
            wait: Wait::Idle,
            is_open: true,
            has_ended: false,
            has_pending: false,
            needs_more: false,
            queue_is_long: false,
            is_evicted: false,
        }
    }

    /// For a new connection: all final responses get these fields.
    #[must_use]
    pub fn with_response_fields(mut self, fields: Option<Arc<ResponseFields>>) -> Self {
        self.http = ServerConnection::with_response_fields(fields);
        self
    }

    /// To be called first when the driver lends bytes.
    pub fn begin_receiving(&mut self, received: &Received<'_>) {
        self.has_ended = received.ended;
        self.has_pending = !received.bytes.is_empty();
        self.needs_more = false;
    }

    /// Parses the next item of `input`, the rest of the lent bytes; see [`ServerConnection::receive`].
    ///
    /// # Errors
    /// The request is invalid or exceeds a limit.
    #[inline]
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, Refusal> {
        let progress = self.http.receive(input, self.has_ended, limits, storage);
        self.has_pending = progress.as_ref().map_or(0, Progress::taken) < input.len();
        self.needs_more = matches!(progress, Ok(Progress::NeedMore { .. } | Progress::Blocked));
        progress
    }

    /// A request has begun: until its exchange is over, the role sets the deadlines.
    #[inline]
    pub fn begin_exchange(&mut self) {
        self.wait = Wait::Exchange;
    }

    /// What it waits for when no exchange is in progress.
    pub(crate) fn next_wait(&self) -> Wait {
        if self.http.awaiting_content() {
            Wait::Drained
        } else if self.has_pending || self.http.in_head() {
            Wait::Head
        } else {
            Wait::Idle
        }
    }
}

/// Whether other connections are served before this one continues, after this many responses and bytes of bodies in one
/// call.
#[inline]
pub fn is_turn_over(response_count: u64, content_bytes: u64, limits: &Limits) -> bool {
    response_count >= limits.pipeline_depth_max as u64 || content_bytes >= TURN_CONTENT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_ends_by_responses_or_bytes() {
        let limits = Limits { pipeline_depth_max: 3, ..Limits::default() };
        assert!(!is_turn_over(2, TURN_CONTENT_BYTES_MAX - 1, &limits));
        assert!(is_turn_over(3, 0, &limits) && is_turn_over(0, TURN_CONTENT_BYTES_MAX, &limits));
    }

    #[test]
    fn unconsumed_bytes_are_pending() {
        let mut connection = Connection::new(ConnectionId::new(0, 0), Instant::ZERO, ());
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let input = [&head[..], b"GET"].concat();
        let received = Received { bytes: &input, ended: true, arrived_at: Instant::ZERO };
        connection.begin_receiving(&received);
        assert!(connection.has_pending && connection.has_ended);
        let mut storage = FieldStorage::new();
        let progress = connection.receive(&input, &Limits::default(), &mut storage);
        assert!(matches!(progress, Ok(Progress::Head { taken, .. }) if taken == head.len()), "{progress:?}");
        assert!(connection.has_pending && !connection.needs_more);
        let mut storage = FieldStorage::new();
        let progress = connection.receive(&input[head.len()..], &Limits::default(), &mut storage);
        assert!(matches!(progress, Ok(Progress::Blocked)), "its response is not complete: {progress:?}");
        assert!(connection.has_pending && connection.needs_more);
    }
}
