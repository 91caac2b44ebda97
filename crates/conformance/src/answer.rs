//! A strict parser of responses, which shares no code with the servers that it tests.

use std::fmt;

/// One final response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Field lines, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content without its framing.
    pub content: Vec<u8>,
    /// Number of interim responses (1xx) before it.
    pub interim: usize,
}

/// The bytes are not responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub why: String,
    /// Responses parsed before the error.
    pub before: Vec<Answer>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "after {} answers: {}", self.before.len(), self.why)
    }
}

impl Answer {
    /// The value of a field, if it occurs.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Parses all of `bytes` as responses; `to_head(i)` is whether response number i is to a HEAD request.
///
/// # Errors
///
/// If a byte remains that is not part of a complete response.
pub fn read_answers(mut bytes: &[u8], to_head: impl Fn(usize) -> bool) -> Result<Vec<Answer>, Unreadable> {
    let mut answers = Vec::new();
    let mut interim = 0;
    while !bytes.is_empty() {
        let read = read_one(bytes, to_head(answers.len()));
        match read {
            Ok((answer, used)) if answer.status < 200 => {
                interim += 1;
                bytes = &bytes[used..];
            }
            Ok((mut answer, used)) => {
                answer.interim = std::mem::take(&mut interim);
                answers.push(answer);
                bytes = &bytes[used..];
            }
            Err(why) => return Err(Unreadable { why, before: answers }),
        }
    }
    Ok(answers)
}

fn read_one(bytes: &[u8], to_head: bool) -> Result<(Answer, usize), String> {
    let end = find(bytes, b"\r\n\r\n").ok_or_else(|| format!("no end of a head in {:?}", shown(bytes)))?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| String::from("a head that is not text"))?;
    let (status, fields) = read_head(head)?;
    let rest = &bytes[end + 4..];
    let answer = |content: &[u8]| Answer { status, fields: fields.clone(), content: content.to_vec(), interim: 0 };
    if to_head || status < 200 || status == 204 || status == 304 {
        return Ok((answer(b""), end + 4));
    }
    let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    if let Some(coding) = field("transfer-encoding") {
        if coding != "chunked" || field("content-length").is_some() {
            return Err(format!("framing: transfer-encoding {coding:?}, content-length {:?}", field("content-length")));
        }
        let (content, used) = read_chunks(rest)?;
        return Ok((answer(&content), end + 4 + used));
    }
    if let Some(length) = field("content-length") {
        let length: usize = length.parse().map_err(|_| format!("content-length {length:?}"))?;
        let content = rest.get(..length).ok_or_else(|| format!("{} of {length} bytes of content", rest.len()))?;
        return Ok((answer(content), end + 4 + length));
    }
    Ok((answer(rest), bytes.len()))
}

fn read_head(head: &str) -> Result<(u16, Vec<(String, String)>), String> {
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| format!("status line {status_line:?}"))?;
    let fields = lines
        .map(|line| {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("field line {line:?}"))?;
            if name.is_empty() || name.contains(' ') {
                return Err(format!("field name {name:?}"));
            }
            Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect::<Result<_, _>>()?;
    Ok((status, fields))
}

fn read_chunks(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let line_end = at + find(&bytes[at..], b"\r\n").ok_or("a chunk's size line without an end")?;
        let line = std::str::from_utf8(&bytes[at..line_end]).map_err(|_| "a chunk's size that is not text")?;
        let size = usize::from_str_radix(line, 16).map_err(|_| format!("chunk size {line:?}"))?;
        let begin = line_end + 2;
        let chunk = bytes.get(begin..begin + size).ok_or("a chunk cut short")?;
        content.extend_from_slice(chunk);
        at = begin + size + 2;
        if bytes.get(at - 2..at) != Some(b"\r\n") {
            return Err(String::from("a chunk not ended by CRLF"));
        }
        if size == 0 {
            return Ok((content, at));
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pipelined_answers_of_every_framing() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\nuntil the end";
        let answers = read_answers(bytes, |index| index == 2).unwrap();
        let seen: Vec<_> =
            answers.iter().map(|answer| (answer.status, answer.content.as_slice(), answer.interim)).collect();
        assert_eq!(seen, [(200, &b"ok"[..], 1), (200, b"abc", 0), (200, b"", 0), (404, b"until the end", 0)]);
    }

    #[test]
    fn a_byte_too_many_is_found() {
        let unreadable = read_answers(b"HTTP/1.1 204 No Content\r\n\r\nx", |_| false).unwrap_err();
        assert_eq!(unreadable.before.len(), 1);
    }
}
