//! The request line and the four forms of its target (RFC 9112, 3).

use breme_http::authority::Authority;
use breme_http::syntax::{path_run, query_run, token_run};
use breme_http::{Limits, Method, RefusalReason, Target, Version};

use crate::head::FirstLine;

/// Limit of a method, in bytes. The longest registered one, `UPDATEREDIRECTREF`, has 17.
pub(crate) const METHOD_BYTES_MAX: usize = 32;

/// Two spaces, the version and the line's end.
const REST_BYTES: usize = " ".len() + " HTTP/1.1\r\n".len();

/// A request line, not yet interpreted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: Method<'a>,
    target: &'a [u8],
    /// Position of the first `?` of the target, or its length.
    path_len: usize,
    pub(crate) version: LineVersion,
    /// With its CRLF.
    pub(crate) len: usize,
}

/// The version in a first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineVersion {
    /// 1.0 or 1.1, which the tokeniser supports too.
    Known(Version),
    /// 1.2 to 1.9: treated as 1.1 (RFC 9110, 2.5).
    Later,
}

impl LineVersion {
    pub(crate) fn spoken(self) -> Version {
        match self {
            Self::Known(version) => version,
            Self::Later => Version::Http11,
        }
    }
}

impl FirstLine for RequestLine<'_> {
    const TOO_LONG: RefusalReason = RefusalReason::TargetTooLong;

    fn bytes_max(limits: &Limits) -> usize {
        METHOD_BYTES_MAX.saturating_add(limits.target_bytes_max).saturating_add(REST_BYTES)
    }

    fn check(line: &[u8], limits: &Limits) -> Result<(), RefusalReason> {
        match RequestLine::parse(line, limits)? {
            Some(parsed) => parsed.target().map(drop),
            None => Ok(()),
        }
    }
}

impl<'a> RequestLine<'a> {
    /// Parses the request line at the start of `input`; none if it is incomplete and valid so far.
    pub(crate) fn parse(input: &'a [u8], limits: &Limits) -> Result<Option<Self>, RefusalReason> {
        let Some(method_len) = method_len(input)? else { return Ok(None) };
        let after_method = &input[method_len + 1..];
        let Some((target_len, path_len)) = target_len(after_method, limits)? else { return Ok(None) };
        let after_target = &after_method[target_len + 1..];
        let Some(version) = parse_version(after_target)? else { return Ok(None) };
        let Some(method) = Method::from_token(&input[..method_len]) else { return Err(RefusalReason::BadMethod) };
        Ok(Some(Self {
            method,
            target: &after_method[..target_len],
            path_len,
            version,
            len: method_len + 1 + target_len + 1 + VERSION_BYTES,
        }))
    }

    /// The target in its form (RFC 9112, 3.2).
    pub(crate) fn target(&self) -> Result<Target<'a>, RefusalReason> {
        let target = std::str::from_utf8(self.target).map_err(|_| RefusalReason::BadTarget)?;
        match self.method {
            Method::Connect => authority_form(target),
            _ if target.starts_with('/') => {
                let (path, query) = split_query(target, self.path_len);
                Ok(Target::Origin { path, query })
            }
            Method::Options if target == "*" => Ok(Target::Asterisk),
            method => absolute_form(method, target, self.path_len),
        }
    }
}

/// The length of the method.
fn method_len(input: &[u8]) -> Result<Option<usize>, RefusalReason> {
    let window = &input[..input.len().min(METHOD_BYTES_MAX + 1)];
    let len = token_run(window);
    match window.get(len) {
        None if len > METHOD_BYTES_MAX => Err(RefusalReason::MethodTooLong),
        None => Ok(None),
        Some(b' ') if len > 0 => Ok(Some(len)),
        Some(b'\n') => Err(RefusalReason::BareLineFeed),
        Some(b' ' | b'\r') => Err(RefusalReason::BadRequestLine),
        Some(_) => Err(RefusalReason::BadMethod),
    }
}

