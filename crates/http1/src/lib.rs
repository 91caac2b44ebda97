//! HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112): bytes to messages of **one connection** and back.
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
//!   byte_ranges, entity_tags  values that caches and servers parse
//!   status, fields, encoder  messages ─► bytes; names and values are checked in one place
//!   relay, trailers      forwarded messages
//! ```
//!
//! Ambiguous messages are rejected (RFC 9112, 11.2), each with a [`RefusalReason`]. The verdict on a message does not
//! depend on how its bytes were segmented.
//!
//! ```
//! use breme_http1::{ResponseBody, FieldStorage, Framing, Limits, Progress, ServerConnection};
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
//! # Ok::<(), breme_http1::InvalidField>(())
//! ```

mod byte_ranges;
mod client;
mod content;
mod date;
mod encoder;
mod entity_tags;
mod fields;
mod head;
mod limits;
mod message;
mod refusal;
mod relay;
mod request_line;
mod request_replay;
mod response_replay;
mod semantics;
mod server;
mod status;
mod status_line;
mod syntax;
mod trailers;

pub use byte_ranges::{ByteRange, RANGE_COUNT_MAX, Ranges, parse_ranges};
pub use client::{ClientConnection, ClientError, ClientProgress};
pub use date::http_date;
pub use encoder::RequestEncoder;
pub use entity_tags::{EntityTag, any_tag, only_tag};
pub use fields::{Field, FieldBlock, FieldStorage, Fields, InvalidField, list_members};
pub use limits::Limits;
pub use message::{Framing, Method, RequestHead, ResponseHead, Target, Version};
pub use refusal::{Refusal, RefusalReason};
pub use relay::{FieldName, FieldWriter, HopByHop, RelayedRequest, push_chunk};
pub use request_line::is_authority;
pub use request_replay::{ReplayCache, ReplayEntry};
pub use response_replay::{ReplayHead, WholeResponse};
pub use server::{Progress, ResponseBody, ResponseWriter, ServerConnection};
pub use status::{push_decimal, reason_phrase};
pub use trailers::{LastChunk, is_targeted_cache_control};
