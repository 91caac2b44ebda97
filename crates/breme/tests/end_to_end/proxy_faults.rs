//! The responses of a proxy when its upstreams or other clients fail.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use breme_base::Random;

use crate::caller::{Answered, Caller, Heard};
use crate::faulty_origin::{FAULTS, Fault, FaultyOrigin, content_of};
use crate::harness::{DRIVERS, Site};

/// Concurrent clients.
const CLIENTS: u64 = 12;
/// Rounds of one to three requests per client.
const ROUNDS: u64 = 120;
const LENGTHS: [usize; 7] = [0, 1, 13, 1_000, 9_000, 12_000, 150_000];
/// A response with more data than its length is sent in one piece; later, the rest would be indistinguishable from the
/// next response.
const PIECE_BYTES_MAX: usize = 1_000;

/// A request and its purpose.
struct Request {
    fault: &'static Fault,
    method: &'static str,
    number: u64,
    length: usize,
}

impl Request {
    fn draw(random: &mut Random, client: u64, ordinal: u64) -> Self {
        // Half of all responses are correct, so that there are always some that could be mixed up.
        let fault = &FAULTS[if random.below(2) == 0 { 0 } else { random.below(FAULTS.len() as u64) as usize }];
        let length = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
        let length = if fault.has_more_behind() { length.min(PIECE_BYTES_MAX) } else { length };
        let method = ["GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST"][random.below(9) as usize];
        Self { fault, method, number: client * 1_000_000 + ordinal, length }
    }

    fn name(&self) -> String {
        format!("{} {} {} {}", self.method, self.fault.name, self.number, self.length)
    }

    fn text(&self) -> Vec<u8> {
        let Self { fault, method, number, length } = self;
        let content = if *method == "POST" { "posted" } else { "" };
        let fields = if *method == "POST" { "Content-Length: 6\r\n" } else { "" };
        format!("{method} /{}/{number}/{length} HTTP/1.1\r\nHost: test\r\n{fields}\r\n{content}", fault.name)
            .into_bytes()
    }

    /// The result in a word; or the error in it.
    fn judge(&self, heard: &Heard) -> Result<&'static str, String> {
        let expected = if self.method == "HEAD" { Vec::new() } else { content_of(self.number, self.length) };
        let fate = self.fault.fate;
        // A request that may not be retried may fail on a connection that had been closed.
        let may_fail = fate.error || self.method == "POST";
        let wrong = |answered: &Answered| {
            let begins = String::from_utf8_lossy(&answered.content[..answered.content.len().min(60)]).into_owned();
            Err(format!("status {} with {} bytes: {begins:?}", answered.status, answered.content.len()))
        };
        match heard {
            Heard::Answer(answered) => match answered.status {
                200 if fate.content && answered.content == expected => Ok("content"),
                200 if fate.part && expected.starts_with(&answered.content) => Ok("part"),
                // Errors in a content that HEAD does not have, or in its framing, do not matter (RFC 9112, 6.3).
                200 if self.method == "HEAD" && (fate.cut || self.fault.is_of_framing()) => Ok("head"),
                502..=504 if may_fail && is_own(answered) => Ok("error"),
                _ => wrong(answered),
            },
            Heard::Cut(answered) if fate.cut && expected.starts_with(&answered.content) => Ok("cut"),
            Heard::Cut(answered) => wrong(answered).map_err(|what| format!("an answer that is cut: {what}")),
            Heard::Nothing => Err(String::from("no answer at all")),
        }
    }
}

impl Fault {
    fn is_of_framing(&self) -> bool {
        ["two-lengths", "length-and-chunks"].contains(&self.name)
    }

    fn has_more_behind(&self) -> bool {
        ["two-answers", "too-much-content"].contains(&self.name)
    }
}

/// An error of the proxy's own, without content of any client.
fn is_own(answered: &Answered) -> bool {
    let text = String::from_utf8_lossy(&answered.content);
    !text.contains("poison") && !text.contains("<0")
}

/// The results of one client's requests, by fault; and errors.
#[derive(Default)]
struct Seen {
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
    wrong: Vec<String>,
}

fn client(proxy: SocketAddr, client: u64) -> Seen {
    let mut random = Random::stream(7, client);
    let mut seen = Seen::default();
    let mut caller = Caller::new(proxy);
    let mut ordinal = 0;
    for _ in 0..ROUNDS {
        let count = 1 + random.below(3);
        let requests: Vec<Request> = (0..count).map(|at| Request::draw(&mut random, client, ordinal + at)).collect();
        ordinal += count;
        let together: Vec<u8> = requests.iter().flat_map(Request::text).collect();
        caller.send(&together);
        if !hear_all(&mut caller, &requests, &mut seen) {
            caller = Caller::new(proxy);
        }
    }
    seen
}

/// Whether the connection stays open.
fn hear_all(caller: &mut Caller, requests: &[Request], seen: &mut Seen) -> bool {
    for request in requests {
        let heard = match caller.hear(request.method == "HEAD") {
            Ok(heard) => heard,
            Err(why) => {
                seen.wrong.push(format!("{} {}: {why}", request.method, request.fault.name));
                return false;
            }
        };
        match request.judge(&heard) {
            Ok(outcome) => *seen.outcomes.entry((request.fault.name, outcome)).or_default() += 1,
            Err(what) => {
                let all: Vec<String> = requests.iter().map(Request::name).collect();
                seen.wrong.push(format!("{}: {what}; asked together: {}", request.name(), all.join(", ")));
                return false;
            }
        }
        match heard {
            Heard::Answer(Answered { is_last: false, .. }) => {}
            _ => return false,
        }
    }
    true
}

/// About thirty faults mixed, under load: each client gets its own complete content, or an error.
#[test]
fn no_answer_is_wrong_or_anybody_elses() {
    for driver in DRIVERS.iter().copied() {
        let origin = FaultyOrigin::start();
        let proxy = Site::proxy(origin.address, driver, &[]);
        let address = proxy.address;
        let all: Vec<Seen> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(address, number))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let wrong: Vec<&String> = all.iter().flat_map(|seen| &seen.wrong).collect();
        assert!(wrong.is_empty(), "{driver}: {} wrong answers:\n{wrong:#?}", wrong.len());
        let count = |fault: &Fault| {
            let outcomes = all.iter().flat_map(|seen| &seen.outcomes);
            outcomes.filter(|((name, _), _)| *name == fault.name).map(|(_, count)| count).sum::<u64>()
        };
        for fault in FAULTS {
            assert!(count(fault) > 0, "{driver}: {} was never met", fault.name);
        }
        assert!(origin.requests() > CLIENTS * ROUNDS, "{driver}: {}", origin.requests());
    }
}
