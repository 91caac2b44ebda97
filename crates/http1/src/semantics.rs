//! The meaning of a head for its connection: framing, persistence, host.
//!
//! Requests are parsed strictly: an ambiguous one is rejected, since a proxy in front may have interpreted it
//! differently (RFC 9112, 11.2). Responses may repeat a Content-Length.

use breme_http::authority::Authority;
use breme_http::syntax::{decimal, is_token, members, trim};
use breme_http::{Field, Framing, Limits, Method, RefusalReason, Target, Version};

/// Properties of the connection from the header fields of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSemantics<'a> {
    pub(crate) authority: Option<&'a str>,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    pub(crate) requests_upgrade: bool,
}

/// The fields that matter for framing, collected in one pass.
#[derive(Default)]
struct FramingFields<'a> {
    host: Option<&'a [u8]>,
    several_hosts: bool,
    length: Option<&'a [u8]>,
    several_lengths: bool,
    coding: Option<&'a [u8]>,
    several_codings: bool,
    content_type: bool,
    /// A field needs [`check_odd_fields`].
    is_odd: bool,
    expect: bool,
    upgrade: bool,
    options: ConnectionOptions,
}

/// The options of Connection that matter here (RFC 9112, 9.3).
#[derive(Clone, Copy, Default)]
struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
    upgrade: bool,
}

impl ConnectionOptions {
    /// Options are tokens: quotation marks do not group them, so that `close` is detected wherever another parser may
    /// detect it.
    fn read(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(trim) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    /// RFC 9112, 9.3.
    fn persist(self, version: Version) -> bool {
        !self.close && (self.keep_alive || version == Version::Http11)
    }
}

impl<'a> FramingFields<'a> {
    /// Selects by the length of the name, so that most fields cost one jump.
    fn new(headers: &[Field<'a>]) -> Self {
        let mut found = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                4 if is("Host") => found.several_hosts |= found.host.replace(header.value).is_some(),
                6 if is("Expect") => found.expect = true,
                7 if is("Upgrade") => found.upgrade = true,
                10 if is("Connection") => found.options.read(header.value),
                12 if is("Content-Type") => found.is_odd |= std::mem::replace(&mut found.content_type, true),
                14 if is("Content-Length") => found.several_lengths |= found.length.replace(header.value).is_some(),
                17 if is("Transfer-Encoding") => found.several_codings |= found.coding.replace(header.value).is_some(),
                14.. => found.is_odd |= may_look_alike(header.name),
                _ => {}
            }
        }
        found
    }
}

/// Validates the header fields of a request.
pub(crate) fn request<'a>(
    method: Method<'_>,
    target: Target<'a>,
    version: Version,
    headers: &[Field<'a>],
    limits: &Limits,
) -> Result<RequestSemantics<'a>, RefusalReason> {
    let found = FramingFields::new(headers);
    if found.is_odd {
        check_odd_fields(headers)?;
    }
    let host = request_host(&found, version)?;
    let framing = request_framing(&found, version, headers, limits)?;
    let forbidden = match method {
        Method::Trace => !matches!(framing, Framing::None | Framing::Length(0)),
        Method::Connect => framing != Framing::None,
        _ => false,
    };
    if forbidden {
        return Err(RefusalReason::ContentNotAllowed);
    }
    let authority = match target {
        Target::Absolute { authority, .. } | Target::Authority(authority) => Some(authority),
        Target::Origin { .. } | Target::Asterisk => host,
    };
    // A server limited to HTTP/1.0 follows that version's rule of persistence.
    let rule = if limits.http10_only { Version::Http10 } else { version };
    // RFC 9110, 7.8: the option is required, and HTTP/1.0 does not define it.
    let may_upgrade = version == Version::Http11 && method != Method::Connect && !limits.http10_only;
    let is_empty = matches!(framing, Framing::None | Framing::Length(0));
    let expects_continue = found.expect && version == Version::Http11 && meets_expectations(headers, framing)?;
    Ok(RequestSemantics {
        authority,
        framing,
        keep_alive: found.options.persist(rule),
        expects_continue: expects_continue && !limits.http10_only,
        requests_upgrade: found.upgrade && found.options.upgrade && may_upgrade && is_empty,
    })
}

/// Rejects fields that a proxy in front may interpret differently. Rare, so kept off the hot path.
#[cold]
fn check_odd_fields(headers: &[Field<'_>]) -> Result<(), RefusalReason> {
    if headers.iter().any(|header| looks_alike(header.name)) {
        return Err(RefusalReason::LookalikeField);
    }
    let mut types = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Content-Type"));
    match types.next() {
        Some(first) if types.any(|other| other.value != first.value) => Err(RefusalReason::SeveralContentTypes),
        _ => Ok(()),
    }
}

/// Whether [`looks_alike`] can be true, judged by the first byte.
fn may_look_alike(name: &str) -> bool {
    !matches!(
        name.as_bytes().first(),
        Some(b'A' | b'B' | b'D'..=b'S' | b'U'..=b'Z' | b'a' | b'b' | b'd'..=b's' | b'u'..=b'z')
    )
}

/// Whether a name equals that of a framing field except for separators: `Content_Length`, which CGI gateways treat as
/// the real one (RFC 3875, 4.1.18), or `Transfer--Encoding`.
fn looks_alike(name: &str) -> bool {
    const FRAMING: [(&str, [&str; 2]); 2] =
        [("Content-Length", ["content", "length"]), ("Transfer-Encoding", ["transfer", "encoding"])];
    let words = || name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    FRAMING.iter().any(|(real, expected)| {
        let same = |(word, expected): (&str, &&str)| word.eq_ignore_ascii_case(expected);
        !name.eq_ignore_ascii_case(real) && words().count() == expected.len() && words().zip(expected).all(same)
    })
}

/// RFC 9112, 3.2.
fn request_host<'a>(found: &FramingFields<'a>, version: Version) -> Result<Option<&'a str>, RefusalReason> {
    if found.several_hosts {
        return Err(RefusalReason::SeveralHosts);
    }
    match found.host {
        Some(host) if Authority::parse(host).is_some() => {
            std::str::from_utf8(host).map(Some).map_err(|_| RefusalReason::BadHost)
        }
        Some(_) => Err(RefusalReason::BadHost),
        None if version == Version::Http11 => Err(RefusalReason::MissingHost),
        None => Ok(None),
    }
}

