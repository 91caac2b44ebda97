//! The parts of a message, borrowed from the received bytes.

use crate::Fields;
use crate::syntax::{decimal, is_token};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http10,
    Http11,
}

impl Version {
    /// `1.1`, as in `HTTP/1.1`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
        }
    }
}

/// A request method (RFC 9110, 9), case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// Any other token.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// Parses a method; None if it is not a token.
    #[must_use]
    pub fn from_token(token: &'a [u8]) -> Option<Self> {
        Some(match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            other if is_token(other) => Self::Other(std::str::from_utf8(other).ok()?),
            _ => return None,
        })
    }

    /// The method as in a request line.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(token) => token,
        }
    }
}

impl std::fmt::Display for Method<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A request target (RFC 9112, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`, as sent (still percent-encoded).
    Origin {
        /// Begins with a slash.
        path: &'a str,
        /// After the first `?`.
        query: Option<&'a str>,
    },
    Absolute {
        /// `http` or `https`, as received.
        scheme: &'a str,
        authority: &'a str,
        /// Begins with a slash; `/` if none was sent, but empty if OPTIONS asks about the whole server (RFC 9112,
        /// 3.2.4).
        path: &'a str,
        /// After the first `?`.
        query: Option<&'a str>,
    },
    Authority(&'a str),
    Asterisk,
}

/// The framing of a message's content (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
    /// Until the peer closes its side; responses only.
    UntilClose,
}

#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a, 'f> {
    pub method: Method<'a>,
    pub target: Target<'a>,
    /// The version of the client.
    pub version: Version,
    /// The authority of an absolute target, else the Host field. None only in HTTP/1.0 (an empty Host is rejected).
    pub authority: Option<&'a str>,
    pub fields: Fields<'a, 'f>,
    pub framing: Framing,
    /// The client waits for 100 (Continue) before it sends the content.
    pub expects_continue: bool,
    /// The client offers an upgrade (RFC 9110, 7.8). Never with content, since it would be unclear which protocol that
    /// belongs to.
    pub requests_upgrade: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a, 'f> {
    /// 200 to 999; interim responses are reported separately.
    pub status: u16,
    /// The version of the server.
    pub version: Version,
    pub fields: Fields<'a, 'f>,
    /// The framing of the content, with regard to the method of the request.
    pub framing: Framing,
    /// The connection is persistent.
    pub keep_alive: bool,
}

impl RequestHead<'_, '_> {
    /// Whether content follows the head. If not, the message is complete.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// Whether the request has no content and is HTTP/1.1.
    #[must_use]
    pub fn is_replayable(&self) -> bool {
        self.version == Version::Http11 && self.framing == Framing::None && !self.expects_continue
    }
}

impl ResponseHead<'_, '_> {
    /// Whether content follows. A close-delimited response may turn out to be empty.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// The announced length, also if no content follows because the request was HEAD or the status is 304.
    #[must_use]
    pub fn announced_bytes(&self) -> Option<u64> {
        let mut lengths = self.fields.all("Content-Length");
        let first = lengths.next()?;
        if lengths.all(|other| other == first) { decimal(first) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_methods_case_sensitively() {
        for name in ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"] {
            let method = Method::from_token(name.as_bytes()).unwrap();
            assert!(!matches!(method, Method::Other(_)), "{name}");
            assert_eq!(method.to_string(), name);
        }
        assert_eq!(Method::from_token(b"get"), Some(Method::Other("get")));
        assert_eq!(Method::from_token(b""), None);
        assert_eq!(Method::from_token(b"G T"), None);
    }
}
