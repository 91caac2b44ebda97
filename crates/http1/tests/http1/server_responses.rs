//! The responses of the server, and how it drains unwanted content.

use std::sync::Arc;

use breme_http::{Field, FieldBlock, Framing, Limits, Refusal, RefusalReason, ResponseFields, reason_phrase};
use breme_http1::{FieldStorage, Progress, ResponseBody, ServerConnection};

use crate::transcript::{DATE, small_limits};

/// A connection that has just parsed this head; the input contains nothing else.
fn received(head: &str, limits: &Limits) -> ServerConnection {
    let mut connection = ServerConnection::new();
    step(&mut connection, head.as_bytes(), limits);
    assert!(connection.has_response_due());
    connection
}

/// One call, named by its result.
fn step(connection: &mut ServerConnection, input: &[u8], limits: &Limits) -> String {
    match connection.receive(input, false, limits, &mut FieldStorage::new()) {
        Ok(Progress::NeedMore { taken }) => format!("more {taken}"),
        Ok(Progress::Head { taken, .. }) => format!("head {taken}"),
        Ok(Progress::Content { bytes, taken }) => format!("content {} {taken}", bytes.escape_ascii()),
        Ok(Progress::Trailer { field, taken }) => format!("trailer {} {taken}", field.name),
        Ok(Progress::End { taken }) => format!("end {taken}"),
        Ok(Progress::Blocked) => "blocked".to_owned(),
        Ok(Progress::Over) => "over".to_owned(),
        Err(refusal) => format!("refused {:?}", refusal.reason),
    }
}

