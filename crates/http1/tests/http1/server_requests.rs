//! The server's parsing of requests, whole and segmented in every way.

use RefusalReason::*;
use breme_base::Random;
use breme_http::{Limits, RefusalReason};
use proptest::prelude::*;

use crate::transcript::{Answer, Even, check_that_it_stays_one_message, serve, serve_every_way, small_limits};

#[track_caller]
fn check_with(limits: &Limits, input: &str, expected: &[&str]) {
    let mut random = Random::new(input.len() as u64);
    for _ in 0..8 {
        let cuts: Vec<u8> = (0..16).map(|_| random.next_u64() as u8).collect();
        let served = serve_every_way(input.as_bytes(), limits, &cuts);
        assert_eq!(served.events, expected, "{input:?}");
        if expected.last() == Some(&"over") {
            for request in &served.requests {
                check_that_it_stays_one_message(request, limits);
            }
        }
    }
}

#[track_caller]
fn check(input: &str, expected: &[&str]) {
    check_with(&Limits::default(), input, expected);
}

/// The last event is this refusal.
#[track_caller]
fn refused_with(limits: &Limits, input: &str, reason: RefusalReason) {
    let served = serve_every_way(input.as_bytes(), limits, &[3, 1, 16]);
    let expected = format!("refused {} {reason:?}", reason.status());
    assert_eq!(served.events.last(), Some(&expected), "{input:?}");
    let sent = String::from_utf8(served.sent).unwrap();
    let version = if limits.http10_only { "HTTP/1.0" } else { "HTTP/1.1" };
    let status_line = format!("{version} {} ", reason.status());
    let answer = &sent[sent.rfind(&status_line).unwrap_or_else(|| panic!("{status_line}: {sent}"))..];
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
}

#[track_caller]
fn refused(input: &str, reason: RefusalReason) {
    refused_with(&Limits::default(), input, reason);
}

