//! The length of content: the part of HTTP/1.1 in which leniency is a vulnerability.

use crate::case::{Case, Expect, refused_with, served};

const BAD: &[u16] = &[400];

#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = lengths();
    cases.extend(codings());
    cases.extend(chunks());
    cases.extend(trailers());
    cases.extend(content_without_meaning());
    cases.extend(lookalikes());
    cases
}

fn post(fields: &str, content: &str) -> String {
    format!("POST /echoed HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{content}")
}

fn lengths() -> Vec<Case> {
    const LENGTH: &str = "RFC 9110, 8.6";
    let refuse = |name, value: &str| refused_with(name, LENGTH, post(&format!("Content-Length:{value}"), "abc"), BAD);
    vec![
        served("content of a length", LENGTH, post("Content-Length: 3", "abc"), "abc"),
        served("content of no length", LENGTH, post("Content-Length: 0", ""), ""),
        served("neither length nor coding", "RFC 9112, 6.3", "POST /x HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        refuse("a sign", " +3"),
        refuse("a minus sign", " -3"),
        refuse("a hexadecimal length", " 0x3"),
        refuse("an underscore", " 0_3"),
        refuse("a decimal point", " 3.0"),
        refuse("an empty length", ""),
        refuse("a space inside", " 3 3"),
        refuse("a list of two lengths", " 3, 4"),
        refuse("a list of equal lengths", " 3, 3"),
        refuse("a length past 64 bits", " 18446744073709551619"),
        refuse("a leading zero", " 03"),
        refuse("a length in quotes", " \"3\""),
        refuse("a trailing comma", " 3,"),
        refuse("an exponent", " 3e0"),
        refuse("a form feed", " 3\u{c}"),
        served("white space around a length", "RFC 9112, 5", post("Content-Length: \t 3 \t ", "abc"), "abc"),
        refuse("a length of 100 digits", &format!(" {}3", "9".repeat(100))),
        refuse("a letter", " 3a"),
        refuse("a vertical tab", " \u{b}3"),
        refused_with(
            "two different lengths",
            "RFC 9112, 6.3",
            post("Content-Length: 3\r\nContent-Length: 4", "abc"),
            BAD,
        ),
        refused_with(
            "the same length twice",
            "RFC 9112, 6.3",
            post("Content-Length: 3\r\nContent-Length: 3", "abc"),
            BAD,
        ),
        refused_with("a space before the colon", "RFC 9112, 5.1", post("Content-Length : 3", "abc"), BAD),
        refused_with("content past the limit", "RFC 9110, 15.5.14", post("Content-Length: 999999999999", ""), &[413]),
    ]
}

fn codings() -> Vec<Case> {
    const CODING: &str = "RFC 9112, 6.1";
    let body = "3\r\nabc\r\n0\r\n\r\n";
    let refuse = |name, fields: &str| refused_with(name, CODING, post(fields, body), BAD);
    vec![
        served("chunked", CODING, post("Transfer-Encoding: chunked", body), "abc"),
        served("coding names have no case", "RFC 9112, 7", post("Transfer-Encoding: CHUNKED", body), "abc"),
        refuse("length and coding", "Content-Length: 3\r\nTransfer-Encoding: chunked"),
        refuse("coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 3"),
        refuse("coding and a length of 0", "Transfer-Encoding: chunked\r\nContent-Length: 0"),
        refuse("chunked twice in a list", "Transfer-Encoding: chunked, chunked"),
        refuse("chunked twice in lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        refuse("chunked is not last", "Transfer-Encoding: chunked, gzip"),
        refuse("identity after chunked", "Transfer-Encoding: chunked, identity"),
        refuse("a prefix", "Transfer-Encoding: xchunked"),
        refuse("a suffix", "Transfer-Encoding: chunkedx"),
        refuse("a quoted coding", "Transfer-Encoding: \"chunked\""),
        refuse("a vertical tab before it", "Transfer-Encoding: \u{b}chunked"),
        refuse("a parameter", "Transfer-Encoding: chunked;a=b"),
        refuse("an empty coding", "Transfer-Encoding:"),
        refuse("only a comma", "Transfer-Encoding: ,"),
        refuse("a space before the colon", "Transfer-Encoding : chunked"),
        refuse("a NUL", "Transfer-Encoding: chun\0ked"),
        refuse("a comma before it", "Transfer-Encoding: , chunked"),
        refuse("a comma behind it", "Transfer-Encoding: chunked,"),
        refuse("a semicolon behind it", "Transfer-Encoding: chunked;"),
        refuse("a tab inside", "Transfer-Encoding: chun\tked"),
        refuse("a second empty line", "Transfer-Encoding: chunked\r\nTransfer-Encoding:"),
        refuse("a second line of identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
        refuse("a comma in a quoted parameter", "Transfer-Encoding: gzip;a=\"b, chunked\""),
        served("white space around it", "RFC 9112, 5", post("Transfer-Encoding:\t chunked \t", body), "abc"),
        served(
            "chunked in a later minor version",
            "RFC 9110, 2.5",
            format!("POST / HTTP/1.2\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
            "abc",
        ),
        refused_with("gzip, chunked", CODING, post("Transfer-Encoding: gzip, chunked", body), &[501]),
        refused_with("identity alone", CODING, post("Transfer-Encoding: identity", body), &[400, 501]),
        refused_with("gzip alone", CODING, post("Transfer-Encoding: gzip", body), &[400, 501]),
        refused_with(
            "chunked in HTTP/1.0",
            CODING,
            format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
            &[400, 501],
        ),
    ]
}

fn chunks() -> Vec<Case> {
    const CHUNK: &str = "RFC 9112, 7.1";
    let chunked = |content: &str| post("Transfer-Encoding: chunked", content);
    let refuse = |name, content: &str| refused_with(name, CHUNK, chunked(content), BAD);
    vec![
        served("several chunks", CHUNK, chunked("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), "abc"),
        served("upper-case size", CHUNK, chunked("A\r\n0123456789\r\n0\r\n\r\n"), "0123456789"),
        served("leading zeros", CHUNK, chunked("003\r\nabc\r\n00\r\n\r\n"), "abc"),
        served("an extension", "RFC 9112, 7.1.1", chunked("3;a=b\r\nabc\r\n0\r\n\r\n"), "abc"),
        served("an extension in quotes", "RFC 9112, 7.1.1", chunked("3;a=\"b;c\"\r\nabc\r\n0;x\r\n\r\n"), "abc"),
        served("only the last chunk", CHUNK, chunked("0\r\n\r\n"), ""),
        served("16 digits", CHUNK, chunked("0000000000000003\r\nabc\r\n0\r\n\r\n"), "abc"),
        served("white space around an extension's sign", CHUNK, chunked("3; a = b\r\nabc\r\n0\r\n\r\n"), "abc"),
        refuse("17 digits", "00000000000000003\r\nabc\r\n0\r\n\r\n"),
        refuse("17 digits of the last chunk", "3\r\nabc\r\n00000000000000000\r\n\r\n"),
        refuse("white space before an extension", "3 ;a=b\r\nabc\r\n0\r\n\r\n"),
        refuse("an extension without a name", "3;\r\nabc\r\n0\r\n\r\n"),
        refuse("an extension with a bracket", "3;a[=b\r\nabc\r\n0\r\n\r\n"),
        refuse("words without a semicolon", "3 a\r\nabc\r\n0\r\n\r\n"),
        refuse("a sign", "+3\r\nabc\r\n0\r\n\r\n"),
        refuse("a minus sign", "-3\r\nabc\r\n0\r\n\r\n"),
        refuse("0x", "0x3\r\nabc\r\n0\r\n\r\n"),
        refuse("an underscore", "0_3\r\nabc\r\n0\r\n\r\n"),
        refuse("no digit", "\r\nabc\r\n0\r\n\r\n"),
        refuse("a letter past F", "g\r\nabc\r\n0\r\n\r\n"),
        refuse("a space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
        refuse("a space after the size", "3 \r\nabc\r\n0\r\n\r\n"),
        refuse("a tab after the size", "3\t\r\nabc\r\n0\r\n\r\n"),
        refuse("a size past 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
        refused_with("a size of 64 bits", CHUNK, chunked("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), &[400, 413]),
        refuse("bare LF after the size", "3\nabc\r\n0\r\n\r\n"),
        refuse("bare CR after the size", "3\rabc\r\n0\r\n\r\n"),
        refuse("bare LF after the content", "3\r\nabc\n0\r\n\r\n"),
        refuse("other bytes after the content", "3\r\nabcXX0\r\n\r\n"),
        refuse("a chunk longer than its size", "2\r\nabc\r\n0\r\n\r\n"),
        refuse("bare LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"),
        refuse("bare CR in an extension", "3;a\rb\r\nabc\r\n0\r\n\r\n"),
        refuse("a NUL in an extension", "3;a\0\r\nabc\r\n0\r\n\r\n"),
        refuse("CRLF in a quoted extension", "3;a=\"\r\n\"\r\nabc\r\n0\r\n\r\n"),
        refused_with(
            "an extension of 100,000 bytes",
            "RFC 9112, 7.1.1",
            chunked(&format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(100_000))),
            &[400, 413, 431],
        ),
        refused_with(
            "100,000 leading zeros",
            CHUNK,
            chunked(&format!("{}3\r\nabc\r\n0\r\n\r\n", "0".repeat(100_000))),
            &[400, 413, 431],
        ),
        refused_with("a chunk past the limit of content", "RFC 9110, 15.5.14", chunked("fffffffffff\r\nabc"), &[413]),
    ]
}

fn trailers() -> Vec<Case> {
    const TRAILER: &str = "RFC 9112, 7.1.2";
    let with = |trailers: &str| post("Transfer-Encoding: chunked", &format!("3\r\nabc\r\n0\r\n{trailers}\r\n"));
    let refuse = |name, trailers: &str| refused_with(name, TRAILER, with(trailers), BAD);
    vec![
        served("a trailer", TRAILER, with("X-A: b\r\n"), "abc"),
        served("two trailers", TRAILER, with("X-A: b\r\nX-B: c\r\n"), "abc"),
        refuse("a trailer without a colon", "X-A\r\n"),
        refuse("a trailer with a space before the colon", "X-A : b\r\n"),
        refuse("a trailer with a NUL", "X-A: b\0\r\n"),
        refuse("a trailer ended by bare LF", "X-A: b\n"),
        refuse("Content-Length in a trailer", "Content-Length: 3\r\n"),
        refuse("Transfer-Encoding in a trailer", "Transfer-Encoding: chunked\r\n"),
        refuse("Host in a trailer", "Host: b\r\n"),
        refuse("bare LF ends the trailers", "X-A: b\r\n\n"),
        refuse("a folded trailer", "X-A: b\r\n c\r\n"),
        refuse("a bare CR in a trailer", "X-A: b\rc\r\n"),
        refuse("Authorization in a trailer", "Authorization: Basic eDp5\r\n"),
        refuse("Content-Type in a trailer", "Content-Type: text/html\r\n"),
        refused_with("a trailer of 100,000 bytes", TRAILER, with(&format!("X: {}\r\n", "a".repeat(100_000))), &[431]),
        refused_with("2,000 trailers", TRAILER, with(&"X: a\r\n".repeat(2_000)), &[431]),
        Case {
            name: "the request after a trailer is read",
            section: TRAILER,
            send: format!("{}GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n", with("X-A: b\r\n")).into(),
            heads: &[],
            expect: Expect::Served(vec![(200, Some(b"abc".to_vec())), (200, Some(b"012".to_vec()))]),
        },
    ]
}

/// Unexpected content: a front-end that ignores it would parse it as requests.
fn content_without_meaning() -> Vec<Case> {
    const READING: &str = "RFC 9110, 9.3.1";
    let request = |method: &str, fields: &str| format!("{method} /bytes/3 HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let hidden = request("GET", "X: y");
    let with_hidden = |method| request(method, &format!("Content-Length: {}", hidden.len())) + &hidden + &hidden;
    let closed = |name, heads, send: String, content: &str| {
        let expect = Expect::ServedThenClosed(vec![(200, Some(content.as_bytes().to_vec()))]);
        Case { name, section: READING, send: send.into(), heads, expect }
    };
    vec![
        closed("a request inside the content of GET", &[], with_hidden("GET"), "012"),
        closed("a request inside the content of HEAD", &[0], with_hidden("HEAD"), ""),
        closed("GET whose content does not come", &[], request("GET", "Content-Length: 5"), "012"),
        served("GET with content of no length", READING, request("GET", "Content-Length: 0"), "012"),
        refused_with("GET with chunks", READING, request("GET", "Transfer-Encoding: chunked") + "0\r\n\r\n", BAD),
        refused_with("GET whose chunks do not come", READING, request("GET", "Transfer-Encoding: chunked"), BAD),
        Case {
            name: "a request inside the content of a method that is not implemented",
            section: "RFC 9112, 9.3",
            send: (request("PUT", &format!("Content-Length: {}", hidden.len())) + &hidden + &hidden).into(),
            heads: &[],
            expect: Expect::Served(vec![(501, None), (200, Some(b"012".to_vec()))]),
        },
        Case {
            name: "chunks that nobody wanted",
            section: "RFC 9112, 9.3",
            send: (request("PUT", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n" + &hidden).into(),
            heads: &[],
            expect: Expect::Served(vec![(501, None), (200, Some(b"012".to_vec()))]),
        },
        refused_with(
            "bad chunks that nobody wanted",
            "RFC 9112, 7.1",
            request("PUT", "Transfer-Encoding: chunked") + "zz\r\n",
            BAD,
        ),
        refused_with(
            "TRACE with content",
            "RFC 9110, 9.3.8",
            request("TRACE", "Content-Length: 3") + "abc",
            &[400, 501],
        ),
        refused_with(
            "CONNECT with content",
            "RFC 9110, 9.3.6",
            "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\nabc",
            &[400, 501],
        ),
    ]
}

/// Fields that some parsers treat as framing fields.
fn lookalikes() -> Vec<Case> {
    const ALIKE: &str = "RFC 9112, 11.2";
    let refuse = |name, field: &str| refused_with(name, ALIKE, post(field, "abc"), BAD);
    vec![
        refuse("a length with an underscore", "Content_Length: 3"),
        refuse("a length with an underscore beside a real one", "Content-Length: 3\r\nContent_Length: 99"),
        refuse("a length with a dot", "Content.Length: 3"),
        refuse("a length with two hyphens", "Content--Length: 3"),
        refuse("a length behind an apostrophe", "'Content-Length: 3"),
        refuse("a coding with an underscore", "Transfer_Encoding: chunked"),
        refuse("a coding with three underscores", "transfer___encoding: chunked"),
        refuse("a coding with three hyphens", "Transfer---Encoding: chunked"),
        refuse("a coding with a hyphen behind it", "Transfer-Encoding-: chunked"),
        refuse("a coding with a tab", "Transfer\tEncoding: chunked"),
        served("other fields with underscores", ALIKE, post("X_Forwarded_For_A: b\r\nContent-Length: 3", "abc"), "abc"),
        served("a length in a longer name", ALIKE, post("X-Content-Length: 99\r\nContent-Length: 3", "abc"), "abc"),
        refuse("two media types", "Content-Type: text/plain\r\nContent-Length: 3\r\nContent-Type: text/html"),
        served(
            "the same media type twice",
            "RFC 9110, 5.3",
            post("Content-Type: text/plain\r\nContent-Type: text/plain\r\nContent-Length: 3", "abc"),
            "abc",
        ),
    ]
}
