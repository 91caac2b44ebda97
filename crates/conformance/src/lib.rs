//! HTTP/1.1 cases, byte by byte, against any server.
//!
//! Each [`Case`] sends bytes on a connection of its own and says what must come back and whether the connection lives
//! on. The reader of answers here is deliberately another one than breme's: instrument and specimen must not share
//! their faults.
//!
//! | module | cases |
//! |---|---|
//! | [`heads`] | request line, target, Host, field lines (RFC 9112, 2–5; RFC 9110, 5, 7) |
//! | [`framing`] | Content-Length, Transfer-Encoding, chunked coding (RFC 9112, 6–7) |
//! | [`connections`] | persistence, pipelining, Expect, HTTP/1.0, ends (RFC 9112, 9; RFC 9110, 10.1.1) |
//! | [`desync`] | requests made to be read in two ways, made systematically; for what stands behind a proxy |
//!
//! The server must offer the laboratory's answers: `/bytes/N`, and `POST` to any path answering with its content.

mod answer;
mod case;
pub mod connections;
pub mod desync;
pub mod framing;
pub mod heads;

pub use answer::{Answer, Unreadable, read_answers};
pub use case::{Case, Delivery, Expect, Failure, PATIENCE, connect};

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut cases = heads::cases();
    cases.extend(framing::cases());
    cases.extend(connections::cases());
    cases
}