/// A head with these lines.
fn get(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

#[test]
fn handles_empty_input() {
    check("", &["over"]);
    check("\r\n", &["over"]);
    refused("G", Truncated);
    refused("\r", BadRequestLine);
}

#[test]
fn allows_one_empty_line_before_a_request() {
    check("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["GET / @a", "over"]);
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n", &["GET / @a", "GET / @b", "over"]);
    check(&format!("\r\n{}\r\n{}", get(""), get("")), &["GET / @a", "GET / @a", "over"]);
    refused("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
    refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareLineFeed);
    refused("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareCarriageReturn);
}

#[test]
fn authority_comes_from_target_or_host() {
    check("GET /a?b HTTP/1.1\r\nHost: h.example:81\r\n\r\n", &["GET /a?b @h.example:81", "over"]);
    check("GET http://real/x HTTP/1.1\r\nHost: other\r\n\r\n", &["GET http://real/x @real", "over"]);
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &["OPTIONS * @a", "over"]);
    check("CONNECT a:443 HTTP/1.1\r\nHost: b\r\n\r\n", &["CONNECT a:443 @a:443", "over"]);
    check("GET / HTTP/1.0\r\n\r\n", &["GET /", "over"]);
    check("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", &["BREW /pot @a", "over"]);
    refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n", BadTargetForm);
    refused("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", BadTargetForm);
    refused("GET http://u@real/x HTTP/1.1\r\nHost: other\r\n\r\n", BadTargetAuthority);
    refused("GET http://real/x HTTP/1.1\r\n\r\n", MissingHost);
    refused("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", BadTarget);
    refused("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", BadTarget);
    refused("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BadVersion);
    refused("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", BadTargetAuthority);
}

#[test]
fn versions() {
    check("GET / HTTP/1.9\r\nHost: a\r\nX: y\r\n\r\n", &["GET / @a", "over"]);
    refused("GET / HTTP/1.2\r\n\r\n", MissingHost);
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", UnsupportedVersion);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", UnsupportedVersion);
    refused("GET / HTTP/0.9\r\n\r\n", UnsupportedVersion);
    refused("GET / http/1.1\r\nHost: a\r\n\r\n", BadVersion);
    refused("GET / HTTP/1.\r\nHost: a\r\n\r\n", BadVersion);
    refused("GET / HTTP/1.10\r\nHost: a\r\n\r\n", BadVersion);
    refused("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", BadVersion);
    refused("GET /\r\n", BadRequestLine);
}

#[test]
fn requires_crlf_line_ends() {
    refused("GET / HTTP/1.1\nHost: a\n\n", BareLineFeed);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", BareLineFeed);
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n", BareLineFeed);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\n", BareLineFeed);
    refused("GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n", BareLineFeed);
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: z\r\n\r\n", BareCarriageReturn);
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n", BareCarriageReturn);
    refused("GET / HTTP/1.1\rHost: a\r\r", BareCarriageReturn);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n", BareCarriageReturn);
}

#[test]
fn field_lines() {
    let accepted = get("A:\r\nB: \t x \t\r\n!#$%&'*+-.^_`|~09aZ: \t\u{e9}\t~\r\n");
    check(&accepted, &["GET / @a", "over"]);
    let served = serve(accepted.as_bytes(), &mut Even(1), &Limits::default(), Answer::AtEnd);
    let values: Vec<&[u8]> = served.requests[0].fields.iter().map(|(_, value)| &value[..]).collect();
    assert_eq!(values, [b"a" as &[u8], b"", b"x", b"\xc3\xa9\t~"]);

    refused(&get("A : b\r\n"), SpaceBeforeColon);
    refused(&get("A\t: b\r\n"), SpaceBeforeColon);
    refused(&get("A B: b\r\n"), SpaceBeforeColon);
    refused(&get(": b\r\n"), EmptyFieldName);
    refused(&get("A\r\n"), MissingColon);
    refused(&get("A: b\r\n c\r\n"), ObsoleteFold);
    refused(&get("A: b\r\n\tc\r\n"), ObsoleteFold);
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", ObsoleteFold);
    refused(&get("A(b): c\r\n"), BadFieldName);
    refused(&get("A\0: c\r\n"), BadFieldName);
    refused(&get("\u{e9}: c\r\n"), BadFieldName);
    for control in (0..=0x1f_u8).chain([0x7f]).filter(|byte| !b"\t\r\n".contains(byte)) {
        refused(&get(&format!("A: b{}c\r\n", char::from(control))), BadFieldValue);
        refused(&get(&format!("A: {}\r\n", char::from(control))), BadFieldValue);
    }
}

#[test]
fn hosts() {
    check("GET / HTTP/1.0\r\nHost: a\r\n\r\n", &["GET / @a", "over"]);
    check("GET / HTTP/1.1\r\nhOST:\ta:80 \r\n\r\n", &["GET / @a:80", "over"]);
    check("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", &["GET / @[2001:db8::1]:80", "over"]);
    refused("GET / HTTP/1.1\r\n\r\n", MissingHost);
    refused("GET / HTTP/1.1\r\nX-Host: a\r\n\r\n", MissingHost);
    refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", SeveralHosts);
    refused("GET / HTTP/1.0\r\nHost: a\r\nHOST: b\r\n\r\n", SeveralHosts);
    for bad in [
        "", " ", "a b", "a, b", "a,b", "u@a", "a/", "a?b", "a#b", "http://a", "a:x", "a:65536", "a:-1", ":80", "[::1",
        "a\\b",
    ] {
        refused(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), BadHost);
        refused(&format!("GET / HTTP/1.0\r\nHost: {bad}\r\n\r\n"), BadHost);
    }
}

