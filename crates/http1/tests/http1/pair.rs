//! A client and a server of this crate, joined in memory.

use breme_base::Random;
use breme_http::{FieldBlock, Framing, Limits, Method, Version};
use breme_http1::{
    ClientConnection, ClientProgress, FieldStorage, Progress, RequestEncoder, ResponseBody, ServerConnection,
};

use crate::transcript::DATE;

const SEEDS: u64 = 2_000;
const REQUESTS_MAX: u64 = 6;
const METHODS: &[Method<'static>] =
    &[Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete, Method::Options, Method::Other("BREW")];
const STATUSES: &[u16] = &[200, 200, 200, 201, 204, 205, 206, 299, 304, 404, 500];

/// One planned exchange.
#[derive(Debug)]
struct Exchange {
    method: Method<'static>,
    version: Version,
    keep_alive: bool,
    content: Vec<u8>,
    chunked: bool,
    expects: bool,
    status: u16,
    framing: Framing,
    answer: Vec<u8>,
    /// The response does not wait for the content.
    early: bool,
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let len = if random.chance(0.3) { 0 } else { random.below(200) };
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn plan(random: &mut Random) -> Exchange {
    let version = if random.chance(0.2) { Version::Http10 } else { Version::Http11 };
    let answer = bytes(random);
    let chunked = version == Version::Http11 && random.chance(0.5);
    Exchange {
        method: METHODS[random.below(METHODS.len() as u64) as usize],
        version,
        keep_alive: random.chance(0.85),
        content: bytes(random),
        chunked,
        expects: random.chance(0.2),
        status: STATUSES[random.below(STATUSES.len() as u64) as usize],
        framing: if random.chance(0.5) { Framing::Chunked } else { Framing::Length(answer.len() as u64) },
        answer,
        early: random.chance(0.2),
    }
}

fn encode(exchange: &Exchange, random: &mut Random, out: &mut Vec<u8>) {
    let mut fields = FieldBlock::new();
    if exchange.chunked {
        fields.push("Transfer-Encoding", b"chunked").unwrap();
    }
    if exchange.expects {
        fields.push("Expect", b"100-continue").unwrap();
    }
    let request = RequestEncoder {
        method: exchange.method,
        target: "/pair",
        version: exchange.version,
        authority: "pair.example",
        fields: &fields,
        keep_alive: exchange.keep_alive,
    };
    request.encode(Some(exchange.content.len() as u64), out).unwrap();
    if !exchange.chunked {
        return out.extend_from_slice(&exchange.content);
    }
    let mut rest = &exchange.content[..];
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(random.between(1, rest.len() as u64) as usize);
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = behind;
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Bytes in transit, of which a random part has arrived.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    start: usize,
    arrived: usize,
}

impl Wire {
    fn advance(&mut self, random: &mut Random) {
        let left = self.bytes.len() - self.arrived;
        let most = if random.chance(0.5) { 3 } else { left as u64 };
        self.arrived += (random.between(u64::from(left > 0), most.max(1)) as usize).min(left);
    }

    fn lent(&self) -> &[u8] {
        &self.bytes[self.start..self.arrived]
    }
}

fn answer(server: &mut ServerConnection, exchange: &Exchange, random: &mut Random, out: &mut Vec<u8>) {
    if server.respond(exchange.status, exchange.framing, DATE, out).end() == ResponseBody::Omitted {
        return;
    }
    if matches!(exchange.framing, Framing::Length(_)) {
        out.extend_from_slice(&exchange.answer);
        return server.content_sent();
    }
    for part in exchange.answer.chunks(random.between(1, 100) as usize) {
        server.chunk(part, out);
    }
    server.end_chunks(out);
}

/// Runs the server until it blocks; returns whether the connection is over.
fn run_server(
    server: &mut ServerConnection,
    plan: &[Exchange],
    received: &mut Vec<Vec<u8>>,
    up: &mut Wire,
    down: &mut Wire,
    random: &mut Random,
) -> bool {
    let limits = Limits::default();
    loop {
        let mut storage = FieldStorage::new();
        let progress = server.receive(&up.bytes[up.start..up.arrived], false, &limits, &mut storage).unwrap();
        let complete = match progress {
            Progress::NeedMore { taken } => {
                up.start += taken;
                return false;
            }
            Progress::Head { head, taken } => {
                up.start += taken;
                let exchange = &plan[received.len()];
                assert_eq!((head.method, head.authority), (exchange.method, Some("pair.example")));
                assert_eq!(
                    head.expects_continue,
                    exchange.expects && exchange.version == Version::Http11 && head.has_content()
                );
                received.push(Vec::new());
                if !exchange.early {
                    server.send_continue(&mut down.bytes);
                }
                exchange.early || !head.has_content()
            }
            Progress::Content { bytes, taken } => {
                up.start += taken;
                received.last_mut().unwrap().extend_from_slice(bytes);
                false
            }
            Progress::End { taken } => {
                up.start += taken;
                true
            }
            Progress::Trailer { field, .. } => panic!("nobody sent {field:?}"),
            Progress::Blocked => panic!("every request is answered at once"),
            Progress::Over => return true,
        };
        if complete {
            answer(server, &plan[received.len() - 1], random, &mut down.bytes);
        }
    }
}

/// The status and content of each response that the client reads.
fn run_client(
    client: &mut ClientConnection,
    responses: &mut Vec<(u16, Vec<u8>)>,
    down: &mut Wire,
    ended: bool,
) -> bool {
    let limits = Limits::default();
    loop {
        let mut storage = FieldStorage::new();
        match client.receive(down.lent(), ended, &limits, &mut storage).unwrap() {
            ClientProgress::NeedMore { taken } => {
                down.start += taken;
                return false;
            }
            ClientProgress::Interim { status, taken, .. } => {
                assert_eq!(status, 100);
                down.start += taken;
            }
            ClientProgress::Head { head, taken } => {
                assert_eq!(head.fields.first("date"), Some(&DATE[..]));
                responses.push((head.status, Vec::new()));
                down.start += taken;
            }
            ClientProgress::Content { bytes, taken } => {
                responses.last_mut().unwrap().1.extend_from_slice(bytes);
                down.start += taken;
            }
            ClientProgress::End { taken, .. } => down.start += taken,
            ClientProgress::Trailer { field, .. } => panic!("nobody sent {field:?}"),
            ClientProgress::Switched { .. } => panic!("nobody asked for it"),
            ClientProgress::Over => return true,
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let exchanges: Vec<Exchange> = (0..random.between(1, REQUESTS_MAX)).map(|_| plan(&mut random)).collect();
    let (mut client, mut server) = (ClientConnection::new(), ServerConnection::new());
    let (mut up, mut down) = (Wire::default(), Wire::default());
    let (mut received, mut responses) = (Vec::new(), Vec::new());
    for exchange in &exchanges {
        encode(exchange, &mut random, &mut up.bytes);
        client.sent(exchange.method);
    }
    let mut server_over = false;
    while !(server_over || up.start == up.bytes.len() && server.is_idle()) || down.start < down.bytes.len() {
        up.advance(&mut random);
        server_over |= run_server(&mut server, &exchanges, &mut received, &mut up, &mut down, &mut random);
        down.advance(&mut random);
        if run_client(&mut client, &mut responses, &mut down, false) {
            break;
        }
    }
    assert!(run_client(&mut client, &mut responses, &mut down, true));
    check(&exchanges, &received, &responses, server.will_close());
}

fn check(exchanges: &[Exchange], received: &[Vec<u8>], responses: &[(u16, Vec<u8>)], closed: bool) {
    assert!(responses.len() == exchanges.len() || closed, "{} of {} answered", responses.len(), exchanges.len());
    assert!(!responses.is_empty());
    assert_eq!(responses.len(), received.len());
    for ((exchange, content), (status, answer)) in exchanges.iter().zip(received).zip(responses) {
        assert_eq!(exchange.status, *status);
        if !exchange.early {
            assert_eq!(&exchange.content, content);
        }
        let omitted = exchange.method == Method::Head || matches!(status, 204 | 205 | 304);
        if !omitted {
            assert_eq!(&exchange.answer, answer);
        } else {
            assert!(answer.is_empty());
        }
    }
}

#[test]
fn client_and_server_understand_each_other() {
    for seed in 0..SEEDS {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("seed {seed}");
        }
    }
}
