//! A client on one connection, which reads response by response and reports how each one ended. It uses none of our own
//! protocol code.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::harness::connect;

/// The result of reading a response.
#[derive(Debug)]
pub(crate) enum Heard {
    Answer(Answered),
    /// It was truncated; with the content received.
    Cut(Answered),
    /// The connection ended before its first byte.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) content: Vec<u8>,
    /// No other response follows.
    pub(crate) is_last: bool,
}

/// A status and field lines, names in lower case.
type Head = (u16, Vec<(String, String)>);

/// See the module.
pub(crate) struct Caller {
    input: BufReader<TcpStream>,
}

impl Caller {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { input: BufReader::new(connect(server)) }
    }

    /// The server may have closed already; its response counts.
    pub(crate) fn send(&mut self, request: &[u8]) {
        let _ = self.input.get_mut().write_all(request);
    }

    /// Resets the connection, which cannot be mistaken for a half-close.
    pub(crate) fn leave(self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.input.get_ref(), Some(std::time::Duration::ZERO));
    }

    /// Reads the next response. Fails if it is not HTTP.
    pub(crate) fn hear(&mut self, to_head: bool) -> Result<Heard, String> {
        loop {
            let Some((status, fields)) = self.head()? else { return Ok(Heard::Nothing) };
            let mut answered = Answered { status, ..Answered::default() };
            if status >= 200 || status == 101 {
                let is_whole = self.content(&fields, to_head, &mut answered)?;
                return Ok(if is_whole { Heard::Answer(answered) } else { Heard::Cut(answered) });
            }
        }
    }

    /// None at the end of the connection.
    fn head(&mut self) -> Result<Option<Head>, String> {
        let Some(line) = self.line()? else { return Ok(None) };
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| format!("status line {line:?}"))?;
        let mut fields = Vec::new();
        loop {
            let line = self.line()?.ok_or("a head that is cut")?;
            if line.is_empty() {
                return Ok(Some((status, fields)));
            }
            let (name, value) = line.split_once(':').ok_or_else(|| format!("field line {line:?}"))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Whether it was complete.
    fn content(&mut self, fields: &[(String, String)], to_head: bool, answered: &mut Answered) -> Result<bool, String> {
        let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        answered.is_last = field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if to_head || answered.status == 204 || answered.status == 304 {
            return Ok(true);
        }
        match (field("transfer-encoding"), field("content-length")) {
            (Some("chunked"), None) => self.chunks(&mut answered.content),
            (None, Some(length)) => {
                let length = length.parse().map_err(|_| format!("content-length {length:?}"))?;
                self.take(length, &mut answered.content)
            }
            (None, None) => {
                answered.is_last = true;
                self.take(u64::MAX, &mut answered.content)?;
                Ok(true)
            }
            other => Err(format!("framing {other:?}")),
        }
    }

    fn chunks(&mut self, content: &mut Vec<u8>) -> Result<bool, String> {
        loop {
            let Some(line) = self.line()? else { return Ok(false) };
            let size = u64::from_str_radix(&line, 16).map_err(|_| format!("chunk size {line:?}"))?;
            if size > 0 && !self.take(size, content)? {
                return Ok(false);
            }
            match self.line()? {
                None => return Ok(false),
                Some(line) if !line.is_empty() => return Err(format!("{line:?} behind a chunk")),
                Some(_) if size == 0 => return Ok(true),
                Some(_) => {}
            }
        }
    }

    /// Whether this many bytes were received.
    fn take(&mut self, length: u64, content: &mut Vec<u8>) -> Result<bool, String> {
        let before = content.len() as u64;
        match self.input.by_ref().take(length).read_to_end(content) {
            Ok(_) => Ok(content.len() as u64 - before == length),
            Err(error) if is_end(&error) => Ok(false),
            Err(error) => Err(format!("after {} bytes of {length}: {error}", content.len())),
        }
    }

    /// None at the end of the connection, also within the line. Invalid UTF-8 is replaced.
    fn line(&mut self) -> Result<Option<String>, String> {
        let mut line = Vec::new();
        match self.input.read_until(b'\n', &mut line) {
            Ok(_) => {}
            Err(error) if is_end(&error) => return Ok(None),
            Err(error) => return Err(format!("no line came: {error}")),
        }
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return if line.ends_with(b"\n") { Err(String::from("a line ended by LF alone")) } else { Ok(None) };
        };
        Ok(Some(String::from_utf8_lossy(line).into_owned()))
    }
}

/// A reset connection has ended too. A silent one has not.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
}
