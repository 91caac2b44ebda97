//! An origin that records its requests, and parses them as strictly as possible: no other parser would find anything
//! else in them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::harness::serve_each;

/// The requests so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The targets of complete requests, in the order of their completion.
    pub(crate) targets: Vec<String>,
    /// Requests that were aborted.
    pub(crate) broken_off: u64,
    /// What was invalid or ambiguous.
    pub(crate) faults: Vec<String>,
}

/// Listens until the end of the test process. It responds to each request with its target, cacheable.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let record = Arc::new(Mutex::new(Record::default()));
        let shared = Arc::clone(&record);
        let address = serve_each(move |stream| serve(stream, &shared));
        Self { address, record }
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Record {
        std::mem::take(&mut self.record.lock().unwrap())
    }
}

/// Why a request could not be read to its end.
enum Unread {
    /// The connection ended between two requests.
    End,
    BrokenOff,
    Fault(String),
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        Self::BrokenOff
    }
}

fn serve(stream: TcpStream, record: &Mutex<Record>) {
    let _ = stream.set_nodelay(true);
    let mut input = BufReader::new(stream);
    loop {
        match read_request(&mut input) {
            Ok(target) => {
                record.lock().unwrap().targets.push(target.clone());
                let fields = format!("Cache-Control: max-age=600\r\nContent-Length: {}", target.len());
                let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{target}");
                if input.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            Err(Unread::End) => return,
            Err(Unread::BrokenOff) => {
                record.lock().unwrap().broken_off += 1;
                return;
            }
            Err(Unread::Fault(fault)) => {
                record.lock().unwrap().faults.push(fault);
                return;
            }
        }
    }
}

/// Its target, once it is complete.
fn read_request(input: &mut BufReader<TcpStream>) -> Result<String, Unread> {
    if input.fill_buf().map_or(true, <[u8]>::is_empty) {
        return Err(Unread::End);
    }
    let line = read_line(input)?;
    let target = match line.split(' ').collect::<Vec<_>>()[..] {
        [method, target, "HTTP/1.1"] if is_token(method) && is_target(target) => target.to_owned(),
        _ => return Err(Unread::Fault(format!("the request line {line:?}"))),
    };
    let fields = read_fields(input)?;
    let values = |wanted: &str| -> Vec<&str> {
        let lines = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        lines.map(|(_, value)| value.as_str()).collect()
    };
    if values("host").len() != 1 {
        return Err(Unread::Fault(format!("hosts: {:?}", values("host"))));
    }
    match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => {}
        ([length], []) => skip(input, number(length, 10)?)?,
        ([], ["chunked"]) => read_chunks(input)?,
        framing => return Err(Unread::Fault(format!("framing {framing:?}"))),
    }
    Ok(target)
}

fn read_fields(input: &mut BufReader<TcpStream>) -> Result<Vec<(String, String)>, Unread> {
    let mut fields = Vec::new();
    loop {
        let line = read_line(input)?;
        if line.is_empty() {
            return Ok(fields);
        }
        match line.split_once(": ") {
            Some((name, value)) if is_token(name) && is_value(value) => {
                fields.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(Unread::Fault(format!("the field line {line:?}"))),
        }
    }
}

fn read_chunks(input: &mut BufReader<TcpStream>) -> Result<(), Unread> {
    loop {
        match number(&read_line(input)?, 16)? {
            // Trailers.
            0 => return read_fields(input).map(drop),
            size => skip(input, size)?,
        }
        let end = read_line(input)?;
        if !end.is_empty() {
            return Err(Unread::Fault(format!("{end:?} behind a chunk")));
        }
    }
}

/// A line without its line ending; invalid UTF-8 is replaced.
fn read_line(input: &mut BufReader<TcpStream>) -> Result<String, Unread> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\n") {
        None => Err(Unread::BrokenOff),
        Some(line) => match line.strip_suffix(b"\r") {
            Some(line) if !line.contains(&b'\r') => Ok(String::from_utf8_lossy(line).into_owned()),
            _ => Err(Unread::Fault(format!("the line's end in {:?}", line.escape_ascii().to_string()))),
        },
    }
}

/// Digits and nothing else, without leading zeros.
fn number(text: &str, radix: u32) -> Result<u64, Unread> {
    let is_plain = text.chars().all(|digit| digit.is_digit(radix)) && (text == "0" || !text.starts_with('0'));
    let number = u64::from_str_radix(text, radix).ok().filter(|_| is_plain);
    number.ok_or_else(|| Unread::Fault(format!("the number {text:?}")))
}

fn skip(input: &mut BufReader<TcpStream>, length: u64) -> Result<(), Unread> {
    match io::copy(&mut input.take(length), &mut io::sink())? {
        copied if copied == length => Ok(()),
        _ => Err(Unread::BrokenOff),
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_target(text: &str) -> bool {
    (text.starts_with('/') || text == "*") && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_value(text: &str) -> bool {
    text.trim_ascii() == text && text.chars().all(|sign| sign == '\t' || !sign.is_ascii_control())
}
