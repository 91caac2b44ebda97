//! Requests, built once.
//!
//! A request without placeholders is one byte string for the whole run. One with placeholders is encoded once with
//! markers in their places and split there, so that the rules of encoding stay in `http1` and sending only joins
//! pieces.

use breme_base::Instant;
use breme_http::{FieldBlock, Method, Version};
use breme_http1::RequestEncoder;
use breme_node::{Actions, ConnectionId};
use bytes::Bytes;
use thiserror::Error;

use crate::cookies::Jar;
use crate::encoding::{Encoding, push_target};
use crate::pairs::Pairs;
use crate::template::{Inputs, Placeholder, Template, push_number};
use crate::variables::PAGE_VERSION_PLACE;
use crate::versions::{BLANK, Mark, Versions};

/// The longest content of a request.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// From this size on a request is sent as a shared segment, not copied.
const SHARED_BYTES_MIN: usize = 4096;

/// One kind of request of the run.
#[derive(Debug)]
pub(crate) struct Request {
    method: String,
    /// The whole request, if it is always the same.
    whole: Option<Bytes>,
    head: Vec<HeadPiece>,
    content: Content,
    /// It writes a version of its target page.
    writes_version: bool,
}

#[derive(Debug)]
enum HeadPiece {
    Literal(Vec<u8>),
    /// In the request line, or in a field.
    Placeholder(Placeholder, Place),
    ContentLength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Target,
    Field,
}

#[derive(Debug)]
enum Content {
    Fixed(Bytes),
    Template(Template),
}

/// A request that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    #[error("CONNECT is not supported; use another method")]
    Connect,
    #[error("{0:?} is not a method; write GET, HEAD, POST, PUT, PATCH, DELETE or another token")]
    Method(String),
    #[error("{place}", place = PAGE_VERSION_PLACE)]
    PageVersion,
    #[error("the target is not ASCII")]
    Target,
    #[error(
        "header {0:?} cannot be sent: a name consists of letters, digits and dashes, and a value must not contain line breaks or control bytes"
    )]
    Field(String),
    #[error("the request cannot be built: {0} is not valid")]
    Head(String),
}

/// The parts of a request.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub method: &'a str,
    pub target: &'a Template,
    pub authority: &'a str,
    pub version: Version,
    pub keep_alive: bool,
    pub fields: &'a [(String, Template)],
    pub content: Option<&'a Template>,
}

/// Values that differ between sends.
pub(crate) struct Variables<'a> {
    pub inputs: Inputs<'a>,
    pub scratch: &'a mut Vec<u8>,
    pub jar: Option<&'a mut Jar>,
    pub now: Instant,
    /// The run's versions, if it writes any.
    pub versions: Option<&'a Versions>,
    /// The pairs of its session, if they are checked.
    pub pairs: Option<&'a mut Pairs>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub bytes: usize,
    pub mark: Option<Mark>,
}

impl Request {
    pub(crate) fn build(parts: Parts<'_>) -> Result<Self, RequestError> {
        let texts = parts.fields.iter().map(|(_, value)| value).chain([parts.target]);
        if texts.into_iter().any(Template::has_page_version) {
            return Err(RequestError::PageVersion);
        }
        let mut markers = Markers::avoiding(&parts);
        let target = String::from_utf8(markers.mark(parts.target)).map_err(|_| RequestError::Target)?;
        let mut fields = FieldBlock::new();
        for (name, value) in parts.fields {
            fields.push(name, &markers.mark(value)).map_err(|error| RequestError::Field(error.name))?;
        }
        let content_bytes = match parts.content.map(|content| content.as_fixed()) {
            Some(Some(bytes)) => Some(bytes.len() as u64),
            Some(None) => Some(LENGTH_MARKER),
            // Without it some servers respond with 411 (RFC 9110, 8.6).
            None => matches!(parts.method, "POST" | "PUT" | "PATCH").then_some(0),
        };
        let encoder = RequestEncoder {
            method: method(parts.method),
            target: &target,
            version: parts.version,
            authority: parts.authority,
            fields: &fields,
            keep_alive: parts.keep_alive,
        };
        let mut head = Vec::new();
        encoder.encode(content_bytes, &mut head).map_err(|error| RequestError::Head(error.name))?;
        let has_length_marker = content_bytes == Some(LENGTH_MARKER);
        Ok(Self::assemble(parts, markers.cut(&head, has_length_marker)))
    }

