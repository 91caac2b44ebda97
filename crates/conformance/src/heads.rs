//! Request lines, targets, Host and field lines.

use crate::case::{Case, Expect, refused_with, served};

const BAD: &[u16] = &[400];

#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = request_lines();
    cases.extend(targets());
    cases.extend(hosts());
    cases.extend(field_lines());
    cases.extend(limits());
    cases
}

fn request_lines() -> Vec<Case> {
    const LINE: &str = "RFC 9112, 3";
    let get = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    vec![
        served("plain request", LINE, get("GET /bytes/3 HTTP/1.1"), "012"),
        served(
            "one empty line before the request",
            "RFC 9112, 2.2",
            format!("\r\n{}", get("GET /bytes/3 HTTP/1.1")),
            "012",
        ),
        refused_with("bare LF ends the request line", "RFC 9112, 2.2", "GET /bytes/3 HTTP/1.1\nHost: a\r\n\r\n", BAD),
        refused_with("two empty lines before the request", "RFC 9112, 2.2", "\r\n".repeat(2), BAD),
        refused_with("empty lines without end", "RFC 9112, 2.2", "\r\n".repeat(50_000), BAD),
        refused_with("an empty line of LF alone", "RFC 9112, 2.2", format!("\n{}", get("GET /bytes/3 HTTP/1.1")), BAD),
        refused_with("only white space", LINE, "   \r\n\r\n", BAD),
        refused_with("version without a minor", "RFC 9112, 2.3", get("GET /bytes/3 HTTP/1"), BAD),
        refused_with("version with leading zeros", "RFC 9112, 2.3", get("GET /bytes/3 HTTP/01.01"), BAD),
        refused_with("version with a space", "RFC 9112, 2.3", get("GET /bytes/3 HTTP/ 1.1"), BAD),
        refused_with("HTTP/0.9 by name", "RFC 9110, 15.6.6", get("GET /bytes/3 HTTP/0.9"), &[505]),
        refused_with("another protocol", "RFC 9112, 2.3", get("GET /bytes/3 ICE/1.0"), BAD),
        refused_with("mail", LINE, "EHLO a\r\n", BAD),
        refused_with(
            "the line of a balancer",
            LINE,
            format!("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n{}", get("GET / HTTP/1.1")),
            BAD,
        ),
        refused_with("bare LF everywhere", "RFC 9112, 2.2", "GET /bytes/3 HTTP/1.1\nHost: a\n\n", BAD),
        refused_with("bare CR in the request line", "RFC 9112, 2.2", "GET /bytes/3\r HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        refused_with("two spaces before the target", LINE, get("GET  /bytes/3 HTTP/1.1"), BAD),
        refused_with("two spaces before the version", LINE, get("GET /bytes/3  HTTP/1.1"), BAD),
        refused_with("a tab in the place of a space", LINE, get("GET\t/bytes/3\tHTTP/1.1"), BAD),
        refused_with("a space after the version", LINE, get("GET /bytes/3 HTTP/1.1 "), BAD),
        refused_with("a space before the method", LINE, get(" GET /bytes/3 HTTP/1.1"), BAD),
        refused_with("no target", LINE, get("GET HTTP/1.1"), BAD),
        refused_with("HTTP/0.9", "RFC 9112, 2.3", "GET /bytes/3\r\n\r\n", BAD),
        refused_with("lower-case http", "RFC 9112, 2.3", get("GET /bytes/3 http/1.1"), BAD),
        refused_with("version without a dot", "RFC 9112, 2.3", get("GET /bytes/3 HTTP/11"), BAD),
        refused_with("version with two digits", "RFC 9112, 2.3", get("GET /bytes/3 HTTP/1.10"), BAD),
        refused_with("HTTP/2.0", "RFC 9110, 15.6.6", get("GET /bytes/3 HTTP/2.0"), &[505]),
        refused_with("HTTP/3.0", "RFC 9110, 15.6.6", get("GET /bytes/3 HTTP/3.0"), &[505]),
        refused_with("the preface of HTTP/2", "RFC 9113, 3.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505, 400]),
        refused_with("a method that is no token", "RFC 9110, 9.1", get("G(T /bytes/3 HTTP/1.1"), BAD),
        refused_with("a NUL in the method", "RFC 9110, 9.1", "G\0T /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        refused_with(
            "TLS where plain text is spoken",
            LINE,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
            BAD,
        ),
        Case {
            name: "a method that nobody implements",
            section: "RFC 9110, 15.6.2",
            send: get("GETttttt /bytes/3 HTTP/1.1").into(),
            heads: &[],
            expect: Expect::Served(vec![(501, None)]),
        },
        Case {
            name: "methods are case-sensitive",
            section: "RFC 9110, 9.1",
            send: get("get /bytes/3 HTTP/1.1").into(),
            heads: &[],
            expect: Expect::Served(vec![(501, None)]),
        },
    ]
}

fn targets() -> Vec<Case> {
    const TARGET: &str = "RFC 9112, 3.2";
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    vec![
        served("absolute-form", "RFC 9112, 3.2.2", get("http://a/bytes/3"), "012"),
        served("absolute-form with another Host", "RFC 9112, 3.2.2", get("http://other.example/bytes/3"), "012"),
        served("a query", "RFC 3986, 3.4", get("/bytes/3?a=b&c"), "012"),
        served("an empty query", "RFC 3986, 3.4", get("/bytes/3?"), "012"),
        refused_with("a fragment", "RFC 9112, 3.2", get("/bytes/3#part"), BAD),
        refused_with("a target without a slash", TARGET, get("bytes/3"), BAD),
        refused_with("authority-form with GET", "RFC 9112, 3.2.3", get("a:80"), BAD),
        refused_with("asterisk-form with GET", "RFC 9112, 3.2.4", get("*"), BAD),
        refused_with(
            "bytes above ASCII",
            "RFC 3986, 2",
            b"GET /bytes/\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            BAD,
        ),
        refused_with("a control byte", "RFC 3986, 2", "GET /bytes/\u{1}3 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        refused_with("DEL", "RFC 3986, 2", "GET /bytes/\u{7f}3 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        refused_with("a NUL", "RFC 3986, 2", "GET /bytes/\u{0}3 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        refused_with("user information", "RFC 9110, 4.2.4", get("http://me@a/bytes/3"), BAD),
        refused_with("absolute-form without an authority", "RFC 9110, 4.2.1", get("http:///bytes/3"), BAD),
        refused_with(
            "CONNECT with a path",
            "RFC 9112, 3.2.3",
            "CONNECT /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400, 501],
        ),
        Case {
            name: "OPTIONS *",
            section: "RFC 9112, 3.2.4",
            send: b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            heads: &[],
            expect: Expect::Served(vec![(204, None)]),
        },
        Case {
            name: "OPTIONS of a whole server in absolute-form",
            section: "RFC 9112, 3.2.4",
            send: b"OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            heads: &[],
            expect: Expect::Served(vec![(204, None)]),
        },
        answered("an encoded NUL", "RFC 3986, 7.3", get("/a%00b"), 400),
        answered("an encoded CRLF", "RFC 3986, 7.3", get("/a%0d%0aX:%20b"), 400),
        answered("an encoding cut short", "RFC 3986, 2.1", get("/a%zz"), 400),
        answered("a climbing path", "RFC 3986, 5.2.4", get("/../a"), 400),
        answered("an encoded climbing path", "RFC 3986, 5.2.4", get("/%2e%2e/a"), 400),
        refused_with("a backslash", "RFC 3986, 3.3", get("/a\\b"), BAD),
        refused_with("overlong UTF-8", "RFC 3986, 2", b"GET /\xc0\xaf HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), BAD),
        refused_with("a space inside", TARGET, get("/a b"), BAD),
        refused_with("another scheme", "RFC 9112, 3.2.2", get("ftp://a/bytes/3"), BAD),
        refused_with(
            "CONNECT with an empty port",
            "RFC 9112, 3.2.3",
            "CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400, 501],
        ),
        served("a target of 7,900 bytes", "RFC 9112, 3", get(&format!("/bytes/3?{}", "a".repeat(7_900))), "012"),
    ]
}

/// A valid request that gets this status, with a persistent connection.
fn answered(name: &'static str, section: &'static str, send: String, status: u16) -> Case {
    Case { name, section, send: send.into(), heads: &[], expect: Expect::Served(vec![(status, None)]) }
}

fn hosts() -> Vec<Case> {
    const HOST: &str = "RFC 9112, 3.2";
    let with = |fields: &str| format!("GET /bytes/3 HTTP/1.1\r\n{fields}\r\n");
    vec![
        refused_with("no Host", HOST, with(""), BAD),
        refused_with("two Hosts", HOST, with("Host: a\r\nHost: b\r\n"), BAD),
        refused_with("the same Host twice", HOST, with("Host: a\r\nHost: a\r\n"), BAD),
        refused_with("two Hosts in one line", HOST, with("Host: a, b\r\n"), BAD),
        refused_with("a Host with a space", HOST, with("Host: a b\r\n"), BAD),
        refused_with("a Host with a path", HOST, with("Host: a/b\r\n"), BAD),
        refused_with("a Host with user information", HOST, with("Host: me@a\r\n"), BAD),
        refused_with("a Host with a scheme", HOST, with("Host: http://a\r\n"), BAD),
        refused_with("a Host whose port is no number", HOST, with("Host: a:b\r\n"), BAD),
        refused_with("a Host whose port is too large", HOST, with("Host: a:65536\r\n"), BAD),
        refused_with("a Host whose port overflows", HOST, with("Host: a:4294967376\r\n"), BAD),
        refused_with("a Host with two ports", HOST, with("Host: [::1]:80:80\r\n"), BAD),
        refused_with("an empty Host", "RFC 9110, 4.2.1", with("Host:\r\n"), BAD),
        refused_with("only a port", "RFC 9110, 4.2.1", with("Host: :80\r\n"), BAD),
        refused_with("an IPv6 address with a zone", "RFC 3986, 3.2.2", with("Host: [fe80::1%25eth0]\r\n"), BAD),
        refused_with("an IPv6 address that is not closed", "RFC 3986, 3.2.2", with("Host: [::1\r\n"), BAD),
        refused_with("an IPv6 address without brackets", "RFC 3986, 3.2.2", with("Host: ::1\r\n"), BAD),
        refused_with("a Host in a folded line", HOST, with("X: y\r\n Host: a\r\n"), BAD),
        refused_with(
            "a bad Host with an absolute target",
            HOST,
            "GET http://a/bytes/3 HTTP/1.1\r\nHost: a b\r\n\r\n",
            BAD,
        ),
        refused_with("no Host with an absolute target", HOST, "GET http://a/bytes/3 HTTP/1.1\r\n\r\n", BAD),
        served("a Host with a port", HOST, with("Host: a:8080\r\n"), "012"),
        served("a Host that is an IPv6 address", HOST, with("Host: [::1]:8080\r\n"), "012"),
        served("field names have no case", "RFC 9110, 5.1", with("hOST: a\r\n"), "012"),
        Case {
            name: "no Host in HTTP/1.0",
            section: "RFC 9112, 3.2",
            send: b"GET /bytes/3 HTTP/1.0\r\n\r\n".to_vec(),
            heads: &[],
            expect: Expect::ServedThenClosed(vec![(200, Some(b"012".to_vec()))]),
        },
    ]
}

fn field_lines() -> Vec<Case> {
    const LINE: &str = "RFC 9112, 5.1";
    let with = |line: &str| format!("GET /bytes/3 HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
    let raw = |line: &[u8]| [b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\n", line, b"\r\n\r\n"].concat();
    vec![
        served("no space after the colon", LINE, with("X-A:b"), "012"),
        served("white space around the value", LINE, with("X-A: \t b \t "), "012"),
        served("an empty value", LINE, with("X-A:"), "012"),
        served("a colon in the value", LINE, with("X-A: b:c"), "012"),
        served("bytes above ASCII in a value", "RFC 9110, 5.5", raw(b"X-A: \xe9\xff"), "012"),
        served("every byte of a token in a name", "RFC 9110, 5.6.2", with("!#$%&'*+-.^_`|~09azAZ: b"), "012"),
        refused_with("a space before the colon", LINE, with("X-A : b"), BAD),
        refused_with("a tab before the colon", LINE, with("X-A\t: b"), BAD),
        refused_with("an empty name", LINE, with(": b"), BAD),
        refused_with("no colon", LINE, with("X-A"), BAD),
        refused_with("a space in a name", LINE, with("X A: b"), BAD),
        refused_with("a bracket in a name", "RFC 9110, 5.6.2", with("X(A): b"), BAD),
        refused_with("a byte above ASCII in a name", "RFC 9110, 5.6.2", raw(b"X-\xe9: b"), BAD),
        refused_with("a line that begins with a space", "RFC 9112, 5.2", with(" X-A: b"), BAD),
        refused_with("obs-fold", "RFC 9112, 5.2", with("X-A: b\r\n c"), BAD),
        refused_with("obs-fold with a tab", "RFC 9112, 5.2", with("X-A: b\r\n\tc"), BAD),
        refused_with(
            "white space before the first field",
            "RFC 9112, 2.2",
            "GET /bytes/3 HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n",
            BAD,
        ),
        refused_with("bare CR in a value", "RFC 9112, 2.2", with("X-A: b\rc"), BAD),
        refused_with("bare LF in a value", "RFC 9112, 2.2", with("X-A: b\nX-B: c"), BAD),
        refused_with("bare LF ends the head", "RFC 9112, 2.2", "GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\n", BAD),
        refused_with("NUL in a value", "RFC 9110, 5.5", with("X-A: b\0c"), BAD),
        refused_with("a control byte in a value", "RFC 9110, 5.5", with("X-A: b\u{8}c"), BAD),
        refused_with("DEL in a value", "RFC 9110, 5.5", with("X-A: b\u{7f}c"), BAD),
        refused_with("NUL in a name", "RFC 9110, 5.1", with("X\0A: b"), BAD),
    ]
}

fn limits() -> Vec<Case> {
    let long = "a".repeat(100_000);
    let many: String = (0..2_000).map(|number| format!("X-{number}: a\r\n")).collect();
    vec![
        refused_with(
            "a target of 100,000 bytes",
            "RFC 9112, 3",
            format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
            &[414],
        ),
        refused_with(
            "a field of 100,000 bytes",
            "RFC 6585, 5",
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"),
            &[431],
        ),
        refused_with(
            "a field name of 100,000 bytes",
            "RFC 6585, 5",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{long}: a\r\n\r\n"),
            &[431],
        ),
        refused_with("2,000 fields", "RFC 6585, 5", format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), &[431]),
        refused_with(
            "a method of 100,000 bytes",
            "RFC 9112, 3",
            format!("{long} / HTTP/1.1\r\nHost: a\r\n\r\n"),
            &[400, 501, 431, 414],
        ),
    ]
}
