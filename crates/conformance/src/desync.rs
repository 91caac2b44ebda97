//! Request smuggling: requests that one server may interpret as one request, and the next as two.
//!
//! The cases are generated systematically: each byte that some parsers ignore, at each position of a line where it
//! could be ignored, and lists of published spellings. The hidden request is always the same, for [`HIDDEN_TARGET`],
//! and must never get a response. Request smuggling is described by Linhart et al. (2005), Kettle ("HTTP Desync
//! Attacks", 2019 to 2025) and in RFC 9112, section 11.2.

use std::collections::BTreeMap;

mod chunks;
mod framing;
mod lines;
mod pieces;
mod published_attacks;
pub mod responses;

pub use pieces::{Attack, HIDDEN_TARGET, Reading};

#[must_use]
pub fn attacks() -> Vec<Attack> {
    let mut known = BTreeMap::new();
    for attack in generated() {
        known.entry(attack.send.clone()).or_insert(attack);
    }
    known.into_values().collect()
}

/// Some cases several times: one byte at two positions can result in the same line.
fn generated() -> Vec<Attack> {
    let mut attacks = lines::attacks();
    attacks.extend(framing::attacks());
    attacks.extend(chunks::attacks());
    attacks.extend(published_attacks::attacks());
    attacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_one_reading() {
        let attacks = attacks();
        assert!(attacks.len() > 6_000, "{}", attacks.len());
        let readings: BTreeMap<&[u8], Reading> =
            attacks.iter().map(|attack| (&attack.send[..], attack.reading)).collect();
        for attack in generated() {
            assert_eq!(readings.get(&attack.send[..]), Some(&attack.reading), "{}", attack.name);
        }
    }

    /// Rejected requests are rejected for what is invalid in them, not because they are incomplete: the hidden request
    /// is complete.
    #[test]
    fn hidden_requests_are_complete() {
        let hiding = attacks().into_iter().filter(|attack| attack.send.windows(6).any(|part| part == b"hidden"));
        let whole = format!("GET {HIDDEN_TARGET} HTTP/1.1");
        assert!(hiding.into_iter().all(|attack| attack.send.windows(whole.len()).any(|part| part == whole.as_bytes())));
    }
}