    fn assemble(parts: Parts<'_>, head: Vec<HeadPiece>) -> Self {
        let content = match parts.content {
            Some(template) => match template.as_fixed() {
                Some(bytes) => Content::Fixed(Bytes::copy_from_slice(bytes)),
                None => Content::Template(template.clone()),
            },
            None => Content::Fixed(Bytes::new()),
        };
        let whole = match (head.as_slice(), &content) {
            ([HeadPiece::Literal(head)], Content::Fixed(content)) => Some([head.as_slice(), content].concat().into()),
            _ => None,
        };
        let writes_version = parts.content.is_some_and(Template::has_page_version);
        Self { method: parts.method.to_owned(), whole, head, content, writes_version }
    }

    pub(crate) fn method(&self) -> Method<'_> {
        method(&self.method)
    }

    pub(crate) fn method_name(&self) -> &str {
        &self.method
    }

    /// Its content, to be sent once more.
    pub(crate) fn content_template(&self) -> Option<Template> {
        match &self.content {
            Content::Fixed(bytes) if bytes.is_empty() => None,
            Content::Fixed(bytes) => Some(Template::literal(bytes)),
            Content::Template(template) => Some(template.clone()),
        }
    }

    /// Path and query, if they are always the same.
    pub(crate) fn fixed_target(&self) -> Option<&[u8]> {
        match (&self.whole, self.head.first()) {
            (Some(whole), _) => Some(target_of(whole)),
            (None, Some(HeadPiece::Literal(start))) if memchr::memchr(b'\r', start).is_some() => Some(target_of(start)),
            _ => None,
        }
    }

    pub(crate) const fn writes_version(&self) -> bool {
        self.writes_version
    }

    /// Appends the request to the output of `connection`.
    #[inline]
    pub(crate) fn send(&self, connection: ConnectionId, variables: Variables<'_>, actions: &mut Actions) -> Sent {
        match &self.whole {
            Some(whole) if variables.jar.is_none() => {
                if whole.len() < SHARED_BYTES_MIN {
                    actions.send(connection).extend_from_slice(whole);
                } else {
                    actions.send_shared(connection, whole.clone());
                }
                if let Some(pairs) = variables.pairs {
                    pairs.begin_request(target_of(whole));
                }
                Sent {
                    bytes: whole.len(),
                    mark: variables.versions.and_then(|versions| self.mark_read(whole, versions)),
                }
            }
            _ => self.render(connection, variables, actions),
        }
    }

    fn render(&self, connection: ConnectionId, variables: Variables<'_>, actions: &mut Actions) -> Sent {
        let Variables { mut inputs, scratch, jar, now, versions, pairs } = variables;
        scratch.clear();
        let content_bytes = match &self.content {
            Content::Fixed(bytes) => bytes.len(),
            Content::Template(template) => {
                template.render(&mut inputs, scratch);
                scratch.len()
            }
        };
        let out = actions.send(connection);
        let start = out.len();
        for piece in &self.head {
            match piece {
                HeadPiece::Literal(bytes) => out.extend_from_slice(bytes),
                HeadPiece::Placeholder(placeholder, place) => render_in_head(placeholder, *place, &mut inputs, out),
                HeadPiece::ContentLength => push_number(content_bytes as u64, out),
            }
        }
        if let Some(jar) = jar {
            add_cookies(jar, now, start, out);
        }
        let mark = versions.and_then(|versions| match self.writes_version {
            true => write_mark(versions, target_of(&out[start..]), now, scratch),
            false => self.mark_read(&out[start..], versions),
        });
        if let Some(pairs) = pairs {
            pairs.begin_request(target_of(&out[start..]));
        }
        let head_bytes = out.len() - start;
        match &self.content {
            Content::Fixed(bytes) if bytes.len() >= SHARED_BYTES_MIN => actions.send_shared(connection, bytes.clone()),
            Content::Fixed(bytes) => out.extend_from_slice(bytes),
            Content::Template(_) => out.extend_from_slice(scratch),
        }
        Sent { bytes: head_bytes + content_bytes, mark }
    }

    /// The page that a GET reads, if the run has written a version of it.
    fn mark_read(&self, head: &[u8], versions: &Versions) -> Option<Mark> {
        if self.method != "GET" {
            return None;
        }
        versions.page(target_of(head)).map(Mark::Read)
    }
}

/// Values from a server must not become part of the head's structure: in the target they are encoded where necessary,
/// and in a field their control characters become spaces.
fn render_in_head(placeholder: &Placeholder, place: Place, inputs: &mut Inputs<'_>, out: &mut Vec<u8>) {
    let Placeholder::Variable(index, Encoding::Plain) = placeholder else {
        return placeholder.render(inputs, out);
    };
    let value = inputs.values.get(*index).map_or(&[][..], Vec::as_slice);
    match place {
        Place::Target => push_target(value, out),
        Place::Field => out.extend(value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte })),
    }
}

