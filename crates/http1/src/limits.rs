//! The bounds of one connection, each with its name and its default.

use std::time::Duration;

/// What a peer may ask of a connection. The defaults are meant for a public server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request line or status line and the field section together, and of a trailer section; past it 431
    /// (414 if the target is the cause).
    pub head_bytes_max: usize,
    /// Bytes of a request target; past it 414.
    pub target_bytes_max: usize,
    /// Fields of a head or trailer section; past it 431. At most [`crate::FieldStorage::CAPACITY`].
    pub field_count_max: usize,
    /// Bytes of a request's content; past it 413.
    pub content_bytes_max: u64,
    /// Bytes of a chunk's size line with its extensions; past it 400.
    pub chunk_line_bytes_max: usize,
    /// Content that was not wanted is read into nothing up to this many bytes so that the connection can be used again;
    /// past it it is closed.
    pub drain_bytes_max: u64,
    /// Requests that one connection may make, after which the answer says `Connection: close`.
    pub requests_max: u64,
    /// Complete requests of one connection that may be answered in one go, before others have their turn.
    pub pipeline_depth_max: usize,
    /// From the first byte of a head to its last; past it 408.
    pub head_timeout: Duration,
    /// Longest silence inside a request's content; past it 408.
    pub body_timeout: Duration,
    /// How long a connection may stay open with no request on it.
    pub idle_timeout: Duration,
    /// Content must arrive at least this fast, averaged since it began, after `body_timeout`; past it 408. Bytes per
    /// second, 0 = any.
    pub receive_rate_min: u64,
    /// Longest time without progress when sending to a peer that does not read; past it the connection is dropped.
    pub send_timeout: Duration,
    /// Speak HTTP/1.0 only (the study's other build): answers say HTTP/1.0, no chunked coding, persistent only on
    /// `Connection: keep-alive`.
    pub http10_only: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            field_count_max: 100,
            content_bytes_max: 16 * 1024 * 1024,
            chunk_line_bytes_max: 1024,
            drain_bytes_max: 64 * 1024,
            requests_max: u64::MAX,
            pipeline_depth_max: 256,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(75),
            receive_rate_min: 250,
            send_timeout: Duration::from_secs(60),
            http10_only: false,
        }
    }
}
