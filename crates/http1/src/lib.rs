//! HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112): bytes to messages of **one connection** and back.
//!
//! Both roles: [`ServerConnection`] reads requests and writes responses, [`ClientConnection`] the reverse. Neither
//! knows sockets, clocks or the contract of nodes and drivers; a role adapts them. The caller owns the received
//! bytes: each call gets all that was not taken yet and says how many it took.
//!
//! ```text
//!                 request_line, status_line   first lines and targets
//!   bytes ─► head ─────────┤
//!                 (fields, strict lines)
//!             └─► meaning    what the fields say about framing, staying, the host
//!             └─► content    content and trailers out of its length or chunks
//!   server, client           where the connection stands; refusals and errors
//!   familiar, familiar_requests   responses and requests whose head came before
//!   byte_ranges, entity_tags  values that both caches and servers read
//!   status, fields, encoder  messages ─► bytes; names and values checked at one place
//!   relay, trailers      messages of others, passed on
//! ```
//!
//! What can be read in two ways is refused (RFC 9112, 11.2), and every refusal has a [`RefusalReason`]. The verdict on
//! a message does not depend on how its bytes were cut into segments.
//!
//! ```
//! use breme_http1::{Content, FieldStorage, Framing, Limits, Progress, ServerConnection};
//!
//! let (mut connection, limits, mut out) = (ServerConnection::new(), Limits::default(), Vec::new());
//! let input = b"GET /greeting HTTP/1.1\r\nHost: a.example\r\n\r\n";
//! let mut storage = FieldStorage::new();
//! let Ok(Progress::Head { head, taken }) = connection.receive(input, false, &limits, &mut storage) else {
//!     panic!("the request is whole and in order")
//! };
//! assert_eq!((head.authority, taken), (Some("a.example"), input.len()));
//!
//! let mut response = connection.respond(200, Framing::Length(5), b"Sun, 06 Nov 1994 08:49:37 GMT", &mut out);
//! response.field("Content-Type", b"text/plain")?;
//! if response.end() == Content::Expected {
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
mod familiar;
mod familiar_requests;
mod fields;
mod head;
mod limits;
mod meaning;
mod message;
mod refusal;
mod relay;
mod request_line;
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
pub use familiar::{FamiliarHead, WholeResponse};
pub use familiar_requests::{FamiliarRequest, FamiliarRequests};
pub use fields::{Field, FieldBlock, FieldStorage, Fields, InvalidField, list_members};
pub use limits::Limits;
pub use message::{Framing, Method, RequestHead, ResponseHead, Target, Version};
pub use refusal::{Refusal, RefusalReason};
pub use relay::{FieldName, FieldWriter, HopByHop, RelayedRequest, push_chunk};
pub use request_line::is_authority;
pub use server::{Content, Progress, ResponseWriter, ServerConnection};
pub use status::{push_decimal, reason_phrase};
pub use trailers::{LastChunk, is_targeted_cache_control};