/// The length of the target, and the position of its query.
fn target_len(rest: &[u8], limits: &Limits) -> Result<Option<(usize, usize)>, RefusalReason> {
    let path_len = path_run(rest);
    let len = if rest.get(path_len) == Some(&b'?') { path_len + query_run(&rest[path_len..]) } else { path_len };
    if len > limits.target_bytes_max {
        return Err(RefusalReason::TargetTooLong);
    }
    match rest.get(len) {
        None => Ok(None),
        Some(b' ') if len > 0 => Ok(Some((len, path_len))),
        Some(b' ' | b'\r' | b'\n') => Err(RefusalReason::BadRequestLine),
        Some(_) => Err(RefusalReason::BadTarget),
    }
}

/// `HTTP/1.1` with CRLF.
pub(crate) const VERSION_BYTES: usize = 10;

fn parse_version(rest: &[u8]) -> Result<Option<LineVersion>, RefusalReason> {
    match rest.first_chunk::<VERSION_BYTES>() {
        Some(b"HTTP/1.1\r\n") => return Ok(Some(LineVersion::Known(Version::Http11))),
        Some(b"HTTP/1.0\r\n") => return Ok(Some(LineVersion::Known(Version::Http10))),
        _ => {}
    }
    for (index, &byte) in rest.iter().take(VERSION_BYTES).enumerate() {
        let fits = match index {
            5 | 7 => byte.is_ascii_digit(),
            _ => byte == b"HTTP/_._\r\n"[index],
        };
        if !fits {
            return Err(match (index, byte) {
                (8, b'\n') => RefusalReason::BareLineFeed,
                (9, _) => RefusalReason::BareCarriageReturn,
                _ => RefusalReason::BadVersion,
            });
        }
    }
    match rest.first_chunk::<VERSION_BYTES>() {
        None => Ok(None),
        Some(version) if version[5] == b'1' => Ok(Some(LineVersion::Later)),
        Some(_) => Err(RefusalReason::UnsupportedVersion),
    }
}

fn split_query(target: &str, path_len: usize) -> (&str, Option<&str>) {
    (&target[..path_len], target.get(path_len + 1..))
}

/// RFC 9112, 3.2.3: a host and its port, which is required.
fn authority_form(target: &str) -> Result<Target<'_>, RefusalReason> {
    match Authority::parse(target.as_bytes()) {
        Some(Authority { has_port: true }) => Ok(Target::Authority(target)),
        _ if target.starts_with('/') || target == "*" || target.contains("://") => Err(RefusalReason::BadTargetForm),
        _ => Err(RefusalReason::BadTargetAuthority),
    }
}