/// Inserts a Cookie field before the empty line that ends the head.
fn add_cookies(jar: &mut Jar, now: Instant, start: usize, out: &mut Vec<u8>) {
    let path = path_of(&out[start..]).to_vec();
    out.truncate(out.len() - b"\r\n".len());
    jar.write_field(&path, now, out);
    out.extend_from_slice(b"\r\n");
}

/// Begins a new version of the page, and writes its mark into the content.
fn write_mark(versions: &Versions, page: &[u8], now: Instant, content: &mut [u8]) -> Option<Mark> {
    let written = versions.begin_write(page, now);
    let mark = versions.mark(written);
    let mut position = 0;
    while let Some(at) = memchr::memmem::find(&content[position..], &BLANK) {
        position += at + mark.len();
        content[position - mark.len()..position].copy_from_slice(&mark);
    }
    written.map(Mark::Write)
}

/// The path of a request line, without its query.
fn path_of(head: &[u8]) -> &[u8] {
    target_of(head).split(|&byte| byte == b'?').next().unwrap_or(b"/")
}

/// The target of a request line, without the prefix of a request to a proxy.
fn target_of(head: &[u8]) -> &[u8] {
    let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or(b"/");
    match target.strip_prefix(b"http://") {
        Some(rest) => &rest[memchr::memchr(b'/', rest).unwrap_or(rest.len())..],
        None => target,
    }
}

fn method(name: &str) -> Method<'_> {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "PATCH" => Method::Patch,
        other => Method::Other(other),
    }
}

/// A length that no real content has, to be found again in the encoded head.
const LENGTH_MARKER: u64 = 9_876_543_210_987_654_321;
const MARKER_DIGITS: usize = 6;

/// Replaces placeholders while the head is encoded.
struct Markers {
    name: String,
    placeholders: Vec<Placeholder>,
}

impl Markers {
    /// A name that occurs in none of the texts.
    fn avoiding(parts: &Parts<'_>) -> Self {
        let texts: Vec<Vec<u8>> = std::iter::once(parts.target)
            .chain(parts.fields.iter().map(|(_, value)| value))
            .map(|template| template.with_markers(|_| String::new()))
            .collect();
        let is_free = |name: &String| texts.iter().all(|text| memchr::memmem::find(text, name.as_bytes()).is_none());
        let name = (0_u64..).map(|number| format!("Q{number}placeholder")).find(is_free).unwrap_or_default();
        Self { name, placeholders: Vec::new() }
    }

    fn mark(&mut self, template: &Template) -> Vec<u8> {
        template.with_markers(|placeholder| {
            self.placeholders.push(placeholder.clone());
            format!("{}{:0MARKER_DIGITS$}", self.name, self.placeholders.len() - 1)
        })
    }

    /// Splits the encoded head at the markers.
    fn cut(mut self, head: &[u8], has_length_marker: bool) -> Vec<HeadPiece> {
        let mut cuts: Vec<(usize, usize, HeadPiece)> = Vec::new();
        let line_bytes = memchr::memmem::find(head, b"\r\n").unwrap_or(head.len());
        for (index, placeholder) in self.placeholders.drain(..).enumerate() {
            let marker = format!("{}{index:0MARKER_DIGITS$}", self.name);
            if let Some(at) = memchr::memmem::find(head, marker.as_bytes()) {
                let place = if at < line_bytes { Place::Target } else { Place::Field };
                cuts.push((at, marker.len(), HeadPiece::Placeholder(placeholder, place)));
            }
        }
        let length_line = format!("ontent-Length: {LENGTH_MARKER}");
        if has_length_marker && let Some(at) = memchr::memmem::find(head, length_line.as_bytes()) {
            let digits = LENGTH_MARKER.to_string().len();
            cuts.push((at + length_line.len() - digits, digits, HeadPiece::ContentLength));
        }
        cuts.sort_by_key(|(at, ..)| *at);
        let mut pieces = Vec::new();
        let mut position = 0;
        for (at, length, piece) in cuts {
            pieces.push(HeadPiece::Literal(head[position..at].to_vec()));
            pieces.push(piece);
            position = at + length;
        }
        pieces.push(HeadPiece::Literal(head[position..].to_vec()));
        pieces
    }
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;
    use crate::template::Names;

    struct Sender {
        request: Request,
        random: Random,
        values: Vec<Vec<u8>>,
        jar: Option<Jar>,
        versions: Option<Versions>,
        mark: Option<Mark>,
    }

