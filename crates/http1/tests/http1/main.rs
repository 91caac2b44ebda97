//! HTTP/1 messages, byte by byte, in every way of splitting them.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod client_responses;
mod mutation;
mod pair;
mod server_requests;
mod server_responses;
mod transcript;
