//! The client's parsing of responses, whole and segmented in every way.

use breme_http::{Limits, Method};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage};

use crate::transcript::{fetch_every_way, small_limits};

#[track_caller]
fn check(methods: &[Method<'_>], input: &str, expected: &[&str]) {
    let fetched = fetch_every_way(methods, input.as_bytes(), &Limits::default(), &[1, 5, 2, 13]);
    assert_eq!(fetched.events, expected, "{input:?}");
}

#[track_caller]
fn check_get(input: &str, expected: &[&str]) {
    check(&[Method::Get], input, expected);
}

#[test]
fn reads_content_in_each_framing() {
    check_get(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        &["200 length 5 stays", "content hello", "end", "over"],
    );
    check_get("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &["200 length 0 stays", "end", "over"]);
    check_get(
        "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
        &["200 chunked stays", "content abc", "trailer X: y", "end", "over"],
    );
    check_get("HTTP/1.1 200 OK\r\n\r\nall of it", &["200 until close closes", "content all of it", "end", "over"]);
    check_get("HTTP/1.1 200 OK\r\n\r\n", &["200 until close closes", "end", "over"]);
}

#[test]
fn responses_without_content() {
    let length_9 = "Content-Length: 9\r\n\r\n";
    check(&[Method::Head], &format!("HTTP/1.1 200 OK\r\n{length_9}"), &["200 none stays", "end", "over"]);
    check_get(&format!("HTTP/1.1 204 No Content\r\n{length_9}"), &["204 none stays", "end", "over"]);
    check_get(&format!("HTTP/1.1 304 Not Modified\r\n{length_9}"), &["304 none stays", "end", "over"]);
    check(&[Method::Connect], &format!("HTTP/1.1 200 OK\r\n{length_9}"), &["200 none closes", "end", "over"]);
    check(
        &[Method::Connect],
        "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
        &["403 length 2 stays", "content no", "end", "over"],
    );
}

#[test]
fn pipelined_responses_in_order() {
    let methods = [Method::Get, Method::Head, Method::Get, Method::Head];
    check(
        &methods,
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\
         HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nbHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        &[
            "200 length 1 stays",
            "content a",
            "end",
            "200 none stays",
            "end",
            "404 length 1 stays",
            "content b",
            "end",
            "200 none stays",
            "end",
            "over",
        ],
    );
}

#[test]
fn reports_interim_responses() {
    check_get(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        &["interim 100", "interim 103", "200 length 0 stays", "end", "over"],
    );
    check_get("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", &["failed Unexpected"]);
    let some = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20) + "HTTP/1.1 204 No Content\r\n\r\n";
    let fetched = fetch_every_way(&[Method::Get; 2], some.repeat(2).as_bytes(), &Limits::default(), &[9]);
    assert_eq!(fetched.events.last().unwrap(), "over");
    let many = "HTTP/1.1 102 Wait\r\n\r\n".repeat(usize::from(ClientConnection::INTERIM_COUNT_MAX) + 1);
    let fetched = fetch_every_way(&[Method::Get], many.as_bytes(), &Limits::default(), &[9]);
    assert_eq!(fetched.events.last().unwrap(), "failed TooLarge(InterimCount(32))");
}

#[test]
fn persistence() {
    let with = |version: &str, field: &str| format!("HTTP/{version} 200 OK\r\nContent-Length: 0\r\n{field}\r\n");
    for (version, field, stays) in [
        ("1.1", "", true),
        ("1.1", "Connection: x, CLOSE\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("1.4", "", true),
    ] {
        let head = if stays { "200 length 0 stays" } else { "200 length 0 closes" };
        check_get(&with(version, field), &[head, "end", "over"]);
    }
    // Bytes after the last response are not parsed.
    check(&[Method::Get; 2], &(with("1.0", "") + &with("1.1", "")), &["200 length 0 closes", "end", "over"]);
}

#[test]
fn rejects_ambiguous_framing() {
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        check_get(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nhello"), &["failed BadFraming"]);
    }
    check_get("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &["failed BadFraming"]);
    check_get(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello",
        &["200 chunked stays", "failed BadFraming"],
    );
    check_get(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        &["200 length 2 stays", "content hi", "end", "over"],
    );
}

#[test]
fn rejects_bad_heads() {
    for (input, reason) in [
        ("HTTP/2 200 OK\r\n\r\n", "UnsupportedVersion"),
        ("HTTP/1.1 200 OK\n\n", "BareLineFeed"),
        ("HTTP/1.1 200 OK\r\nX: y\n\r\n", "BareLineFeed"),
        ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "SpaceBeforeColon"),
        ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", "ObsoleteFold"),
        ("HTTP/1.1 200 OK\r\nX: \0\r\n\r\n", "BadFieldValue"),
        ("HTTP/1.1 200 OK\r\n: y\r\n\r\n", "EmptyFieldName"),
        ("HTTP/1.1 200 OK\r\nX@: y\r\n\r\n", "BadFieldName"),
        ("HTTP/1.1 20 OK\r\n\r\n", "BadRequestLine"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "BadRequestLine"),
        ("HTTP/1.1  200 OK\r\n\r\n", "BadRequestLine"),
        ("HTTP/1.1 200 O\x01K\r\n\r\n", "BadRequestLine"),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "BadVersion"),
        ("<html>", "BadVersion"),
    ] {
        check_get(input, &[&format!("failed BadHead({reason})")]);
    }
}

#[test]
fn names_the_exceeded_limit() {
    let fields = |count: usize| "X: y\r\n".repeat(count);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (input, limit) in [
        (format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(300)), "HeadBytes(256)"),
        (format!("HTTP/1.1 200 {}\r\n\r\n", "y".repeat(300)), "HeadBytes(256)"),
        (format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(9)), "FieldCount(8)"),
        (format!("{chunked}1;{}\r\n", "x".repeat(32)), "ChunkLineBytes(32)"),
        (format!("{chunked}0\r\nX: {}\r\n\r\n", "y".repeat(300)), "TrailerBytes(256)"),
        (format!("{chunked}0\r\n{}\r\n", fields(9)), "FieldCount(8)"),
    ] {
        let fetched = fetch_every_way(&[Method::Get], input.as_bytes(), &small_limits(), &[9]);
        assert_eq!(fetched.events.last(), Some(&format!("failed TooLarge({limit})")), "{input:.60}");
    }
}

