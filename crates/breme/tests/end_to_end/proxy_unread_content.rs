//! Request smuggling through an upstream at fault: it responds without reading a request's content, and parses that
//! content as the next request (James Kettle's "CL.0", 2022). The response to it must reach no other client.
//!
//! No case depends on time. The upstream delays the response to a smuggled request until the next request arrives on
//! the same connection, and sends it in place of that one's response: the worst case.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use crate::caller::{Caller, Heard};
use crate::harness::{DRIVERS, Site, serve_each};

const POISON: &str = "poison";
const SMUGGLED: &str = "GET /poison HTTP/1.1\r\nHost: a\r\n\r\n";

/// When the upstream responds, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    /// As soon as it has the head.
    AtHead,
    /// After the content has arrived, unread.
    AtContent,
    /// After 100 (Continue), when the content has arrived, unread.
    AfterContinue,
    /// In chunks, as soon as it has the head.
    Chunked,
    /// 304, as soon as it has the head.
    NotModified,
    /// 403, as soon as it has the head.
    Forbidden,
}

const RESPONSES: [Response; 6] = [
    Response::AtHead,
    Response::AtContent,
    Response::AfterContinue,
    Response::Chunked,
    Response::NotModified,
    Response::Forbidden,
];

/// When the client sends the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    WithHead,
    /// Followed by the next request.
    Pipelined,
    /// After the response, for which a client that expects 100 (Continue) may wait.
    AfterResponse,
}

const DELIVERIES: [Delivery; 3] = [Delivery::WithHead, Delivery::Pipelined, Delivery::AfterResponse];
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"];

/// One kind of request and response.
#[derive(Clone, Copy, Debug)]
struct Case {
    method: &'static str,
    is_chunked: bool,
    expects: bool,
    delivery: Delivery,
    response: Response,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in METHODS {
        for is_chunked in [false, true] {
            for expects in [false, true] {
                for delivery in DELIVERIES {
                    cases.extend(RESPONSES.map(|response| Case { method, is_chunked, expects, delivery, response }));
                }
            }
        }
    }
    cases.retain(Case::can_be);
    cases
}

impl Case {
    /// False for a deadlock, in which each side waits for the other.
    fn can_be(&self) -> bool {
        let waits_for_content = matches!(self.response, Response::AtContent | Response::AfterContinue);
        let is_continued = self.response == Response::AfterContinue;
        !(waits_for_content && self.delivery == Delivery::AfterResponse) && (self.expects || !is_continued)
    }

    fn head(&self) -> String {
        let framing = match self.is_chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", SMUGGLED.len()),
        };
        let expects = if self.expects { "Expect: 100-continue\r\n" } else { "" };
        let Self { method, response, .. } = self;
        format!("{method} /attack/{response:?} HTTP/1.1\r\nHost: a\r\n{framing}\r\n{expects}\r\n")
    }

    fn content(&self) -> String {
        match self.is_chunked {
            true => format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len()),
            false => SMUGGLED.to_owned(),
        }
    }
}

/// See the module.
fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    let mut held: Vec<u8> = Vec::new();
    while let Some(head) = next_head(&mut input)? {
        let mut out = std::mem::take(&mut held);
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if target == "/poison" {
            held = ok(POISON);
        } else {
            out.extend(respond(&head, &target, &mut input)?);
        }
        input.get_mut().write_all(&out)?;
    }
    Ok(())
}

/// A head; lines that begin none, such as chunk framing, are skipped. None at the end.
fn next_head(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    loop {
        let begin = head.len();
        if input.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        match &head[begin..] {
            "\r\n" if begin > 0 => return Ok(Some(head)),
            line if begin == 0 && !line.ends_with(" HTTP/1.1\r\n") => head.clear(),
            _ => {}
        }
    }
}

fn ok(content: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\r\n{content}", content.len()).into()
}

