//! HTTP/1.0 and HTTP/1.1 (RFC 9112): bytes to messages of **one connection** and back. Their semantics are in
//! `breme_http`.
//!
//! Both roles: [`ServerConnection`] reads requests and writes responses, [`ClientConnection`] the reverse. Neither
//! knows sockets, clocks or the contract between nodes and drivers. The caller owns the received bytes: each call
//! gets all bytes not yet consumed and returns how many it consumed.
//!
//! ```text
//!                 request_line, status_line   first lines and targets
//!   bytes ─► head ─────────┤
//!                 (fields, strict lines)
//!             └─► semantics  framing, persistence and host, from the header fields
//!             └─► content    content and trailers from Content-Length or chunks
//!   server, client           the state of the connection; refusals and errors
//!   request_replay, response_replay   caches of request and response heads, byte for byte
//!   status, encoder      messages ─► bytes; names and values are checked in one place, `breme_http::fields`
//!   relay, last_chunk    forwarded messages
//! ```
//!
//! Ambiguous messages are rejected (RFC 9112, 11.2), each with a [`breme_http::RefusalReason`]. The verdict on a
//! message does not depend on how its bytes were segmented.
//!
//! ```
//! use breme_http::{Framing, Limits};
//! use breme_http1::{FieldStorage, Progress, ResponseBody, ServerConnection};
//!
//! let (mut connection, limits, mut out) = (ServerConnection::new(), Limits::default(), Vec::new());
//! let input = b"GET /greeting HTTP/1.1\r\nHost: a.example\r\n\r\n";
//! let mut storage = FieldStorage::new();
//! let Ok(Progress::Head { head, taken }) = connection.receive(input, false, &limits, &mut storage) else {
//!     panic!("the request is complete and valid")
//! };
//! assert_eq!((head.authority, taken), (Some("a.example"), input.len()));
//!
//! let mut response = connection.respond(200, Framing::Length(5), b"Sun, 06 Nov 1994 08:49:37 GMT", &mut out);
//! response.field("Content-Type", b"text/plain")?;
//! if response.end() == ResponseBody::Expected {
//!     out.extend_from_slice(b"hello");
//!     connection.content_sent();
//! }
//! assert!(out.starts_with(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun,"));
//! # Ok::<(), breme_http::InvalidField>(())
//! ```

mod client;
mod content;
mod encoder;
mod head;
mod last_chunk;
mod relay;
mod request_line;
mod request_replay;
mod response_replay;
mod semantics;
mod server;
mod status;
mod status_line;

pub use client::{ClientConnection, ClientError, ClientProgress, ResponseLimit};
pub use encoder::RequestEncoder;
pub use head::FieldStorage;
pub use last_chunk::LastChunk;
pub use relay::{FieldName, FieldWriter, RelayedRequest, push_chunk};
pub use request_replay::{ReplayCache, ReplayEntry};
pub use response_replay::{ReplayHead, WholeResponse};
pub use server::{Progress, ResponseBody, ResponseWriter, ServerConnection};
