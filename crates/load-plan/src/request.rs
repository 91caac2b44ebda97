//! Requests, built once.
//!
//! A request without placeholders is one byte string for the whole run. One with placeholders is encoded once with
//! markers in their places and split there, so that the rules of encoding stay in `http1` and sending only joins
//! pieces.

use breme_http::syntax::is_token;
use breme_http::{FieldBlock, Method, Version, list_members};
use breme_http1::RequestEncoder;
use bytes::Bytes;
use thiserror::Error;

use crate::encoding::{Encoding, push_target};
use crate::template::{Inputs, Placeholder, Template, push_number};
use crate::variables::PAGE_VERSION_PLACE;

/// The longest content of a request.
pub(crate) const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One kind of request of the run.
#[derive(Debug)]
pub struct Request {
    method: String,
    /// The whole request, if it is always the same.
    whole: Option<Bytes>,
    head: Vec<HeadPiece>,
    content: Content,
    /// It writes a version of its target page.
    writes_version: bool,
    /// It asks the server to close the connection.
    closes: bool,
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

/// The content of a request.
#[derive(Debug)]
pub enum Content {
    /// Always the same.
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

/// Whether a field can have this name (RFC 9110, 5.1).
#[must_use]
pub fn is_field_name(name: &str) -> bool {
    is_token(name.as_bytes())
}

/// Whether a Connection field with this value has the option `close`.
pub(crate) fn has_close(value: &[u8]) -> bool {
    list_members(value).any(|option| option.eq_ignore_ascii_case(b"close"))
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
        let mut connection = parts.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Connection")).peekable();
        let closes = match connection.peek() {
            Some(_) => connection.any(|(_, value)| value.as_fixed().is_some_and(has_close)),
            None => !parts.keep_alive,
        };
        Self { method: parts.method.to_owned(), whole, head, content, writes_version, closes }
    }

    /// Whether it asks the server to close the connection after the response (RFC 9112, 9.6).
    #[inline]
    #[must_use]
    pub const fn closes(&self) -> bool {
        self.closes
    }

    #[inline]
    #[must_use]
    pub fn method(&self) -> Method<'_> {
        method(&self.method)
    }

