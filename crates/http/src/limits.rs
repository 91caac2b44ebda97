//! The limits of one connection.

use std::time::Duration;

/// The upper bound of [`Limits::field_count_max`].
pub const FIELD_COUNT_MAX: usize = 256;

/// Limits on the peer of a connection. The defaults suit a public server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request line or status line and the field section together, and of a trailer section; past it 431
    /// (414 if the target is the cause).
    pub head_bytes_max: usize,
    /// Bytes of a request target; past it 414.
    pub target_bytes_max: usize,
    /// Fields of a head or trailer section; past it 431. At most [`FIELD_COUNT_MAX`].
    pub field_count_max: usize,
    /// Bytes of a request's content; past it 413.
    pub content_bytes_max: u64,
    /// Bytes of a chunk's size line with its extensions; past it 400.
    pub chunk_line_bytes_max: usize,
    /// Unwanted content is drained up to this many bytes to keep the connection; past it the connection is closed.
    pub drain_bytes_max: u64,
    /// Requests per connection; the last response has `Connection: close`.
    pub requests_max: u64,
    /// Pipelined requests served in one call, before other connections are served.
    pub pipeline_depth_max: usize,
    /// From the first byte of a head to its last; past it 408.
    pub head_timeout: Duration,
    /// Maximum time without data inside a request's content; past it 408.
    pub body_timeout: Duration,
    /// Idle time of a persistent connection.
    pub idle_timeout: Duration,
    /// Content must arrive at least this fast, averaged since it began, after `body_timeout`; past it 408. Bytes per
    /// second, 0 = any.
    pub receive_rate_min: u64,
    /// Longest time without progress when sending to a peer that does not read; past it the connection is dropped.
    pub send_timeout: Duration,
    /// Speak HTTP/1.0 only: no chunked coding, persistent only with `Connection: keep-alive`.
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