#[test]
fn lengths() {
    let post = |lines: &str, rest: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n{rest}");
    check(&post("Content-Length: 5\r\n", "hello"), &["POST / @a length 5", "content hello", "end", "over"]);
    check(&post("Content-Length: 0\r\n", ""), &["POST / @a length 0", "over"]);
    check(&post("", ""), &["POST / @a", "over"]);
    check(
        &post("content-length:3 \r\n", "abcGET / HTTP/1.1\r\nHost: b\r\n\r\n"),
        &["POST / @a length 3", "content abc", "end", "GET / @b", "over"],
    );
    check(
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        &["GET / @a length 2", "content hi", "end", "over"],
    );
    check("GET / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi", &["GET / length 2", "content hi", "end", "over"]);
    for bad in [
        "",
        "-1",
        "+1",
        "1 1",
        "1,1",
        "5, 5",
        "0x5",
        "5_0",
        "5.0",
        "1e1",
        "5;",
        "\"5\"",
        "05",
        "00",
        "18446744073709551616",
        "99999999999999999999",
    ] {
        refused(&post(&format!("Content-Length: {bad}\r\n"), "hello"), BadContentLength);
    }
    refused(&post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), SeveralContentLengths);
    refused(&post("Content-Length: 5\r\nContent-length: 6\r\n", "hello"), SeveralContentLengths);
    refused(&post("Content-Length: 5\r\n", "hell"), Truncated);
    refused(&post("Content-Length: 9999999999999999999\r\n", ""), ContentTooLarge);
    refused_with(&small_limits(), &post("Content-Length: 65\r\n", ""), ContentTooLarge);
}

#[test]
fn transfer_codings() {
    let post = |lines: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n5\r\nhello\r\n0\r\n\r\n");
    let accepted = ["POST / @a chunked", "content hello", "end", "over"];
    check(&post("Transfer-Encoding: chunked\r\n"), &accepted);
    check(&post("transfer-encoding:CHUNKED \t\r\n"), &accepted);
    refused(&post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), LengthWithCoding);
    refused(&post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), LengthWithCoding);
    refused(&post("Content-Length: 5\r\nTransfer-Encoding: identity\r\n"), LengthWithCoding);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", CodingInHttp10);
    for unknown in ["gzip, chunked", "gzip,deflate ,chunked", "x;a=b, chunked", "identity, chunked"] {
        refused(&post(&format!("Transfer-Encoding: {unknown}\r\n")), UnknownTransferCoding);
    }
    refused(&post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), UnknownTransferCoding);
    for bad in [
        "",
        "gzip",
        "identity",
        "chunked, gzip",
        "chunked, chunked",
        "xchunked",
        "chunkedx",
        "chunked;foo",
        "chunked;a=b",
        "chunked;a=b, chunked",
        "\"chunked\"",
        ", chunked",
        "chunked,",
        "chunked, identity",
        "chunked chunked",
        "'chunked'",
        "gzip;a=\"b\", chunked",
        "cow\u{a0}, chunked",
        "[chunked]",
    ] {
        refused(&post(&format!("Transfer-Encoding: {bad}\r\n")), BadTransferCoding);
    }
    refused(&post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), BadTransferCoding);
    refused(&post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), BadTransferCoding);
    refused(&post("Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n"), BadTransferCoding);
    refused(&post("Transfer-Encoding: \x0bchunked\r\n"), BadFieldValue);
    refused(&post("Transfer-Encoding : chunked\r\n"), SpaceBeforeColon);
    refused(&post("Transfer-Encoding:\r\n chunked\r\n"), ObsoleteFold);
}

#[test]
fn next_request_follows_last_chunk() {
    let post = |chunks: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    check(
        &post("3;x=\"\\\"y\"\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n"),
        &["POST / @a chunked", "content abcde", "trailer X-Sum: 1", "end", "GET / @b", "over"],
    );
    refused(&post("3 \r\nabc\r\n0\r\n\r\n"), BadChunkSize);
    refused(&post("3\nabc\r\n0\r\n\r\n"), BareLineFeed);
    refused(&post("3\r\nabcX"), BadChunkEnd);
    refused(&post("3;a=\"\n\"\r\nabc"), BareLineFeed);
    refused(&post("0\r\nContent-Length: 4\r\n\r\n"), ForbiddenTrailer);
    refused(&post("3\r\nabc\r\n"), Truncated);
    refused(&post("3\r\nabc\r\n0\r\nX: y"), Truncated);
    refused_with(&small_limits(), &post("20\r\n01234567890123456789012345678901\r\n21\r\n0"), ContentTooLarge);
    refused_with(&small_limits(), &post(&format!("1;{}\r\n", "x".repeat(40))), ChunkLineTooLong);
    refused_with(&small_limits(), &post(&format!("0\r\nX: {}\r\n\r\n", "x".repeat(300))), TrailerTooLarge);
}

