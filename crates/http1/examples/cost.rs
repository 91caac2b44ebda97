//! Costs of messages in nanoseconds: `cargo run --release -p breme-http1 --example cost`.
//!
//! The best of several rounds, since every disturbance makes a round slower.

#![allow(clippy::disallowed_methods)] // it measures: it must read a clock

use std::hint::black_box;
use std::time::Instant;

use breme_http::{FieldBlock, Framing, Limits, Method};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage, Progress, ResponseBody, ServerConnection};

const ROUNDS: usize = 15;
const MESSAGES_PER_ROUND: usize = 200_000;
const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

const SHORT: &[u8] = b"GET /bytes/13 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const USUAL: &[u8] =
    b"GET /bytes/13 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: generator/1.0\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";
const BROWSER: &[u8] = b"GET /wiki/Main_Page?action=view HTTP/1.1\r\nHost: wiki.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://wiki.example.org/wiki/Special:Search\r\nDNT: 1\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\nUpgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nPriority: u=0, i\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.0\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!";

/// Nanoseconds per message of the fastest round.
fn measure(name: &str, messages_per_call: usize, mut call: impl FnMut()) {
    let calls = MESSAGES_PER_ROUND / messages_per_call;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (calls * messages_per_call) as f64);
    }
    println!("{name:<44}{best:>8.1} ns");
}

/// Responds to every request in `input` with 13 bytes.
fn serve(connection: &mut ServerConnection, input: &[u8], limits: &Limits, fields: &FieldBlock, out: &mut Vec<u8>) {
    let mut rest = input;
    loop {
        let mut storage = FieldStorage::new();
        match connection.receive(black_box(rest), false, limits, &mut storage) {
            Ok(Progress::Head { head, taken }) => {
                black_box(head.target);
                rest = &rest[taken..];
                let mut response = connection.respond(200, Framing::Length(13), DATE, out);
                response.block(fields);
                if response.end() == ResponseBody::Expected {
                    out.extend_from_slice(b"Hello, World!");
                    connection.content_sent();
                }
            }
            Ok(Progress::NeedMore { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    black_box(&out);
}

fn fetch(connection: &mut ClientConnection, input: &[u8], limits: &Limits) {
    let mut rest = input;
    loop {
        let mut storage = FieldStorage::new();
        match connection.receive(black_box(rest), false, limits, &mut storage) {
            Ok(
                ClientProgress::Head { taken, .. }
                | ClientProgress::Content { taken, .. }
                | ClientProgress::End { taken, .. },
            ) => {
                rest = &rest[taken..];
            }
            Ok(ClientProgress::NeedMore { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
}

fn main() -> Result<(), breme_http::InvalidField> {
    let limits = Limits::default();
    let mut fields = FieldBlock::new();
    fields.push("Content-Type", b"text/plain")?;
    let mut out = Vec::with_capacity(64 * 1024);
    for (name, request) in [("GET, 1 field", SHORT), ("GET, 4 fields", USUAL), ("GET, 14 fields", BROWSER)] {
        for depth in [1, 16] {
            let input = request.repeat(depth);
            let mut connection = ServerConnection::new();
            measure(&format!("{name}, parsed and responded to, {depth} deep"), depth, || {
                out.clear();
                serve(&mut connection, &input, &limits, &fields, &mut out);
            });
        }
    }
    for depth in [1, 16] {
        let input = RESPONSE.repeat(depth);
        let mut connection = ClientConnection::new();
        measure(&format!("response, 5 fields, 13 bytes, {depth} deep"), depth, || {
            for _ in 0..depth {
                connection.sent(Method::Get);
            }
            fetch(&mut connection, &input, &limits);
        });
    }
    Ok(())
}
