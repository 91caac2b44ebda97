//! Persistence, pipelining, Expect, HTTP/1.0.

use crate::case::{Case, Expect};

#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = persistence();
    cases.extend(pipelining());
    cases.extend(expectations());
    cases.extend(methods());
    cases
}

type Answers = Vec<(u16, Option<Vec<u8>>)>;

fn bytes(contents: &[&str]) -> Answers {
    contents.iter().map(|content| (200, Some(content.as_bytes().to_vec()))).collect()
}

fn case(name: &'static str, section: &'static str, send: impl Into<Vec<u8>>, expect: Expect) -> Case {
    Case { name, section, send: send.into(), heads: &[], expect }
}

fn persistence() -> Vec<Case> {
    const SECTION: &str = "RFC 9112, 9.3";
    let get = |version: &str, fields: &str| format!("GET /bytes/3 HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
    let closed = || Expect::ServedThenClosed(bytes(&["012"]));
    let kept = || Expect::Served(bytes(&["012"]));
    vec![
        case("1.1 stays open", SECTION, get("1.1", ""), kept()),
        case("1.1 with close", SECTION, get("1.1", "Connection: close\r\n"), closed()),
        case("close has no case", SECTION, get("1.1", "Connection: CLOSE\r\n"), closed()),
        case("close in a list", SECTION, get("1.1", "Connection: foo, close\r\n"), closed()),
        case("close in a second line", SECTION, get("1.1", "Connection: foo\r\nConnection: close\r\n"), closed()),
        case("close beside keep-alive", SECTION, get("1.1", "Connection: keep-alive, close\r\n"), closed()),
        case("close in quotes is no option", "RFC 9110, 7.6.1", get("1.1", "Connection: \"close\"\r\n"), kept()),
        case("close behind a quotation mark", "RFC 9110, 7.6.1", get("1.1", "Connection: a\", close\r\n"), closed()),
        case(
            "keep-alive before close",
            SECTION,
            get("1.0", "Connection: keep-alive\r\nConnection: close\r\n"),
            closed(),
        ),
        case("keep-alive for a proxy", "RFC 9112, C.2.2", get("1.0", "Proxy-Connection: keep-alive\r\n"), closed()),
        case("1.0 closes", SECTION, get("1.0", ""), closed()),
        case("1.0 with keep-alive", "RFC 9112, C.2.2", get("1.0", "Connection: keep-alive\r\n"), kept()),
        case(
            "an upgrade that is not offered",
            "RFC 9110, 7.8",
            get("1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n"),
            kept(),
        ),
        case(
            "an upgrade with content",
            "RFC 9110, 7.8",
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
            Expect::Served(bytes(&["abc"])),
        ),
        case(
            "an upgrade in 1.0",
            "RFC 9110, 7.8",
            get("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n"),
            closed(),
        ),
        case(
            "nothing is read after close",
            "RFC 9112, 9.6",
            [get("1.1", "Connection: close\r\n"), get("1.1", "")].concat(),
            closed(),
        ),
        case(
            "a half head after a good request",
            "RFC 9112, 2.2",
            [get("1.1", ""), String::from("GET /bytes/3 HTTP/1.1\r\nHost: a\r\nBad : x\r\n\r\n")].concat(),
            Expect::ServedThenRefused(&[400]),
        ),
    ]
}

fn pipelining() -> Vec<Case> {
    const SECTION: &str = "RFC 9112, 9.3.2";
    let get = |count: usize| format!("GET /bytes/{count} HTTP/1.1\r\nHost: a\r\n\r\n");
    let hundred: String = (0..100).map(|_| get(3)).collect();
    let head = "HEAD /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n";
    vec![
        case("three requests", SECTION, [get(1), get(2), get(3)].concat(), Expect::Served(bytes(&["0", "01", "012"]))),
        case("a hundred requests", SECTION, hundred, Expect::Served(vec![(200, Some(b"012".to_vec())); 100])),
        case(
            "content between requests",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nde",
            Expect::Served(bytes(&["abc", "de"])),
        ),
        case(
            "nothing is read behind a refused request",
            "RFC 9112, 9.6",
            ["GET /bad path HTTP/1.1\r\nHost: a\r\n\r\n", &get(1)].concat(),
            Expect::Refused(&[400]),
        ),
        case(
            "what is not found does not end the connection",
            "RFC 9110, 15.5.5",
            [&get(1), "GET /not-there HTTP/1.1\r\nHost: a\r\n\r\n", &get(2)].concat(),
            Expect::Served(vec![(200, Some(b"0".to_vec())), (404, None), (200, Some(b"01".to_vec()))]),
        ),
        case(
            "an empty line between requests",
            "RFC 9112, 2.2",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\nGET /bytes/2 HTTP/1.1\r\nHost: a\r\n\r\n",
            Expect::Served(bytes(&["abc", "01"])),
        ),
        case(
            "a slow answer does not overtake",
            SECTION,
            ["GET /delay/20 HTTP/1.1\r\nHost: a\r\n\r\n", &get(3)].concat(),
            Expect::Served(vec![(200, None), (200, Some(b"012".to_vec()))]),
        ),
        Case {
            name: "HEAD among GETs",
            section: "RFC 9110, 9.3.2",
            send: [get(1).as_str(), head, &get(2)].concat().into(),
            heads: &[1],
            expect: Expect::Served(bytes(&["0", "", "01"])),
        },
    ]
}

fn expectations() -> Vec<Case> {
    const SECTION: &str = "RFC 9110, 10.1.1";
    vec![
        case(
            "100-continue with content behind it",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
            Expect::Served(bytes(&["abc"])),
        ),
        case(
            "100-Continue has no case",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc",
            Expect::Served(bytes(&["abc"])),
        ),
        case(
            "100-continue in HTTP/1.0 is ignored",
            SECTION,
            "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
            Expect::ServedThenClosed(bytes(&["abc"])),
        ),
        case(
            "100-continue without content",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
            Expect::Served(bytes(&[""])),
        ),
        case(
            "100-continue for what is not wanted",
            SECTION,
            "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
            Expect::ServedThenClosed(vec![(501, None)]),
        ),
        case(
            "100-continue for too much",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 999999999999\r\n\r\n",
            Expect::Refused(&[413]),
        ),
        case(
            "100-continue with a parameter",
            SECTION,
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue;a=b\r\nContent-Length: 3\r\n\r\nabc",
            Expect::Refused(&[417]),
        ),
        case(
            "another expectation",
            "RFC 9110, 15.5.18",
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nContent-Length: 3\r\n\r\nabc",
            Expect::Refused(&[417]),
        ),
    ]
}

fn methods() -> Vec<Case> {
    let send = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    vec![
        Case {
            name: "HEAD has no content",
            section: "RFC 9110, 9.3.2",
            send: send("HEAD", "/bytes/5").into(),
            heads: &[0],
            expect: Expect::Served(bytes(&[""])),
        },
        case("204 has no content", "RFC 9110, 15.3.5", send("GET", "/status/204"), Expect::Served(vec![(204, None)])),
        case("304 has no content", "RFC 9110, 15.4.5", send("GET", "/status/304"), Expect::Served(vec![(304, None)])),
        case("404 lives on", "RFC 9110, 15.5.5", send("GET", "/not-there"), Expect::Served(vec![(404, None)])),
        case("OPTIONS has no content", "RFC 9110, 9.3.7", send("OPTIONS", "/"), Expect::Served(vec![(204, None)])),
        case(
            "what follows CONNECT is not read",
            "RFC 9110, 9.3.6",
            "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\nGET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n",
            Expect::ServedThenClosed(vec![(501, None)]),
        ),
        case("TRACE", "RFC 9110, 9.3.8", send("TRACE", "/"), Expect::Served(vec![(501, None)])),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_within_their_section() {
        let mut seen = std::collections::BTreeSet::new();
        for case in crate::all() {
            assert!(seen.insert((case.name, case.section, case.send.clone())), "{} ({})", case.name, case.section);
        }
        assert!(seen.len() >= 150, "{} cases", seen.len());
    }
}