#[test]
fn handles_early_close_and_unexpected_bytes() {
    check(&[], "", &["over"]);
    check(&[], "HTTP/1.1 408 Request Timeout\r\n\r\n", &["failed Unexpected"]);
    check_get("", &["failed ClosedEarly"]);
    check_get("HTTP/1.1 200 OK\r\nContent-", &["failed ClosedEarly"]);
    check_get(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        &["200 length 5 stays", "content hell", "failed ClosedEarly"],
    );
    check_get(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        &["200 chunked stays", "content a", "failed ClosedEarly"],
    );
    check_get("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx", &["200 length 0 stays", "end", "failed Unexpected"]);
}

#[test]
fn outstanding_requests_are_bounded() {
    let mut connection = ClientConnection::new();
    for index in 0..ClientConnection::HEAD_OUTSTANDING_MAX {
        let method = if index % 3 == 0 { Method::Head } else { Method::Get };
        assert!(connection.can_send(method));
        connection.sent(method);
    }
    assert!(!connection.can_send(Method::Head) && connection.can_send(Method::Get));
    connection.sent(Method::Get);
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
    for index in 0..=ClientConnection::HEAD_OUTSTANDING_MAX {
        let mut storage = FieldStorage::new();
        let head = connection.receive(response, false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = head else { panic!("{head:?}") };
        let is_head = index % 3 == 0 && index < ClientConnection::HEAD_OUTSTANDING_MAX;
        assert_eq!(head.has_content(), !is_head, "{index}");
        if !is_head {
            let content = connection.receive(b"x", false, &Limits::default(), &mut FieldStorage::new()).map(drop);
            assert_eq!(content, Ok(()));
        }
        let mut storage = FieldStorage::new();
        let end = connection.receive(b"", false, &Limits::default(), &mut storage);
        assert!(matches!(end, Ok(ClientProgress::End { keep_alive: true, .. })), "{end:?}");
    }
    assert_eq!(connection.outstanding(), 0);
    connection.sent(Method::Connect);
    assert!(!connection.can_send(Method::Get));
}

#[test]
fn connection_stays_small() {
    assert!(size_of::<ClientConnection>() <= 64, "{}", size_of::<ClientConnection>());
}

#[test]
fn only_the_response_to_connect_is_a_tunnel() {
    check(
        &[Method::Get, Method::Connect],
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n",
        &["200 length 1 stays", "content a", "end", "200 none closes", "end", "over"],
    );
}

#[test]
fn error_ends_the_connection() {
    let (mut connection, limits) = (ClientConnection::new(), Limits::default());
    connection.sent(Method::Get);
    let refused = connection.receive(b"HTTP/2 200 OK\r\n\r\n", false, &limits, &mut FieldStorage::new()).map(drop);
    assert!(refused.is_err() && !connection.can_send(Method::Get));
    let mut storage = FieldStorage::new();
    let progress = connection.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, &limits, &mut storage);
    assert!(matches!(progress, Ok(ClientProgress::Over)), "{progress:?}");
}

#[test]
fn end_while_idle_ends_the_connection() {
    let (mut connection, limits) = (ClientConnection::new(), Limits::default());
    let progress = connection.receive(b"", true, &limits, &mut FieldStorage::new()).map(drop);
    assert!(progress.is_ok() && !connection.can_send(Method::Get));
}
