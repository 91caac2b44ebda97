//! Responses that may be interpreted as one by the proxy and as two by its client, or vice versa.
//!
//! Each is followed by a second response without a request. A client that gets it has received another client's
//! response ("response queue poisoning", Kettle, 2022).

use super::framing::{CODINGS, is_proper, odd_lines};
use super::pieces::{is_blank, odd_bytes, shown};
use super::published_attacks::forked_contents;

/// The content of the second response.
pub const POISON: &str = "poison";
/// The content of the response itself, if it is valid.
pub const CONTENT: &str = "abc";

/// Bytes that an origin sends at once for one GET request.
#[derive(Clone, Debug)]
pub struct ResponseAttack {
    pub name: String,
    pub send: Vec<u8>,
    /// The only allowed interpretation.
    pub reading: ResponseReading,
}

/// Allowed interpretations of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseReading {
    /// Invalid: the client gets an error from the proxy.
    Refused,
    /// Its head is valid but not its content: an error, or a response that is detectably truncated.
    RefusedOrCut,
    /// As this status with [`CONTENT`], or without content if the status has none.
    Whole(u16),
}

use ResponseReading::{Refused, RefusedOrCut, Whole};

#[must_use]
pub fn attacks() -> Vec<ResponseAttack> {
    let mut attacks = status_lines();
    attacks.extend(lengths());
    attacks.extend(codings());
    attacks.extend(chunks());
    attacks.extend(fields());
    attacks.extend(interim_answers());
    attacks.extend(without_content());
    attacks
}

fn poison() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{POISON}", POISON.len())
}

fn attack(name: &str, send: Vec<u8>, reading: ResponseReading) -> ResponseAttack {
    ResponseAttack { name: format!("{name}: {}", shown(&send[..send.len().min(200)])), send, reading }
}

/// A response with these field lines (without the last line's end), this content, and the second response.
fn answer(fields: impl AsRef<[u8]>, content: &str) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\n", fields.as_ref(), b"\r\n\r\n", content.as_bytes(), poison().as_bytes()].concat()
}

fn status_lines() -> Vec<ResponseAttack> {
    let odd = odd_bytes().flat_map(|odd| {
        let at = |front: &str, back: &str| [front.as_bytes(), &[odd], back.as_bytes()].concat();
        let in_reason = if is_blank(odd) || odd >= 0x80 { Whole(200) } else { Refused };
        [
            (at("", "HTTP/1.1 200 OK"), Refused),
            (at("HTTP", "/1.1 200 OK"), Refused),
            (at("HTTP/1.", "1 200 OK"), Refused),
            (at("HTTP/1.1", " 200 OK"), Refused),
            (at("HTTP/1.1 ", "200 OK"), Refused),
            (at("HTTP/1.1 2", "00 OK"), Refused),
            (at("HTTP/1.1 200 O", "K"), in_reason),
        ]
    });
    let listed = [
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1 20x",
        "HTTP/1.1 +20",
        "HTTP/1.1 -20",
        "HTTP/1.1 099",
        "HTTP/1.1 000",
        "HTTP/1.1 0x2",
        "HTTP/1.1 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/2 200",
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/1 200 OK",
        "http/1.1 200 OK",
        "HTTPS/1.1 200 OK",
        "ICY 200 OK",
        "200 OK",
        "GET / HTTP/1.1",
        "<html>",
        "SSH-2.0-x",
        "\u{16}\u{3}\u{1}",
        "",
    ];
    let listed = listed.into_iter().map(|line| (line.as_bytes().to_vec(), Refused));
    odd.chain(listed)
        .map(|(line, reading)| {
            let send = [&line[..], b"\r\nContent-Length: 3\r\n\r\nabc", poison().as_bytes()].concat();
            attack("a status line", send, reading)
        })
        .collect()
}

