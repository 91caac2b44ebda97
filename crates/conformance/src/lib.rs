//! HTTP/1.1 cases, byte by byte, against any server.
//!
//! Each [`Case`] sends bytes on its own connection, and defines the expected responses and whether the connection
//! persists. The parser of responses is deliberately independent of breme's: the test must not share the bugs of what
//! it tests.
//!
//! | module | cases |
//! |---|---|
//! | [`heads`] | request line, target, Host, field lines (RFC 9112, 2–5; RFC 9110, 5, 7) |
//! | [`framing`] | Content-Length, Transfer-Encoding, chunked coding (RFC 9112, 6–7) |
//! | [`connections`] | persistence, pipelining, Expect, HTTP/1.0, ends (RFC 9112, 9; RFC 9110, 10.1.1) |
//! | [`desync`] | request smuggling, generated systematically; for servers behind a proxy |
//!
//! The server must implement the laboratory's resources: `/bytes/N`, and `POST` to any path, which responds with its
//! content.

mod answer;
mod case;
pub mod connections;
pub mod desync;
pub mod framing;
pub mod heads;

pub use answer::{Answer, Unreadable, read_answers};
pub use case::{Case, Delivery, Expect, Failure, PATIENCE, connect};

#[must_use]
pub fn all() -> Vec<Case> {
    let mut cases = heads::cases();
    cases.extend(framing::cases());
    cases.extend(connections::cases());
    cases
}