/// RFC 9112, 3.2.2.
fn absolute_form<'a>(method: Method<'_>, target: &'a str, path_len: usize) -> Result<Target<'a>, RefusalReason> {
    let (before_query, query) = split_query(target, path_len);
    let Some((scheme, rest)) = before_query.split_once("://") else { return Err(RefusalReason::BadTargetForm) };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(RefusalReason::BadTargetForm);
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        // The whole server, as `*` (RFC 9112, 3.2.4).
        None if method == Method::Options && query.is_none() => (rest, ""),
        None => (rest, "/"),
    };
    if Authority::parse(authority.as_bytes()).is_none() {
        return Err(RefusalReason::BadTargetAuthority);
    }
    Ok(Target::Absolute { scheme, authority, path, query })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Target<'_>>, RefusalReason> {
        match RequestLine::parse(line.as_bytes(), &Limits::default())? {
            Some(parsed) => parsed.target().map(Some),
            None => Ok(None),
        }
    }

    #[test]
    fn parses_all_target_forms() {
        let check = |line: &str, expected: Target<'_>| {
            let line = format!("{line} HTTP/1.1\r\n");
            assert_eq!(parse(&line), Ok(Some(expected)), "{line}");
            for end in 0..line.len() {
                assert_eq!(parse(&line[..end]), Ok(None), "{}", &line[..end]);
            }
        };
        check("GET /", Target::Origin { path: "/", query: None });
        check("GET /a%20b?c?d", Target::Origin { path: "/a%20b", query: Some("c?d") });
        check("GET /?", Target::Origin { path: "/", query: Some("") });
        check("GET //host/x", Target::Origin { path: "//host/x", query: None });
        check("OPTIONS *", Target::Asterisk);
        check("CONNECT a.example:443", Target::Authority("a.example:443"));
        check("CONNECT [::1]:1", Target::Authority("[::1]:1"));
        let absolute = |scheme, authority, path, query| Target::Absolute { scheme, authority, path, query };
        check("GET http://a", absolute("http", "a", "/", None));
        check("GET HTTPS://a:80/x?y=/z", absolute("HTTPS", "a:80", "/x", Some("y=/z")));
        check("PUT http://a?q", absolute("http", "a", "/", Some("q")));
        check("OPTIONS http://a", absolute("http", "a", "", None));
        check("OPTIONS http://a/", absolute("http", "a", "/", None));
        check("OPTIONS http://a?q", absolute("http", "a", "/", Some("q")));
    }

    #[test]
    fn rejects_bad_request_lines() {
        use RefusalReason::*;
        let long = "/".repeat(Limits::default().target_bytes_max + 1);
        for (line, expected) in [
            ("GET / HTTP/1.1\n", BareLineFeed),
            ("GET / HTTP/1.1\rX", BareCarriageReturn),
            ("GET / HTTP/1.1 \r\n", BadVersion),
            ("GET / HTTP/1.x\r\n", BadVersion),
            ("GET / HTTP/11.1\r\n", BadVersion),
            ("GET / http/1.1\r\n", BadVersion),
            ("GET / HTTP/2.0\r\n", UnsupportedVersion),
            ("GET / HTTP/0.9\r\n", UnsupportedVersion),
            ("PRI * HTTP/2.0\r\n", UnsupportedVersion),
            ("GET /\r\n", BadRequestLine),
            ("GET\r\n", BadRequestLine),
            ("GET  / HTTP/1.1\r\n", BadRequestLine),
            (" GET / HTTP/1.1\r\n", BadRequestLine),
            ("GET /  HTTP/1.1\r\n", BadVersion),
            ("GET\t/ HTTP/1.1\r\n", BadMethod),
            ("G@T / HTTP/1.1\r\n", BadMethod),
            ("\x16\x03\x01", BadMethod),
            ("GET /a#b HTTP/1.1\r\n", BadTarget),
            ("GET /é HTTP/1.1\r\n", BadTarget),
            ("GET /\0 HTTP/1.1\r\n", BadTarget),
            ("GET /a\tb HTTP/1.1\r\n", BadTarget),
            ("GET /a\\b HTTP/1.1\r\n", BadTarget),
            ("GET /a\"b HTTP/1.1\r\n", BadTarget),
            ("GET a HTTP/1.1\r\n", BadTargetForm),
            ("GET * HTTP/1.1\r\n", BadTargetForm),
            ("GET ? HTTP/1.1\r\n", BadTargetForm),
            ("GET ftp://a/ HTTP/1.1\r\n", BadTargetForm),
            ("GET a.example:80 HTTP/1.1\r\n", BadTargetForm),
            ("GET http:/a HTTP/1.1\r\n", BadTargetForm),
            ("GET http:///a HTTP/1.1\r\n", BadTargetAuthority),
            ("GET http://u@a/ HTTP/1.1\r\n", BadTargetAuthority),
            ("GET http://a:99999/ HTTP/1.1\r\n", BadTargetAuthority),
            ("CONNECT / HTTP/1.1\r\n", BadTargetForm),
            ("CONNECT http://a:1 HTTP/1.1\r\n", BadTargetForm),
            ("CONNECT a HTTP/1.1\r\n", BadTargetAuthority),
            ("CONNECT a: HTTP/1.1\r\n", BadTargetAuthority),
            (&"M".repeat(METHOD_BYTES_MAX + 1), MethodTooLong),
            (&format!("GET {long}"), TargetTooLong),
        ] {
            assert_eq!(parse(line), Err(expected), "{line:.60}");
        }
    }
}