/// RFC 9112, 6.3.
fn request_framing(
    found: &FramingFields<'_>,
    version: Version,
    headers: &[Field<'_>],
    limits: &Limits,
) -> Result<Framing, RefusalReason> {
    match (found.coding, found.length) {
        (None, None) => Ok(Framing::None),
        (Some(_), Some(_)) => Err(RefusalReason::LengthWithCoding),
        (Some(_), None) if version == Version::Http10 => Err(RefusalReason::CodingInHttp10),
        // RFC 9112, 6.1: a server that does not implement the coding responds 501.
        (Some(_), None) if limits.http10_only => Err(RefusalReason::UnknownTransferCoding),
        (Some(coding), None) if !found.several_codings && is_chunked(coding) => Ok(Framing::Chunked),
        (Some(_), None) => Err(why_not_chunked(headers)),
        (None, Some(_)) if found.several_lengths => Err(RefusalReason::SeveralContentLengths),
        (None, Some(length)) => request_length(length, limits),
    }
}

fn request_length(value: &[u8], limits: &Limits) -> Result<Framing, RefusalReason> {
    match decimal(value) {
        Some(_) if value.len() > 1 && value[0] == b'0' => Err(RefusalReason::BadContentLength),
        Some(length) if length > limits.content_bytes_max => Err(RefusalReason::ContentTooLarge),
        Some(length) => Ok(Framing::Length(length)),
        None => Err(RefusalReason::BadContentLength),
    }
}

fn is_chunked(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"chunked")
}

/// Why a Transfer-Encoding other than `chunked` is rejected: ambiguous (400), or valid and unknown (501).
fn why_not_chunked(headers: &[Field<'_>]) -> RefusalReason {
    let lines = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Transfer-Encoding"));
    let mut ends_in_chunked = false;
    for coding in lines.flat_map(|header| header.value.split(|&byte| byte == b',')).map(trim) {
        if ends_in_chunked || !is_coding(coding) {
            return RefusalReason::BadTransferCoding;
        }
        ends_in_chunked = is_chunked(coding);
    }
    if ends_in_chunked { RefusalReason::UnknownTransferCoding } else { RefusalReason::BadTransferCoding }
}

/// A token, optionally with parameters (RFC 9112, 7); chunked has none. Empty members and quoted strings are rejected
/// here.
fn is_coding(coding: &[u8]) -> bool {
    let mut parts = coding.split(|&byte| byte == b';');
    let name = parts.next().unwrap_or_default();
    let has_parameters = name.len() < coding.len();
    is_token(trim(name))
        && !(has_parameters && is_chunked(trim(name)))
        && parts.all(|parameter| parameter.split(|&byte| byte == b'=').map(trim).all(is_token))
}

/// RFC 9110, 10.1.1: whether the client waits for 100 (Continue); an error for any other expectation.
fn meets_expectations(headers: &[Field<'_>], framing: Framing) -> Result<bool, RefusalReason> {
    let lines = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Expect"));
    let mut is_expected = false;
    for expectation in lines.flat_map(|header| members(header.value)) {
        if !expectation.eq_ignore_ascii_case(b"100-continue") {
            return Err(RefusalReason::UnknownExpectation);
        }
        is_expected = true;
    }
    Ok(is_expected && !matches!(framing, Framing::None | Framing::Length(0)))
}

/// Framing and persistence of a response.
pub(crate) fn response(
    version: Version,
    has_no_content: bool,
    headers: &[Field<'_>],
) -> Result<(Framing, bool), RefusalReason> {
    let found = FramingFields::new(headers);
    let framing = if has_no_content { Framing::None } else { response_framing(&found, version, headers)? };
    Ok((framing, found.options.persist(version) && framing != Framing::UntilClose))
}

/// RFC 9112, 6.3. A response with both a length and a coding is an attempt at response splitting.
fn response_framing(
    found: &FramingFields<'_>,
    version: Version,
    headers: &[Field<'_>],
) -> Result<Framing, RefusalReason> {
    match (found.coding, found.length) {
        (None, None) => Ok(Framing::UntilClose),
        (Some(_), Some(_)) => Err(RefusalReason::LengthWithCoding),
        (Some(_), None) if version == Version::Http10 => Err(RefusalReason::CodingInHttp10),
        (Some(coding), None) if !found.several_codings && is_chunked(coding) => Ok(Framing::Chunked),
        (Some(_), None) => Err(RefusalReason::BadTransferCoding),
        (None, Some(length)) if found.several_lengths => same_length(length, headers),
        (None, Some(length)) => decimal(length).map(Framing::Length).ok_or(RefusalReason::BadContentLength),
    }
}

/// Lines that repeat the same length count as one (RFC 9112, 6.3).
fn same_length(length: &[u8], headers: &[Field<'_>]) -> Result<Framing, RefusalReason> {
    let mut lines = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Content-Length"));
    if lines.any(|header| header.value != length) {
        return Err(RefusalReason::SeveralContentLengths);
    }
    decimal(length).map(Framing::Length).ok_or(RefusalReason::BadContentLength)
}
