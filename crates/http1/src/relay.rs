//! Serialisation of forwarded messages.
//!
//! Nothing of the sender's framing is forwarded. Field lines are written from name and value; framing and connection
//! management are written by this crate (RFC 9110, 7.6.1; RFC 9112, 11.2).

use breme_http::fields::{is_sendable, push_checked_line, push_field_line};
use breme_http::syntax::is_token;
use breme_http::trailers::announced;
use breme_http::{FieldBlock, Fields, Framing, InvalidField, Method, ResponseFields, Target, Version, push_decimal};

use crate::head::split_field_line;
use crate::status::{push_framing, push_hexadecimal};

/// Bytes reserved for the fields of a forwarded message.
const FIELDS_BYTES: usize = 512;

/// A field name checked at compile time. Never a framing field.
#[derive(Clone, Copy, Debug)]
pub struct FieldName(&'static str);

impl FieldName {
    /// # Panics
    /// If the name is not a token, or frames a message.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        assert!(is_token(name.as_bytes()), "a field name must be a token");
        let frames = name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("Transfer-Encoding");
        assert!(!frames, "framing is written by this crate alone");
        Self(name)
    }
}

/// Adds header fields to a head.
#[derive(Debug)]
#[must_use = "the head ends with `end`"]
pub struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> FieldWriter<'o> {
    /// Adds a field line, except `Content-Length` and `Transfer-Encoding`.
    ///
    /// # Errors
    /// As [`FieldBlock::push`]; nothing is written then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        let frames = name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("Transfer-Encoding");
        if frames { Err(InvalidField::new(name)) } else { push_field_line(self.out, name, value) }
    }

    /// Adds a field line whose value is the concatenation of `parts`.
    ///
    /// # Errors
    /// As [`field`](Self::field).
    pub fn field_from_parts(&mut self, name: FieldName, parts: &[&[u8]]) -> Result<(), InvalidField> {
        self.field_with(name, |out| parts.iter().for_each(|part| out.extend_from_slice(part)))
    }

    /// Adds a field line whose value `write` appends.
    ///
    /// # Errors
    /// As [`field`](Self::field).
    #[inline]
    pub fn field_with(&mut self, name: FieldName, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), InvalidField> {
        let start = self.out.len();
        self.out.extend_from_slice(name.0.as_bytes());
        self.out.extend_from_slice(b": ");
        let value_start = self.out.len();
        write(self.out);
        if !is_sendable(self.out.get(value_start..).unwrap_or(b"\0")) {
            self.out.truncate(start);
            return Err(InvalidField::new(name.0));
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Adds a field line with a decimal number.
    pub fn number(&mut self, name: FieldName, value: u64) {
        self.out.extend_from_slice(name.0.as_bytes());
        self.out.extend_from_slice(b": ");
        push_decimal(self.out, value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Adds serialised lines, each ending with CRLF.
    ///
    /// # Errors
    /// If they are not field lines, or one of them is a framing field; nothing is written then.
    pub fn lines(&mut self, lines: &[u8]) -> Result<(), InvalidField> {
        let invalid = || InvalidField::new(&String::from_utf8_lossy(lines));
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let (name, _) = split_field_line(line).map_err(|_| invalid())?;
            if name.eq_ignore_ascii_case(b"Content-Length") || name.eq_ignore_ascii_case(b"Transfer-Encoding") {
                return Err(invalid());
            }
        }
        self.out.extend_from_slice(lines);
        Ok(())
    }

    /// Adds a prepared block of lines.
    pub fn block(&mut self, block: &FieldBlock) {
        self.out.extend_from_slice(block.as_bytes());
    }

    /// Forwards the fields of another message that are not [hop-by-hop](breme_http::HopByHop) and for which `keeps`
    /// returns true. They were validated on receipt.
    pub fn relay(&mut self, fields: Fields<'_, '_>, keeps: impl Fn(&str) -> bool) {
        let hop_by_hop = fields.hop_by_hop();
        self.out.reserve(FIELDS_BYTES);
        for field in fields.iter() {
            if !hop_by_hop.has(field.name) && keeps(field.name) {
                push_checked_line(self.out, field.name, field.value);
            }
        }
    }

    /// Forwards the Trailer field (RFC 9110, 6.6.2), reduced to the names that will be
    /// [forwarded](crate::LastChunk::relay).
    pub fn announce_trailers(&mut self, fields: Fields<'_, '_>) {
        if let Some(names) = announced(fields.list("Trailer")).filter(|_| fields.keep_trailers()) {
            push_checked_line(self.out, "Trailer", &names);
        }
    }

    /// Adds an entry to Via, with the version in which the message was received (RFC 9110, 7.6.3). An invalid name is
    /// omitted.
    pub fn via(&mut self, version: Version, name: &str) {
        let start = self.out.len();
        self.out.extend_from_slice(match version {
            Version::Http10 => b"Via: 1.0 ",
            Version::Http11 => b"Via: 1.1 ",
        });
        if is_sendable(name.as_bytes()) {
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.out.truncate(start);
        }
    }

    /// Adds Date, whose value [`http_date`](breme_http::http_date) formats.
    pub fn date(&mut self, date: &[u8; 29]) {
        self.out.extend_from_slice(b"Date: ");
        self.out.extend_from_slice(date);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Removes the lines since `start` that `set` replaces.
    pub(crate) fn remove_replaced(&mut self, set: &ResponseFields, start: usize) {
        set.remove_replaced(self.out, start);
    }

    /// Leaves the head unfinished, to be [resumed](Self::resume).
    pub fn leave_open(self) {}

    /// Resumes the unfinished head at the end of `out`.
    pub fn resume(out: &'o mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Ends the head.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The head of a forwarded request: always HTTP/1.1 on a persistent connection.
#[derive(Clone, Copy, Debug)]
pub struct RelayedRequest<'a> {
    pub method: Method<'a>,
    /// Sent in origin or asterisk form, whatever its form.
    pub target: Target<'a>,
    /// The value of Host; None if it is added later.
    pub authority: Option<&'a str>,
    /// The framing of the content that follows.
    pub framing: Framing,
    /// The value of Upgrade.
    pub upgrade: Option<&'a [u8]>,
    /// Announce that trailers are accepted.
    pub accepts_trailers: bool,
}

impl RelayedRequest<'_> {
    /// Writes the request line and the fields Host, framing and Connection.
    ///
    /// # Errors
    /// If the method, the target or the authority is invalid. Nothing is written then.
    pub fn begin<'o>(&self, out: &'o mut Vec<u8>) -> Result<FieldWriter<'o>, InvalidField> {
        let start = out.len();
        match self.try_begin(out) {
            Ok(()) => Ok(FieldWriter::resume(out)),
            Err(invalid) => {
                out.truncate(start);
                Err(invalid)
            }
        }
    }

    fn try_begin(&self, out: &mut Vec<u8>) -> Result<(), InvalidField> {
        let method = self.method.as_str();
        if matches!(self.method, Method::Other(name) if !is_token(name.as_bytes())) {
            return Err(InvalidField::new(method));
        }
        out.reserve(FIELDS_BYTES);
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        push_target(self.target, out)?;
        out.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(authority) = self.authority {
            push_field_line(out, "Host", authority.as_bytes())?;
        }
        push_framing(out, self.framing);
        match (self.upgrade.is_some(), self.accepts_trailers) {
            (true, false) => out.extend_from_slice(b"Connection: upgrade\r\n"),
            (false, true) => out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n"),
            (true, true) => out.extend_from_slice(b"Connection: upgrade, TE\r\nTE: trailers\r\n"),
            (false, false) => {}
        }
        if let Some(protocols) = self.upgrade {
            push_field_line(out, "Upgrade", protocols)?;
        }
        Ok(())
    }
}

/// Writes one chunk (RFC 9112, 7.1). An empty one would be the last, so nothing is written for it.
pub fn push_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        push_hexadecimal(out, bytes.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

fn push_target(target: Target<'_>, out: &mut Vec<u8>) -> Result<(), InvalidField> {
    let (path, query) = match target {
        Target::Asterisk | Target::Absolute { path: "", query: None, .. } => ("*", None),
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
        Target::Authority(authority) => (authority, None),
    };
    let is_forbidden = |byte: u8| byte.wrapping_sub(b'!') >= 0x7f - b'!';
    let is_sendable = |part: &str| !part.bytes().fold(false, |found, byte| found | is_forbidden(byte));
    if path.is_empty() || !is_sendable(path) || !query.is_none_or(is_sendable) {
        return Err(InvalidField::new(path));
    }
    out.extend_from_slice(path.as_bytes());
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_http::Limits;

    use crate::{ClientConnection, ClientProgress, FieldStorage, Progress, ServerConnection};

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    /// The forwarded fields of a request.
    fn relayed(fields: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (mut server, limits, mut storage) = (ServerConnection::new(), Limits::default(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &limits, &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{request}: {progress:?}") };
        let mut out = Vec::new();
        FieldWriter::resume(&mut out).relay(head.fields, |name| !name.eq_ignore_ascii_case("Host"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn drops_hop_by_hop_fields() {
        for fields in [
            "Connection: close\r\nKeep-Alive: timeout=5\r\n",
            "connection: Keep-Alive\r\nproxy-connection: keep-alive\r\n",
            "TE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 0\r\n",
            "Connection: X-One\r\nX-One: 1\r\n",
            "Connection: close , x-one\r\nConnection: X-TWO\r\nX-One: 1\r\nx-two: 2\r\n",
            "Connection: \"q, x-one, q\"\r\nX-One: 1\r\n",
        ] {
            assert_eq!(relayed(fields), "", "{fields}");
        }
        let kept = "Accept: */*\r\nCookie: a=b\r\nX-Keep: close\r\nAccept: b\r\n";
        assert_eq!(relayed(&format!("Connection: x-o\r\n{kept}")), kept);
        let kept = "CDN-Loop: a.example; x=y\r\ncdn-loop: b\r\n";
        assert_eq!(relayed(&format!("Connection: cdn-loop, x-one\r\n{kept}X-One: 1\r\n")), kept);
    }

    #[test]
    fn normalises_relayed_fields() {
        assert_eq!(relayed("X-A:   b \t c  \r\nx-b:\r\n"), "X-A: b \t c\r\nx-b: \r\n");
    }

    fn begun(request: &RelayedRequest<'_>) -> Result<String, InvalidField> {
        let mut out = Vec::new();
        request.begin(&mut out)?.end();
        Ok(String::from_utf8(out).unwrap())
    }

    const GET: RelayedRequest<'_> = RelayedRequest {
        method: Method::Get,
        target: Target::Origin { path: "/x", query: Some("y") },
        authority: Some("a:80"),
        framing: Framing::None,
        upgrade: None,
        accepts_trailers: false,
    };

    #[test]
    fn validates_values_built_from_parts() {
        const NAME: FieldName = FieldName::new("X-One");
        let written = |parts: &[&str]| {
            let mut out = b"|".to_vec();
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            let result = FieldWriter::resume(&mut out).field_from_parts(NAME, &parts);
            assert_eq!(result.is_err(), out == b"|", "{parts:?}");
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&["a", "", " b"]), "|X-One: a b\r\n");
        assert_eq!(written(&[]), "|X-One: \r\n");
        for parts in [&["a\r", "\nb"][..], &[" a"], &["a", "\t"], &["\0"], &["a", "\x7f"]] {
            assert_eq!(written(parts), "|", "{parts:?}");
        }
        let mut out = Vec::new();
        FieldWriter::resume(&mut out).number(NAME, 1_020);
        assert_eq!(out, b"X-One: 1020\r\n");
    }

    #[test]
    fn validates_prepared_lines() {
        let written = |lines: &str| {
            let mut out = Vec::new();
            FieldWriter::resume(&mut out).lines(lines.as_bytes()).map(|()| out)
        };
        assert_eq!(written("A: b\r\nc: \r\n").unwrap(), b"A: b\r\nc: \r\n");
        for lines in ["A: b", "A: b\r\n\r\n", "A: b\nc: d\r\n", "A b\r\n", "content-length: 1\r\n", ": x\r\n"] {
            assert!(written(lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn relays_requests_in_origin_form() {
        assert_eq!(begun(&GET).unwrap(), "GET /x?y HTTP/1.1\r\nHost: a:80\r\n\r\n");
        let absolute = Target::Absolute { scheme: "http", authority: "b", path: "/z", query: None };
        let chunked = RelayedRequest { target: absolute, framing: Framing::Chunked, method: Method::Post, ..GET };
        assert_eq!(begun(&chunked).unwrap(), "POST /z HTTP/1.1\r\nHost: a:80\r\nTransfer-Encoding: chunked\r\n\r\n");
        let whole_server = Target::Absolute { scheme: "http", authority: "b", path: "", query: None };
        let options = RelayedRequest { target: whole_server, method: Method::Options, ..GET };
        assert_eq!(begun(&options).unwrap(), "OPTIONS * HTTP/1.1\r\nHost: a:80\r\n\r\n");
        let upgrade =
            RelayedRequest { target: Target::Asterisk, method: Method::Options, upgrade: Some(b"x/1, y"), ..GET };
        assert_eq!(
            begun(&upgrade).unwrap(),
            "OPTIONS * HTTP/1.1\r\nHost: a:80\r\nConnection: upgrade\r\nUpgrade: x/1, y\r\n\r\n"
        );
    }

    #[test]
    fn rejects_line_breaks_in_requests() {
        let origin = |path, query| RelayedRequest { target: Target::Origin { path, query }, ..GET };
        for request in [
            origin("/a b", None),
            origin("/", Some("a\r\nb")),
            origin("", None),
            RelayedRequest { method: Method::Other("G T"), ..GET },
            RelayedRequest { authority: Some("a\r\nX: y"), ..GET },
            RelayedRequest { upgrade: Some(b"a\nb"), ..GET },
        ] {
            let mut out = b"|".to_vec();
            assert!(request.begin(&mut out).is_err(), "{request:?}");
            assert_eq!(out, b"|");
        }
    }

    /// A server that has received `request`.
    fn received(request: &str) -> ServerConnection {
        let mut server = ServerConnection::new();
        let (limits, mut storage) = (Limits::default(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &limits, &mut storage);
        assert!(matches!(progress, Ok(Progress::Head { .. })), "{request}");
        server
    }

    #[test]
    fn relayed_response_keeps_its_date() {
        let response = b"HTTP/1.1 200 Fine\r\nDate: x\r\nContent-Length: 2\r\nKeep-Alive: y\r\n\r\n";
        let mut client = ClientConnection::new();
        client.sent(Method::Get);
        let mut storage = FieldStorage::new();
        let progress = client.receive(response, false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = progress else { panic!("{progress:?}") };
        let (mut server, mut out) = (received("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Vec::new());
        let mut writer = server.relay(head.status, head.framing, &mut out);
        writer.relay(head.fields, |_| true);
        assert_eq!(writer.end(), crate::ResponseBody::Expected);
        assert_eq!(out, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: x\r\n\r\n");
    }

    #[test]
    fn http10_clients_get_no_interim_responses() {
        let mut out = Vec::new();
        let mut server = received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut writer = server.interim(103, &mut out).unwrap();
        writer.field("Link", b"<x>").unwrap();
        let _ = writer.end();
        assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n");
        assert!(received("GET / HTTP/1.0\r\n\r\n").interim(103, &mut out).is_none());
        let _ = server.respond(200, Framing::Length(1), DATE, &mut out).end();
        assert!(server.interim(103, &mut out).is_none(), "after the head of the final response");
    }

    #[test]
    fn tunnel_ends_http_on_the_connection() {
        for (request, status, expected) in [
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 200, "HTTP/1.1 200 OK\r\n\r\n"),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
                101,
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n",
            ),
        ] {
            let (mut server, mut out) = (received(request), Vec::new());
            assert_eq!(server.begin_tunnel(status, &mut out).end(), crate::ResponseBody::Omitted);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            let mut storage = FieldStorage::new();
            let progress = server.receive(b"raw", false, &Limits::default(), &mut storage);
            assert!(matches!(progress, Ok(Progress::Over)), "{progress:?}");
        }
    }

    #[test]
    fn prepared_lines_cannot_frame() {
        for line in ["Transfer-Encoding: chunked\r\n", "A: b\r\nTRANSFER-ENCODING: chunked\r\n"] {
            let mut out = b"|".to_vec();
            assert!(FieldWriter::resume(&mut out).lines(line.as_bytes()).is_err(), "{line:?}");
            assert_eq!(out, b"|");
        }
    }

    #[test]
    fn via_names_the_received_version() {
        let mut out = Vec::new();
        let mut writer = FieldWriter::resume(&mut out);
        writer.via(Version::Http10, "a");
        writer.via(Version::Http11, "b\r\nX: y");
        writer.via(Version::Http11, "c");
        assert_eq!(out, b"Via: 1.0 a\r\nVia: 1.1 c\r\n");
    }
}