fn lengths() -> Vec<ResponseAttack> {
    let values = [
        "+3",
        "-3",
        "0x3",
        "3.0",
        "3e0",
        "3,",
        ",3",
        "3, 4",
        "4, 3",
        "3, 0",
        "3;",
        "3;a",
        "3 3",
        "3 4",
        "\"3\"",
        "'3'",
        "3a",
        "a3",
        "\u{ff13}",
        "\u{b3}",
        "",
        "18446744073709551619",
        "99999999999999999999999",
        "3\r\n 3",
        "\r\n 3",
        "3\r",
        "NaN",
        "-0",
        "-1",
    ];
    let listed = values.iter().map(|value| (format!("Content-Length: {value}").into_bytes(), Refused));
    let twice = ["4", "0", "03", "+3", "x", ""].into_iter().flat_map(|other| {
        [
            format!("Content-Length: 3\r\nContent-Length: {other}"),
            format!("Content-Length: {other}\r\nContent-Length: 3"),
        ]
        .map(|fields| (fields.into_bytes(), Refused))
    });
    let odd =
        odd_lines("Content-Length", "3").map(|(line, is_proper)| (line, if is_proper { Whole(200) } else { Refused }));
    listed
        .chain(twice)
        .chain(odd)
        .map(|(fields, reading)| attack("a length", answer(fields, CONTENT), reading))
        .collect()
}

/// A coding with a length, and alone.
fn codings() -> Vec<ResponseAttack> {
    let odd = odd_lines("Transfer-Encoding", "chunked");
    let lines = CODINGS.iter().map(|coding| (coding.to_vec(), is_proper(coding))).chain(odd);
    let lines = lines.filter(|(line, _)| !is_lookalike(line));
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    lines
        .flat_map(|(line, is_proper)| {
            let length = format!("Content-Length: {}", chunks.len());
            let both =
                [[&line[..], length.as_bytes()].join(&b"\r\n"[..]), [length.as_bytes(), &line].join(&b"\r\n"[..])];
            let alone = attack("a coding", answer(&line, chunks), if is_proper { Whole(200) } else { Refused });
            both.map(|fields| attack("a length and a coding", answer(fields, chunks), Refused))
                .into_iter()
                .chain([alone])
        })
        .collect()
}

/// A name that is a token other than the real one: in a response just another field. Servers map names of requests to
/// variables, clients do not.
fn is_lookalike(line: &[u8]) -> bool {
    let names = [
        "Transfer_Encoding:",
        "Transfer.Encoding:",
        "Transfer--Encoding:",
        "-Transfer-Encoding:",
        "Transfer-Encoding-:",
        "'Transfer-Encoding:",
    ];
    names.iter().any(|name| line.starts_with(name.as_bytes()))
}

fn chunks() -> Vec<ResponseAttack> {
    let odd = odd_bytes().flat_map(|odd| {
        let at = |front: &str, back: &str| [front.as_bytes(), &[odd], back.as_bytes()].concat();
        [
            (at("", "3\r\nabc\r\n0\r\n\r\n"), false),
            (at("3", "\r\nabc\r\n0\r\n\r\n"), false),
            (at("3;a", "b\r\nabc\r\n0\r\n\r\n"), false),
            (at("3\r", "\nabc\r\n0\r\n\r\n"), false),
            (at("3\r\nabc", "\r\n0\r\n\r\n"), false),
            (at("3\r\nabc\r", "\n0\r\n\r\n"), false),
            (at("3\r\nabc\r\n", "0\r\n\r\n"), false),
            (at("3\r\nabc\r\n0", "\r\n\r\n"), false),
            (at("3\r\nabc\r\n0\r\n", "\r\n"), false),
            (at("3\r\nabc\r\n0\r\nX", ": y\r\n\r\n"), false),
        ]
    });
    let listed = [
        "0x3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "2\r\nabc\r\n0\r\n\r\n",
        "10000000000000003\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n\r\n",
        "\r\n3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nX\r\n\r\n",
        "3\r\nabc\r\n0\r\n: y\r\n\r\n",
        "3\r\nabc\r\n0\r\n",
        "3\r\nabc\r\n-0\r\n\r\n",
        "3\r\nabc\r\n0x0\r\n\r\n",
        "z\r\nabc\r\n0\r\n\r\n",
    ];
    let odd = odd.filter(|(content, _)| content != b"03\r\nabc\r\n0\r\n\r\n");
    let listed = listed.into_iter().map(|content| (content.as_bytes().to_vec(), false));
    let forked = forked_contents().into_iter().map(|content| (content.into_bytes(), false));
    odd.chain(listed)
        .chain(forked)
        .map(|(content, is_proper)| {
            let reading = if is_proper { Whole(200) } else { RefusedOrCut };
            let send =
                [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &content[..], poison().as_bytes()].concat();
            attack("chunks", send, reading)
        })
        .collect()
}

