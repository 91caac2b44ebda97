//! The origin server, byte by byte, without sockets.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod pressure;
mod replay;
mod responses;
mod support;
mod traversal;
