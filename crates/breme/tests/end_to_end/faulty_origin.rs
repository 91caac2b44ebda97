//! An origin with every fault that its clients request: `/KIND/NUMBER/LENGTH` names the fault, and a content that no
//! other request has. So a client can check whether its content is its own, and complete.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::serve_each;

/// The possible results of a request that meets a fault, if it may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The right content, complete.
    pub(crate) content: bool,
    /// An error of the proxy's own.
    pub(crate) error: bool,
    /// A visibly truncated response.
    pub(crate) cut: bool,
    /// A part of the right content: if the end of the connection is the end of the content, truncation is undetectable.
    pub(crate) part: bool,
}

const NEVER: Fate = Fate { content: false, error: false, cut: false, part: false };
const CONTENT: Fate = Fate { content: true, ..NEVER };
const ERROR: Fate = Fate { error: true, ..NEVER };
const CONTENT_OR_ERROR: Fate = Fate { content: true, error: true, ..NEVER };
const ERROR_OR_CUT: Fate = Fate { error: true, cut: true, ..NEVER };
const ALL_BUT_PART: Fate = Fate { content: true, error: true, cut: true, part: false };
const PART: Fate = Fate { content: true, part: true, ..NEVER };

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) fate: Fate,
    /// Sends the response. Returns whether the connection stays open.
    answer: fn(&mut TcpStream, &Request) -> io::Result<bool>,
}

/// A request as read by the origin.
pub(crate) struct Request {
    is_head: bool,
    content: Vec<u8>,
}

/// The content of this request, and of no other.
pub(crate) fn content_of(number: u64, length: usize) -> Vec<u8> {
    let line = format!("<{number:09}>");
    line.bytes().cycle().take(length).collect()
}

const fn fault(name: &'static str, fate: Fate, answer: fn(&mut TcpStream, &Request) -> io::Result<bool>) -> Fault {
    Fault { name, fate, answer }
}

