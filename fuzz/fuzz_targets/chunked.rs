//! Chunked content, in a request and in a response.

#![no_main]

#[path = "../../crates/http1/tests/http1/transcript/mod.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|input: &[u8]| transcript::fuzz_chunked(input));
