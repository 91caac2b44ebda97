//! A smoke-run of the fuzz targets: seeded mutations of good messages, the same on every machine.

use breme_base::Random;

use crate::transcript::{fuzz_chunked, fuzz_client, fuzz_server};

const MUTATIONS_PER_SEED: usize = 1_500;

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\nUser-Agent: x\r\n\r\nHEAD /d HTTP/1.0\r\n\r\n",
    b"\r\nPOST /p HTTP/1.1\r\nhost: [::1]\r\nContent-Length: 5\r\nConnection: close, te\r\n\r\nhello",
    b"PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
    b"GET http://a.example/x HTTP/1.1\r\nHost: b\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: c\r\n\r\nCONNECT d:1 HTTP/1.1\r\nHost: d:1\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nDELETE /x HTTP/1.7\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    b"TRACE /t HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nX-Wide: \xc3\xa9\t.\r\n\r\n",
];

const CHUNKS: &[&[u8]] = &[
    b"5\r\nhello\r\n0\r\n\r\n",
    b"1;a=b;c=\"d\\\"\"\r\nx\r\n00a; e = f\r\n0123456789\r\n0\r\nA: 1\r\nB:\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
];

const RESPONSES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\nHTTP/1.0 200 OK\r\n\r\nrest",
    b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\nHTTP/1.5 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
];

/// Fragments of attacks.
const MORSELS: &[&[u8]] = &[
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"\"",
    b"\\",
    b"\x7f",
    b"\x80",
    b"0",
    b"f",
    b"-",
    b"+",
    b"0x",
    b"%",
    b"#",
    b"?",
    b"*",
    b"@",
    b"Host: b\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"chunked",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"HEAD",
    b"CONNECT",
    b"http://",
    b"100",
    b"204",
    b"99999999999999999999",
    b"ffffffffffffffff",
    b"0\r\n\r\n",
];

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    let len = (random.below(8) as usize).min(input.len() - at);
    match random.below(5) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 => drop(input.drain(at..at + len)),
        2 => {
            let copy = input[at..at + len].to_vec();
            let to = random.below(input.len() as u64 + 1) as usize;
            input.splice(to..to, copy);
        }
        3 if at < input.len() => input[at] = random.next_u64() as u8,
        _ => {
            let morsel = MORSELS[random.below(MORSELS.len() as u64) as usize];
            input.splice(at..at, morsel.iter().copied());
        }
    }
}

fn run(seeds: &[&[u8]], target: fn(&[u8])) {
    for (index, seed) in seeds.iter().enumerate() {
        target(seed);
        let mut random = Random::stream(index as u64, 1);
        for _ in 0..MUTATIONS_PER_SEED {
            let mut input = seed.to_vec();
            for _ in 0..=random.below(4) {
                mutate(&mut input, &mut random);
            }
            target(&input);
        }
    }
}

#[test]
fn server_verdict_is_independent_of_segments() {
    run(REQUESTS, fuzz_server);
}

#[test]
fn chunk_verdict_is_independent_of_segments() {
    run(CHUNKS, fuzz_chunked);
}

#[test]
fn client_verdict_is_independent_of_segments() {
    run(RESPONSES, fuzz_client);
}
