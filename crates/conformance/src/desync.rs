//! Requests that are made to be read in two ways: by one server as one request, by the next as two.
//!
//! The cases are made systematically: each byte that some reader overlooks, at each place of a line where it could be overlooked, and lists of the
//! spellings that have been published as attacks. What is hidden in them is always the same request, for [`HIDDEN_TARGET`]; nobody may ever
//! answer it. Request smuggling is described by Linhart et al. (2005), Kettle ("HTTP Desync Attacks", 2019 to 2025) and in RFC 9112, 11.2.

use std::collections::BTreeMap;

pub mod answers;
mod chunks;
mod framing;
mod lines;
mod published;

/// What the hidden request asks for. A server that is asked for it has been deceived.
pub const HIDDEN_TARGET: &str = "/bytes/9?hidden";

/// Bytes for one connection that somebody might read in two ways.
#[derive(Clone, Debug)]
pub struct Attack {
    /// A name for reports.
    pub name: String,
    /// What the client sends.
    pub send: Vec<u8>,
    /// The one way in which it may be read.
    pub reading: Reading,
}

/// How an attack may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Not at all: one answer that refuses it, the end of the connection, and no whole request goes on.
    Refused,
    /// As so many requests for `/bytes/3`; the connection lives on.
    Requests(usize),
}

/// Every case, once.
#[must_use]
pub fn attacks() -> Vec<Attack> {
    let mut known = BTreeMap::new();
    for attack in made() {
        known.entry(attack.send.clone()).or_insert(attack);
    }
    known.into_values().collect()
}

/// Every case, some of them several times: one byte at two places can make the same line.
fn made() -> Vec<Attack> {
    let mut attacks = lines::attacks();
    attacks.extend(framing::attacks());
    attacks.extend(chunks::attacks());
    attacks.extend(published::attacks());
    attacks
}

/// Bytes that one reader or another skips, trims, or takes for the end of a line: all control bytes, space, and some that are blanks in wider sets.
fn odd_bytes() -> impl Iterator<Item = u8> {
    (0..=0x20).chain([0x7f, 0x80, 0x85, 0xa0, 0xad, 0xff])
}

/// Optional white space (RFC 9110, 5.6.3), which belongs to no value.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The request that is hidden.
fn hidden() -> String {
    format!("GET {HIDDEN_TARGET} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The same as a chunk and the end of chunked content.
fn hidden_in_chunks() -> String {
    format!("{:x}\r\n{}\r\n0\r\n\r\n", hidden().len(), hidden())
}

/// A POST with these field lines (without the last line's end), and what stands behind its head.
fn post(fields: impl AsRef<[u8]>, behind: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST /bytes/3 HTTP/1.1\r\nHost: a\r\n", fields.as_ref(), b"\r\n\r\n", behind.as_ref()].concat()
}

fn refused(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Refused }
}

fn one_request(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Requests(1) }
}

/// How a byte or a line is called in a report.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_two_things_of_one_case() {
        let attacks = attacks();
        assert!(attacks.len() > 6_000, "{}", attacks.len());
        let readings: BTreeMap<&[u8], Reading> =
            attacks.iter().map(|attack| (&attack.send[..], attack.reading)).collect();
        for attack in made() {
            assert_eq!(readings.get(&attack.send[..]), Some(&attack.reading), "{}", attack.name);
        }
    }

    /// What must be refused is refused for what is odd in it, not for want of bytes: the request that it hides is whole.
    #[test]
    fn what_is_hidden_is_whole() {
        let hiding = attacks().into_iter().filter(|attack| attack.send.windows(6).any(|part| part == b"hidden"));
        let whole = format!("GET {HIDDEN_TARGET} HTTP/1.1");
        assert!(hiding.into_iter().all(|attack| attack.send.windows(whole.len()).any(|part| part == whole.as_bytes())));
    }
}
