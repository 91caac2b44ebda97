//! A case, the segmentation of its bytes, and the evaluation of the responses.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::{Answer, read_answers};

/// Bytes for one connection, and the expected result.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    /// The RFC and section that it tests.
    pub section: &'static str,
    pub send: Vec<u8>,
    /// Indices of the responses to HEAD requests.
    pub heads: &'static [usize],
    pub expect: Expect,
}

#[derive(Clone, Debug)]
pub enum Expect {
    /// Responses with these statuses and contents (none: any content); the connection persists.
    Served(Vec<(u16, Option<Vec<u8>>)>),
    /// The same, but the server then closes the connection.
    ServedThenClosed(Vec<(u16, Option<Vec<u8>>)>),
    /// One response with one of these statuses, and the server closes.
    Refused(&'static [u16]),
    /// First a good response, then one with one of these statuses, and the server closes.
    ServedThenRefused(&'static [u16]),
}

/// How the bytes are split into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    /// In two writes, cut at this share of the bytes (0 to 100).
    CutAt(usize),
    /// One write per byte.
    Bytewise,
}

#[derive(Debug)]
pub struct Failure {
    pub name: &'static str,
    pub section: &'static str,
    pub delivery: Delivery,
    /// What happened instead.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {:?}): {}", self.name, self.section, self.delivery, self.why)
    }
}

/// Timeout of a case, so long that a busy machine does not exceed it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Shows that a connection is still open, and ends it.
const PROBE: &[u8] = b"GET /bytes/7 HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";
const PROBE_CONTENT_BYTES: usize = 7;

impl Case {
    /// Sends the case to a server and evaluates the result.
    ///
    /// # Errors
    ///
    /// If it is not what the case expects, or the server is unreachable.
    pub fn run(&self, server: SocketAddr, delivery: Delivery) -> Result<(), Failure> {
        self.run_over(|| connect(server), delivery)
    }

    /// Sends the case to a server and returns the responses until the connection ends, without evaluation. If the
    /// connection must persist, a final request that ends it follows the case; its response is the last one.
    ///
    /// # Errors
    ///
    /// If the result is not a number of complete responses, or the connection does not end.
    pub fn answers(&self, server: SocketAddr, delivery: Delivery) -> Result<Vec<Answer>, String> {
        let probe = if matches!(self.expect, Expect::Served(_)) { PROBE } else { &[] };
        self.exchange(|| connect(server), &[&self.send, probe].concat(), delivery)
    }

    /// The same over another kind of connection, such as TLS. It must be new, stop reading after [`PATIENCE`], and send
    /// each write immediately.
    ///
    /// # Errors
    ///
    /// As [`Case::run`].
    pub fn run_over<S: Read + Write>(
        &self,
        connect: impl FnOnce() -> io::Result<S>,
        delivery: Delivery,
    ) -> Result<(), Failure> {
        let exchange = |bytes: &[u8]| self.exchange(connect, bytes, delivery);
        let judged = match &self.expect {
            Expect::Served(expected) => self.lives_on(exchange, expected),
            Expect::ServedThenClosed(expected) => exchange(&self.send).and_then(|answers| compare(&answers, expected)),
            Expect::Refused(statuses) => exchange(&self.send).and_then(|answers| refused(&answers, 0, statuses)),
            Expect::ServedThenRefused(statuses) => {
                exchange(&self.send).and_then(|answers| refused(&answers, 1, statuses))
            }
        };
        judged.map_err(|why| Failure { name: self.name, section: self.section, delivery, why })
    }

    fn lives_on(
        &self,
        exchange: impl FnOnce(&[u8]) -> Result<Vec<Answer>, String>,
        expected: &[(u16, Option<Vec<u8>>)],
    ) -> Result<(), String> {
        let mut bytes = self.send.clone();
        bytes.extend_from_slice(PROBE);
        let mut answers = exchange(&bytes)?;
        let probe = answers.pop().ok_or("no response")?;
        if probe.status != 200 || probe.content.len() != PROBE_CONTENT_BYTES {
            return Err(format!("the connection did not persist: {:?} then {}", statuses(&answers), probe.status));
        }
        compare(&answers, expected)
    }

    /// Sends, then reads until the server closes.
    fn exchange<S: Read + Write>(
        &self,
        connect: impl FnOnce() -> io::Result<S>,
        bytes: &[u8],
        delivery: Delivery,
    ) -> Result<Vec<Answer>, String> {
        let mut stream = connect().map_err(|error| format!("connect: {error}"))?;
        // If the server closes before everything is sent, its response counts and not the failed write.
        let _ = deliver(&mut stream, bytes, delivery);
        let mut received = Vec::new();
        match stream.read_to_end(&mut received) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(format!(
                    "the server neither responded nor closed the connection; received {} bytes",
                    received.len()
                ));
            }
            Err(error) => {
                return Err(format!("reading the response failed: {error}; received {} bytes", received.len()));
            }
        }
        read_answers(&received, |index| self.heads.contains(&index)).map_err(|unreadable| unreadable.to_string())
    }
}

/// Opens a connection with the properties that a case requires.
///
/// # Errors
///
/// If the server is unreachable.
pub fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn deliver(stream: &mut impl Write, bytes: &[u8], delivery: Delivery) -> io::Result<()> {
    match delivery {
        Delivery::Whole => stream.write_all(bytes),
        Delivery::CutAt(percent) => {
            let (first, second) = bytes.split_at(bytes.len() * percent / 100);
            stream.write_all(first)?;
            stream.write_all(second)
        }
        Delivery::Bytewise => bytes.iter().try_for_each(|byte| stream.write_all(std::slice::from_ref(byte))),
    }
}

fn compare(answers: &[Answer], expected: &[(u16, Option<Vec<u8>>)]) -> Result<(), String> {
    let wanted: Vec<u16> = expected.iter().map(|(status, _)| *status).collect();
    if statuses(answers) != wanted {
        return Err(format!("statuses {:?} instead of {wanted:?}", statuses(answers)));
    }
    for (answer, (_, content)) in answers.iter().zip(expected) {
        if let Some(content) = content
            && *content != answer.content
        {
            return Err(format!("content {:?} instead of {:?}", shown(&answer.content), shown(content)));
        }
    }
    Ok(())
}

fn refused(answers: &[Answer], good: usize, allowed: &[u16]) -> Result<(), String> {
    let seen = statuses(answers);
    let good_ones = answers.iter().take(good).all(|answer| answer.status == 200);
    match answers.get(good) {
        Some(last) if answers.len() == good + 1 && good_ones && allowed.contains(&last.status) => Ok(()),
        _ => Err(format!("statuses {seen:?} instead of {good} times 200 and one of {allowed:?}, then the end")),
    }
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned()
}

/// A case that must be served, with a persistent connection.
pub(crate) fn served(name: &'static str, section: &'static str, send: impl Into<Vec<u8>>, content: &str) -> Case {
    let expect = Expect::Served(vec![(200, Some(content.as_bytes().to_vec()))]);
    Case { name, section, send: send.into(), heads: &[], expect }
}

/// A case that must be rejected, with the connection closed.
pub(crate) fn refused_with(
    name: &'static str,
    section: &'static str,
    send: impl Into<Vec<u8>>,
    statuses: &'static [u16],
) -> Case {
    Case { name, section, send: send.into(), heads: &[], expect: Expect::Refused(statuses) }
}