fn fields() -> Vec<ResponseAttack> {
    let odd = odd_bytes().flat_map(|odd| {
        let at = |front: &str, back: &str| [front.as_bytes(), &[odd], back.as_bytes()].concat();
        let in_value = if is_blank(odd) || odd >= 0x80 { Whole(200) } else { Refused };
        [(at("", "X: y"), Refused), (at("X", ": y"), Refused), (at("X", "Z: y"), Refused), (at("X: y", "z"), in_value)]
    });
    let listed = [
        "X",
        ": y",
        "X y",
        "X: y\r\n z",
        "X: y\n",
        "X: y\rZ: z",
        "X: y\r\n\r",
        "X: y\nContent-Length: 0",
        "X: y\rContent-Length: 0",
    ];
    let listed = listed.into_iter().map(|line| (line.as_bytes().to_vec(), Refused));
    odd.chain(listed)
        .map(|(line, reading)| {
            attack("a field line", answer([b"Content-Length: 3\r\n", &line[..]].concat(), CONTENT), reading)
        })
        .collect()
}

fn interim_answers() -> Vec<ResponseAttack> {
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let before = |interim: &str, reading| {
        attack("interim answers", [interim.as_bytes(), last.as_bytes(), poison().as_bytes()].concat(), reading)
    };
    let mut attacks: Vec<ResponseAttack> = [
        ("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", Whole(200)),
        ("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n", Whole(200)),
        ("HTTP/1.1 100 Continue\r\n\r\n", Whole(200)),
        ("HTTP/1.1 199 x\r\n\r\n", Whole(200)),
        // Interim responses have no content, whatever their fields; the bytes after them are the next response.
        ("HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\nxyz", Refused),
        ("HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused),
        ("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", Refused),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Refused),
        ("HTTP/1.1 103 Early Hints\nLink: <a>\n\n", Refused),
    ]
    .into_iter()
    .map(|(interim, reading)| before(interim, reading))
    .collect();
    for count in [31, 33, 1_000, 20_000] {
        let reading = if count < 32 { Whole(200) } else { Refused };
        attacks.push(before(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(count), reading));
    }
    attacks
}

/// Statuses without content, whatever the fields (RFC 9112, section 6.3).
fn without_content() -> Vec<ResponseAttack> {
    let framings = ["Content-Length: 3", "Transfer-Encoding: chunked", "Content-Length: 0", "X: y"];
    let made = [204, 304].into_iter().flat_map(|status| {
        framings.map(|framing| {
            let head = format!("HTTP/1.1 {status} x\r\n{framing}\r\n\r\n");
            attack("no content", [head.as_bytes(), poison().as_bytes()].concat(), Whole(status))
        })
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn nobody_says_two_things_of_one_answer() {
        let mut readings = BTreeMap::new();
        for attack in attacks() {
            let known = *readings.entry(attack.send).or_insert(attack.reading);
            assert_eq!(known, attack.reading, "{}", attack.name);
        }
        assert!(readings.len() > 1_000, "{}", readings.len());
    }
}