    impl Sender {
        fn new(method: &str, target: &str, fields: &[(&str, &str)], content: Option<&str>) -> Self {
            let fields: Vec<(String, Template)> = fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Template::parse_if_any(value.as_bytes()).unwrap()))
                .collect();
            let content = content.map(|content| Template::parse_if_any(content.as_bytes()).unwrap());
            let request = Request::build(Parts {
                method,
                target: &Template::parse(target.as_bytes()).unwrap(),
                authority: "a:80",
                version: Version::Http11,
                keep_alive: true,
                fields: &fields,
                content: content.as_ref(),
            });
            Self {
                request: request.unwrap(),
                random: Random::new(1),
                values: Vec::new(),
                jar: None,
                versions: None,
                mark: None,
            }
        }

        fn sent(&mut self, sequence: u64) -> String {
            let connection = ConnectionId::new(0, 0);
            let mut actions = Actions::new();
            let variables = Variables {
                inputs: Inputs { sequence, session: 1, random: &mut self.random, values: &self.values },
                scratch: &mut vec![b'x'; 7],
                jar: self.jar.as_mut(),
                now: Instant::ZERO,
                versions: self.versions.as_ref(),
                pairs: None,
            };
            let Sent { bytes: length, mark } = self.request.send(connection, variables, &mut actions);
            self.mark = mark;
            let mut bytes = Vec::new();
            let log = actions.with_received(&[]);
            (0..log.len()).for_each(|index| bytes.extend_from_slice(log.memory(index)));
            assert_eq!(bytes.len(), length);
            String::from_utf8(bytes).unwrap()
        }
    }

    #[test]
    fn a_fixed_request_is_one_string() {
        let mut sender = Sender::new("GET", "/x?y", &[("Accept", "*/*")], None);
        let sent = sender.sent(1);
        assert!(sent.starts_with("GET /x?y HTTP/1.1\r\n") && sent.ends_with("\r\n\r\n"), "{sent}");
        assert!(sent.contains("\r\nHost: a:80\r\n") && sent.contains("\r\nAccept: */*\r\n"), "{sent}");
        assert_eq!(sent, sender.sent(2));
        assert!(sender.request.whole.is_some());
    }

    #[test]
    fn placeholders_are_filled_in_target_field_and_content() {
        let mut sender = Sender::new("POST", "/p/{seq}?n={uniform:5:5}", &[("X-Number", "n{seq}")], Some("seq={seq}"));
        let sent = sender.sent(9);
        assert!(sent.starts_with("POST /p/9?n=5 HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nX-Number: n9\r\n") && sent.contains("\r\nContent-Length: 5\r\n"), "{sent}");
        assert!(sent.ends_with("\r\n\r\nseq=9"), "{sent}");
        let longer = sender.sent(1_000);
        assert!(longer.contains("\r\nContent-Length: 8\r\n") && longer.ends_with("\r\n\r\nseq=1000"), "{longer}");
    }

    #[test]
    fn text_that_looks_like_a_marker_is_left_alone() {
        let mut sender = Sender::new("GET", "/Q0placeholder000000/{seq}", &[("X", "Q1placeholder")], None);
        let sent = sender.sent(3);
        assert!(sent.starts_with("GET /Q0placeholder000000/3 HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nX: Q1placeholder\r\n"), "{sent}");
    }

    #[test]
    fn a_variable_cannot_change_the_structure_of_the_head() {
        let names = ["x".to_owned()];
        let template = |text: &str| Template::parse_lenient(text.as_bytes(), Names::Session(&names)).unwrap();
        let request = Request::build(Parts {
            method: "POST",
            target: &template("/a/{x}"),
            authority: "a",
            version: Version::Http11,
            keep_alive: true,
            fields: &[("X".to_owned(), template("{x}"))],
            content: Some(&template("{x}")),
        });
        let values = vec![b"1 HTTP/1.1\r\nEvil: 1".to_vec()];
        let mut sender = Sender { request: request.unwrap(), values, ..Sender::new("GET", "/", &[], None) };
        let sent = sender.sent(1);
        assert!(sent.starts_with("POST /a/1%20HTTP/1.1%0D%0AEvil:%201 HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\r\nX: 1 HTTP/1.1  Evil: 1\r\n"), "{sent}");
        assert!(sent.ends_with("\r\n\r\n1 HTTP/1.1\r\nEvil: 1"), "{sent}");
    }

    #[test]
    fn large_content_is_shared() {
        let content = "c".repeat(10_000);
        let mut sender = Sender::new("PUT", "/{seq}", &[], Some(&content));
        let sent = sender.sent(1);
        assert!(sent.ends_with(&content) && sent.contains("\r\nContent-Length: 10000\r\n"));
        let sent = Sender::new("PUT", "/", &[], Some(&content)).sent(1);
        assert!(sent.ends_with(&content) && sent.contains("\r\nContent-Length: 10000\r\n"));
    }

    #[test]
    fn content_is_announced_where_the_method_makes_it_expected() {
        assert!(Sender::new("POST", "/", &[], None).sent(1).contains("\r\nContent-Length: 0\r\n"));
        assert!(!Sender::new("GET", "/", &[], None).sent(1).contains("Content-Length"));
    }

    #[test]
    fn cookies_are_sent_in_the_head() {
        let mut sender = Sender::new("GET", "/shop/1?x=/y", &[], None);
        sender.jar = Some(Jar::default());
        assert!(!sender.sent(1).contains("Cookie"));
        let jar = sender.jar.as_mut().unwrap();
        jar.store(b"id=7; Path=/shop", "a", Instant::ZERO, breme_base::UnixSeconds(0));
        jar.store(b"no=1; Path=/y", "a", Instant::ZERO, breme_base::UnixSeconds(0));
        let sent = sender.sent(1);
        assert!(sent.ends_with("\r\nCookie: id=7\r\n\r\n"), "{sent}");
    }

    #[test]
    fn cookies_through_a_proxy_go_by_the_path_alone() {
        let mut sender = Sender::new("GET", "http://a/shop/1?x", &[], None);
        sender.jar = Some(Jar::default());
        let jar = sender.jar.as_mut().unwrap();
        jar.store(b"id=7; Path=/shop", "a", Instant::ZERO, breme_base::UnixSeconds(0));
        let sent = sender.sent(1);
        assert!(sent.starts_with("GET http://a/shop/1?x ") && sent.contains("\r\nCookie: id=7\r\n"), "{sent}");
    }

    #[test]
    fn a_version_is_written_for_the_target_and_read_from_it() {
        let mut writer = Sender::new("POST", "/p/{seq}", &[], Some("a={page_version}&b={page_version}"));
        writer.versions = Some(Versions::new(5));
        let first = writer.sent(1);
        let mark = "breme-version-0000000000000005-0000000-000000001-end";
        assert!(first.ends_with(&format!("\r\n\r\na={mark}&b={mark}")), "{first}");
        assert!(first.contains(&format!("\r\nContent-Length: {}\r\n", 2 * mark.len() + 5)), "{first}");
        assert!(matches!(writer.mark, Some(Mark::Write(_))));
        assert!(writer.sent(2).contains("-0000001-000000001-end"), "another page");
        assert!(writer.sent(1).contains("-0000000-000000002-end"), "the next version");

        let versions = writer.versions.take();
        let mut reader = Sender { versions, ..Sender::new("GET", "/p/{seq}", &[], None) };
        reader.sent(2);
        assert_eq!(reader.mark, Some(Mark::Read(1)));
        reader.sent(3);
        assert_eq!(reader.mark, None, "nothing was written there");
        let mut fixed = Sender { versions: reader.versions.take(), ..Sender::new("GET", "http://a/p/1", &[], None) };
        fixed.sent(1);
        assert_eq!(fixed.mark, Some(Mark::Read(0)), "through a forward proxy too");
    }

    #[test]
    fn a_version_is_written_into_content_only() {
        let target = Template::parse(b"/{page_version}").unwrap();
        let parts = Parts {
            method: "GET",
            target: &target,
            authority: "a",
            version: Version::Http11,
            keep_alive: true,
            fields: &[],
            content: None,
        };
        assert_eq!(Request::build(parts).unwrap_err(), RequestError::PageVersion);
        let fields = [("X".to_owned(), Template::parse_if_any(b"{page_version}").unwrap())];
        let parts = Parts { target: &Template::parse(b"/").unwrap(), fields: &fields, ..parts };
        assert_eq!(Request::build(parts).unwrap_err(), RequestError::PageVersion);
    }

    #[test]
    fn a_field_that_would_end_the_head_is_refused() {
        let value = Template::parse_if_any(b"x\r\nEvil: 1").unwrap();
        let parts = Parts {
            method: "GET",
            target: &Template::parse(b"/").unwrap(),
            authority: "a",
            version: Version::Http11,
            keep_alive: true,
            fields: &[("X".to_owned(), value)],
            content: None,
        };
        assert_eq!(Request::build(parts).unwrap_err(), RequestError::Field("X".to_owned()));
    }
}
