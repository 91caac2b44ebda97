//! Requests: the verdict does not depend on how the input is segmented, and an accepted request, encoded again, is
//! parsed as one message.

#![no_main]

#[path = "../../crates/http1/tests/http1/transcript/mod.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|input: &[u8]| transcript::fuzz_server(input));