fn respond(head: &str, target: &str, input: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let is_head = head.starts_with("HEAD ");
    let kind = RESPONSES.into_iter().find(|kind| target == format!("/attack/{kind:?}"));
    let Some(kind) = kind else { return Ok(ok(target)) };
    if kind == Response::AfterContinue {
        input.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if matches!(kind, Response::AtContent | Response::AfterContinue) {
        // It is in the buffer now, and remains there.
        input.fill_buf()?;
    }
    Ok(match kind {
        Response::NotModified => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
        Response::Forbidden => b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(),
        Response::Chunked if is_head => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        Response::Chunked => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_vec(),
        _ if is_head => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec(),
        _ => ok("ok"),
    })
}

/// With one thread, so that all clients share one pool of connections.
fn start(upstream: SocketAddr, driver: &str, more: &[&str]) -> Site {
    let upstream = format!("--upstream=http://{upstream}");
    let arguments = [&[upstream.as_str(), "--driver", driver, "--threads", "1"], more].concat();
    Site::start_role("proxy", &arguments, Stdio::inherit())
}

/// Sends the request. The responses to it, and to pipelined ones, do not matter.
fn attack(case: &Case, proxy: SocketAddr) -> Caller {
    let mut attacker = Caller::new(proxy);
    let own = "GET /own HTTP/1.1\r\nHost: a\r\n\r\n";
    let sent = match case.delivery {
        Delivery::WithHead => case.head() + &case.content(),
        Delivery::Pipelined => case.head() + &case.content() + own,
        Delivery::AfterResponse => case.head(),
    };
    attacker.send(sent.as_bytes());
    let _ = attacker.hear(case.method == "HEAD");
    if case.delivery == Delivery::AfterResponse {
        attacker.send(case.content().as_bytes());
    }
    attacker
}

/// A request of another client, on a new connection.
fn require_own(proxy: SocketAddr, target: &str) -> Result<(), String> {
    let mut victim = Caller::new(proxy);
    for _ in 0..2 {
        victim.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        match victim.hear(false)? {
            Heard::Answer(answered) if answered.status == 200 && answered.content == target.as_bytes() => {}
            heard => return Err(format!("another client asked for {target} and got {heard:?}")),
        }
    }
    Ok(())
}

fn judge(case: &Case, number: usize, proxy: SocketAddr, is_serial: bool) -> Result<(), String> {
    let attacker = attack(case, proxy);
    // If clients are served one after the other, the attacker has to leave first.
    let staying = (!is_serial).then_some(attacker);
    require_own(proxy, &format!("/victim/{number}"))?;
    if let Some(mut attacker) = staying {
        // Its responses may be stored for all clients.
        attacker.send(format!("GET /stored/{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let _ = attacker.hear(false);
    }
    require_own(proxy, &format!("/stored/{number}"))
}

fn run(driver: &str, more: &[&str]) -> Vec<String> {
    let proxy = start(serve_each(serve), driver, more);
    let judged = cases().into_iter().enumerate().map(|(number, case)| {
        let judged = judge(&case, number, proxy.address, driver == "threads");
        judged.err().map(|why| format!("{driver} {more:?}: {case:?}: {why}"))
    });
    judged.flatten().collect()
}

#[test]
fn content_that_an_upstream_takes_for_a_request_reaches_no_other_client() {
    let cache = ["--cache-memory", "16MiB"];
    let faults: Vec<String> = std::thread::scope(|scope| {
        let runs = DRIVERS.iter().flat_map(|driver| [(driver, &[][..]), (driver, &cache[..])]);
        let running: Vec<_> = runs.map(|(driver, more)| scope.spawn(move || run(driver, more))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The cost is low: a client that sends further content on the same connection does not need a new upstream connection
/// each time.
#[test]
fn a_client_that_sends_content_keeps_its_upstream_connection() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    for driver in DRIVERS.iter().copied() {
        let connections = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&connections);
        let upstream = serve_each(move |stream| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut input = BufReader::new(stream);
            while let Ok(Some(_)) = next_head(&mut input) {
                let mut content = [0; 2];
                let _ = io::Read::read_exact(&mut input, &mut content);
                let _ = input.get_mut().write_all(&ok("ok"));
            }
        });
        let proxy = start(upstream, driver, &[]);
        let mut caller = Caller::new(proxy.address);
        for _ in 0..10 {
            caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
            assert!(matches!(caller.hear(false), Ok(Heard::Answer(answered)) if answered.status == 200), "{driver}");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1, "{driver}");
    }
}