/// All of them; the first ones are no faults.
pub(crate) const FAULTS: &[Fault] = &[
    fault("plain", CONTENT, |to, request| whole(to, request, "")),
    fault("chunked", CONTENT, |to, request| {
        head(to, "Transfer-Encoding: chunked\r\n")?;
        chunks(to, request, true)?;
        Ok(true)
    }),
    fault("until-the-end", CONTENT, |to, request| {
        head(to, "Connection: close\r\n")?;
        body(to, request, request.content.len())?;
        Ok(false)
    }),
    fault("http-1.0", CONTENT, |to, request| {
        to.write_all(b"HTTP/1.0 200 OK\r\nCache-Control: no-store\r\n\r\n")?;
        body(to, request, request.content.len())?;
        Ok(false)
    }),
    fault("byte-by-byte", CONTENT, |to, request| {
        let text =
            format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\r\n", request.content.len());
        text.bytes().try_for_each(|byte| to.write_all(&[byte]))?;
        body(to, request, request.content.len())?;
        Ok(true)
    }),
    fault("interim-answers", CONTENT, |to, request| {
        to.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")?;
        whole(to, request, "")
    }),
    fault("says-close", CONTENT, |to, request| whole(to, request, "Connection: close\r\n").map(|_| false)),
    // The connection ends just when it would be reused: the request is retried on another one.
    fault("closes-silently", CONTENT, |to, request| whole(to, request, "").map(|_| false)),
    // A reset may overtake earlier data.
    fault("resets-silently", ALL_BUT_PART, |to, request| {
        whole(to, request, "")?;
        reset(to);
        Ok(false)
    }),
    fault("closes-at-once", CONTENT_OR_ERROR, |_, _| Ok(false)),
    fault("resets-at-once", CONTENT_OR_ERROR, |to, _| {
        reset(to);
        Ok(false)
    }),
    fault("head-cut", ERROR, |to, _| {
        to.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
        Ok(false)
    }),
    fault("head-reset", ERROR, |to, _| {
        to.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
        reset(to);
        Ok(false)
    }),
    fault("content-cut", ERROR_OR_CUT, |to, request| {
        head(to, &format!("Content-Length: {}\r\n", request.content.len() + 1))?;
        body(to, request, request.content.len())?;
        Ok(false)
    }),
    fault("content-reset", ERROR_OR_CUT, |to, request| {
        head(to, &format!("Content-Length: {}\r\n", request.content.len() + 1))?;
        body(to, request, request.content.len() / 2)?;
        reset(to);
        Ok(false)
    }),
    fault("chunk-cut", ERROR_OR_CUT, |to, request| {
        head(to, "Transfer-Encoding: chunked\r\n")?;
        // Nothing after the response to a HEAD: if it is late, it is indistinguishable from the next response.
        if !request.is_head {
            to.write_all(format!("{:x}\r\n", request.content.len() + 1).as_bytes())?;
        }
        body(to, request, request.content.len())?;
        Ok(false)
    }),
    fault("last-chunk-lacks", ERROR_OR_CUT, |to, request| {
        head(to, "Transfer-Encoding: chunked\r\n")?;
        chunks(to, request, false)?;
        Ok(false)
    }),
    fault("chunk-size-is-none", ERROR_OR_CUT, |to, request| {
        head(to, "Transfer-Encoding: chunked\r\n")?;
        to.write_all(if request.is_head { b"" } else { b"0x5\r\nhello\r\n0\r\n\r\n" })?;
        Ok(true)
    }),
    fault("garbage", ERROR, |to, _| {
        to.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n")?;
        Ok(true)
    }),
    fault("folded-field", ERROR, |to, request| whole(to, request, "X-A: b\r\n c\r\n")),
    fault("nul-in-field", ERROR, |to, request| whole(to, request, "X-A: b\0c\r\n")),
    fault("two-lengths", ERROR, |to, request| whole(to, request, "Content-Length: 7\r\n")),
    fault("length-and-chunks", ERROR, |to, request| whole(to, request, "Transfer-Encoding: chunked\r\n")),
    fault("endless-head", ERROR, |to, request| whole(to, request, &format!("X-A: {}\r\n", "a".repeat(500_000)))),
    fault("too-many-fields", ERROR, |to, request| whole(to, request, &"X-A: b\r\n".repeat(5_000))),
    // An unsolicited second response must not reach any client. It is sent together with the first; later, it would be
    // indistinguishable from the response to the next request.
    fault("two-answers", CONTENT, |to, request| {
        followed(to, request, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
    }),
    fault("too-much-content", CONTENT, |to, request| followed(to, request, "poison")),
    fault("switches-unasked", ERROR, |to, _| {
        to.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: poison\r\n\r\npoison")?;
        Ok(true)
    }),
    fault("cut-until-the-end", PART, |to, request| {
        head(to, "Connection: close\r\n")?;
        body(to, request, request.content.len() / 2)?;
        Ok(false)
    }),
];

/// Listens until the end of the test process.
pub(crate) struct FaultyOrigin {
    pub(crate) address: SocketAddr,
    /// Requests of all kinds.
    requests: Arc<AtomicU64>,
}

impl FaultyOrigin {
    pub(crate) fn start() -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let address = serve_each(move |stream| serve(stream, &count));
        Self { address, requests }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, count: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    while let Some((request, fault)) = read_request(&mut input)? {
        count.fetch_add(1, Ordering::Relaxed);
        if !(fault.answer)(&mut stream, &request)? {
            break;
        }
    }
    Ok(())
}

/// None at the end of the connection, or if it is not one of ours.
fn read_request(input: &mut impl BufRead) -> io::Result<Option<(Request, &'static Fault)>> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut parts = target.trim_start_matches('/').split('/');
    let fault = FAULTS.iter().find(|fault| Some(fault.name) == parts.clone().next());
    let mut numbers = parts.by_ref().skip(1).map(|part| part.parse::<u64>().ok());
    let (Some(fault), Some(Some(number)), Some(Some(length))) = (fault, numbers.next(), numbers.next()) else {
        return Ok(None);
    };
    let sent = read_fields(input)?;
    io::copy(&mut input.take(sent), &mut io::sink())?;
    let content = content_of(number, length as usize);
    Ok(Some((Request { is_head: method == "HEAD", content }, fault)))
}

/// The length of the content after them.
fn read_fields(input: &mut impl BufRead) -> io::Result<u64> {
    let mut sent = 0;
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            return Ok(sent);
        }
        if let Some((name, value)) =
            line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            sent = value.trim().parse().map_err(|_| io::Error::other(format!("{name}: {value}")))?;
        }
    }
}

fn head(to: &mut TcpStream, fields: &str) -> io::Result<()> {
    to.write_all(format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{fields}\r\n").as_bytes())
}

fn body(to: &mut TcpStream, request: &Request, length: usize) -> io::Result<()> {
    if request.is_head { Ok(()) } else { to.write_all(&request.content[..length]) }
}

/// With a length, and these additional fields.
fn whole(to: &mut TcpStream, request: &Request, fields: &str) -> io::Result<bool> {
    head(to, &format!("Content-Length: {}\r\n{fields}", request.content.len()))?;
    body(to, request, request.content.len())?;
    Ok(true)
}

/// With a length, and with more data than that.
fn followed(to: &mut TcpStream, request: &Request, more: &str) -> io::Result<bool> {
    let length = request.content.len();
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(if request.is_head { &[] } else { &request.content });
    bytes.extend_from_slice(more.as_bytes());
    to.write_all(&bytes)?;
    Ok(true)
}

fn chunks(to: &mut TcpStream, request: &Request, has_last: bool) -> io::Result<()> {
    if request.is_head {
        return Ok(());
    }
    for piece in request.content.chunks(1_000) {
        to.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        to.write_all(piece)?;
        to.write_all(b"\r\n")?;
    }
    to.write_all(if has_last { b"0\r\n\r\n" } else { b"" })
}

/// Dropping the stream sends a reset.
fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
}