#[test]
fn trailers_require_chunked_coding() {
    for (request, expected) in [(GET, "2\r\nok\r\n0\r\nX-A: b\r\n\r\n"), (OLD, "ok")] {
        let mut connection = received(request, &Limits::default());
        let mut out = Vec::new();
        assert_eq!(connection.relay(200, Framing::Chunked, &mut out).end(), ResponseBody::Expected);
        out.clear();
        connection.chunk(b"ok", &mut out);
        for (name, value) in [("X-A", "b"), ("Content-Length", "7")] {
            connection.relay_trailer(Field { name, value: value.as_bytes() }, &mut out);
        }
        assert!(connection.has_response_due());
        connection.end_chunks(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!connection.has_response_due());
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OLD: &str = "GET / HTTP/1.0\r\n\r\n";
const OLD_STAYS: &str = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";

#[track_caller]
fn check(request: &str, limits: &Limits, status: u16, framing: Framing, expected: &str, content: ResponseBody) {
    let mut connection = received(request, limits);
    let mut out = Vec::new();
    assert_eq!(connection.respond(status, framing, DATE, &mut out).end(), content);
    let head = String::from_utf8(out).unwrap();
    let fields =
        head.strip_suffix(&format!("Date: {}\r\n\r\n", String::from_utf8_lossy(DATE))).expect("Date stands last");
    assert_eq!(fields, expected);
    assert_eq!(connection.has_response_due(), content == ResponseBody::Expected);
}

#[test]
fn frames_each_response() {
    use Framing::{Chunked, Length, None, UntilClose};
    use ResponseBody::{Expected, Omitted};
    let check_http = |request, status, framing, expected: &str, content| {
        check(request, &Limits::default(), status, framing, expected, content);
    };
    check_http(GET, 200, Length(5), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Expected);
    check_http(GET, 200, Length(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", Omitted);
    check_http(GET, 404, None, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n", Omitted);
    check_http(GET, 204, Length(5), "HTTP/1.1 204 No Content\r\n", Omitted);
    check_http(GET, 204, Chunked, "HTTP/1.1 204 No Content\r\n", Omitted);
    check_http(GET, 205, Length(5), "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n", Omitted);
    check_http(GET, 304, None, "HTTP/1.1 304 Not Modified\r\n", Omitted);
    check_http(GET, 304, Length(7), "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n", Omitted);
    check_http(GET, 200, Chunked, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", Expected);
    check_http(GET, 200, UntilClose, "HTTP/1.1 200 OK\r\nConnection: close\r\n", Expected);
    check_http(GET, 799, Length(1), "HTTP/1.1 799 \r\nContent-Length: 1\r\n", Expected);
    check_http(HEAD, 200, Length(5), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Omitted);
    check_http(HEAD, 200, Chunked, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", Omitted);
    check_http(HEAD, 200, None, "HTTP/1.1 200 OK\r\n", Omitted);
    check_http(OLD, 200, Length(5), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n", Expected);
    check_http(
        OLD_STAYS,
        200,
        Length(5),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n",
        Expected,
    );
    check_http(OLD_STAYS, 200, Chunked, "HTTP/1.1 200 OK\r\nConnection: close\r\n", Expected);

    let old_build = Limits { http10_only: true, ..Limits::default() };
    check(GET, &old_build, 200, Length(1), "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n", Expected);
    let stays = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    check(
        stays,
        &old_build,
        200,
        Length(1),
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n",
        Expected,
    );
    check(stays, &old_build, 200, Chunked, "HTTP/1.0 200 OK\r\nConnection: close\r\n", Expected);
    let last = Limits { requests_max: 1, ..Limits::default() };
    check(GET, &last, 200, Length(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n", Omitted);
}

#[test]
fn writes_response_fields() {
    let mut connection = received(GET, &Limits::default());
    let mut block = FieldBlock::new();
    block.push("Server", b"breme").unwrap();
    let mut out = Vec::new();
    let mut response = connection.respond(200, Framing::Length(0), DATE, &mut out);
    response.block(&block);
    response.field("X", b"y").unwrap();
    for (name, value) in [
        ("X", "a\r\nSet-Cookie: b"),
        ("X\r\n", "a"),
        ("X", "\0"),
        ("Content-Length", "9"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(response.field(name, value.as_bytes()).unwrap_err().name, name);
    }
    assert_eq!(response.end(), ResponseBody::Omitted);
    assert!(String::from_utf8(out).unwrap().ends_with(" GMT\r\nServer: breme\r\nX: y\r\n\r\n"));
}

#[test]
fn writes_chunks() {
    let chunks = |request: &str| {
        let mut connection = received(request, &Limits::default());
        let mut out = Vec::new();
        assert_eq!(connection.respond(200, Framing::Chunked, DATE, &mut out).end(), ResponseBody::Expected);
        out.clear();
        for bytes in [&b"hello"[..], b"", &[b'x'; 17]] {
            connection.chunk(bytes, &mut out);
        }
        connection.end_chunks(&mut out);
        assert!(!connection.has_response_due());
        (String::from_utf8(out).unwrap(), connection.will_close())
    };
    let x = "x".repeat(17);
    assert_eq!(chunks(GET), (format!("5\r\nhello\r\n11\r\n{x}\r\n0\r\n\r\n"), false));
    assert_eq!(chunks(OLD_STAYS), (format!("hello{x}"), true));
}

#[test]
fn next_request_waits_for_the_response() {
    let limits = Limits::default();
    let mut connection = received(GET, &limits);
    let mut out = Vec::new();
    assert_eq!(step(&mut connection, GET.as_bytes(), &limits), "blocked");
    assert_eq!(connection.respond(200, Framing::Length(1), DATE, &mut out).end(), ResponseBody::Expected);
    assert_eq!(step(&mut connection, GET.as_bytes(), &limits), "blocked");
    connection.content_sent();
    assert!(connection.is_idle());
    assert_eq!(step(&mut connection, GET.as_bytes(), &limits), format!("head {}", GET.len()));
    assert_eq!(connection.request_count(), 2);
}

fn answer_at_once(connection: &mut ServerConnection) -> String {
    let mut out = Vec::new();
    assert_eq!(connection.respond(404, Framing::None, DATE, &mut out).end(), ResponseBody::Omitted);
    String::from_utf8(out).unwrap()
}

#[test]
fn drains_unread_content_up_to_a_limit() {
    let limits = small_limits(); // drains 32 bytes
    let post = |length| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");

    let mut connection = received(&post(10), &limits);
    assert_eq!(step(&mut connection, b"01", &limits), "content 01 2");
    assert!(!answer_at_once(&mut connection).contains("close"));
    assert!(connection.awaiting_content() && !connection.is_idle() && !connection.will_close());
    assert_eq!(step(&mut connection, b"234", &limits), "more 3");
    let rest = format!("56789{GET}");
    assert_eq!(step(&mut connection, rest.as_bytes(), &limits), format!("head {}", rest.len()));

    let mut connection = received(&post(33), &limits);
    assert!(answer_at_once(&mut connection).contains("\r\nConnection: close\r\n"));
    assert!(connection.will_close());
    assert_eq!(step(&mut connection, b"0", &limits), "over");

    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut connection = received(chunked, &limits);
    assert!(!answer_at_once(&mut connection).contains("close"));
    let rest = format!("3\r\nabc\r\n0\r\nX: y\r\n\r\n{GET}");
    assert_eq!(step(&mut connection, rest.as_bytes(), &limits), format!("head {}", rest.len()));

    let mut connection = received(chunked, &limits);
    answer_at_once(&mut connection);
    assert_eq!(step(&mut connection, b"3\r\nabc\r\n", &limits), "more 8");
    assert_eq!(step(&mut connection, b"20\r\n01234567890123456789012345678901\r\n", &limits), "over");

    let mut connection = received(chunked, &limits);
    answer_at_once(&mut connection);
    assert_eq!(step(&mut connection, b"bad", &limits), "more 3"); // a size so far
    assert_eq!(step(&mut connection, b"!", &limits), "over");
    let mut out = Vec::new();
    connection.refuse(Refusal::new(RefusalReason::ContentTimeout), DATE, &mut out);
    assert_eq!(out, b"", "the request was answered");
}

#[test]
fn drain_limit_counts_unread_content_only() {
    let limits = small_limits(); // drains 32 bytes
    let mut connection = received("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n", &limits);
    assert_eq!(step(&mut connection, b"01234567", &limits), "content 01234567 8");
    assert!(!answer_at_once(&mut connection).contains("close"));
    assert!(connection.awaiting_content());
    connection.close_after_response();
    assert_eq!(step(&mut connection, b"89", &limits), "over");
}

#[test]
fn tunnel_ends_http() {
    let connect = "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let limits = Limits::default();
    check(connect, &limits, 200, Framing::Length(3), "HTTP/1.1 200 OK\r\nConnection: close\r\n", ResponseBody::Omitted);
    // Without one, what follows may still be meant for it.
    let mut connection = received(connect, &limits);
    assert!(answer_at_once(&mut connection).contains("Connection: close\r\n"));
    assert_eq!(step(&mut connection, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &limits), "over");
}

#[test]
fn requests_share_no_state() {
    let limits = Limits::default();
    let mut connection = received(HEAD, &limits);
    answer_at_once(&mut connection);
    let mut out = Vec::new();
    connection.refuse(Refusal::new(RefusalReason::HeadTimeout), DATE, &mut out);
    assert!(out.ends_with(b"in time.\n"), "this is no answer to HEAD");
}

#[test]
fn receives_content_while_response_streams() {
    let limits = Limits::default();
    let mut connection = received("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", &limits);
    let mut out = Vec::new();
    assert_eq!(connection.respond(200, Framing::Chunked, DATE, &mut out).end(), ResponseBody::Expected);
    assert_eq!(step(&mut connection, b"ab", &limits), "content ab 2");
    connection.chunk(b"ab", &mut out);
    assert_eq!(step(&mut connection, b"cd", &limits), "content cd 2");
    assert_eq!(step(&mut connection, b"", &limits), "end 0");
    assert_eq!(step(&mut connection, b"", &limits), "blocked");
    connection.end_chunks(&mut out);
    assert!(connection.is_idle());
}

#[test]
fn sends_100_continue_at_most_once() {
    let limits = Limits::default();
    let waiting = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let mut out = Vec::new();

    let mut connection = received(waiting, &limits);
    connection.send_continue(&mut out);
    connection.send_continue(&mut out);
    assert_eq!(out, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert!(!answer_at_once(&mut connection).contains("close"), "it was told to send: its content can be drained");

    out.clear();
    let mut connection = received(waiting, &limits);
    assert_eq!(step(&mut connection, b"", &limits), "more 0");
    assert_eq!(step(&mut connection, b"a", &limits), "content a 1");
    connection.send_continue(&mut out);
    assert_eq!(out, b"", "it did not wait");

    let mut connection = received(waiting, &limits);
    assert!(answer_at_once(&mut connection).contains("\r\nConnection: close\r\n"));
    connection.send_continue(&mut out);
    assert_eq!(out, b"");
    assert_eq!(step(&mut connection, b"ab", &limits), "over");

    let mut connection = received(waiting, &limits);
    assert_eq!(connection.respond(200, Framing::Chunked, DATE, &mut Vec::new()).end(), ResponseBody::Expected);
    connection.send_continue(&mut out);
    assert_eq!(out, b"", "the final answer has begun");

    let mut connection = received(GET, &limits);
    connection.send_continue(&mut out);
    assert_eq!(out, b"");
}

#[test]
fn refusal_is_a_complete_response() {
    let refuse = |head: &[u8], limits: &Limits| {
        let mut connection = ServerConnection::new();
        let refusal = connection.receive(head, false, limits, &mut FieldStorage::new()).expect_err("it is refused");
        let mut out = Vec::new();
        connection.refuse(refusal, DATE, &mut out);
        connection.refuse(refusal, DATE, &mut out);
        assert_eq!(step(&mut connection, GET.as_bytes(), limits), "over");
        String::from_utf8(out).unwrap()
    };
    let limits = Limits::default();
    assert_eq!(
        refuse(b"GET / HTTP/1.1\r\n\r\n", &limits),
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 41\r\nConnection: close\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\r\nHTTP/1.1 requests must have a Host header.\n"
            .replace("41", &(RefusalReason::MissingHost.message().len() + 1).to_string())
    );
    assert!(refuse(b"HEAD / HTTP/1.1\r\n\r\n", &limits).ends_with("utf-8\r\n\r\n"));
    assert!(refuse(b"HEAD / HTTP/1.1\r\nX\r\n\r\n", &limits).ends_with("utf-8\r\n\r\n"));
    let old_build = Limits { http10_only: true, ..Limits::default() };
    assert!(refuse(b"GET / HTTP/3.0\r\n", &old_build).starts_with("HTTP/1.0 505 HTTP Version Not Supported\r\n"));
}

#[test]
fn no_refusal_after_response_began() {
    let limits = Limits::default();
    let mut connection = received("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &limits);
    let mut out = Vec::new();
    assert_eq!(connection.respond(200, Framing::Length(9), DATE, &mut out).end(), ResponseBody::Expected);
    out.clear();
    assert_eq!(step(&mut connection, b"x", &limits), "refused BadChunkSize");
    connection.refuse(Refusal::new(RefusalReason::BadChunkSize), DATE, &mut out);
    assert!(connection.begin_refusal(400, 1, &mut out).is_none());
    assert_eq!(out, b"");
    assert_eq!(step(&mut connection, b"", &limits), "over");
}

#[test]
fn reports_connection_state() {
    let limits = Limits::default();
    let mut connection = ServerConnection::new();
    assert!(connection.is_idle() && !connection.in_head() && !connection.awaiting_content());
    assert_eq!(step(&mut connection, b"\r\nGE", &limits), "more 2");
    assert!(!connection.is_idle() && connection.in_head());
    assert_eq!(step(&mut connection, GET.as_bytes(), &limits), format!("head {}", GET.len()));
    assert!(
        !connection.is_idle() && !connection.in_head() && connection.has_response_due() && !connection.will_close()
    );
    connection.close_after_response();
    assert!(answer_at_once(&mut connection).contains("Connection: close"));
    assert!(connection.will_close() && connection.is_idle());
    assert_eq!(step(&mut connection, GET.as_bytes(), &limits), "over");
}

#[test]
fn times_out_slow_requests() {
    let mut connection = ServerConnection::new();
    step(&mut connection, b"GET / HT", &Limits::default());
    let mut out = Vec::new();
    connection.refuse(Refusal::new(RefusalReason::HeadTimeout), DATE, &mut out);
    assert!(out.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
    assert_eq!(step(&mut connection, b"GET / HT", &Limits::default()), "over");
}

#[test]
fn fields_of_the_operator_replace_others_in_final_responses() {
    let set = Arc::new(ResponseFields::parse(["X-One: 1", "Server:"]).unwrap());
    let mut connection = ServerConnection::with_response_fields(Some(set));
    let mut written = |status: u16, lines: &[u8]| {
        step(&mut connection, GET.as_bytes(), &Limits::default());
        let mut out = Vec::new();
        if status == 103 {
            let mut writer = connection.interim(103, &mut out).unwrap();
            writer.lines(lines).unwrap();
            assert_eq!(writer.end(), ResponseBody::Expected);
        }
        let mut writer = connection.relay(status.max(200), Framing::Length(0), &mut out);
        writer.lines(lines).unwrap();
        assert_eq!(writer.end(), ResponseBody::Omitted);
        String::from_utf8(out).unwrap()
    };
    let lines = b"server: b\r\nX-one: 2\r\nX-Two: 3\r\n";
    let last = "X-One: 1\r\nX-Two: 3\r\n\r\n";
    assert_eq!(written(200, lines), format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{last}"));
    assert_eq!(written(304, lines), format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n{last}"));
    let early = "HTTP/1.1 103 Early Hints\r\nserver: b\r\nX-one: 2\r\nX-Two: 3\r\n\r\n";
    assert_eq!(written(103, lines), format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{last}"));
    let mut out = Vec::new();
    step(&mut connection, b"GET / HTTP/2.0\r\n\r\n", &Limits::default());
    connection.refuse(Refusal::new(RefusalReason::HeadTimeout), DATE, &mut out);
    assert!(String::from_utf8(out).unwrap().contains("\r\nX-One: 1\r\n"));
}

#[test]
fn knows_registered_reason_phrases() {
    for status in [400, 408, 413, 414, 417, 431, 501, 505] {
        assert_ne!(reason_phrase(status), "", "{status}");
    }
    assert_eq!(reason_phrase(299), "");
}

#[test]
fn connection_stays_small() {
    assert!(size_of::<ServerConnection>() <= 72, "{}", size_of::<ServerConnection>());
}
