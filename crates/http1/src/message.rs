//! The parts of a message, borrowed from the received bytes.

use crate::Fields;
use crate::syntax::{decimal, is_token};

/// The protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A request method (RFC 9110, 9). Case matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
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
    /// A token that none of these is.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method that these bytes name; none if they are not a token.
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

    /// As it stands in a request line.
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
        /// What stands behind the first `?`.
        query: Option<&'a str>,
    },
    /// `http://authority/path?query`
    Absolute {
        /// `http` or `https`, in the case that was sent.
        scheme: &'a str,
        /// Host and port.
        authority: &'a str,
        /// Begins with a slash; `/` if none was sent.
        path: &'a str,
        /// What stands behind the first `?`.
        query: Option<&'a str>,
    },
    /// `host:port`, only with CONNECT.
    Authority(&'a str),
    /// `*`, only with OPTIONS.
    Asterisk,
}

/// How long a message's content is (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No content.
    None,
    /// This many bytes (may be 0).
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the peer ends its sending; only responses.
    UntilClose,
}

/// A request without its content.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a, 'f> {
    /// The method.
    pub method: Method<'a>,
    /// The target.
    pub target: Target<'a>,
    /// The version that the client speaks.
    pub version: Version,
    /// The authority that the request is for: that of an absolute target, else the Host field. None only in HTTP/1.0
    /// (an empty Host is refused).
    pub authority: Option<&'a str>,
    /// The field section.
    pub fields: Fields<'a, 'f>,
    /// How its content is framed.
    pub framing: Framing,
    /// The client waits for 100 (Continue) before it sends the content.
    pub expects_continue: bool,
    /// The client would go on with one of the protocols of Upgrade (RFC 9110, 7.8). Never with content: whether that
    /// would be read by the old protocol or the new one must not be a question.
    pub asks_upgrade: bool,
}

/// A response without its content.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a, 'f> {
    /// The status code, 200 to 999 (interim ones are reported apart).
    pub status: u16,
    /// The version that the server speaks.
    pub version: Version,
    /// The field section.
    pub fields: Fields<'a, 'f>,
    /// How its content is framed, after the method of its request is taken into account.
    pub framing: Framing,
    /// The connection can carry further requests after this response.
    pub keep_alive: bool,
}

impl RequestHead<'_, '_> {
    /// Whether [`crate::Progress::Content`] and [`crate::Progress::End`] will follow. If not, the message is complete
    /// with its head.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }
}

impl ResponseHead<'_, '_> {
    /// Whether content will follow. A close-delimited response may turn out to have none.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// The length that the fields tell, also where no content follows because the request was HEAD or the status
    /// is 304.
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
    fn methods_are_tokens_and_their_case_matters() {
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