#[test]
fn rejects_lookalike_framing_fields() {
    let post = |line: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
    for name in [
        "Content_Length",
        "content_length",
        "CONTENT.LENGTH",
        "Content--Length",
        "_Content-Length",
        "Content-Length_",
        "Transfer_Encoding",
        "transfer---encoding",
        "Transfer!Encoding",
        "'Transfer-Encoding'",
    ] {
        refused(&post(&format!("{name}: 3")), LookalikeField);
        refused(&post(&format!("Content-Length: 0\r\n{name}: 3")), LookalikeField);
    }
    for name in [
        "ContentLength",
        "X-Content-Length",
        "Content-Length-Hint",
        "Content-Encoding",
        "Content-Disposition",
        "Con-tent-Length",
        "Transfer_Encodings",
        "TE_Transfer-Encoding",
        "2Content_Length",
        "X_Forwarded_For_Somebody",
    ] {
        check(&post(&format!("{name}: 3")), &["POST / @a", "over"]);
    }
}

#[test]
fn rejects_differing_content_types() {
    let post = |lines: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let same = "Content-Type: text/plain\r\nX: y\r\ncontent-type:text/plain \r\n";
    check(&post(same), &["POST / @a", "over"]);
    refused(&post("Content-Type: text/plain\r\nX: y\r\ncontent-type: text/html\r\n"), SeveralContentTypes);
    refused(&post("Content-Type: a/b\r\nContent-Type: a/b\r\nContent-Type:\r\n"), SeveralContentTypes);
}