    #[inline]
    #[must_use]
    pub fn method_name(&self) -> &str {
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
    #[must_use]
    pub fn fixed_target(&self) -> Option<&[u8]> {
        match (&self.whole, self.head.first()) {
            (Some(whole), _) => Some(target_of(whole)),
            (None, Some(HeadPiece::Literal(start))) if memchr::memchr(b'\r', start).is_some() => Some(target_of(start)),
            _ => None,
        }
    }

    /// Whether it writes a version of its target page.
    #[inline]
    #[must_use]
    pub const fn writes_version(&self) -> bool {
        self.writes_version
    }

    /// Head and content, if they are always the same.
    #[inline]
    #[must_use]
    pub const fn whole(&self) -> Option<&Bytes> {
        self.whole.as_ref()
    }

    #[inline]
    #[must_use]
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Appends the head of a request whose content has this length.
    pub fn render_head(&self, inputs: &mut Inputs<'_>, content_bytes: usize, out: &mut Vec<u8>) {
        for piece in &self.head {
            match piece {
                HeadPiece::Literal(bytes) => out.extend_from_slice(bytes),
                HeadPiece::Placeholder(placeholder, place) => render_in_head(placeholder, *place, inputs, out),
                HeadPiece::ContentLength => push_number(content_bytes as u64, out),
            }
        }
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

/// The target of a request line, without the prefix of a request to a proxy.
#[inline]
#[must_use]
pub fn target_of(head: &[u8]) -> &[u8] {
    let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or(b"/");
    match target.strip_prefix(b"http://") {
        Some(rest) => &rest[memchr::memchr(b'/', rest).unwrap_or(rest.len())..],
        None => target,
    }
}

#[inline]
fn method(name: &str) -> Method<'_> {
    Method::from_token(name.as_bytes()).unwrap_or(Method::Other(name))
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

    struct Renderer {
        request: Request,
        random: Random,
        values: Vec<Vec<u8>>,
    }

    impl Renderer {
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
            Self { request: request.unwrap(), random: Random::new(1), values: Vec::new() }
        }

        fn rendered(&mut self, sequence: u64) -> String {
            let mut text = Vec::new();
            if let Some(whole) = self.request.whole() {
                text.extend_from_slice(whole);
            } else {
                let mut inputs = Inputs { sequence, session: 1, random: &mut self.random, values: &self.values };
                let mut content = Vec::new();
                match self.request.content() {
                    Content::Fixed(bytes) => content.extend_from_slice(bytes),
                    Content::Template(template) => template.render(&mut inputs, &mut content),
                }
                self.request.render_head(&mut inputs, content.len(), &mut text);
                text.extend_from_slice(&content);
            }
            String::from_utf8(text).unwrap()
        }
    }

    #[test]
    fn a_fixed_request_is_one_string() {
        let mut renderer = Renderer::new("GET", "/x?y", &[("Accept", "*/*")], None);
        let rendered = renderer.rendered(1);
        assert!(rendered.starts_with("GET /x?y HTTP/1.1\r\n") && rendered.ends_with("\r\n\r\n"), "{rendered}");
        assert!(rendered.contains("\r\nHost: a:80\r\n") && rendered.contains("\r\nAccept: */*\r\n"), "{rendered}");
        assert_eq!(rendered, renderer.rendered(2));
        assert!(renderer.request.whole.is_some());
    }

    #[test]
    fn placeholders_are_filled_in_target_field_and_content() {
        let mut renderer =
            Renderer::new("POST", "/p/{seq}?n={uniform:5:5}", &[("X-Number", "n{seq}")], Some("seq={seq}"));
        let rendered = renderer.rendered(9);
        assert!(rendered.starts_with("POST /p/9?n=5 HTTP/1.1\r\n"), "{rendered}");
        assert!(
            rendered.contains("\r\nX-Number: n9\r\n") && rendered.contains("\r\nContent-Length: 5\r\n"),
            "{rendered}"
        );
        assert!(rendered.ends_with("\r\n\r\nseq=9"), "{rendered}");
        let longer = renderer.rendered(1_000);
        assert!(longer.contains("\r\nContent-Length: 8\r\n") && longer.ends_with("\r\n\r\nseq=1000"), "{longer}");
    }

    #[test]
    fn text_that_looks_like_a_marker_is_left_alone() {
        let mut renderer = Renderer::new("GET", "/Q0placeholder000000/{seq}", &[("X", "Q1placeholder")], None);
        let rendered = renderer.rendered(3);
        assert!(rendered.starts_with("GET /Q0placeholder000000/3 HTTP/1.1\r\n"), "{rendered}");
        assert!(rendered.contains("\r\nX: Q1placeholder\r\n"), "{rendered}");
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
        let mut renderer = Renderer { request: request.unwrap(), values, ..Renderer::new("GET", "/", &[], None) };
        let rendered = renderer.rendered(1);
        assert!(rendered.starts_with("POST /a/1%20HTTP/1.1%0D%0AEvil:%201 HTTP/1.1\r\n"), "{rendered}");
        assert!(rendered.contains("\r\nX: 1 HTTP/1.1  Evil: 1\r\n"), "{rendered}");
        assert!(rendered.ends_with("\r\n\r\n1 HTTP/1.1\r\nEvil: 1"), "{rendered}");
    }

    #[test]
    fn content_is_announced_where_the_method_makes_it_expected() {
        assert!(Renderer::new("POST", "/", &[], None).rendered(1).contains("\r\nContent-Length: 0\r\n"));
        assert!(!Renderer::new("GET", "/", &[], None).rendered(1).contains("Content-Length"));
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
