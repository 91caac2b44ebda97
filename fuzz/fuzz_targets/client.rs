//! Responses: the verdict does not depend on how the input is segmented.

#![no_main]

#[path = "../../crates/http1/tests/http1/transcript/mod.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|input: &[u8]| transcript::fuzz_client(input));