#[test]
fn rejects_content_for_trace_and_connect() {
    check("TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", &["TRACE / @a length 0", "over"]);
    refused("TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", ContentNotAllowed);
    refused("TRACE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ContentNotAllowed);
    refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", ContentNotAllowed);
    refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", ContentNotAllowed);
}

#[test]
fn expectations() {
    let post = |version: &str, lines: &str| format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
    let with_content =
        |version, expect: &str| post(version, &format!("Content-Length: 1\r\nExpect: {expect}\r\n")) + "x";
    check(&with_content("1.1", "100-Continue"), &["POST / @a length 1 expects", "content x", "end", "over"]);
    check(
        &with_content("1.1", "100-continue, 100-continue"),
        &["POST / @a length 1 expects", "content x", "end", "over"],
    );
    check(&with_content("1.0", "100-continue"), &["POST / @a length 1", "content x", "end", "over"]);
    check(&with_content("1.0", "miracles"), &["POST / @a length 1", "content x", "end", "over"]);
    check(&post("1.1", "Expect: 100-continue\r\n"), &["POST / @a", "over"]);
    refused(&with_content("1.1", "miracles"), UnknownExpectation);
    refused(&with_content("1.1", "100-continue, miracles"), UnknownExpectation);
    refused(&post("1.1", "Expect: 200-ok\r\n"), UnknownExpectation);
}

#[test]
fn reports_upgrade_requests() {
    check(&get("Upgrade: websocket, h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"), &["GET / @a", "over"]);
}

#[test]
fn persistence() {
    let twice = |first: &str| format!("{first}GET /second HTTP/1.1\r\nHost: b\r\n\r\n");
    let stays = |first: &str| check(&twice(first), &[&head(first), "GET /second @b", "over"]);
    let closes = |first: &str| check(&twice(first), &[&head(first), "over"]);
    fn head(request: &str) -> String {
        if request.contains("Host: a") { "GET / @a".to_owned() } else { "GET /".to_owned() }
    }
    stays(&get(""));
    stays(&get("Connection: keep-alive\r\n"));
    stays(&get("Connection: \"a, close\"\r\n"));
    closes(&get("Connection: close\r\n"));
    closes(&get("Connection: CLOSE\r\n"));
    closes(&get("Connection: x , close,y\r\n"));
    closes(&get("Connection: x\r\nConnection: close\r\n"));
    closes(&get("Connection: keep-alive, close\r\n"));
    closes("GET / HTTP/1.0\r\n\r\n");
    closes("GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n");
    stays("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    let limits = Limits { requests_max: 1, ..Limits::default() };
    check_with(&limits, &twice(&get("")), &["GET / @a", "over"]);
}

#[test]
fn supports_http10_only_mode() {
    let limits = Limits { http10_only: true, ..Limits::default() };
    let check = |input: &str, expected: &[&str]| check_with(&limits, input, expected);
    check(&(get("") + &get("")), &["GET / @a", "over"]);
    check(&(get("Connection: keep-alive\r\n") + &get("")), &["GET / @a", "GET / @a", "over"]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    refused_with(&limits, post, UnknownTransferCoding);
    let waiting = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx";
    check(waiting, &["POST / @a length 1", "content x", "end", "over"]);
}

#[test]
fn enforces_head_limits() {
    let limits = small_limits();
    let target = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(len - 1));
    check_with(&limits, &target(64), &[&format!("GET /{} @a", "x".repeat(63)), "over"]);
    refused_with(&limits, &target(65), TargetTooLong);
    refused_with(&limits, &format!("GET /{}", "x".repeat(70)), TargetTooLong);
    refused_with(&limits, &"M".repeat(33), MethodTooLong);
    refused_with(&limits, &format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(33)), MethodTooLong);
    let wide_target = Limits { target_bytes_max: 10_000, ..small_limits() };
    refused_with(&wide_target, &target(300), TargetTooLong);
    refused_with(&wide_target, &format!("GET /{}", "x".repeat(300)), TargetTooLong);

    refused_with(&wide_target, &format!("G@T /{}", "x".repeat(300)), BadMethod);

    let field = |len: usize| get(&format!("X: {}\r\n", "y".repeat(len - "X: \r\n".len() - get("").len())));
    check_with(&limits, &field(256), &["GET / @a", "over"]);
    refused_with(&limits, &field(257), HeadTooLarge);
    refused_with(&limits, &field(400)[..300], HeadTooLarge);
    check_with(&limits, &get(&"X: y\r\n".repeat(7)), &["GET / @a", "over"]);
    refused_with(&limits, &get(&"X: y\r\n".repeat(8)), TooManyFields);
    let boundless = Limits { field_count_max: usize::MAX, head_bytes_max: usize::MAX, ..Limits::default() };
    check_with(&boundless, &get(&"X: y\r\n".repeat(255)), &["GET / @a", "over"]);
    refused_with(&boundless, &get(&"X: y\r\n".repeat(256)), TooManyFields);
}

proptest! {
    /// Requests generated from the grammar are accepted unchanged, however they are segmented.
    #[test]
    fn accepts_everything_the_grammar_allows(
        method in "[A-Z]{1,12}",
        path in "/[a-zA-Z0-9/._~!$&'()*+,;=:@%-]{0,40}",
        names in proptest::collection::vec("X-[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,12}", 0..6),
        value in "([!-~\u{80}-\u{ff}]([ \t!-~]{0,20}[!-~])?)?",
        content in proptest::collection::vec(any::<u8>(), 0..60),
        chunk_bytes in 1_usize..20,
        chunked in any::<bool>(),
        cuts in proptest::collection::vec(any::<u8>(), 1..20),
    ) {
        prop_assume!(method != "CONNECT" && method != "TRACE");
        let mut input = format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n").into_bytes();
        for name in &names {
            input.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if chunked {
            input.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in content.chunks(chunk_bytes) {
                input.extend_from_slice(format!("{:X};n=v\r\n", chunk.len()).as_bytes());
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\nX-Trailer: t\r\n\r\n");
        } else {
            input.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
            input.extend_from_slice(&content);
        }
        let served = serve_every_way(&input, &Limits::default(), &cuts);
        prop_assert_eq!(served.events.last().map(String::as_str), Some("over"));
        prop_assert_eq!(served.requests.len(), 1);
        let request = &served.requests[0];
        prop_assert_eq!(&request.method, &method);
        prop_assert_eq!(&request.target, &path);
        prop_assert_eq!(&request.content, &content);
        for (name, field) in names.iter().zip(&request.fields[1..]) {
            prop_assert_eq!((name.as_str(), value.as_bytes()), (field.0.as_str(), &field.1[..]));
        }
        check_that_it_stays_one_message(request, &Limits::default());
    }
}
